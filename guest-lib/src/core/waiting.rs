//! Waiting for what the card writes to memory: to look for a while, and then to sleep without
//! missing it.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::core::device::{is, nanoseconds};
use crate::error::{Error, Result};

/// How long anybody sleeps before he looks again by himself. A thread that waits at an endpoint may
/// clear a flag just when another, which waits for it too, has looked and is about to sleep. Then
/// this is what it costs; a thread that waits alone misses nothing.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Looks between two looks at the clock.
const LOOKS: u32 = 16;

/// The time until which somebody waits; a time-out past the end of time is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    timeout: Option<Duration>,
    until: Option<Instant>,
}

impl Deadline {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)) }
    }

    /// What is left of it; `None`: no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Fails if it is over.
    pub(crate) fn check(&self, what: &'static str) -> Result<Option<Duration>> {
        match self.left() {
            Some(Duration::ZERO) => Err(Error::TimedOut { what, after: self.timeout.unwrap_or_default() }),
            left => Ok(left),
        }
    }

    /// The error of a step that had what was left of the time: it names all of it.
    pub(crate) fn name(&self, error: Error) -> Error {
        match error {
            Error::TimedOut { what, .. } => Error::TimedOut { what, after: self.timeout.unwrap_or_default() },
            other => other,
        }
    }
}

/// A listener's call that rejects requests until it finds one to accept.
#[derive(Debug)]
pub(crate) struct Turn {
    until: Deadline,
    /// Requests that a look may still take.
    left: u32,
}

impl Turn {
    /// `waiting` is the most requests that can wait at once.
    pub(crate) fn new(timeout: Option<Duration>, waiting: u32) -> Self {
        Self { until: Deadline::new(timeout), left: waiting }
    }

    /// Returns what is left of the time; `None`: no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.left()
    }

    /// Ends a request. Fails if the call is over: a flood of requests must not keep it. A look,
    /// with a time-out of zero, has then taken every request that waited when it began. An
    /// edge-triggered loop is woken for those that came since.
    pub(crate) fn next(&mut self, what: &'static str) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        match self.until.timeout {
            Some(Duration::ZERO) if self.left != 0 => Ok(()),
            _ => self.until.check(what).map(drop),
        }
    }
}

/// Looks once, and then again for as long as that.
pub(crate) fn poll_for<T>(limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    if let Some(found) = look()? {
        return Ok(Some(found));
    }
    let begun = Instant::now();
    while begun.elapsed() < limit {
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// A sleep that ended without news is none of the caller's business.
pub(crate) fn slept(result: Result<()>) -> Result<()> {
    let quiet =
        |source: &io::Error| [Errno::TIMEDOUT, Errno::INTR].into_iter().any(|errno| is(source, errno));
    match result {
        Err(Error::System { source, .. }) if quiet(&source) => Ok(()),
        result => result,
    }
}

/// How long to sleep at once, of what is left.
pub(crate) fn slice(left: Option<Duration>) -> i64 {
    nanoseconds(Some(left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP))))
}
