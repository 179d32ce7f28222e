//! The place where a measured program runs: in a guest, or on the host.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use hamlyn_lab::{Run, Vm, hamlyn};
use serde_json::Value;

/// The name of the benchmark's guest program, in guests and on the host.
pub const PROGRAM: &str = "hamlyn-bench-guest";

/// A place where programs run.
#[derive(Debug, Clone)]
pub enum Site<'a> {
    /// A guest, as an ordinary user.
    Guest(&'a Vm),
    /// A guest, as root.
    Root(&'a Vm),
    /// The host, with the card behind this socket if there is one.
    Host(Option<PathBuf>),
}

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub enum Program {
    /// In a guest.
    Guest(Run),
    /// On the host.
    Host(HostProgram),
}

/// A process on the host.
#[derive(Debug)]
pub struct HostProgram {
    title: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    errors: File,
}

impl Site<'_> {
    /// Starts a program in one of its roles. On the host, the program is next to this executable.
    pub fn start(&self, name: &str, role: &[String]) -> anyhow::Result<Program> {
        let words = [name.to_owned()].into_iter().chain(role.iter().cloned());
        match self {
            Site::Guest(vm) => vm.run(words).map(Program::Guest),
            Site::Root(vm) => vm.run_as(0, words).map(Program::Guest),
            Site::Host(card) => {
                let program = std::env::current_exe().context("cannot find this program")?;
                HostProgram::start(&program.with_file_name(name), role, card.as_deref()).map(Program::Host)
            }
        }
    }

    /// Returns the command as a user would type it there.
    pub fn command(&self, name: &str, role: &[String]) -> String {
        let prompt = match self {
            Site::Guest(vm) => format!("{}$", vm.name()),
            Site::Root(vm) => format!("{}#", vm.name()),
            Site::Host(None) => "host$".to_owned(),
            Site::Host(Some(card)) => {
                let socket = card.file_name().unwrap_or_default().to_string_lossy();
                format!("host$ HAMLYN_CARD=vfio-user:{socket}")
            }
        };
        format!("{prompt} {name} {}", role.join(" "))
    }
}

impl Program {
    /// Reads the next line of its output, a JSON object.
    pub fn answer(&mut self) -> anyhow::Result<Value> {
        match self {
            Program::Guest(run) => run.answer(),
            Program::Host(program) => program.answer(),
        }
    }

    /// Writes a line to its input.
    pub fn say(&mut self, line: &str) -> anyhow::Result<()> {
        match self {
            Program::Guest(run) => run.say(line),
            Program::Host(program) => program.say(line),
        }
    }

    /// Waits for its successful exit, and returns the last object that it printed.
    pub fn finish(&mut self) -> anyhow::Result<Value> {
        let last = match self {
            Program::Guest(run) => run.finish()?.pop(),
            Program::Host(program) => program.finish()?,
        };
        last.context("the program ended without a result")
    }
}

impl HostProgram {
    /// Starts a program that dies with this one.
    pub fn start(program: &Path, arguments: &[String], card: Option<&Path>) -> anyhow::Result<Self> {
        let title = format!("host: {} {}", program.display(), arguments.join(" "));
        // The file has no name, so nothing is left of it, however this process ends.
        let errors = tempfile::tempfile().context("cannot make a temporary file")?;
        let mut command = Command::new(hamlyn()?);
        command.arg("tether").arg(std::process::id().to_string()).arg("--").arg(program).args(arguments);
        if let Some(card) = card {
            command.env("HAMLYN_CARD", format!("vfio-user:{}", card.display()));
        }
        let stderr = errors.try_clone().context("cannot share a temporary file")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().with_context(|| format!("cannot start {title}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the program has no output")?;
        Ok(Self { title, child, stdin, stdout: BufReader::new(stdout), errors })
    }

    /// Reads the next line of its output, a JSON object.
    pub fn answer(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line).context("cannot read its output")? == 0 {
            return self.fail("ended and said no more");
        }
        serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.title))
    }

    /// Writes a line to its input.
    pub fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let Some(stdin) = &mut self.stdin else { bail!("{}: its input is closed", self.title) };
        writeln!(stdin, "{line}").with_context(|| format!("{}: cannot write to it", self.title))
    }

    /// Waits for its exit and returns the rest of its output.
    pub fn finish_text(&mut self) -> anyhow::Result<String> {
        self.stdin = None;
        let mut text = String::new();
        while self.stdout.read_line(&mut text).context("cannot read its output")? != 0 {}
        let status = self.child.wait().context("cannot wait for it")?;
        if !status.success() {
            return self.fail(&format!("ended with {status}"));
        }
        Ok(text)
    }

    /// Waits for its exit, and returns the last object that it printed.
    pub fn finish(&mut self) -> anyhow::Result<Option<Value>> {
        let text = self.finish_text()?;
        let last = text.lines().next_back().map(serde_json::from_str);
        last.transpose().with_context(|| format!("{} said {text:?}", self.title))
    }

    fn fail<T>(&self, how: &str) -> anyhow::Result<T> {
        let mut errors = vec![0; 64 << 10];
        let length = self.errors.read_at(&mut errors, 0).unwrap_or_default();
        let errors = String::from_utf8_lossy(&errors[..length]);
        bail!("{} {how}\n{}", self.title, errors.trim_end())
    }
}

impl Drop for HostProgram {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
