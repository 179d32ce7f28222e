//! The bare ring over memory that is shared by any means, for the benchmark. The baseline of a
//! channel thus uses the same ring. No call blocks or sleeps.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use hamlyn_sys::Mapping;

use super::memory::RingMemory;
use super::ring::{Nonsense, Reader, Writer};
use crate::error::{Error, Result};

const PAGES: Error = Error::Invalid("a ring takes whole pages, two at least");

/// The writing end.
#[derive(Debug)]
pub struct BareSender {
    ring: Writer<RingMemory>,
}

impl BareSender {
    /// Creates the end over a new ring's memory: at least two whole pages, the first one zeroed.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn over(memory: Mapping) -> Result<Self> {
        let memory = RingMemory::over(Arc::new(memory)).ok_or(PAGES)?;
        let capacity = memory.capacity();
        Ok(Self { ring: Writer::new(memory, capacity) })
    }

    /// Builds a message of `length` bytes and sends it. Returns `false` if there is no space yet.
    /// `length` is at most the ring's size minus 8 bytes.
    ///
    /// # Errors
    /// Fails if the other end has stored an invalid value.
    #[inline(always)]
    pub fn try_send(&mut self, length: usize, build: impl FnOnce(&[AtomicU8])) -> Result<bool, Nonsense> {
        let known = self.ring.reserve_known(length as u64);
        let Some(span) = known.map_or_else(|| self.ring.reserve(length as u64), |span| Ok(Some(span)))?
        else {
            return Ok(false);
        };
        build(self.ring.shared().data(span));
        self.ring.commit(span);
        Ok(true)
    }
}

/// The reading end.
#[derive(Debug)]
pub struct BareReceiver {
    ring: Reader<RingMemory>,
}

impl BareReceiver {
    /// Creates the end over a new ring's memory, as [`BareSender::over`] does.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn over(memory: Mapping) -> Result<Self> {
        let memory = RingMemory::over(Arc::new(memory)).ok_or(PAGES)?;
        let capacity = memory.capacity();
        Ok(Self { ring: Reader::new(memory, capacity) })
    }

    /// Passes the next message to `look` in place, and releases it. Returns `None` if there is
    /// none.
    ///
    /// # Errors
    /// Fails if the other end has stored an invalid value.
    #[inline(always)]
    pub fn try_recv<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Result<Option<T>, Nonsense> {
        let known = self.ring.receive_known();
        let Some(span) = known.map_or_else(|| self.ring.receive(), |span| Ok(Some(span)))? else {
            return Ok(None);
        };
        let seen = look(self.ring.shared().data(span));
        self.ring.release(span.end);
        Ok(Some(seen))
    }
}
