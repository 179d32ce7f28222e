//! The lab itself, with real virtual machines. They need the kit that `./scripts/prepare` makes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hamlyn_lab::{Exit, Kit, Lab, cores};
use tempfile::TempDir;

#[test]
fn machines_run_programs_reboot_and_end() -> anyhow::Result<()> {
    let lab = Lab::builder().vms(1).start()?;
    let vm = lab.vm(0);
    assert_eq!(vm.read("/proc/sys/kernel/hostname")?, "vm0\n");
    assert_eq!(vm.run(["id", "-u"])?.finish_text()?, ["1001"]);

    let mut cat = vm.run_as(0, ["cat"])?;
    let mut other = vm.run(["sh", "-c", "read word; echo $word; exit 4"])?;
    other.say("other")?;
    cat.say("first")?;
    assert_eq!(cat.line()?, "first");
    assert_eq!(other.line()?, "other");
    assert_eq!(other.wait()?, Exit::Code(4));

    vm.reboot()?;
    assert!(cat.line().unwrap_err().to_string().contains("its machine ended or rebooted"));
    assert_eq!(vm.run(["echo", "again"])?.line()?, "again");

    let mut sleep = vm.run(["sleep", "1000"])?;
    let _off = vm.run_as(0, ["sh", "-c", "echo o > /proc/sysrq-trigger"])?;
    let said = sleep.line().unwrap_err().to_string();
    assert!(said.contains("its machine ended: vm0 exited with status 0"), "{said}");
    assert!(!vm.is_running());
    vm.start()?;
    vm.kill()?;
    assert!(!vm.is_running());
    assert!(vm.run(["true"]).unwrap_err().to_string().contains("vm0 is not running"));
    vm.start()?;
    assert_eq!(vm.run(["echo", "once more"])?.line()?, "once more");
    vm.power_off()?;
    assert!(!vm.is_running());

    let directory = lab.directory().to_owned();
    drop(lab);
    assert!(!directory.exists());
    Ok(())
}

#[test]
fn console_flood_is_bounded_and_escaped() -> anyhow::Result<()> {
    let lab = Lab::builder().vms(1).start()?;
    let log = lab.directory().join("vm0.log");
    // 3 MB with escape sequences that clear a screen.
    let flood = "yes \"$(printf '\\033[2J\\033]0;owned\\007')xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" | head -c 3000000 >/dev/console";
    let mut flood = lab.vm(0).run_as(0, ["sh", "-c", flood])?;
    flood.set_patience(Duration::from_secs(300));
    flood.finish_text()?;
    let kept = fs::read(&log)?;
    assert!((100_000..=1 << 20).contains(&kept.len()), "{} bytes", kept.len());
    assert!(kept.iter().all(|byte| *byte == b'\n' || *byte == b'\t' || (32..127).contains(byte)));
    assert!(String::from_utf8(kept)?.contains(r"\x1b]0;owned\x07"), "but it says what was there");
    let error = lab.vm(0).run(["false"])?.finish().unwrap_err().to_string();
    assert!(error.contains("owned") && !error.contains('\x1b') && error.len() < 100_000, "{error}");
    assert_eq!(lab.vm(0).run(["echo", "well"])?.line()?, "well");
    Ok(())
}

#[test]
fn killed_owner_leaves_nothing_behind() {
    let run = run_directory();
    let mut up = hamlyn(run.path(), &["up", "-n", "1"]).stdout(Stdio::null()).spawn().unwrap();
    let children = || processes_that_mention(run.path());
    let has_agent = |lab: fs::DirEntry| lab.path().join("vm0.agent").exists();
    wait_until("the machine's start", || fs::read_dir(run.path()).unwrap().flatten().any(has_agent));
    assert!(!children().is_empty());
    up.kill().unwrap();
    up.wait().unwrap();
    wait_until("the end of all processes", || children().is_empty());
    wait_until("the directory's end", || fs::read_dir(run.path()).unwrap().count() == 0);
}

