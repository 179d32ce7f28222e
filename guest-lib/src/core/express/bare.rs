//! The ring with nothing around it, over memory that is shared by whatever means, for the
//! benchmark: what a channel is compared with has the same ring. Nobody is waited for, and nobody
//! sleeps.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use hamlyn_sys::Mapping;

use super::memory::RingMemory;
use super::ring::{Nonsense, Reader, Writer};
use crate::error::{Error, Result};

const PAGES: Error = Error::Invalid("a ring takes whole pages, two at least");

/// The end that writes.
#[derive(Debug)]
pub struct BareSender {
    ring: Writer<RingMemory>,
}

impl BareSender {
    /// Over a new ring's memory: whole pages, two at least, of which the first has zeros.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn over(memory: Mapping) -> Result<Self> {
        let memory = RingMemory::over(Arc::new(memory)).ok_or(PAGES)?;
        let capacity = memory.capacity();
        Ok(Self { ring: Writer::new(memory, capacity) })
    }

    /// Has a message of so many bytes built, and sends it. False: there is no room yet. It is no
    /// longer than the ring without 8 bytes.
    ///
    /// # Errors
    /// What the other end says that cannot be.
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

/// The end that reads.
#[derive(Debug)]
pub struct BareReceiver {
    ring: Reader<RingMemory>,
}

impl BareReceiver {
    /// Over a new ring's memory, as [`BareSender::over`].
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn over(memory: Mapping) -> Result<Self> {
        let memory = RingMemory::over(Arc::new(memory)).ok_or(PAGES)?;
        let capacity = memory.capacity();
        Ok(Self { ring: Reader::new(memory, capacity) })
    }

    /// Shows the next message in place, and releases it. None: there is none yet.
    ///
    /// # Errors
    /// What the other end says that cannot be.
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
