//! Memory to send from: pieces of a terminus' send buffers, allocated and taken back (sections 2.3
//! and 6.2).

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn_abi::family::area::ULN_MAX_AREA;

use hamlyn_sys::Mapping;

use crate::core::free::Free;
use crate::core::lend::Lendable;
use crate::error::{Error, GivenBack, Result, at_most, inside};
use crate::hamlyn::send_buffer::{Piece, SendBuffer};
use crate::hamlyn::terminus::{Handle, Terminus};

/// Allocation granularity, in bytes.
const UNIT: usize = 64;
/// Size of the first send buffer, in bytes. Each further one is twice as long, so that eight
/// provide a lot of memory.
const FIRST: usize = 64 * 1024;

/// The send memory of a terminus.
#[derive(Debug)]
pub(super) struct Pool {
    terminus: Terminus,
    arenas: Mutex<Vec<Arena>>,
    /// The application's own memory that was dropped while the card still gathers from it, with the
    /// last request that does.
    leaving: Mutex<Vec<(u64, Arc<SendBuffer>)>>,
}

/// A send buffer, divided into allocations.
#[derive(Debug)]
struct Arena {
    memory: Arc<SendBuffer>,
    free: Free,
    /// Freed while the card may still gather from them: the request, offset and length.
    draining: Vec<(u64, usize, usize)>,
}

impl Pool {
    pub(super) fn new(terminus: &Terminus) -> Arc<Self> {
        Arc::new(Self { terminus: terminus.clone(), arenas: Mutex::default(), leaving: Mutex::default() })
    }

    pub(super) fn allocate(self: &Arc<Self>, length: usize) -> Result<Buffer> {
        at_most("buffer length", length as u64, ULN_MAX_AREA)?;
        let size = units_of(length);
        let mut arenas = self.arenas();
        let mut found = find(&mut arenas, size);
        if found.is_none() {
            let completed = self.collect();
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
                        .create_send_buffer(size.max((2 * longest).min(ULN_MAX_AREA as usize)))
                        .map_err(|error| come_again(error, draining))?,
                );
                let start = arena.free.take(size).unwrap_or_default();
                let memory = arena.memory.clone();
                arenas.push(arena);
                (memory, start)
            }
        };
        drop(arenas);
        Ok(Buffer { pool: self.clone(), memory, start, length, last: AtomicU64::new(0) })
    }

    /// Makes a buffer from the application's own memory, which is a separate send buffer.
    pub(super) fn lend<T: Lendable>(self: &Arc<Self>, memory: T) -> Result<Buffer, GivenBack<T>> {
        self.collect();
        Ok(self.whole(self.terminus.lend(memory)?))
    }

    pub(super) fn lend_mapping(self: &Arc<Self>, mapping: Mapping) -> Result<Buffer> {
        self.collect();
        Ok(self.whole(self.terminus.lend_mapping(mapping)?))
    }

    fn whole(self: &Arc<Self>, memory: SendBuffer) -> Buffer {
        let length = memory.len();
        let (pool, memory) = (self.clone(), Arc::new(memory));
        Buffer { pool, memory, start: 0, length, last: AtomicU64::new(0) }
    }

    /// Drops the memory in `leaving` that the card has finished with. Returns the card's completion
    /// count.
    fn collect(&self) -> u64 {
        let completed = self.terminus.completed();
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|(request, _)| *request > completed);
        completed
    }

    fn arenas(&self) -> MutexGuard<'_, Vec<Arena>> {
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns `Exhausted` into `WouldBlock` while the card still gathers from freed memory, which
/// becomes available by itself.
fn come_again(error: Error, draining: bool) -> Error {
    match error {
        Error::Exhausted { limit, .. } if draining => {
            Error::WouldBlock { object: "send buffers of the manager", limit }
        }
        error => error,
    }
}

/// Returns the number of bytes of an arena that a buffer of `length` bytes takes up.
fn units_of(length: usize) -> usize {
    length.max(1).next_multiple_of(UNIT)
}

