//! One end of a channel between two processes.

use std::time::{Duration, Instant};

use hamlyn_sys::Mapping;

use super::super::receive_buffer::ReceiveBuffer;
use super::super::send_buffer::{Mode, SendBuffer};
use crate::error::{Error, Result, inside};

/// Interval at which a wait checks that the other end is still there.
const LIFE: Duration = Duration::from_millis(100);
/// Time that an end with several peers waits on the memory of one of them.
const GLANCE: Duration = Duration::from_millis(1);

/// One end of a channel: memory that the other process stores to, and memory whose stores go to the
/// other process.
///
/// Each process makes a receive buffer, passes its handle to the other, and maps a buffer to the
/// other's in a mode of automatic update. Both buffers begin at byte 0 of the other's.
#[derive(Debug)]
pub struct End {
    // Dropped first: nothing may be sent after the other end can no longer answer.
    out: SendBuffer,
    own: ReceiveBuffer,
    timeout: Option<Duration>,
}

impl End {
    /// Creates an end from the two buffers.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the buffer is mapped for deliberate update, or one of the two does not
    /// begin at a page boundary and at the start of its memory.
    pub fn new(own: ReceiveBuffer, out: SendBuffer) -> Result<Self> {
        if out.mode() == Mode::Deliberate {
            return Err(Error::Invalid("an end's stores travel by themselves: map it for automatic update"));
        }
        if !out.outlet().begins_with_page() || own.span().place() != 0 || own.span().start() != 0 {
            return Err(Error::Invalid("an end's buffers begin where a page and their memory do"));
        }
        Ok(Self { out, own, timeout: None })
    }

    /// Limits each wait for the other end: it fails with [`Error::TimedOut`] after `timeout`. By
    /// default a wait lasts until the other end is gone. For a message of [`nx`](super::nx) that is
    /// longer than a buffer, the limit applies to each piece.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Fails if the other end is gone.
    ///
    /// # Errors
    /// Same as [`SendBuffer::check`].
    pub fn check(&self) -> Result<()> {
        self.out.check()
    }

    /// Returns the memories that primitives load from and store to. The buffer does not know of the
    /// primitives' stores, so it must not be used otherwise.
    pub(super) fn memories(&self) -> Memories<'_> {
        Memories {
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
pub(super) struct Memories<'a> {
    pub(super) own: &'a Mapping,
    pub(super) own_length: usize,
    pub(super) out: &'a Mapping,
    pub(super) out_length: usize,
    pub(super) idle: &'a dyn Idle,
}

impl Memories<'_> {
    /// Checks that the buffers have enough bytes.
    pub(super) fn have(&self, own: usize, out: usize) -> Result<()> {
        inside("receive buffer", 0, own as u64, self.own_length as u64)?;
        inside("send buffer", 0, out as u64, self.out_length as u64)
    }
}

/// How an end waits.
pub(super) trait Idle: Sync {
    /// Returns when the word at `offset` of the end's own memory differs from `value`.
    fn wait(&self, offset: usize, value: u32) -> Result<()>;
    /// Waits like [`Idle::wait`], but may also return after a short time.
    fn glance(&self, offset: usize, value: u32) -> Result<()>;
    /// Returns the maximum time to wait for the other end.
    fn timeout(&self) -> Option<Duration>;
}

impl End {
    /// Returns true if the word changes within `limit`. Fails if the other end is gone.
    fn changes(&self, offset: usize, value: u32, limit: Duration) -> Result<bool> {
        match self.own.wait_timeout(offset, value, limit) {
            Ok(_) => Ok(true),
            Err(error) if error.is_timed_out() => {
                there_or_changed(self.check(), || Ok(self.own.load_u32(offset)? != value))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns true if a lost peer has stored something after the last look. Its stores arrive before
/// its loss is known.
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

/// Fails if a wait has exceeded its timeout.
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
    fn last_store_of_lost_peer_is_found() {
        let gone = || Err(Error::PeerLost(PeerLoss::Gone));
        assert!(!there_or_changed(Ok(()), || unreachable!("the peer is there")).unwrap());
        assert!(there_or_changed(gone(), || Ok(true)).unwrap());
        assert!(matches!(there_or_changed(gone(), || Ok(false)), Err(Error::PeerLost(_))));
    }
}
