//! The program as used by people and scripts, without virtual machines.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hamlyn_host::rundir::claim;
use hamlyn_host::stat::StatServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs the program with its own run directory.
fn hamlyn(run: &Path, arguments: &[&str]) -> Output {
    command(run).args(arguments).output().unwrap()
}

fn command(run: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamlyn"));
    command.env("HAMLYN_RUN", run).env_remove("HAMLYN_KIT").env_remove("HAMLYN_CACHE");
    command
}

fn run_directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Waits for a change made by another process.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if happened() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} has not happened");
}

#[test]
fn help_teaches_with_examples() {
    let run = run_directory();
    for (arguments, words) in [
        (&["--help"][..], "hamlyn up -n 3"),
        (&["up", "--help"], "hamlyn console vm0"),
        (&["lab", "--help"], "hamlyn lab down pair"),
        (&["lab", "up", "--help"], "--keep"),
        (&["stat", "--help"], "--watch"),
        (&["top", "--help"], "hamlyn top --once"),
        (&["qemu-args", "--help"], "qemu-system-x86_64"),
        (&["completions", "bash"], "_hamlyn()"),
    ] {
        let output = hamlyn(run.path(), arguments);
        assert!(output.status.success() && stdout(&output).contains(words), "{arguments:?}: {output:?}");
    }
    for arguments in [&["--help"][..], &["completions", "bash"]] {
        assert!(!stdout(&hamlyn(run.path(), arguments)).contains("tether"), "what is inner is not shown");
    }
}

#[test]
fn invalid_log_level_is_refused() {
    let run = run_directory();
    for (level, works) in [("warn", true), ("loud", false), ("hamlyn=debug", false)] {
        let output = command(run.path()).arg("stat").env("HAMLYN_LOG", level).output().unwrap();
        let said =
            format!("error: HAMLYN_LOG is '{level}', and may be off, error, warn, info, debug or trace");
        assert_eq!(!stderr(&output).contains(&said), works, "{output:?}");
    }
}

#[test]
fn the_printed_arguments_survive_the_shell() {
    let run = run_directory();
    let output = hamlyn(run.path(), &["qemu-args", "--socket", "/tmp/it's here.sock", "--memory", "1G"]);
    let script = format!("printf '%s\\n' {}", stdout(&output));
    let words = Command::new("sh").args(["-c", &script]).output().unwrap();
    let words: Vec<&str> = stdout(&words).lines().collect();
    assert_eq!(words.len(), 10, "{words:?}");
    assert!(words.contains(&"memory-backend-memfd,id=mem,size=1024M,share=on"), "{words:?}");
    for (word, socket) in [(words[7], "/tmp/it's here.sock"), (words[9], "/tmp/it's here.sock.doorbell")] {
        let device: Value = serde_json::from_str(word).unwrap();
        assert_eq!(device["socket"]["path"], socket);
    }
}

#[test]
fn models_are_listed_with_their_settings() {
    let run = run_directory();
    let table = hamlyn(run.path(), &["models"]);
    let lines: Vec<&str> = stdout(&table).lines().collect();
    assert!(lines[0].trim_start().starts_with("model"), "{table:?}");
    assert!(lines[1].trim_start().starts_with("hamlyn ") && lines[1].contains("Sender-based"), "{table:?}");
    let models: Value = serde_json::from_str(stdout(&hamlyn(run.path(), &["models", "--json"]))).unwrap();
    assert_eq!(models.as_array().unwrap().len(), lines.len() - 1);
    let help = hamlyn(run.path(), &["card", "--help"]);
    for model in models.as_array().unwrap() {
        for setting in model["settings"].as_array().unwrap() {
            let flag =
                format!("--{} <{}>", setting["name"].as_str().unwrap(), setting["unit"].as_str().unwrap());
            assert!(stdout(&help).contains(&flag), "{flag}: {help:?}");
        }
    }
}

#[test]
fn invalid_card_setting_is_reported() {
    let run = run_directory();
    let socket = run.path().join("c.sock").display().to_string();
    for command in [&["card", "--switch", "s.sock"][..], &["fabric"]] {
        let flags = ["--socket", &socket, "--packet-size", "131072"];
        let output = hamlyn(run.path(), &[command, &flags].concat());
        let said = "error: packet size 131072 is out of range (256 to 65536)\n";
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), said));
    }
}

