//! Programs in the machine under test. One that hangs in the kernel is detected.

use std::cell::Cell;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Exit, Heard, Vm};

use super::tasks::{LIST, Task, stuck, tasks};

/// Time between two looks at the machine's threads.
const APART: Duration = Duration::from_secs(1);

/// After this many times the limit without output, a program is also stuck if its threads wait for
/// a signal or an event.
const PATIENT: u32 = 3;

/// After this many times the limit without output, a program is stuck whatever its threads do.
const ENDLESS: u32 = 12;

/// Time for the answer of a machine whose kernel works.
const ANSWER: Duration = Duration::from_secs(30);

/// Number of lines that an error shows of a program's output: the last ones.
const SHOWN: usize = 20;

/// Largest output of a program, in bytes.
const ALL: usize = 4 << 20;

/// The machine under test.
pub(super) struct Guest<'a> {
    pub(super) vm: &'a Vm,
    /// Time without output after which threads that wait in the kernel are an error.
    pub(super) silence: Duration,
    /// Set once it does not run programs any longer.
    pub(super) is_lost: Cell<bool>,
    /// Set once threads are stuck in its kernel.
    pub(super) is_stuck: Cell<bool>,
}

impl Guest<'_> {
    /// Runs a program as root, which must succeed. Returns its output.
    pub(super) fn run(&self, argv: &[&str]) -> anyhow::Result<Vec<String>> {
        // The shell's process becomes the program's.
        let shell = ["sh", "-c", "echo $$; exec \"$@\"", "sh"];
        let mut run = self.vm.run_as(0, shell.iter().chain(argv).copied())?;
        let group = run.line()?;
        let group =
            group.parse().with_context(|| format!("{} has no process id: {}", argv[0], plain(&group)))?;
        let (mut lines, mut said, mut silent) = (Vec::new(), 0, 0);
        loop {
            match run.hear(self.silence)? {
                Heard::Line(line) => {
                    silent = 0;
                    said += line.len() + size_of::<String>();
                    ensure!(said <= ALL, "{} has printed more than {ALL} bytes", argv.join(" "));
                    lines.push(line);
                }
                Heard::End(Exit::Code(0)) => return Ok(lines),
                Heard::End(_) => {
                    let said = plain(&lines[lines.len().saturating_sub(SHOWN)..].join("\n"));
                    let failed = run.finish_text().err().unwrap_or_else(|| anyhow!("it failed"));
                    return Err(anyhow!("{failed:#}\n--- the end of its output ---\n{said}"));
                }
                Heard::Nothing => {
                    silent += 1;
                    self.is_not_stuck(argv, group, silent)?;
                }
            }
        }
    }

    /// Runs a shell line as root, and returns all its output. Fails if the machine does not answer.
    pub(super) fn ask(&self, line: &str) -> anyhow::Result<Vec<String>> {
        let mut run = self.vm.run_as(0, ["sh", "-c", line])?;
        run.set_patience(ANSWER.max(self.silence));
        run.finish_text()
    }

    /// Fails if a program that has been silent for `silent` times the limit is stuck in the kernel.
    fn is_not_stuck(&self, argv: &[&str], group: u32, silent: u32) -> anyhow::Result<()> {
        let look = || {
            let lines = self.ask(LIST);
            self.is_lost.set(lines.is_err());
            lines
                .map(|lines| tasks(&lines))
                .context("the machine runs no other program either: its kernel may loop, or hold a spinlock")
        };
        let silence = format!("{} has printed nothing for {:?}", argv.join(" "), self.silence * silent);
        let before = look().with_context(|| silence.clone())?;
        sleep(APART);
        let waiting = stuck(&before, &look().with_context(|| silence.clone())?, group, silent >= PATIENT);
        if waiting.is_empty() {
            if silent >= ENDLESS {
                bail!("{silence}");
            }
            return Ok(());
        }
        self.is_stuck.set(true);
        let waiting: Vec<String> = waiting.iter().map(Task::to_string).collect();
        Err(anyhow!(
            "{silence}, and threads wait in the kernel and have not run since (limit: --stuck {}):\n{}",
            self.silence.as_secs(),
            plain(&waiting.join("\n"))
        ))
    }
}