#[test]
fn machine_reboots_and_last_power_off_ends_up() {
    let run = run_directory();
    let mut up = hamlyn(run.path(), &["up", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("hamlyn console vm0")));
    let mut console =
        hamlyn(run.path(), &["console", "vm0"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Held open, so that the console stays attached until the machine ends it.
    let mut keys = console.stdin.take().unwrap();
    let mut shown = BufReader::new(console.stdout.take().unwrap()).lines().map_while(Result::ok);
    keys.write_all(b"touch /tmp/before; reboot\n").unwrap();
    let rebooted = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Repeats the input, because what is typed during the boot is lost.
            while !rebooted.load(Ordering::Relaxed) {
                keys.write_all(b"cat /tmp/before; self-test\n").unwrap();
                thread::sleep(Duration::from_millis(500));
            }
        });
        assert!(shown.any(|line| line.contains("/tmp/before': No such file")));
        assert!(shown.any(|line| line.contains(r#""passed":true"#)), "the card has survived");
        rebooted.store(true, Ordering::Relaxed);
    });
    keys.write_all(b"poweroff\n").unwrap();
    assert_eq!(shown.filter(|line| line.contains("Power down")).count(), 1);
    assert!(console.wait().unwrap().success());
    assert!(lines.any(|line| line == "ending"));
    assert!(up.wait().unwrap().success());
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
    assert!(processes_that_mention(run.path()).is_empty());
}

#[test]
fn lab_ends_with_its_input() {
    let run = run_directory();
    let file = run.path().join("one.toml");
    fs::write(&file, "name = \"one\"\n[[machine]]\n").unwrap();
    let words = ["lab", "up", "--until-eof", file.to_str().unwrap()];
    let mut up = hamlyn(run.path(), &words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The package for Python waits for this line.
    let lab = run.path().join("lab-one");
    assert!(lines.any(|line| line == format!("Sockets and logs: {}", lab.display())));
    assert!(up.try_wait().unwrap().is_none() && lab.exists());
    drop(up.stdin.take());
    assert!(up.wait().unwrap().success());
    assert!(!lab.exists() && processes_that_mention(&lab).is_empty());
}

/// Returns the niceness of each thread of a lab's first machine.
fn niceness(lab: &Lab) -> Vec<i32> {
    let socket = lab.directory().join("vm0.agent").to_string_lossy().into_owned();
    let is_machine = |process: &fs::DirEntry| {
        fs::read_to_string(process.path().join("cmdline")).is_ok_and(|words| words.contains(&socket))
    };
    let machine = fs::read_dir("/proc").unwrap().flatten().find(is_machine).expect("no machine runs");
    // A thread may end meanwhile.
    let stat = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("stat")).ok();
    let threads = fs::read_dir(machine.path().join("task")).unwrap();
    // Field 19. The second field, a name in parentheses, may contain anything.
    let nice = |stat: String| stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap();
    threads.flatten().filter_map(stat).map(nice).collect()
}

/// A machine that gave way during its boot would hardly progress on a busy host.
#[test]
fn pinned_machine_gives_way_once_ready() -> anyhow::Result<()> {
    let own = rustix::process::getpriority_process(None)?;
    let pinned = || Lab::builder().vms(1).one_process(true).cores(cores(1));
    let lab = pinned().wait_for_guests(false).start()?;
    assert!(niceness(&lab).iter().all(|nice| *nice == own), "{:?}", niceness(&lab));
    drop(lab);
    let lab = pinned().start()?;
    assert!(niceness(&lab).iter().all(|nice| *nice == (own + 10).min(19)), "{:?}", niceness(&lab));
    Ok(())
}

fn run_directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn hamlyn(run: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamlyn"));
    command.args(arguments).env("HAMLYN_RUN", run);
    command
}

fn processes_that_mention(path: &Path) -> Vec<String> {
    let path = path.to_string_lossy();
    let command_line = |process: fs::DirEntry| fs::read_to_string(process.path().join("cmdline")).ok();
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(command_line);
    all.filter(|command_line| command_line.contains(&*path)).collect()
}

fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < deadline, "{what} has not come");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn other_commands_run_programs_and_copy_files() -> anyhow::Result<()> {
    let run = run_directory();
    let mut up = hamlyn(run.path(), &["up", "-n", "1"]).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("hamlyn exec vm0")));
    let done = |arguments: &[&str]| hamlyn(run.path(), arguments).output().unwrap();
    let said = done(&["exec", "vm0", "--", "sh", "-c", r"printf '\033\377'; echo oh >&2; pwd; exit 3"]);
    assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(3), &b"\x1b\xff/root\n"[..]));
    assert_eq!(said.stderr, b"oh\n");
    assert_eq!(done(&["exec", "--uid", "1001", "vm0", "--", "whoami"]).stdout, b"user1\n");
    assert_eq!(done(&["exec", "vm0", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let none = done(&["exec", "vm0", "--", "no-such-program"]);
    assert_eq!(none.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no-such-program"), "{none:?}");

    // A file of several windows is copied there and back.
    let here = run_directory();
    let (there, back) = (here.path().join("data"), here.path().join("back"));
    let bytes: Vec<u8> = (0..5_000_000u32).map(|number| (number % 253) as u8).collect();
    fs::write(&there, &bytes)?;
    fs::set_permissions(&there, fs::Permissions::from_mode(0o755))?;
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    for (from, to) in [(path(&there), "vm0:".to_owned()), ("vm0:data".to_owned(), path(&back))] {
        let copied = done(&["cp", &from, &to]);
        assert!(copied.status.success(), "{copied:?}");
    }
    assert!(fs::read(&back)? == bytes);
    assert_eq!(fs::metadata(&back)?.permissions().mode() & 0o100, 0o100);
    let nowhere = done(&["cp", &path(&there), "vm0:/no/such/folder/data"]);
    assert!(!nowhere.status.success());
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/no/such/folder"), "{nowhere:?}");
    assert!(!done(&["cp", "vm0:/no/such/file", &path(&back)]).status.success());
    assert!(fs::read(&back)? == bytes, "a copy that fails changes nothing");

    copies_go_into_what_is_there(run.path(), here.path());

    // Ctrl-C reaches the program, which may handle it.
    let script = "trap 'echo caught; exit 5' INT; echo ready; while true; do sleep 0.1; done";
    let mut running = hamlyn(run.path(), &["exec", "vm0", "--", "sh", "-c", script]);
    let mut running = running.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut said = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&running), rustix::process::Signal::INT)?;
    assert_eq!(said.next().as_deref(), Some("caught"));
    assert_eq!(running.wait()?.code(), Some(5));
    // Remaining programs end with the lab.
    rustix::process::kill_process(rustix::process::Pid::from_child(&up), rustix::process::Signal::TERM)?;
    assert!(up.wait()?.success());
    Ok(())
}

/// Repeats the checks of `door/copies.rs` with the guest's own shell, and checks what only root may
/// do.
fn copies_go_into_what_is_there(run: &Path, here: &Path) {
    let done = |arguments: &[&str]| hamlyn(run, arguments).current_dir(here).output().unwrap();
    let sh = |script: &str| {
        let output = done(&["exec", "vm0", "--", "sh", "-c", script]);
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let copied = |from: &str, to: &str| {
        let output = done(&["cp", "--", from, to]);
        assert!(output.status.success() && output.stderr.is_empty(), "{from} {to}: {output:?}");
    };
    fs::write(here.join("text"), "text").unwrap();
    fs::set_permissions(here.join("text"), fs::Permissions::from_mode(0o640)).unwrap();
    copied("text", "vm0:/dev/null");
    assert_eq!(sh("stat -c '%F %t %T' /dev/null"), "character special file 1 3\n");
    sh(
        "echo old >/tmp/old; chmod 600 /tmp/old; ln /tmp/old /tmp/other; ln -s old /tmp/link; ln -s made /tmp/loose",
    );
    copied("text", "vm0:/tmp/link");
    assert_eq!(sh("cat /tmp/other; stat -c ' %a' /tmp/other; readlink /tmp/link"), "text 600\nold\n");
    copied("text", "vm0:/tmp/loose");
    assert_eq!(sh("stat -c %a /tmp/made; readlink /tmp/loose"), "640\nmade\n");
    copied("vm0:/tmp/made", "made");
    assert_eq!(fs::metadata(here.join("made")).unwrap().permissions().mode() & 0o777, 0o640);
    // The reader must not hold an output of the command, which would wait for it.
    sh("mkfifo /tmp/fifo; cat /tmp/fifo >/tmp/came 2>&1 &");
    copied("text", "vm0:/tmp/fifo");
    assert_eq!(sh("test -p /tmp/fifo && until grep text /tmp/came; do sleep 0.1; done"), "text\n");

    let name = OsStr::from_bytes(b"-\xff\n");
    fs::write(here.join(name), "odd").unwrap();
    let mut there = OsString::from("vm0:");
    there.push(name);
    for (from, to, shown) in [(name, "vm0:", &b""[..]), (&there, "/dev/stdout", b"odd")] {
        let output = hamlyn(run, &["cp", "--"]).arg(from).arg(to).current_dir(here).output().unwrap();
        assert!(output.status.success() && output.stdout == shown, "{output:?}");
    }

    // A full disk, and a file of another user.
    fs::write(here.join("long"), vec![7; 1 << 20]).unwrap();
    sh("mkdir /mnt; mount -t tmpfs -o size=64k tmpfs /mnt; echo root >/tmp/roots; chmod 644 /tmp/roots");
    let full = done(&["cp", "long", "vm0:/mnt/long"]);
    assert!(
        !full.status.success() && String::from_utf8_lossy(&full.stderr).contains("No space left"),
        "{full:?}"
    );
    assert_eq!(sh("stat -c %s /mnt/long; umount /mnt"), "65536\n", "what was written by then");
    let refused = done(&["cp", "--uid", "1001", "text", "vm0:/tmp/roots"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("Permission denied"), "{refused:?}");
    assert_eq!(sh("cat /tmp/roots"), "root\n");

    // The image has no dynamic loader.
    let dynamic = done(&["cp", "/bin/true", "vm0:/tmp/true"]);
    let said = String::from_utf8_lossy(&dynamic.stderr);
    assert!(
        dynamic.status.success() && said.contains("needs the dynamic loader /lib64/ld-linux"),
        "{dynamic:?}"
    );
    let started = done(&["exec", "vm0", "--", "/tmp/true"]);
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(started.status.code() == Some(255) && said.contains("needs the dynamic loader"), "{started:?}");
}

#[test]
fn a_dynamic_program_is_not_added() {
    let run = run_directory();
    let up = hamlyn(run.path(), &["up", "-n", "1", "--add", "/bin/true"]).output().unwrap();
    let said = String::from_utf8_lossy(&up.stderr);
    assert!(said.contains("cannot add /bin/true: it needs the dynamic loader /lib64/ld-linux"), "{up:?}");
    assert!(!up.status.success());
}

/// A driver test that passes has tested the module that was built.
#[test]
fn a_module_of_another_build_is_refused() {
    let (run, folder) = (run_directory(), run_directory());
    let kit = Kit::find().unwrap();
    let mut module = fs::read(&kit.module).unwrap();
    // The note's header: length of the name, length of the id, type, name.
    let note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let at = module.windows(note.len()).position(|bytes| bytes == note).unwrap() + note.len();
    module[at] ^= 1;
    let other = folder.path().join("other.ko");
    fs::write(&other, module).unwrap();
    let file = folder.path().join("kit.json");
    let parts = serde_json::json!({ "qemu": kit.qemu, "kernel": kit.kernel, "initrd": kit.initrd, "disk": kit.disk,
        "module": "other.ko", "programs": kit.programs });
    fs::write(&file, parts.to_string()).unwrap();
    let test = hamlyn(run.path(), &["driver-test"]).env("HAMLYN_KIT", &file).output().unwrap();
    let said = String::from_utf8_lossy(&test.stderr);
    assert_eq!(test.status.code(), Some(1), "{test:?}");
    assert!(
        said.contains("the loaded module hamlyn is not ") && said.contains("other.ko (build id "),
        "{said}"
    );
    // The output helps to find out why a test failed.
    assert!(said.contains("Show Blocked State") && said.contains("hamlyn"), "{said}");
    let test = hamlyn(run.path(), &["driver-test"]).output().unwrap();
    let said = String::from_utf8_lossy(&test.stdout);
    let due = format!("the module {} is loaded and works", kit.module.display());
    assert!(test.status.success() && said.contains(&due), "{test:?}");
}