/// Takes `size` bytes from the first arena that has them.
fn find(arenas: &mut [Arena], size: usize) -> Option<(Arc<SendBuffer>, usize)> {
    arenas.iter_mut().find_map(|arena| Some((arena.memory.clone(), arena.free.take(size)?)))
}

impl Arena {
    fn new(memory: SendBuffer) -> Self {
        let free = Free::all(memory.len());
        Self { memory: Arc::new(memory), free, draining: Vec::new() }
    }

    /// Frees what the card has finished with.
    fn collect(&mut self, completed: u64) {
        let (done, draining) =
            std::mem::take(&mut self.draining).into_iter().partition(|(request, ..)| *request <= completed);
        self.draining = draining;
        let done: Vec<_> = done;
        done.into_iter().for_each(|(_, start, size)| self.free.give(start, size));
    }
}

/// Memory to send from: a [`crate::Manager`]'s ([`crate::Manager::allocate`]), or the application's
/// own ([`crate::Manager::lend`]).
///
/// A call that sends the whole buffer takes it, and its result returns it ([`Sent`]). Calls that
/// send a part (`send_from`) borrow it. So a buffer can be sent to several peers, and may be in an
/// [`Arc`]. Data in flight cannot change: bytes that the card may still gather from cannot be
/// written ([`crate::InFlightError`]).
#[derive(Debug)]
pub struct Buffer {
    pool: Arc<Pool>,
    memory: Arc<SendBuffer>,
    start: usize,
    length: usize,
    /// The last request that gathers from it, if any.
    last: AtomicU64,
}

impl Buffer {
    /// Returns the size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes in, starting at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        inside("buffer", offset as u64, bytes.len() as u64, self.length as u64)?;
        self.memory.store(self.start + offset, bytes)
    }

    /// Copies bytes out, starting at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        inside("buffer", offset as u64, bytes.len() as u64, self.length as u64)?;
        self.memory.read(self.start + offset, bytes)
    }

    /// Returns `length` bytes in place, starting at `offset`, to be filled without copying. Each
    /// byte is stored separately.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`]; [`crate::InFlightError`] while the card may still gather from
    /// one of these bytes.
    pub fn cells(&mut self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        inside("buffer", offset as u64, length as u64, self.length as u64)?;
        self.memory.cells_of(self.start + offset, length)
    }

    /// Waits until the card has completed everything that was sent from the buffer.
    ///
    /// # Errors
    /// [`crate::Error::System`]. The handles report which requests were refused.
    pub fn wait_idle(&self) -> Result<()> {
        self.pool.terminus.wait_completed(self.last.load(Ordering::Relaxed))
    }

    /// As [`Buffer::wait_idle`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`Buffer::wait_idle`].
    pub fn wait_idle_timeout(&self, timeout: Duration) -> Result<()> {
        self.pool.terminus.wait_completed_timeout(self.last.load(Ordering::Relaxed), timeout)
    }

    /// Returns the address in this process' memory. Only for languages that cannot use the other
    /// calls.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.as_ptr().wrapping_add(self.start)
    }

    /// Releases the buffer at once, if it is the application's own memory. When this returns, the
    /// card no longer gathers from it, and refuses what it had not gathered yet.
    pub fn abandon(self) {
        if self.memory.is_lent() {
            self.last.store(0, Ordering::Relaxed);
        }
    }

    /// Gives back the memory that was passed to [`crate::Manager::lend`].
    ///
    /// # Errors
    /// [`crate::InFlightError`] while the card may still gather from it;
    /// [`crate::Error::Invalid`] if the type is another one, or the memory is the manager's. On
    /// error the buffer is given back.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        if !self.memory.is_over::<T>() {
            return Err(GivenBack::new(
                Error::Invalid("the buffer was not made of a value of this type"),
                self,
            ));
        }
        if let Err(error) = self.memory.check_idle(0, self.length) {
            return Err(GivenBack::new(error, self));
        }
        let (pool, memory) = (self.pool.clone(), self.memory.clone());
        // No request of it is in flight, so nothing else holds the memory. Bytes sent by direct I/O
        // do not count.
        self.last.store(0, Ordering::Relaxed);
        drop(self);
        let length = memory.len();
        let back = Arc::try_unwrap(memory)
            .map_err(|memory| (Error::Invalid("the memory is still in use by another object"), memory));
        let back = back
            .and_then(|memory| memory.take_back().map_err(|failed| (failed.error, Arc::new(failed.back))));
        back.map_err(|(error, memory)| {
            let last = AtomicU64::new(0);
            GivenBack::new(error, Self { pool, memory, start: 0, length, last })
        })
    }

    /// Returns a reference to a piece of the buffer, for sending.
    pub(crate) fn piece(&self, offset: usize, length: usize) -> Result<Piece<'_>> {
        inside("buffer", offset as u64, length as u64, self.length as u64)?;
        self.memory.piece(self.start + offset, length)
    }

    /// Returns a reference to a range of the buffer, for sending.
    pub(crate) fn part(&self, part: Range<usize>) -> Result<Piece<'_>> {
        self.piece(part.start, part.end.saturating_sub(part.start))
    }

    /// Records that a request gathers from the buffer.
    pub(crate) fn sent_by(&self, handle: &Handle) {
        self.last.fetch_max(handle.request(), Ordering::Relaxed);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let last = *self.last.get_mut();
        let done = last == 0 || last <= self.pool.terminus.completed();
        let (start, size) = (self.start, units_of(self.length));
        let mut arenas = self.pool.arenas();
        match arenas.iter_mut().find(|arena| Arc::ptr_eq(&arena.memory, &self.memory)) {
            Some(arena) if done => arena.free.give(start, size),
            Some(arena) => arena.draining.push((last, start, size)),
            None if done => {}
            None => {
                let mut leaving = self.pool.leaving.lock().unwrap_or_else(PoisonError::into_inner);
                leaving.push((last, self.memory.clone()));
            }
        }
    }
}

