//! The programs that a lab file runs in its machines.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Exit, Input, Lab, Program, Remote, What};

use super::file::Run;

/// Longest text that is searched for in an output, in bytes.
pub(super) const LONGEST: usize = 1024;

/// Largest part of a run's output that its log keeps, in bytes: the beginning.
const KEPT: usize = 1 << 20;

/// Part of the output that an error shows, in bytes: the end.
const SHOWN: usize = 2000;

/// Time between looks at the lab while a run is waited for.
const LOOK: Duration = Duration::from_millis(200);

/// What happens to a program.
enum Event {
    /// Its output has the text that it is ready by.
    Ready,
    /// It has ended.
    Ended(anyhow::Result<End>),
}

/// How a program has ended.
struct End {
    status: i32,
    /// Whether its output has the expected text.
    has_output: bool,
    /// The end of its output.
    last: Vec<u8>,
}

/// A program that has been started. Dropping it kills the program.
pub(super) struct Started<'r> {
    run: &'r Run,
    events: Receiver<Event>,
    input: Input,
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        self.input.hang_up();
    }
}

/// What a wait looks at from time to time.
pub(super) struct Watched<'l> {
    pub(super) lab: &'l Lab,
    pub(super) stop: &'l AtomicBool,
}

impl<'r> Started<'r> {
    /// Starts a run. Its output goes to a log in the lab's directory, which has the run's number.
    pub(super) fn start(lab: &Path, number: usize, run: &'r Run) -> anyhow::Result<Started<'r>> {
        let argv = run.command.0.iter().map(Into::into).collect();
        let program = Program { argv, uid: Some(run.user.0.uid()), home: true, ..Program::default() };
        let log = lab.join(format!("run.{number}.log"));
        let log = OpenOptions::new().write(true).create(true).truncate(true).open(&log);
        let log = log.context("cannot make the run's log")?;
        let remote = Remote::start(lab, &run.machine, program)?;
        let input = remote.input();
        let (tell, events) = channel();
        let mut heard = Heard {
            log,
            written: 0,
            last: Vec::new(),
            ready: Texts::new(run.ready.as_deref()),
            output: Texts::new(run.output.as_deref()),
        };
        thread::spawn(move || {
            let end = heard.follow(remote, &tell);
            // The waiting side may have given up.
            let _ = tell.send(Event::Ended(end));
        });
        Ok(Started { run, events, input })
    }

    /// Waits until its output has the text that it is ready by.
    pub(super) fn wait_until_ready(&self, watched: &Watched<'_>) -> anyhow::Result<()> {
        match self.next(watched)? {
            Event::Ready => Ok(()),
            Event::Ended(end) => {
                let end = end?;
                bail!("it ended with status {} before it was ready{}", end.status, end.shown())
            }
        }
    }

    /// Waits for its end, and checks its exit status and its output.
    pub(super) fn finish(&self, watched: &Watched<'_>) -> anyhow::Result<()> {
        loop {
            if let Event::Ended(end) = self.next(watched)? {
                return self.judge(end?);
            }
        }
    }

    /// Checks a background run after the last run. One without expectations may still run.
    pub(super) fn finish_in_background(&self, watched: &Watched<'_>) -> anyhow::Result<()> {
        if self.run.status.is_some() || self.run.output.is_some() {
            return self.finish(watched);
        }
        while let Ok(event) = self.events.try_recv() {
            if let Event::Ended(end) = event {
                return self.judge(end?);
            }
        }
        Ok(())
    }

    fn judge(&self, end: End) -> anyhow::Result<()> {
        let expected = i32::from(self.run.status.unwrap_or(0));
        ensure!(
            end.status == expected,
            "its exit status is {} (expected {expected}){}",
            end.status,
            end.shown()
        );
        let output = self.run.output.as_deref().unwrap_or_default();
        ensure!(end.has_output, "its output has no {output:?}{}", end.shown());
        Ok(())
    }

    fn next(&self, watched: &Watched<'_>) -> anyhow::Result<Event> {
        let deadline = Instant::now() + Duration::from_secs(self.run.timeout);
        loop {
            match self.events.recv_timeout(LOOK) {
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Disconnected) => bail!("the thread that reads its output is gone"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            ensure!(!watched.stop.load(Ordering::Relaxed), "interrupted");
            watched.lab.check()?;
            ensure!(Instant::now() < deadline, "it takes longer than {} s (timeout)", self.run.timeout);
        }
    }
}

impl End {
    /// Returns the end of its output for an error.
    fn shown(&self) -> String {
        match self.last.is_empty() {
            true => String::new(),
            false => {
                format!("\n--- the end of its output ---\n{}", plain(&String::from_utf8_lossy(&self.last)))
            }
        }
    }
}

/// The output of a program.
struct Heard {
    log: File,
    written: usize,
    last: Vec<u8>,
    ready: Texts,
    output: Texts,
}

impl Heard {
    fn follow(&mut self, mut remote: Remote, tell: &Sender<Event>) -> anyhow::Result<End> {
        loop {
            let (stream, bytes) = match remote.word()? {
                What::OutBytes(bytes) => (0, bytes.0),
                What::ErrBytes(bytes) => (1, bytes.0),
                What::Exit(exit) => {
                    let status = match exit {
                        Exit::Code(code) => code,
                        Exit::Signal(signal) => 128 + signal,
                    };
                    let last = std::mem::take(&mut self.last);
                    return Ok(End { status, has_output: self.output.is_found, last });
                }
                other => bail!("the machine's agent sent an unexpected answer: {other:?}"),
            };
            self.keep(&bytes);
            self.output.look_in(stream, &bytes);
            if !self.ready.is_found && self.ready.look_in(stream, &bytes) {
                let _ = tell.send(Event::Ready);
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(KEPT - self.written);
        // A log that cannot be written does not change how the run ends.
        if self.log.write_all(&bytes[..count]).is_ok() {
            self.written += count;
        }
        self.last.extend_from_slice(bytes);
        let more = self.last.len().saturating_sub(SHOWN);
        self.last.drain(..more);
    }
}

/// A search for a text in two streams that arrive in pieces.
struct Texts {
    wanted: Vec<u8>,
    is_found: bool,
    /// The end of each stream, shorter than the text.
    ends: [Vec<u8>; 2],
}

impl Texts {
    fn new(wanted: Option<&str>) -> Texts {
        let wanted = wanted.unwrap_or_default().as_bytes().to_vec();
        Texts { is_found: wanted.is_empty(), wanted, ends: [Vec::new(), Vec::new()] }
    }

    /// Looks in the next piece of a stream. Returns whether the text has been found.
    fn look_in(&mut self, stream: usize, bytes: &[u8]) -> bool {
        if !self.is_found {
            let end = &mut self.ends[stream];
            end.extend_from_slice(bytes);
            self.is_found = end.windows(self.wanted.len()).any(|part| part == self.wanted);
            let known = end.len().saturating_sub(self.wanted.len() - 1);
            end.drain(..known);
        }
        self.is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_across_pieces() {
        let mut texts = Texts::new(Some("ready"));
        for (stream, piece) in [(0, "re"), (1, "ady"), (0, "reads; rea"), (1, "rea")] {
            assert!(!texts.look_in(stream, piece.as_bytes()), "{piece}");
            assert!(texts.ends.iter().all(|end| end.len() < 5));
        }
        assert!(texts.look_in(0, b"dy."));
        assert!(Texts::new(None).is_found, "no text is expected");
    }
}
