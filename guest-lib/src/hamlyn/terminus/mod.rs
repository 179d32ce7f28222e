//! Send termini: posting requests without the kernel (section 2.3).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_abi::hamlyn::command::HAMLYN_MAX_WEIGHT;
use hamlyn_abi::hamlyn::request::{HAMLYN_BODY_SIZE, HAMLYN_SEND_BUFFERS, HamlynGather};
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;

use hamlyn_sys::Mapping;

use crate::core::lend::{self, Lendable};
use crate::core::memory::Memory;
use crate::core::polling::Polling;
use crate::error::{Error, GivenBack, Result};
use crate::hamlyn::attach::{Attachment, TerminusParts};
use crate::hamlyn::request::{Message, Request, RequestBlock};
use crate::hamlyn::send_buffer::{Piece, SendBuffer, Uses};
use crate::hamlyn::work_queue::WorkQueue;

mod completion;

pub use completion::Handle;
use completion::ROOM;

/// A private send terminus: requests are stored into its mapped window; no system call on the way
/// (section 2.3).
///
/// Cheap to clone, and shared between threads: requests go out in the order in which they were
/// posted. It is destroyed when its last clone, handle and send buffer are dropped; what is still
/// in its work queue then is abandoned, so wait for the last [`Handle`] of what matters.
#[derive(Debug, Clone)]
pub struct Terminus {
    pub(crate) inner: Arc<TerminusInner>,
}

#[derive(Debug)]
pub(crate) struct TerminusInner {
    attachment: Arc<dyn Attachment>,
    parts: TerminusParts,
    packet_size: u32,
    polling: Polling,
    state: Mutex<State>,
    /// Somebody is to be told of room ([`TerminusInner::take_room`]).
    behind: AtomicBool,
}

/// What the threads of a terminus share.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) queue: WorkQueue,
    pub(crate) uses: Uses,
    /// A bit for each send-buffer tag in use.
    tags: u32,
    /// Somebody who did not wait found no room, when so many requests were finished.
    behind: Option<u64>,
}

/// Nothing of a send buffer's is to be left alone until the request is finished.
const NO_PIECES: &[Piece<'_>] = &[];

/// Where a message's data comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Bytes of the caller's, by direct I/O.
    Bytes(&'a [u8]),
    /// A piece of a send buffer: by direct I/O if it is small enough, else by DMA.
    Piece(Piece<'a>),
    /// Pieces of send buffers, one after the other, by DMA (scatter-gather).
    Gather(&'a [Piece<'a>]),
}

impl Source<'_> {
    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Source::Bytes(bytes) => bytes.len(),
            Source::Piece(piece) => piece.len(),
            Source::Gather(pieces) => pieces.iter().map(Piece::len).sum(),
        }
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Source<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Source::Bytes(bytes)
    }
}

impl<'a> From<Piece<'a>> for Source<'a> {
    fn from(piece: Piece<'a>) -> Self {
        Source::Piece(piece)
    }
}

impl<'a> From<&'a [Piece<'a>]> for Source<'a> {
    fn from(pieces: &'a [Piece<'a>]) -> Self {
        Source::Gather(pieces)
    }
}

impl Terminus {
    /// The largest weight.
    pub const MAX_WEIGHT: u32 = HAMLYN_MAX_WEIGHT;

    pub(crate) fn create(attachment: &Arc<dyn Attachment>, packet_size: u32, weight: u32) -> Result<Self> {
        let parts = attachment.create_terminus(weight)?;
        let inner = TerminusInner {
            attachment: attachment.clone(),
            parts,
            packet_size,
            polling: Polling::default(),
            state: Mutex::default(),
            behind: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Its number on the card.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.parts.terminus
    }

    /// The most data in a packet, in bytes: also the longest fast-mode message.
    #[must_use]
    pub fn packet_size(&self) -> u32 {
        self.inner.packet_size
    }

    /// How many of its requests the card has finished with.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.inner.observe().queue.completed()
    }

