//! How `hamlyn exec` ends.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::Lab;

fn exec(lab: &Lab, script: &str) -> Command {
    let mut command = lab.command("exec");
    command.args(["vm0", "--", "sh", "-c", script]);
    command
}

/// Creates a pipe. Child processes inherit only the ends that are passed to them.
fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn closed_output_ends_it_silently() {
    let lab = Lab::open();
    for script in ["seq 200000", "seq 200000 >&2", "yes"] {
        let (reader, writer) = pipe();
        let mut command = exec(&lab, script);
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut running = command.spawn().unwrap();
        // Dropping the command closes this process's write ends.
        drop(command);
        let mut reader = BufReader::new(fs::File::from(reader));
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        drop(reader);
        assert_eq!(running.wait().unwrap().code(), Some(141), "{script}: as by SIGPIPE");
        assert!(!line.contains("error"), "{script}: {line}");
    }
    // Nothing is written to the output that is still open.
    let (reader, writer) = pipe();
    let mut running = exec(&lab, "yes").stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(reader);
    let mut said = String::new();
    running.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((running.wait().unwrap().code(), said.as_str()), (Some(141), ""));
}

#[test]
fn error_with_closed_stderr_does_not_panic() {
    let lab = Lab::open();
    for command in ["exec", "cp"] {
        let (reader, writer) = pipe();
        drop(reader);
        let words: &[&str] = if command == "exec" { &["vm9", "--", "true"] } else { &["vm9:a", "b"] };
        let status = lab.command(command).args(words).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(if command == "exec" { 255 } else { 1 }));
    }
}

/// Simulates a program in a call that no signal ends: another process holds the output and is not
/// killed with the program.
#[test]
fn the_third_signal_ends_it() {
    let lab = Lab::open();
    let held = lab.path("held");
    mknodat(CWD, &held, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // The process runs in its own session when it reports ready. Earlier it would end with the
    // program, and the last line would block forever.
    let script =
        format!("trap '' INT TERM HUP; setsid sh -c 'echo ready; exec cat {}' & wait", held.display());
    let mut running = exec(&lab, &script).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    // Three different signals, because two pending ones of the same kind are merged.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        send(&running, signal);
    }
    let status = running.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(137), None));
    // Ends the process that holds the output.
    drop(OpenOptions::new().write(true).open(&held).unwrap());
}
