//! A child program that is killed together with all its own children.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Whether a signal has asked this program to end.
#[derive(Debug, Clone)]
pub struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    /// From now on, SIGINT and SIGTERM only set a flag. The child programs do not get these
    /// signals, because they are in separate process groups.
    pub fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Self(flag))
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

/// The next output of a program.
#[derive(Debug)]
pub(super) enum Said {
    Line(String),
    /// The program has ended.
    Ended(ExitStatus),
    /// The deadline has passed.
    Late,
}

/// A program in a separate process group. Dropping it kills the program and all its children.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    lines: Receiver<String>,
    interrupted: Interrupted,
}

impl Group {
    /// Starts a program and reads its standard output.
    pub(super) fn start(command: &mut Command, interrupted: &Interrupted) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let (sender, lines) = channel();
        // The thread ends with the group, whose output it reads.
        thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines, interrupted: interrupted.clone() })
    }

    /// Returns the next line of the output, or the end of the program.
    pub(super) fn next(&mut self, deadline: Instant) -> Result<Said> {
        while Instant::now() < deadline {
            self.interrupted.check()?;
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => return Ok(Said::Line(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(Said::Ended(self.child.wait()?)),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(Said::Late)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
