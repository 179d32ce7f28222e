//! `hamlyn top`, on a terminal and without one.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hamlyn_host::stat::StatServer;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;
use tempfile::TempDir;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

fn run_directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn command(run: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamlyn"));
    command.arg("top").args(arguments).env("HAMLYN_RUN", run);
    command
}

fn once(run: &Path) -> (String, String) {
    let output: Output = command(run, &["--once"]).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// A card whose counters grow with each reading, until this is dropped.
struct Card {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Card {
    fn start(run: &Path) -> Card {
        let server = StatServer::bind_in(run, "card", "card0").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut packets = 0;
        let thread = Some(thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                server.answer(|| {
                    packets += 1_000_000;
                    json!({ "host": 0, "machine": true, "enabled": true, "card": { "packets_sent": packets } })
                });
                thread::sleep(Duration::from_millis(1));
            }
        }));
        Card { stop, thread }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn once_prints_rates_without_a_terminal() {
    let run = run_directory();
    let (nothing, _) = once(run.path());
    assert!(nothing.starts_with("no card or switch is running (looked in "), "{nothing}");
    let _card = Card::start(run.path());
    let (table, errors) = once(run.path());
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 2, "{table}{errors}");
    assert_eq!(lines[0][..4], ["card", "pid", "state", "sent/s"]);
    assert_eq!(lines[1][0], "card0");
    assert_eq!(lines[1][2], "up");
    // It grew by a million in a second or more.
    assert!(lines[1][3].ends_with(['k', 'M']), "{table}");
}

#[test]
fn process_that_does_not_answer_is_named() {
    let run = run_directory();
    let _stopped = UnixListener::bind(run.path().join("switch-1-77.stat")).unwrap();
    let _card = Card::start(run.path());
    let (table, _) = once(run.path());
    let silent = table.lines().next().unwrap();
    assert!(silent.starts_with("switch (pid 77) does not answer: no counters from "), "{table}");
    assert!(table.contains("\ncard0 "), "{table}");
}

#[test]
fn missing_terminal_error_names_once() {
    let run = run_directory();
    let output = command(run.path(), &[]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = "error: standard input and output must be a terminal: \
                hamlyn top --once prints one table as text\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    for (every, words) in [("0", "0 is not in 1..=3600"), ("3601", "3601 is not in 1..=3600")] {
        let output = command(run.path(), &["--every", every]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
}

/// The program on a terminal.
struct Session {
    terminal: File,
    /// The program's side of the terminal, to check its mode.
    inner: File,
    shown: Arc<Mutex<String>>,
    /// Reads the screen until the terminal is to be closed.
    reader: Option<JoinHandle<()>>,
    closes: Arc<AtomicBool>,
    top: Child,
}

impl Session {
    fn start(run: &Path) -> Session {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let mut options = OpenOptions::new();
        let no_controlling = OFlags::NOCTTY.bits().try_into().unwrap();
        let options = options.read(true).write(true).custom_flags(no_controlling);
        let inner = options.open(name.to_str().unwrap()).unwrap();
        tcsetwinsize(&inner, Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = command(run, &[]);
        command.stdin(inner.try_clone().unwrap()).stdout(inner.try_clone().unwrap());
        let top = command.stderr(inner.try_clone().unwrap()).spawn().unwrap();
        let terminal = File::from(terminal);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut output, seen) = (terminal.try_clone().unwrap(), shown.clone());
        let closes = Arc::new(AtomicBool::new(false));
        let closing = closes.clone();
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if closing.load(Ordering::Relaxed) {
                    return;
                }
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let session = Session { terminal, inner, shown, reader: Some(reader), closes, top };
        session.wait_for(ENTER);
        session
    }

    /// Waits until the program has written this. Blanks between words are not written.
    fn wait_for(&self, text: &str) {
        for _ in 0..2000 {
            if self.shown.lock().unwrap().contains(text) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{text:?} is not shown: {:?}", self.shown.lock().unwrap());
    }

    fn is_in_line_mode(&self) -> bool {
        tcgetattr(&self.inner).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    fn press(&mut self, keys: &[u8]) {
        self.terminal.write_all(keys).unwrap();
    }

    /// Waits for the program to end. Returns whether it succeeded.
    fn end(&mut self) -> bool {
        let success = self.top.wait().unwrap().success();
        self.wait_for(LEAVE);
        assert!(self.is_in_line_mode());
        // Shows the cursor.
        self.wait_for("\x1b[?25h");
        success
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.top.kill();
        let _ = self.top.wait();
    }
}

#[test]
fn keys_leave_and_restore_the_terminal() {
    let run = run_directory();
    let _card = Card::start(run.path());
    for key in [b"q", b"\x03"] {
        let mut session = Session::start(run.path());
        session.wait_for("card0");
        assert!(!session.is_in_line_mode());
        session.press(key);
        assert!(session.end());
    }
}

#[test]
fn signals_restore_the_terminal() {
    let run = run_directory();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut session = Session::start(run.path());
        session.wait_for("running");
        kill_process(Pid::from_child(&session.top), signal).unwrap();
        session.end();
    }
}

#[test]
fn errors_are_shown_on_the_restored_terminal() {
    let run = run_directory();
    let mut session = Session::start(run.path());
    session.wait_for("running");
    fs::set_permissions(run.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!session.end());
    session.wait_for("error: the run directory");
    let shown = session.shown.lock().unwrap();
    assert!(shown.find(LEAVE).unwrap() < shown.find("error:").unwrap(), "{shown:?}");
}

#[test]
fn processes_come_and_go_on_the_screen() {
    let run = run_directory();
    let card = Card::start(run.path());
    let session = Session::start(run.path());
    session.wait_for("card0");
    drop(card);
    session.wait_for("running");
}

#[test]
fn closed_terminal_ends_the_program() {
    let run = run_directory();
    let _card = Card::start(run.path());
    let mut session = Session::start(run.path());
    session.wait_for("card0");
    session.closes.store(true, Ordering::Relaxed);
    // The next rates wake the reader, which closes its end.
    session.reader.take().unwrap().join().unwrap();
    session.terminal = File::open("/dev/null").unwrap();
    session.top.wait().unwrap();
}
