//! Memory to send from: pieces of a terminus' send buffers, handed out and taken back (sections 2.3 and 6.2).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn_abi::hamlyn::command::HAMLYN_MAX_AREA;

use crate::error::{Error, GivenBack, Result, at_most, inside};
use crate::send_buffer::{Piece, SendBuffer};
use crate::terminus::{Handle, Terminus};

/// What is handed out is a multiple of it, in bytes.
const UNIT: usize = 64;
/// The first send buffer, in bytes. Each further one is twice as long, so that eight reach far.
const FIRST: usize = 64 * 1024;

/// The memory of a terminus.
#[derive(Debug)]
pub(super) struct Pool {
    terminus: Terminus,
    arenas: Mutex<Vec<Arena>>,
}

/// A send buffer, divided.
#[derive(Debug)]
struct Arena {
    memory: Arc<SendBuffer>,
    /// Free pieces: their lengths by their offsets. No two touch.
    free: BTreeMap<usize, usize>,
    /// Given back while the card may still gather from them: the request, offset and length.
    draining: Vec<(u64, usize, usize)>,
}

impl Pool {
    pub(super) fn new(terminus: &Terminus) -> Arc<Self> {
        Arc::new(Self { terminus: terminus.clone(), arenas: Mutex::default() })
    }

    pub(super) fn allocate(self: &Arc<Self>, length: usize) -> Result<Buffer> {
        at_most("buffer length", length as u64, HAMLYN_MAX_AREA)?;
        let size = length.max(1).next_multiple_of(UNIT);
        let mut arenas = self.arenas();
        let mut found = find(&mut arenas, size);
        if found.is_none() {
            let completed = self.terminus.completed();
            arenas.iter_mut().for_each(|arena| arena.collect(completed));
            found = find(&mut arenas, size);
        }
        let (memory, start) = match found {
            Some(found) => found,
            None => {
                let draining = arenas.iter().any(|arena| !arena.draining.is_empty());
                let longest = arenas.last().map_or(FIRST / 2, |arena| arena.memory.len());
                let mut arena = Arena::new(
                    self.terminus
                        .create_send_buffer(size.max((2 * longest).min(HAMLYN_MAX_AREA as usize)))
                        .map_err(|error| come_again(error, draining))?,
                );
                let start = arena.take(size).unwrap_or_default();
                let memory = arena.memory.clone();
                arenas.push(arena);
                (memory, start)
            }
        };
        drop(arenas);
        Ok(Buffer { pool: self.clone(), memory, start, size, length, last: 0 })
    }

    fn arenas(&self) -> MutexGuard<'_, Vec<Arena>> {
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the card still gathers from comes back by itself.
fn come_again(error: Error, draining: bool) -> Error {
    match error {
        Error::Exhausted { limit, .. } if draining => {
            Error::WouldBlock { object: "send buffers of the manager", limit }
        }
        error => error,
    }
}

/// Takes `size` bytes from the first arena that has them.
fn find(arenas: &mut [Arena], size: usize) -> Option<(Arc<SendBuffer>, usize)> {
    arenas.iter_mut().find_map(|arena| Some((arena.memory.clone(), arena.take(size)?)))
}

impl Arena {
    fn new(memory: SendBuffer) -> Self {
        let free = BTreeMap::from([(0, memory.len())]);
        Self { memory: Arc::new(memory), free, draining: Vec::new() }
    }

    /// First fit.
    fn take(&mut self, size: usize) -> Option<usize> {
        let (start, length) =
            self.free.iter().find(|(_, length)| **length >= size).map(|(start, length)| (*start, *length))?;
        self.free.remove(&start);
        if length > size {
            self.free.insert(start + size, length - size);
        }
        Some(start)
    }

    fn give(&mut self, mut start: usize, mut size: usize) {
        if let Some(behind) = self.free.remove(&(start + size)) {
            size += behind;
        }
        if let Some((before, length)) = self.free.range(..start).next_back() {
            if before + length == start {
                (start, size) = (*before, length + size);
            }
        }
        self.free.insert(start, size);
    }

    /// Frees what the card has finished with.
    fn collect(&mut self, completed: u64) {
        let (done, draining) =
            std::mem::take(&mut self.draining).into_iter().partition(|(request, ..)| *request <= completed);
        self.draining = draining;
        let done: Vec<_> = done;
        done.into_iter().for_each(|(_, start, size)| self.give(start, size));
    }
}

/// Memory of a [`crate::Manager`] to send from.
///
/// A call that sends it takes it, and what it gives returns it ([`Sent`]): whoever has it may write to it, and
/// nothing that is under way changes.
#[derive(Debug)]
pub struct Buffer {
    pool: Arc<Pool>,
    memory: Arc<SendBuffer>,
    start: usize,
    size: usize,
    length: usize,
    /// The last request that gathers from it, if any.
    last: u64,
}

impl Buffer {
    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes in, from `offset` bytes on.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        inside("buffer", offset as u64, bytes.len() as u64, self.length as u64)?;
        self.memory.store(self.start + offset, bytes)
    }

    /// Copies bytes out, from `offset` bytes on.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        inside("buffer", offset as u64, bytes.len() as u64, self.length as u64)?;
        self.memory.read(self.start + offset, bytes)
    }

    /// Names a piece of it, to be sent.
    pub(crate) fn piece(&self, offset: usize, length: usize) -> Result<Piece<'_>> {
        inside("buffer", offset as u64, length as u64, self.length as u64)?;
        self.memory.piece(self.start + offset, length)
    }

    /// Notes that a request gathers from it.
    pub(crate) fn sent_by(&mut self, handle: &Handle) {
        self.last = self.last.max(handle.request());
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let done = self.last == 0 || self.last <= self.pool.terminus.completed();
        let mut arenas = self.pool.arenas();
        if let Some(arena) = arenas.iter_mut().find(|arena| Arc::ptr_eq(&arena.memory, &self.memory)) {
            if done {
                arena.give(self.start, self.size);
            } else {
                arena.draining.push((self.last, self.start, self.size));
            }
        }
    }
}

/// A buffer on its way (section 6.2): the card gathers from it. Dropped, it goes out all the same, and its memory
/// returns to the manager when the card has finished with it.
#[derive(Debug)]
#[must_use = "the buffer may be had back from it"]
pub struct Sent {
    buffer: Buffer,
    /// The last of its requests; none if there was nothing to send.
    handle: Option<Handle>,
}

impl Sent {
    pub(crate) fn new(buffer: Buffer, handle: Option<Handle>) -> Self {
        Self { buffer, handle }
    }

    /// Whether the card has finished with it.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] if the card has finished with it by refusing it.
    pub fn is_complete(&self) -> Result<bool> {
        self.handle.as_ref().map_or(Ok(true), Handle::is_complete)
    }

    /// Waits until the card has finished with it, and gives the buffer back. `None` waits for ever.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]: this is given back, to wait on. [`crate::Error::Refused`]: the same, and
    /// [`Sent::reclaim`] gives the buffer.
    pub fn wait(self, timeout: Option<Duration>) -> Result<Buffer, GivenBack<Self>> {
        match self.handle.as_ref().map_or(Ok(()), |handle| handle.wait(timeout)) {
            Ok(()) => Ok(self.buffer),
            Err(error) => Err(GivenBack::new(error, self)),
        }
    }

    /// Gives the buffer back if the card has finished with it, sent or refused; else this.
    ///
    /// # Errors
    /// This, if the card has not finished with it.
    pub fn reclaim(self) -> Result<Buffer, Self> {
        match self.is_complete() {
            Ok(false) => Err(self),
            _ => Ok(self.buffer),
        }
    }
}
