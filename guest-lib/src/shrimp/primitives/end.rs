//! One end of a channel between two processes.

use std::time::{Duration, Instant};

use hamlyn_sys::Mapping;

use super::super::receive_buffer::ReceiveBuffer;
use super::super::send_buffer::{Mode, SendBuffer};
use crate::error::{Error, Result, inside};

/// How often whoever waits asks whether the other end still is there.
const LIFE: Duration = Duration::from_millis(100);
/// How long who has several others looks at the memory of one of them.
const GLANCE: Duration = Duration::from_millis(1);

/// One end of a channel: memory that the other process stores to, and memory whose stores go to the
/// other's.
///
/// Each of the two makes a receive buffer, hands its handle to the other, and maps a buffer to the
/// other's in a mode of automatic update. Both buffers begin at the other's byte 0.
#[derive(Debug)]
pub struct End {
    // Dropped first: nothing may be sent once the other cannot answer any more.
    out: SendBuffer,
    own: ReceiveBuffer,
    timeout: Option<Duration>,
}

impl End {
    /// Of the two buffers. Who waits longer than `timeout` for the other end is told so; `None`
    /// waits for as long as that is there. Of a message of [`nx`](super::nx) that is longer than a
    /// buffer, each piece may take so long.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the buffer is mapped for deliberate update, or one of the two does not
    /// begin where a page and its memory do.
    pub fn new(own: ReceiveBuffer, out: SendBuffer, timeout: Option<Duration>) -> Result<Self> {
        if out.mode() == Mode::Deliberate {
            return Err(Error::Invalid("an end's stores travel by themselves: map it for automatic update"));
        }
        if !out.outlet().begins_with_page() || own.span().place() != 0 || own.span().start() != 0 {
            return Err(Error::Invalid("an end's buffers begin where a page and their memory do"));
        }
        Ok(Self { out, own, timeout })
    }

    /// Fails if the other end is gone.
    ///
    /// # Errors
    /// Those of [`SendBuffer::check`].
    pub fn check(&self) -> Result<()> {
        self.out.check()
    }

    /// What primitives load from and store to. What they store is not known to the buffer, so
    /// nobody else may use that.
    pub(super) fn ways(&self) -> Ways<'_> {
        Ways {
            own: self.own.span().mapping(),
            own_length: self.own.len(),
            out: self.out.outlet().stored_to().mapping,
            out_length: self.out.len(),
            idle: self,
        }
    }
}

/// The two memories of an end, and how to wait.
#[derive(Clone, Copy)]
pub(super) struct Ways<'a> {
    pub(super) own: &'a Mapping,
    pub(super) own_length: usize,
    pub(super) out: &'a Mapping,
    pub(super) out_length: usize,
    pub(super) idle: &'a dyn Idle,
}

impl Ways<'_> {
    /// Refuses buffers that have not so many bytes.
    pub(super) fn have(&self, own: usize, out: usize) -> Result<()> {
        inside("receive buffer", 0, own as u64, self.own_length as u64)?;
        inside("send buffer", 0, out as u64, self.out_length as u64)
    }
}

/// What an end does when there is nothing to do.
pub(super) trait Idle: Sync {
    /// Returns when the word at `offset` of the end's own memory is another than `value`.
    fn wait(&self, offset: usize, value: u32) -> Result<()>;
    /// The same, but it may also return after a moment.
    fn glance(&self, offset: usize, value: u32) -> Result<()>;
    /// How long the other end is waited for.
    fn timeout(&self) -> Option<Duration>;
}

impl End {
    /// True if the word has changed by then. Fails if the other end is gone.
    fn changes(&self, offset: usize, value: u32, limit: Duration) -> Result<bool> {
        match self.own.wait(offset, value, Some(limit)) {
            Ok(_) => Ok(true),
            Err(error) if error.is_timed_out() => {
                there_or_changed(self.check(), || Ok(self.own.load_u32(offset)? != value))
            }
            Err(error) => Err(error),
        }
    }
}

/// Of who is gone: he may have stored something after the last look, and it is here before he is
/// known to be gone.
fn there_or_changed(is_there: Result<()>, has_changed: impl FnOnce() -> Result<bool>) -> Result<bool> {
    match is_there {
        Ok(()) => Ok(false),
        Err(gone) => has_changed()?.then_some(true).ok_or(gone),
    }
}

impl Idle for End {
    fn wait(&self, offset: usize, value: u32) -> Result<()> {
        let begun = Instant::now();
        loop {
            let left = self.timeout.map_or(LIFE, |limit| limit.saturating_sub(begun.elapsed()).min(LIFE));
            if self.changes(offset, value, left)? {
                return Ok(());
            }
            expired(begun, self.timeout)?;
        }
    }

    fn glance(&self, offset: usize, value: u32) -> Result<()> {
        self.changes(offset, value, GLANCE).map(drop)
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

/// Fails if somebody has waited for too long.
pub(super) fn expired(begun: Instant, timeout: Option<Duration>) -> Result<()> {
    match timeout.filter(|limit| begun.elapsed() >= *limit) {
        Some(after) => Err(Error::TimedOut { what: "store of the other end", after }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::loss::PeerLoss;

    #[test]
    fn what_somebody_stored_before_he_left_is_found() {
        let gone = || Err(Error::PeerLost(PeerLoss::Gone));
        assert!(!there_or_changed(Ok(()), || unreachable!("he is there")).unwrap());
        assert!(there_or_changed(gone(), || Ok(true)).unwrap());
        assert!(matches!(there_or_changed(gone(), || Ok(false)), Err(Error::PeerLost(_))));
    }
}
