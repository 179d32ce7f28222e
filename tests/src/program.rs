//! A program of `guest-lib/examples` or `tests/guest` that runs on the host, at a card's socket.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Kit, Lab};
use serde_json::Value;

/// A program at a card.
pub struct Program {
    /// Its process.
    pub child: Child,
    /// Its standard input.
    pub stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Returns the path of an example of `guest-lib`, or else of a program of `tests/guest`.
pub fn example(name: &str) -> Result<PathBuf> {
    let kit = Kit::find()?;
    kit.program(&format!("examples/{name}")).or_else(|_| kit.program(name))
}

impl Program {
    /// Starts an example with arguments at a card of a lab.
    pub fn start(lab: &Lab, card: usize, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(example(arguments[0])?)
            .args(&arguments[1..])
            .env("HAMLYN_CARD", format!("vfio-user:{}", lab.card_socket(card)?.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, stdin, stdout })
    }

    /// Waits for the next line of its output.
    pub fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        ensure!(self.stdout.read_line(&mut line)? != 0, "the program said no more");
        Ok(serde_json::from_str(&line)?)
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.stdin, "{line}")?)
    }

    /// Closes its standard input, which makes it exit, and waits for the exit.
    pub fn end(self) -> Result<()> {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        let status = child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// Closes its standard input, which makes a server exit. Returns its last answer.
    pub fn shut(self) -> Result<Value> {
        let Self { mut child, stdin, stdout } = self;
        drop(stdin);
        let last = stdout.lines().last().context("no answer")??;
        let status = child.wait()?;
        ensure!(status.success(), "{status}: {last}");
        Ok(serde_json::from_str(&last)?)
    }

    /// Returns the last answer of a program that exits successfully.
    pub fn finish(mut self) -> Result<Value> {
        let last = self.stdout.lines().last().context("no answer")??;
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}: {last}");
        Ok(serde_json::from_str(&last)?)
    }
}
