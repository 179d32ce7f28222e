//! Tests of the program that `hamlyn sim` starts.

use std::fs;
use std::io;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

fn hamlyn_sim(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamlyn-sim"));
    command.args(arguments);
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Waits for an effect of another process.
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
fn output_does_not_depend_on_parallel_seeds() {
    let of = |jobs| hamlyn_sim(&["hamlyn", "60", "3", jobs]).output().unwrap();
    let (alone, together) = (of("1"), of("7"));
    assert!(alone.status.success() && together.status.success(), "{}", stderr(&together));
    assert!(stdout(&alone).starts_with("seeds 60, steps "), "{}", stdout(&alone));
    assert_eq!(stdout(&alone), stdout(&together));
}

#[test]
fn stopped_simulation_reports_its_progress() {
    let mut command = hamlyn_sim(&["hamlyn", "1000000000", "10", "2"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let interrupt = 1 << (Signal::INT.as_raw() - 1);
    eventually("the program catches Ctrl-C", || {
        let text = fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & interrupt != 0
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (said, complained) = (stdout(&output), stderr(&output));
    let seeds: u64 = said.strip_prefix("seeds ").unwrap().split_once(',').unwrap().0.parse().unwrap();
    let rest = format!("stopped before seed {}; the rest: hamlyn sim --from {0} --seeds ", 10 + seeds);
    assert!(said.contains(&rest), "{said}");
    assert!(complained.contains(&format!("stopped after {seeds} of 1000000000 seeds")), "{complained}");
}

#[test]
fn closed_output_is_not_a_failure() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let output = hamlyn_sim(&["hamlyn", "3", "1", "1"]).stdout(writer).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn closed_error_output_leaves_the_exit_status() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let status = hamlyn_sim(&[]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn invalid_arguments_are_rejected() {
    for words in ["", "hamlyn", "hamlyn 1 2", "hamlyn 1 2 x", "x 1 2 1", "hamlyn 1 2 0", "hamlyn 1 2 1 17"] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = hamlyn_sim(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).starts_with("error: "), "{output:?}");
    }
}

#[test]
fn every_simulation_has_a_catalogue_model() {
    for name in hamlyn_sim::SIMULATIONS.names() {
        assert!(hamlyn_host::catalogue::find(name).is_ok(), "{name}");
    }
}
