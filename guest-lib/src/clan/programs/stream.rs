//! A byte stream over a distributed queue whose elements are bytes (section 4.3): [`Writer`] is a
//! [`std::io::Write`], [`Reader`] a [`std::io::Read`].

use std::io;
use std::sync::Arc;

use super::super::connection::PeerEnd;
use super::super::tripwire::Tripwire;
use super::end::End;
use super::ring::Ring;
use super::{DATA, LAZY_READ_I, LAZY_WRITE_I};
use crate::core::connection::EndReason;
use crate::error::{Error, Result};

/// The writing side.
#[derive(Debug)]
pub struct Writer {
    tripwire: Tripwire,
    end: Arc<End>,
    ring: Ring,
    write_i: u64,
}

impl Writer {
    /// Creates a writer on this end. The other end has a [`Reader`].
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no room; the errors of [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        let (ring, tripwire) = (Ring::new(end.out_room())?, end.tripwire(LAZY_READ_I)?);
        Ok(Self { tripwire, end: end.clone(), ring, write_i: 0 })
    }

    /// Writes as many bytes as there is room for, without blocking. Returns their number.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the reader has stored an invalid index.
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.tripwire.clear();
        let free = self.free()?.unwrap_or(0);
        self.put(bytes, free)
    }

    /// Blocks until there is room for at least one byte, and writes as many as there is room for.
    /// Returns their number.
    ///
    /// # Errors
    /// Same as [`Writer::try_write`]; [`Error::TimedOut`]; if the reader is gone,
    /// [`Error::PeerLost`] or [`Error::Ended`]; [`crate::clan::Fault`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let free = self.end.wait_until(self.tripwire.bit(), "lazy_read_i", || self.free())?;
        self.put(bytes, free)
    }

    fn free(&self) -> Result<Option<u64>> {
        let read_i = self.ring.check("lazy_read_i", self.end.own().load_u64(LAZY_READ_I)?)?;
        Ok(Some(self.ring.free(read_i, self.write_i)).filter(|free| *free != 0))
    }

    fn put(&mut self, bytes: &[u8], free: u64) -> Result<usize> {
        let count = free.min(bytes.len() as u64);
        if count == 0 {
            return Ok(0);
        }
        let out = self.end.out();
        let (first, second) =
            bytes[..count as usize].split_at(self.ring.straight(self.write_i, count) as usize);
        out.write(DATA + self.write_i as usize, first)?;
        out.write(DATA, second)?;
        self.write_i = self.ring.on(self.write_i, count);
        out.store_u64(LAZY_WRITE_I, self.write_i)?;
        Ok(count as usize)
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Writer::write(self, bytes)?)
    }

    /// Does nothing: stores need no flush.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading side.
#[derive(Debug)]
pub struct Reader {
    tripwire: Tripwire,
    end: Arc<End>,
    ring: Ring,
    read_i: u64,
}

impl Reader {
    /// Creates a reader on this end. The other end has a [`Writer`].
    ///
    /// # Errors
    /// Same as [`Writer::new`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        let (ring, tripwire) = (Ring::new(end.own_room())?, end.tripwire(LAZY_WRITE_I)?);
        Ok(Self { tripwire, end: end.clone(), ring, read_i: 0 })
    }

    /// Returns the Tripwire over `lazy_write_i`, for registration with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// Reads as many bytes as are available and fit, without blocking. Returns their number, which
    /// may be 0.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the writer has stored an invalid index.
    pub fn try_read(&mut self, to: &mut [u8]) -> Result<usize> {
        self.tripwire.clear();
        let used = self.used()?.unwrap_or(0);
        self.get(to, used)
    }

    /// Blocks until there is at least one byte, and reads as many as are available and fit. Returns
    /// their number; 0 if the writer has closed the connection, and all bytes were read.
    ///
    /// # Errors
    /// Same as [`Reader::try_read`]; [`Error::TimedOut`]; [`Error::PeerLost`] if the writer is
    /// gone; [`crate::clan::Fault`].
    pub fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        match self.end.wait_until(self.tripwire.bit(), "lazy_write_i", || self.used()) {
            Ok(used) => self.get(to, used),
            Err(Error::Ended(end)) if end.reason == EndReason::Closed => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the writer has closed the connection, and all bytes were read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let closed = matches!(self.end.connection().end(), Some(PeerEnd::Closed(_)));
        closed && matches!(self.used(), Ok(None))
    }

    fn used(&self) -> Result<Option<u64>> {
        let write_i = self.ring.check("lazy_write_i", self.end.own().load_u64(LAZY_WRITE_I)?)?;
        Ok(Some(self.ring.used(self.read_i, write_i)).filter(|used| *used != 0))
    }

    fn get(&mut self, to: &mut [u8], used: u64) -> Result<usize> {
        let count = used.min(to.len() as u64);
        if count == 0 {
            return Ok(0);
        }
        let own = self.end.own();
        let (first, second) =
            to[..count as usize].split_at_mut(self.ring.straight(self.read_i, count) as usize);
        own.read(DATA + self.read_i as usize, first)?;
        own.read(DATA, second)?;
        self.read_i = self.ring.on(self.read_i, count);
        self.end.out().store_u64(LAZY_READ_I, self.read_i)?;
        Ok(count as usize)
    }
}

impl io::Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(Reader::read(self, to)?)
    }
}