/// A buffer in flight (section 6.2): the card gathers from it. If this is dropped, the buffer is
/// still sent. Its memory returns to the manager when the card has finished with it.
#[derive(Debug)]
#[must_use = "the buffer may be had back from it"]
pub struct Sent {
    buffer: Buffer,
    /// The last of its requests; `None` if there was nothing to send.
    handle: Option<Handle>,
}

impl Sent {
    pub(crate) fn new(buffer: Buffer, handle: Option<Handle>) -> Self {
        Self { buffer, handle }
    }

    /// Returns true if the card has finished with the buffer.
    ///
    /// # Errors
    /// [`crate::RefusedError`] if the card refused the request.
    pub fn is_complete(&self) -> Result<bool> {
        self.handle.as_ref().map_or(Ok(true), Handle::is_complete)
    }

    /// Waits until the card has finished with the buffer, and gives it back.
    ///
    /// # Errors
    /// [`crate::RefusedError`]: gives this value back, and [`Sent::reclaim`] returns the buffer.
    pub fn wait(self) -> Result<Buffer, GivenBack<Self>> {
        self.wait_within(None)
    }

    /// As [`Sent::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]: gives this value back, so that you can wait again. Those of
    /// [`Sent::wait`].
    pub fn wait_timeout(self, timeout: Duration) -> Result<Buffer, GivenBack<Self>> {
        self.wait_within(Some(timeout))
    }

    fn wait_within(self, timeout: Option<Duration>) -> Result<Buffer, GivenBack<Self>> {
        match self.handle.as_ref().map_or(Ok(()), |handle| handle.wait_within(timeout)) {
            Ok(()) => Ok(self.buffer),
            Err(error) => Err(GivenBack::new(error, self)),
        }
    }

    /// Gives the buffer back if the card has finished with it, whether sent or refused.
    ///
    /// # Errors
    /// Returns this value if the card has not finished with it.
    pub fn reclaim(self) -> Result<Buffer, Self> {
        match self.is_complete() {
            Ok(false) => Err(self),
            _ => Ok(self.buffer),
        }
    }
}
