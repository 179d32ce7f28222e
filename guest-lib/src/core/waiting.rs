//! Waiting for the card to write to memory, within a deadline and without a lost wake-up.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::core::device::{is, nanoseconds};
use crate::error::{Error, Result};

/// Longest sleep before a waiter checks again by itself. At an endpoint with several waiters, a
/// thread may clear a flag just when another has checked it and is about to sleep. This limits the
/// delay of that case; a thread that waits alone misses nothing.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// End of a wait. A timeout beyond the range of `Instant` has no end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    timeout: Option<Duration>,
    until: Option<Instant>,
}

impl Deadline {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)) }
    }

    /// Returns the time left; `None` means no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Fails with [`Error::TimedOut`] if the deadline has passed. Otherwise returns the time left.
    pub(crate) fn check(&self, what: &'static str) -> Result<Option<Duration>> {
        match self.left() {
            Some(Duration::ZERO) => Err(Error::TimedOut { what, after: self.timeout.unwrap_or_default() }),
            left => Ok(left),
        }
    }
}

/// A listener's call that rejects requests until it finds one to accept.
#[derive(Debug)]
pub(crate) struct Turn {
    until: Deadline,
    /// Number of requests that a poll may still take.
    left: u32,
}

impl Turn {
    /// `waiting` is the maximum number of pending requests.
    pub(crate) fn new(timeout: Option<Duration>, waiting: u32) -> Self {
        Self { until: Deadline::new(timeout), left: waiting }
    }

    /// Returns the time left; `None` means no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.left()
    }

    /// Finishes a request. Fails if the call is over, so that a flood of requests cannot prolong
    /// it. By then a poll, with a timeout of zero, has taken every request that was pending when it
    /// began. An edge-triggered loop is woken for later requests.
    pub(crate) fn next(&mut self, what: &'static str) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        match self.until.timeout {
            Some(Duration::ZERO) if self.left != 0 => Ok(()),
            _ => self.until.check(what).map(drop),
        }
    }
}

/// Turns the timeout of a call that must not wait into [`Error::WouldBlock`].
pub(crate) fn at_once<T>(object: &'static str, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| if error.is_timed_out() { Error::WouldBlock { object, limit: 0 } } else { error })
}

/// Treats a sleep that ended without news as success.
pub(crate) fn slept(result: Result<()>) -> Result<()> {
    let quiet =
        |source: &io::Error| [Errno::TIMEDOUT, Errno::INTR].into_iter().any(|errno| is(source, errno));
    match result {
        Err(Error::System { source, .. }) if quiet(&source) => Ok(()),
        result => result,
    }
}

/// Returns how long to sleep at once, given the time left.
pub(crate) fn slice(left: Option<Duration>) -> i64 {
    nanoseconds(Some(left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP))))
}
