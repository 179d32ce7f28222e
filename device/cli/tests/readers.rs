//! `hamlyn trace` and `hamlyn fault` with cards that no machine uses.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn run_directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn hamlyn(run: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamlyn"));
    command.args(words).env("HAMLYN_RUN", run).stdin(Stdio::null());
    command
}

/// A program that is killed with this value.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Running {
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Returns the first line of its standard error that contains this text.
    fn line(&mut self, text: &str) -> String {
        let mut lines = BufReader::new(self.0.stderr.take().unwrap()).lines().map_while(Result::ok);
        lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("no line has {text:?}"))
    }

    /// Ends the program as Ctrl-C does. Returns whether it succeeded.
    fn interrupt(&mut self) -> bool {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        for _ in 0..6000 {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success();
            }
            sleep(Duration::from_millis(10));
        }
        panic!("the program does not end within 60 s");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts two cards, and waits until they answer.
fn cards(run: &Path, words: &[&str]) -> Running {
    let sockets = ["c0", "c1"].map(|name| run.join(name).display().to_string());
    let words = [&["fabric", "--socket", &sockets[0], "--socket", &sockets[1]], words].concat();
    let mut cards = Running::start(hamlyn(run, &words));
    cards.line("2 cards in one process");
    cards
}

fn fault(run: &Path, words: &[&str]) -> Output {
    let output = || hamlyn(run, &[&["fault"], words].concat()).output().unwrap();
    // The sockets for readers come after the line that the cards are there.
    let is_early = |output: &Output| String::from_utf8_lossy(&output.stderr).contains("no card is running");
    let mut tries = (0..1000).map(|_| {
        sleep(Duration::from_millis(10));
        output()
    });
    tries.find(|output| !is_early(output)).unwrap_or_else(output)
}

#[test]
fn waiting_trace_begins_with_the_cards() {
    let run = run_directory();
    let file = run.path().join("trace").display().to_string();
    let mut trace = Running::start(hamlyn(run.path(), &["trace", "c1", "--wait", "--output", &file]));
    let _cards = cards(run.path(), &[]);
    assert_eq!(trace.line("tracing"), "tracing c1 until Ctrl-C");
    assert!(trace.interrupt());
}

#[test]
fn waiting_trace_can_be_ended() {
    let run = run_directory();
    let file = run.path().join("trace").display().to_string();
    let mut trace = Running::start(hamlyn(run.path(), &["trace", "--wait", "--output", &file]));
    // The file is there before it waits, and after signals are caught.
    while !Path::new(&file).exists() {
        std::thread::yield_now();
    }
    assert!(!trace.interrupt());
}

#[test]
fn rules_from_the_start_and_later_ones() {
    let run = run_directory();
    let file = run.path().join("rules");
    fs::write(&file, "# from the start\ninterrupt drop every=3\n").unwrap();
    let _cards = cards(run.path(), &["--faults", file.to_str().unwrap(), "--fault-seed", "9"]);
    let said = |words: &[&str]| {
        let output = fault(run.path(), words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = said(&[]);
    assert_eq!(shown.matches("rules with seed 9:\n  interrupt drop every=3 ").count(), 2, "{shown}");
    said(&["c1", "card reset", "--seed", "2"]);
    assert!(said(&[]).contains("c1: rules with seed 2:\n  card reset "));
    let refused = fault(run.path(), &["all", "--file", "/nonexistent"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot read the rules in /nonexistent"));
    said(&["all", "--end"]);
    assert_eq!(said(&[]), "c0: no rules\nc1: no rules\n");
}

#[test]
fn wrong_rules_end_the_cards_process() {
    let run = run_directory();
    let file = run.path().join("rules");
    fs::write(&file, "\ninterrupt melt\n").unwrap();
    let socket = run.path().join("c0").display().to_string();
    let words = ["fabric", "--socket", &socket, "--faults", file.to_str().unwrap()];
    let output = hamlyn(run.path(), &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("line 2: interrupt has no action \"melt\""), "{said}");
}
