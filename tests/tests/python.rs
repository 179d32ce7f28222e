//! The package for Python: its own tests, and two processes with a channel between cards.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hamlyn_lab::Lab;
use hamlyn_tests::killed::Killed;
use hamlyn_tests::python::{package, shared_library};

/// Runs in Python, and prints nothing if the package can be used.
const CHECK: &str = "import sys; assert sys.version_info >= (3, 11), sys.version";

/// Number of the package's own tests, at least.
const TESTS: usize = 21;

/// Returns this host's Python, which finds the package. `scripts/test` lets it find pytest, too.
fn python() -> Result<Command> {
    let mut path = package().into_os_string();
    if let Some(more) = env::var_os("PYTHONPATH") {
        path.push(":");
        path.push(more);
    }
    let prepared = || {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", &path).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
        command
    };
    let needed = "these tests need python3 of version 3.11 or later";
    let checked = prepared().args(["-c", CHECK]).output().context(needed)?;
    ensure!(checked.status.success(), "{needed}: {}", String::from_utf8_lossy(&checked.stderr));
    Ok(prepared())
}

#[test]
fn package_passes_its_own_tests() -> Result<()> {
    let tests = package().join("tests");
    let output = python()?.args(["-m", "unittest", "discover", "-s"]).arg(tests).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    ensure!(!said.contains("skipped"), "pytest is missing; ./scripts/test brings one: {said}");
    let count = said.split("\nRan ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    ensure!(count >= Some(TESTS), "{said}");
    Ok(())
}

#[test]
fn processes_exchange_messages_by_cards() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let library = shared_library(folder.path())?;
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    let end = |card: usize, role: &str| -> Result<Command> {
        let mut command = python()?;
        command.arg(package().join("tests/ends.py")).arg(role).env("HAMLYN_LIBRARY", &library);
        command.env("HAMLYN_CARD", format!("vfio-user:{}", lab.card_socket(card)?.display()));
        Ok(command)
    };
    let mut server = Killed(end(1, "serve")?.stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().context("no standard output")?).read_line(&mut line)?;
    ensure!(line == "listening\n", "{line:?}");
    let output = end(0, "ask")?.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && output.stdout == b"all as expected\n", "{errors}");
    let status = server.0.wait()?;
    ensure!(status.success(), "the server: {status}");
    Ok(())
}
