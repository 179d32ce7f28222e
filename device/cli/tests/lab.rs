//! The lab itself, with real virtual machines: they need the kit that `./scripts/prepare` makes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hamlyn_cli::lab::{Exit, Lab};
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
fn nothing_is_left_of_a_lab_whose_owner_is_killed() {
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
fn a_machine_reboots_and_one_that_powers_off_ends_it_all() {
    let run = run_directory();
    let mut up = hamlyn(run.path(), &["up", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("hamlyn console vm0")));
    let mut console =
        hamlyn(run.path(), &["console", "vm0"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Held open: the console stays attached until the machine ends it.
    let mut keys = console.stdin.take().unwrap();
    let mut shown = BufReader::new(console.stdout.take().unwrap()).lines().map_while(Result::ok);
    keys.write_all(b"touch /tmp/before; reboot\n").unwrap();
    let rebooted = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Again and again: what is typed while it boots is lost.
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
