//! `hamlyn console` on a real terminal, with a socket in place of a machine.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use hamlyn_host::rundir::claim;
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use tempfile::TempDir;

/// A user's terminal attached to a machine.
struct Session {
    terminal: File,
    /// The program's side of the terminal, to check its mode.
    inner: File,
    machine: UnixStream,
    console: Child,
    _run: (TempDir, File),
}

impl Session {
    fn start(more: &[&str]) -> Session {
        let run = tempfile::tempdir().unwrap();
        fs::set_permissions(run.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir(run.path().join("lab-x")).unwrap();
        let claim = claim(&run.path().join("lab-x")).unwrap();
        std::fs::write(run.path().join("lab-x/vm0.agent"), "").unwrap();
        let listener = UnixListener::bind(run.path().join("lab-x/vm0.console")).unwrap();

        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let no_controlling = OFlags::NOCTTY.bits().try_into().unwrap();
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(no_controlling);
        let inner = options.open(name.to_str().unwrap()).unwrap();

        let console = Command::new(env!("CARGO_BIN_EXE_hamlyn"))
            .args(["console", "vm0"])
            .args(more)
            .env("HAMLYN_RUN", run.path())
            .stdin(inner.try_clone().unwrap())
            .stdout(inner.try_clone().unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (machine, _) = listener.accept().unwrap();
        machine.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let session = Session { terminal: File::from(terminal), inner, machine, console, _run: (run, claim) };
        session.wait_for_mode(false);
        session
    }

    /// Waits until the terminal is in line mode, or is not.
    fn wait_for_mode(&self, lines: bool) {
        for _ in 0..2000 {
            if tcgetattr(&self.inner).unwrap().local_modes.contains(LocalModes::ICANON) == lines {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the terminal's mode has not changed");
    }

    fn expect_the_end(mut self) {
        assert!(self.console.wait().unwrap().success());
        self.wait_for_mode(true);
    }
}

#[test]
fn keys_pass_unchanged_and_ctrl_bracket_leaves() {
    let mut session = Session::start(&[]);
    let mut keys = [0; 3];
    // Ctrl-C is sent to the machine.
    session.terminal.write_all(b"l\x03\r").unwrap();
    session.machine.read_exact(&mut keys).unwrap();
    assert_eq!(&keys, b"l\x03\r");
    session.machine.write_all(b"prompt# ").unwrap();
    let mut shown = [0; 8];
    session.terminal.read_exact(&mut shown).unwrap();
    assert_eq!(&shown, b"prompt# ");
    session.terminal.write_all(b"x\x1dnot for the machine").unwrap();
    let mut rest = Vec::new();
    session.machine.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"x");
    session.expect_the_end();
}

#[test]
fn end_of_the_machine_ends_the_console() {
    let session = Session::start(&[]);
    session.machine.shutdown(std::net::Shutdown::Both).unwrap();
    session.expect_the_end();
}

#[test]
fn a_signal_restores_the_terminal() {
    let session = Session::start(&[]);
    let pid = rustix::process::Pid::from_child(&session.console);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    session.expect_the_end();
}

#[test]
fn terminal_output_is_raw_unless_plain() {
    for (more, due) in [(&[][..], "\x1b[2J\r\n"), (&["--plain"][..], "\\x1b[2J\r\n")] {
        let mut session = Session::start(more);
        session.machine.write_all(b"\x1b[2J\r\n").unwrap();
        let mut shown = vec![0; due.len()];
        session.terminal.read_exact(&mut shown).unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), due);
        session.terminal.write_all(b"\x1d").unwrap();
        session.expect_the_end();
    }
}