#[test]
fn counters_are_shown_to_people_and_programs() {
    let run = run_directory();
    let card = StatServer::bind_in(run.path(), "card", "card0").unwrap();
    // A lab's directory is searched as well, and a socket without a listener does no harm.
    let lab = run.path().join("lab-x");
    fs::create_dir(&lab).unwrap();
    let switch = StatServer::bind_in(&lab, "switch", "switch").unwrap();
    drop(std::os::unix::net::UnixListener::bind(run.path().join("card-1.stat")).unwrap());

    let stop = Arc::new(AtomicBool::new(false));
    let answering = thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                card.answer(|| json!({ "packets": 7, "card": { "refused_key": 1 } }));
                switch.answer(|| json!({ "ports": [{ "packets": 9 }] }));
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let table = hamlyn(run.path(), &["stat"]);
    let reports = hamlyn(run.path(), &["stat", "--json"]);
    stop.store(true, Ordering::Relaxed);
    answering.join().unwrap();

    let table = stdout(&table);
    assert!(table.starts_with("switch (pid "), "{table}");
    assert!(table.contains("ports.0.packets"), "{table}");
    assert!(table.contains("card.refused_key"), "{table}");
    let reports: Value = serde_json::from_str(stdout(&reports)).unwrap();
    assert_eq!(reports.as_array().unwrap().len(), 2);
    assert_eq!(reports[1]["name"], "card0");
    assert_eq!(reports[1]["counters"]["card"]["refused_key"], 1);
    assert!(
        !run.path().join(format!("card-{}.stat", std::process::id())).exists(),
        "the socket outlived its owner"
    );
}

#[test]
fn stat_and_console_report_nothing_running() {
    let run = run_directory();
    assert!(stdout(&hamlyn(run.path(), &["stat"])).starts_with("no card or switch is running"));
    assert_eq!(stdout(&hamlyn(run.path(), &["stat", "--json"])), "[]\n");
    let console = hamlyn(run.path(), &["console", "vm0"]);
    assert!(!console.status.success());
    assert!(stderr(&console).contains("no machine is running: start some with hamlyn up"), "{console:?}");
}

#[test]
fn unknown_machine_error_lists_running_machines() {
    let run = run_directory();
    let lab = |name: &str| {
        let lab = run.path().join(name);
        fs::create_dir(&lab).unwrap();
        fs::write(lab.join("vm0.agent"), "").unwrap();
        claim(&lab).unwrap()
    };
    let _running = ["lab-a", "lab-b"].map(lab);
    // All processes of this lab were killed at once.
    drop(lab("lab-c"));
    let console = hamlyn(run.path(), &["console", "vm7"]);
    assert!(stderr(&console).contains("machine \"vm7\" does not run; running are: lab-a/vm0, lab-b/vm0"));
    let console = hamlyn(run.path(), &["console", "vm0"]);
    assert!(stderr(&console).contains("several machines have the name \"vm0\""), "{console:?}");
}

#[test]
fn missing_kit_error_says_what_to_run() {
    let run = run_directory();
    for arguments in [&["up"][..], &["demo"], &["driver-test"]] {
        let output = command(run.path()).args(arguments).env("HAMLYN_KIT", "/no/kit.json").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("run ./scripts/prepare"), "{output:?}");
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0, "something was left behind");
    }
}

#[test]
fn cloud_hypervisor_does_not_emulate() {
    let run = run_directory();
    for command in ["up", "demo", "driver-test"] {
        let output = hamlyn(run.path(), &[command, "--vmm", "cloud-hypervisor", "--accel", "tcg"]);
        assert!(stderr(&output).contains("--accel tcg needs --vmm qemu"), "{command}: {output:?}");
    }
}

#[test]
fn too_long_socket_path_is_refused() {
    let run = run_directory();
    let long = format!("/tmp/{}", "x".repeat(103));
    let switch = hamlyn(run.path(), &["switch", "--socket", &long]);
    assert!(stderr(&switch).contains("the path of a socket has 108 bytes (limit 107)"), "{switch:?}");
    let deep = run.path().join("x".repeat(90));
    let stat = hamlyn(&deep, &["stat"]);
    assert!(stderr(&stat).contains("(limit 76, of UTF-8): set HAMLYN_RUN"), "{stat:?}");
    assert!(!deep.exists());
}

