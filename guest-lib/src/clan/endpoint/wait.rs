//! Sleeping at an endpoint without missing what one sleeps for.

use std::io;
use std::time::{Duration, Instant};

use hamlyn_abi::clan::uapi::ClanWait;
use rustix::io::Errno;

use super::Core;
use crate::core::device::{is, nanoseconds};
use crate::error::{Error, Result};

/// How long anybody sleeps before he looks again by himself. A thread that waits at an endpoint may clear a flag just when another, which
/// waits for it too, has looked and is about to sleep. Then this is what it costs; a thread that waits alone misses nothing.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Looks between two looks at the clock.
const LOOKS: u32 = 16;

/// The time until which somebody waits; a time-out past the end of time is none.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Deadline {
    timeout: Option<Duration>,
    until: Option<Instant>,
}

impl Deadline {
    pub(in super::super) fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)) }
    }

    /// What is left of it; `None`: no end.
    pub(in super::super) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Fails if it is over.
    pub(in super::super) fn check(&self, what: &'static str) -> Result<Option<Duration>> {
        match self.left() {
            Some(Duration::ZERO) => Err(Error::TimedOut { what, after: self.timeout.unwrap_or_default() }),
            left => Ok(left),
        }
    }
}

/// Looks once, and then again for as long as that.
pub(in super::super) fn poll_for<T>(
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
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
pub(in super::super) fn slept(result: Result<()>) -> Result<()> {
    let quiet =
        |source: &io::Error| [Errno::TIMEDOUT, Errno::INTR].into_iter().any(|errno| is(source, errno));
    match result {
        Err(Error::System { source, .. }) if quiet(&source) => Ok(()),
        result => result,
    }
}

/// How long to sleep at once, of what is left.
pub(in super::super) fn slice(left: Option<Duration>) -> i64 {
    nanoseconds(Some(left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP))))
}

impl Core {
    /// Calls `look` until it finds something: for a while at once, and then whenever one of `bits` has been set. Bits are cleared
    /// before it looks, never behind: what happens after the look sets them again, and nobody sleeps over it.
    pub(in super::super) fn wait_until<T>(
        &self,
        bits: u64,
        timeout: Option<Duration>,
        what: &'static str,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Deadline::new(timeout);
        let polling = timeout.map_or(self.polling(), |timeout| timeout.min(self.polling()));
        if let Some(found) = poll_for(polling, &mut look)? {
            return Ok(found);
        }
        loop {
            self.state().clear(bits);
            if let Some(found) = look()? {
                return Ok(found);
            }
            let left = deadline.check(what)?;
            let mut wait =
                ClanWait { bits, timeout_ns: slice(left), endpoint: self.number(), ..ClanWait::default() };
            slept(self.card().wait(&mut wait))?;
        }
    }
}