    /// Sends a message: the paper's `h_send_msg` (section 3.2). While all 63 work-queue entries are
    /// in use it waits: looks at memory for a while, then sleeps.
    ///
    /// Bytes go by direct I/O; a piece of a send buffer by direct I/O if small, else by DMA. The
    /// handle says when the send buffer may be used again, and whether the card refused the
    /// request.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] and [`Error::PastEnd`] for what the ticket, the card or direct I/O
    /// cannot take, [`Error::ForeignBuffer`], [`Error::Invalid`] for metadata in fast mode.
    /// [`Error::System`] if the card cannot be woken: it is gone then, and the message, which lies
    /// in its work queue, with it.
    pub fn send<'a>(&self, message: &Message<'_>, source: impl Into<Source<'a>>) -> Result<Handle> {
        self.post_source(message, source.into(), true)
    }

    /// Like [`Terminus::send`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if all work-queue entries are in use; else those of
    /// [`Terminus::send`].
    pub fn try_send<'a>(&self, message: &Message<'_>, source: impl Into<Source<'a>>) -> Result<Handle> {
        self.post_source(message, source.into(), false)
    }

    /// Sends by DMA, whatever the size.
    ///
    /// # Errors
    /// Those of [`Terminus::send`].
    pub fn send_dma(&self, message: &Message<'_>, piece: Piece<'_>) -> Result<Handle> {
        self.send(message, Source::Gather(&[piece]))
    }

    /// Sends up to 28 pieces of send buffers as one message, by DMA (24 to 27 along with metadata).
    ///
    /// # Errors
    /// Those of [`Terminus::send`].
    pub fn send_gather(&self, message: &Message<'_>, pieces: &[Piece<'_>]) -> Result<Handle> {
        self.send(message, Source::Gather(pieces))
    }

    /// Posts a request as it is, unchecked by the library: the card checks it. For tests of exactly
    /// that.
    ///
    /// # Errors
    /// [`Error::System`] if the card cannot be woken, as by [`Terminus::send`].
    pub fn post(&self, request: &RequestBlock) -> Result<Handle> {
        self.post_request(&request.request(), &[], true)
    }

    /// Creates a send buffer of `length` bytes, zeroed, with the lowest free tag (section 2.3).
    ///
    /// # Errors
    /// [`Error::Exhausted`] if all 8 tags are in use, [`Error::System`] if memory cannot be had or
    /// pinned.
    pub fn create_send_buffer(&self, length: usize) -> Result<SendBuffer> {
        let tag = self.inner.take_tag()?;
        match self.inner.attachment.allocate(length) {
            Ok(memory) => Ok(SendBuffer::create(self, tag, memory)?),
            Err(error) => {
                self.inner.return_tag(tag);
                Err(error)
            }
        }
    }

    /// Makes a send buffer of memory of the caller's own, with the lowest free tag, as
    /// [`crate::Card::lend`] makes an area. It is the library's until [`SendBuffer::take_back`].
    ///
    /// # Errors
    /// Those of [`crate::Card::lend`], and [`Error::Exhausted`] if all 8 tags are in use; and the
    /// memory is given back.
    pub fn lend<T: Lendable>(&self, memory: T) -> Result<SendBuffer, GivenBack<T>> {
        let memory = lend::lend(&*self.inner.attachment, memory)?;
        self.send_buffer_of(memory)
            .map_err(|failed| GivenBack::new(failed.error, lend::returned(failed.back)))
    }

    /// [`Terminus::lend`] for memory that is mapped already, for other languages
    /// ([`crate::attach::Mapping::promised`]).
    ///
    /// # Errors
    /// Those of [`Terminus::lend`].
    pub fn lend_mapping(&self, mapping: Mapping) -> Result<SendBuffer> {
        lend::check(mapping.length())?;
        Ok(self.send_buffer_of(self.inner.attachment.lend(mapping)?)?)
    }

    fn send_buffer_of(&self, memory: Memory) -> Result<SendBuffer, GivenBack<Memory>> {
        match self.inner.take_tag() {
            Ok(tag) => SendBuffer::create(self, tag, memory),
            Err(error) => Err(GivenBack::new(error, memory)),
        }
    }

    fn post_source(&self, message: &Message<'_>, source: Source<'_>, wait: bool) -> Result<Handle> {
        let packet_size = self.inner.packet_size;
        // What a request points to; only one is filled, and only if it is needed.
        let (mut copy, piece, tuple, tuples);
        let (request, pieces) = match source {
            Source::Bytes(data) => (Request::direct(message, data, packet_size)?, NO_PIECES),
            Source::Piece(small) if small.len() <= message.direct_limit() => {
                copy = [0; HAMLYN_BODY_SIZE as usize];
                let data = &mut copy[..small.len()];
                small.copy_to(data)?;
                (Request::direct(message, data, packet_size)?, NO_PIECES)
            }
            Source::Piece(single) | Source::Gather(&[single]) => {
                (piece, tuple) = ([single], [single.tuple()]);
                self.check_own(&piece)?;
                (Request::gather(message, &tuple, packet_size)?, &piece[..])
            }
            Source::Gather(pieces) => {
                self.check_own(pieces)?;
                tuples = pieces.iter().map(Piece::tuple).collect::<Vec<HamlynGather>>();
                (Request::gather(message, &tuples, packet_size)?, pieces)
            }
        };
        self.post_request(&request, pieces, wait)
    }

    /// Whether so many requests could be posted now.
    pub(crate) fn check_room(&self, requests: usize) -> Result<()> {
        let mut state = self.inner.observe();
        if state.queue.room() < requests {
            self.inner.fall_behind(&mut state);
            return Err(no_room());
        }
        Ok(())
    }

    fn check_own(&self, pieces: &[Piece<'_>]) -> Result<()> {
        match pieces.iter().find(|piece| !piece.belongs_to(self)) {
            Some(foreign) => Err(Error::ForeignBuffer { tag: foreign.tag() }),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn post_request(&self, request: &Request<'_>, pieces: &[Piece<'_>], wait: bool) -> Result<Handle> {
        let posted = match self.inner.try_post(request, pieces) {
            None if wait => Some(self.inner.post_when_possible(request, pieces)?),
            posted => posted,
        };
        let Some((request, ring)) = posted else {
            return Err(no_room());
        };
        let handle = Handle::new(self, request);
        if ring {
            self.inner.parts.doorbell.ring()?;
        }
        Ok(handle)
    }
}

fn no_room() -> Error {
    Error::WouldBlock { object: "work-queue entries", limit: HAMLYN_WORK_QUEUE_USABLE }
}

impl TerminusInner {
    #[cold]
    fn post_when_possible(&self, request: &Request<'_>, pieces: &[Piece<'_>]) -> Result<(u64, bool)> {
        self.wait_for(ROOM, None, WorkQueue::half_way, || self.try_post(request, pieces))
    }

    /// Posts if there is room. Gives the request's position, and whether the doorbell must be rung.
    #[inline(always)]
    fn try_post(&self, request: &Request<'_>, pieces: &[Piece<'_>]) -> Option<(u64, bool)> {
        let mut state = self.lock();
        if !pieces.is_empty() || state.queue.next_entry().is_none() {
            self.take_in(&mut state);
        }
        let Some(entry) = state.queue.next_entry() else {
            self.fall_behind(&mut state);
            return None;
        };
        request.store(&self.parts.window, entry);
        let (position, tail) = state.queue.post();
        for piece in pieces {
            state.uses.add(piece, position);
        }
        Some((position, self.parts.window.publish_request(tail)))
    }

    /// The state, with what the card has written taken in.
    pub(crate) fn observe(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        self.take_in(&mut state);
        state
    }

    fn take_in(&self, state: &mut State) {
        let status = &self.parts.status;
        let result = |number| (status.reason(number), status.fetched(number));
        if state.queue.observe(status.completed(), result) {
            state.uses.release(state.queue.completed());
        }
    }

    pub(crate) fn attachment(&self) -> &Arc<dyn Attachment> {
        &self.attachment
    }

    fn take_tag(&self) -> Result<u32> {
        let mut state = self.lock();
        let tag = state.tags.trailing_ones();
        if tag >= HAMLYN_SEND_BUFFERS {
            let remedy = "drop a send buffer, or take another terminus";
            return Err(Error::Exhausted { object: "send-buffer tags", limit: HAMLYN_SEND_BUFFERS, remedy });
        }
        state.tags |= 1 << tag;
        Ok(tag)
    }

    pub(crate) fn return_tag(&self, tag: u32) {
        self.lock().tags &= !(1 << tag);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing inside panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TerminusInner {
    fn drop(&mut self) {
        // A card that is gone has no terminus to destroy.
        let _ = self.attachment.destroy_terminus(self.parts.terminus);
    }
}