/// Sends VERSION of vfio-user and waits for the reply.
fn greets(socket: &Path) -> bool {
    let mut client = UnixStream::connect(socket).unwrap();
    client.write_all(&[7, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut header = [0; 16];
    client.read_exact(&mut header).unwrap();
    // The same id, and the flag of a reply.
    header[..2] == [7, 0] && header[8] == 1
}

#[test]
fn pinned_threads_serve_and_remove_their_sockets() {
    let run = run_directory();
    let core = hamlyn_lab::cores(1)[0].to_string();
    let sockets = ["c0", "c0.doorbell", "c1", "c1.doorbell"].map(|name| run.path().join(name));
    let mut fabric = command(run.path());
    fabric.args(["fabric", "--cores", &core, "--socket"]).arg(&sockets[0]).arg("--socket").arg(&sockets[2]);
    let mut fabric = fabric.stderr(Stdio::null()).spawn().unwrap();
    eventually("the last card listens", || sockets[3].exists());
    assert!(sockets.iter().all(|socket| greets(socket)));
    kill_process(Pid::from_child(&fabric), Signal::TERM).unwrap();
    assert!(fabric.wait().unwrap().success());
    assert!(!sockets.iter().any(|socket| socket.exists()));
}

#[test]
fn absent_core_is_refused() {
    let run = run_directory();
    let socket = run.path().join("c0");
    let cores = (0..1024).map(|core| core.to_string()).collect::<Vec<_>>().join(",");
    let output =
        command(run.path()).args(["fabric", "--cores", &cores, "--socket"]).arg(&socket).output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("is not there, or not for this process"));
    assert!(!socket.exists());
}

#[test]
fn reason_is_printed_once() {
    let run = run_directory();
    let switch = hamlyn(run.path(), &["switch", "--socket", "/no/such/folder/switch.sock"]);
    assert_eq!(stderr(&switch).matches("No such file").count(), 1, "{switch:?}");
}

#[test]
fn socket_of_a_killed_process_is_removed() {
    let run = run_directory();
    let path = |name| run.path().join(format!("card-{name}.stat"));
    let (dead, starting) = (path("dead"), path("starting"));
    for socket in [&dead, &starting] {
        drop(std::os::unix::net::UnixListener::bind(socket).unwrap());
    }
    let old = rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    rustix::fs::utimensat(rustix::fs::CWD, &dead, &times, rustix::fs::AtFlags::empty()).unwrap();
    assert!(hamlyn(run.path(), &["stat"]).status.success());
    assert!(!dead.exists() && starting.exists());
}

/// Starts the program in its own PID namespace, where it is process 1.
fn namespaced(run: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new("unshare");
    if !rustix::process::getuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child"]).arg(env!("CARGO_BIN_EXE_hamlyn"));
    command
        .args(arguments)
        .env("HAMLYN_RUN", run)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(mut child: Child) -> String {
    child.kill().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    said
}

#[test]
fn pid_namespaces_share_run_directory() {
    let run = run_directory();
    let socket = |name| run.path().join(name).to_str().unwrap().to_owned();
    let switches = ["a", "b"].map(|name| namespaced(run.path(), &["switch", "--socket", &socket(name)]));
    let reports = || serde_json::from_str::<Value>(stdout(&hamlyn(run.path(), &["stat", "--json"]))).unwrap();
    eventually("two switches are counted", || reports().as_array().unwrap().len() == 2);
    // One card attaches from outside, and one from another namespace.
    let card = |name| ["card".into(), "--socket".into(), socket(name), "--switch".into(), socket("a")];
    let mut outside = command(run.path()).args(card("c0")).stderr(Stdio::null()).spawn().unwrap();
    let arguments = card("c1");
    let inside = namespaced(run.path(), &arguments.each_ref().map(|argument| argument.as_str()));
    eventually("four processes are counted", || reports().as_array().unwrap().len() == 4);
    outside.kill().unwrap();
    outside.wait().unwrap();
    switches.into_iter().chain([inside]).for_each(|child| drop(end(child)));
}

#[test]
fn switch_survives_file_size_limit() {
    let run = run_directory();
    let (switch, card) = (run.path().join("s"), run.path().join("c"));
    let script = "ulimit -f 100; exec \"$0\" switch --socket \"$1\"";
    let mut limited = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_hamlyn")])
        .arg(&switch)
        .env("HAMLYN_RUN", run.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the switch listens", || UnixStream::connect(&switch).is_ok() || switch.exists());
    let paths = [&card, &switch].map(|path| path.to_str().unwrap());
    for _ in 0..2 {
        let said = hamlyn(run.path(), &["card", "--socket", paths[0], "--switch", paths[1]]);
        assert!(stderr(&said).contains("File too large"), "{said:?}");
    }
    assert_eq!(limited.try_wait().unwrap(), None);
    limited.kill().unwrap();
    limited.wait().unwrap();
}

#[test]
fn file_size_limit_is_named() {
    let run = run_directory();
    let script = "ulimit -f 1000; exec \"$0\" fabric --socket \"$1\" --socket \"$2\"";
    let mut limited = Command::new("sh");
    limited
        .args(["-c", script, env!("CARGO_BIN_EXE_hamlyn")])
        .args([run.path().join("a"), run.path().join("b")]);
    let said = limited.env("HAMLYN_RUN", run.path()).output().unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(stderr(&said).contains("File too large"), "{said:?}");
}

#[test]
fn reader_makes_no_run_directory() {
    let run = run_directory();
    let missing = run.path().join("hamlyn");
    let stat = hamlyn(&missing, &["stat"]);
    assert!(stdout(&stat).starts_with("no card or switch is running"), "{stat:?}");
    assert!(!missing.exists());
}

#[test]
fn runtime_directory_of_another_user_is_not_used() {
    let theirs = run_directory();
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(theirs.path(), Some(65534), Some(65534)).unwrap();
    }
    let own = !rustix::process::getuid().is_root();
    let mut stat = command(theirs.path());
    stat.env_remove("HAMLYN_RUN").env("XDG_RUNTIME_DIR", theirs.path()).arg("stat");
    let said = stat.output().unwrap();
    assert_eq!(stdout(&said).contains(theirs.path().to_str().unwrap()), own, "{said:?}");
    assert!(!theirs.path().join("hamlyn").exists());
}

#[test]
fn a_run_directory_open_to_others_is_refused() {
    let run = run_directory();
    fs::set_permissions(run.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let output = hamlyn(run.path(), &["stat"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("with mode 700, not mode 755"), "{output:?}");
}

#[test]
fn tethered_program_dies_with_its_parent() {
    // The shell starts the program, prints its id, and is killed.
    let script = r#"$0 tether $$ -- sleep 1000 & echo $!; read _"#;
    let mut shell = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_hamlyn")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let command_line = PathBuf::from(format!("/proc/{}/cmdline", pid.trim()));
    let is_sleeping = || fs::read(&command_line).is_ok_and(|text| text.starts_with(b"sleep"));
    eventually("the program's start", is_sleeping);
    shell.kill().unwrap();
    shell.wait().unwrap();
    eventually("the program's end", || !is_sleeping());
}

#[test]
fn tether_to_a_dead_parent_is_refused() {
    let run = run_directory();
    let output = hamlyn(run.path(), &["tether", "4000000", "--", "echo", "alive"]);
    assert!(!output.status.success());
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("process 4000000, is already gone"), "{output:?}");
}

#[test]
fn doctor_fails_if_the_kit_is_missing() {
    let run = run_directory();
    let left = run.path().join("lab-dead");
    fs::create_dir(&left).unwrap();
    let nowhere = run.path().join("nowhere");
    let doctor = |words: &[&str]| {
        let mut command = command(run.path());
        command.arg("doctor").args(words).env("HAMLYN_CACHE", &nowhere).output().unwrap()
    };
    let output = doctor(&["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |part: &str| found.iter().find(|found| found["part"] == part).unwrap();
    assert_eq!(
        (&of("kit")["state"], &of("kit")["next"]),
        (&json!("missing"), &json!("run ./scripts/prepare"))
    );
    assert_eq!(of("run directory")["state"], "ok");
    assert_eq!(of("left over")["what"], "directories of dead labs: dead");
    let lines = doctor(&[]);
    assert_eq!(stdout(&lines).lines().count(), found.len());
    assert!(left.exists(), "it only looks");
}

#[test]
fn keeper_removes_only_a_labs_directory() {
    let run = run_directory();
    let lab = run.path().join("lab-x");
    fs::create_dir(&lab).unwrap();
    let keep = |dir: &Path| command(run.path()).arg("keeper").arg(dir).stdin(Stdio::piped()).spawn().unwrap();
    let mut keeper = keep(&lab);
    assert!(keeper.try_wait().unwrap().is_none() && lab.exists());
    drop(keeper.stdin.take());
    assert!(keeper.wait().unwrap().success());
    assert!(!lab.exists());
    let other = run.path().join("home");
    fs::create_dir(&other).unwrap();
    assert!(!keep(&other).wait().unwrap().success());
    assert!(other.exists());
    // The keeper moves the logs, and replaces those of the last lab of this name.
    let ended = run.path().join("ended-x");
    fs::create_dir(&lab).unwrap();
    fs::create_dir(&ended).unwrap();
    fs::write(ended.join("old.log"), "").unwrap();
    fs::write(lab.join("vm0.log"), "said").unwrap();
    fs::write(lab.join("door"), "").unwrap();
    let keep =
        |logs: &Path| command(run.path()).arg("keeper").args([&lab, logs]).stdin(Stdio::null()).status();
    assert!(!keep(&other).unwrap().success() && lab.exists());
    assert!(keep(&ended).unwrap().success() && !lab.exists());
    let kept: Vec<_> = fs::read_dir(&ended).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["vm0.log"]);
    assert_eq!(fs::read_to_string(ended.join("vm0.log")).unwrap(), "said");
}

/// Returns the program under a separate name, with `neighbour` beside it, if there is one.
fn beside(neighbour: Option<&str>) -> (TempDir, Command) {
    // In a folder where the program's file can be hard-linked.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("hamlyn");
    fs::hard_link(env!("CARGO_BIN_EXE_hamlyn"), &program).unwrap();
    if let Some(neighbour) = neighbour {
        symlink(neighbour, folder.path().join("hamlyn-sim")).unwrap();
    }
    (folder, Command::new(program))
}

#[test]
fn sim_runs_the_program_beside_this_one() {
    let flags = ["sim", "--seeds", "5", "--from", "3", "--jobs", "2", "--cards", "8"];
    let (_folder, mut echo) = beside(Some("/bin/echo"));
    let output = echo.args(flags).output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("hamlyn 5 3 2 8\n", Some(0)), "{output:?}");
    let (_folder, mut fails) = beside(Some("/bin/false"));
    assert_eq!(fails.args(flags).status().unwrap().code(), Some(1));
}

#[test]
fn missing_simulation_error_says_how_to_build() {
    let (folder, mut alone) = beside(None);
    let output = alone.arg("sim").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let place = folder.path().join("hamlyn-sim");
    assert!(stderr(&output).starts_with(&format!("error: there is no {}, ", place.display())), "{output:?}");
    assert!(stderr(&output).contains("cargo build -p hamlyn-sim"), "{output:?}");
    let help = beside(None).1.args(["sim", "--help"]).output().unwrap();
    assert!(help.status.success() && stdout(&help).contains("hamlyn sim --seeds 100000"), "{help:?}");
}

#[test]
fn core_dumps_exclude_shared_memory() {
    let run = run_directory();
    let socket = run.path().join("s.sock");
    let mut switch = Command::new(env!("CARGO_BIN_EXE_hamlyn"))
        .args(["switch", "--socket", socket.to_str().unwrap()])
        .env("HAMLYN_RUN", run.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The switch listens only after it has set the filter.
    while !socket.exists() {
        assert!(switch.try_wait().unwrap().is_none(), "the switch has ended");
        thread::sleep(Duration::from_millis(5));
    }
    let filter = fs::read_to_string(format!("/proc/{}/coredump_filter", switch.id())).unwrap();
    switch.kill().unwrap();
    switch.wait().unwrap();
    assert_eq!(filter.trim(), "00000031");
}
