//! Send termini: posting requests without the kernel (section 2.3).

use std::ops::Range;
use std::sync::Arc;

use hamlyn_abi::hamlyn::command::HAMLYN_MAX_WEIGHT;
use hamlyn_abi::hamlyn::request::HamlynGather;
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;

use hamlyn_sys::Mapping;

use crate::core::lend::{self, Lendable};
use crate::error::{Error, GivenBack, Result, inside};
use crate::hamlyn::attach::Attachment;
use crate::hamlyn::errors::ForeignBufferError;
use crate::hamlyn::message_area::MessageArea;
#[cfg(feature = "test-hooks")]
use crate::hamlyn::request::RequestBlock;
use crate::hamlyn::request::{Body, Message, Request};
use crate::hamlyn::send_buffer::{Piece, SendBuffer};

mod batch;
mod completion;
pub(crate) mod inner;
mod uses;

pub use completion::Handle;
use inner::TerminusInner;

/// A private send terminus. Requests are stored into its mapped window, without a system call
/// (section 2.3).
///
/// Cheap to clone, and shared between threads. Requests are sent in the order in which they were
/// posted. The terminus is destroyed when its last clone, handle and send buffer are dropped.
/// Requests still in its work queue are then abandoned, so wait for the last [`Handle`] of messages
/// that matter.
#[derive(Debug, Clone)]
pub struct Terminus {
    pub(crate) inner: Arc<TerminusInner>,
}

/// The source of a message's data.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// The caller's bytes, sent by direct I/O.
    Bytes(&'a [u8]),
    /// A piece of a send buffer: sent by direct I/O if it is small enough, otherwise by DMA.
    Piece(Piece<'a>),
    /// Pieces of send buffers, one after the other, sent by DMA (scatter-gather).
    Gather(&'a [Piece<'a>]),
}

/// How a request is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Post {
    /// Once there is room.
    When,
    /// If there is room.
    Now,
    /// If there is room, and without a handle.
    Unwatched,
}

impl Source<'_> {
    /// Returns the number of bytes.
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
        let inner = Arc::new(TerminusInner::create(attachment, packet_size, weight)?);
        Ok(Self { inner })
    }

    /// Returns the terminus' number on the card.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.number()
    }

    /// Returns the maximum data in a packet, in bytes. This is also the maximum length of a
    /// fast-mode message.
    #[must_use]
    pub fn packet_size(&self) -> u32 {
        self.inner.packet_size()
    }

    /// Returns the number of requests of this terminus that the card has completed.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.inner.observe().queue.completed()
    }

    /// Sends a message: the paper's `h_send_msg` (section 3.2). If all 63 work-queue entries are in
    /// use, it waits: busy-polls for a while, then sleeps.
    ///
    /// Bytes are sent by direct I/O. A piece of a send buffer is sent by direct I/O if it is small,
    /// otherwise by DMA. The handle reports when the send buffer may be used again, and whether the
    /// card refused the request.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] and [`Error::PastEnd`] if the message exceeds the limits of the
    /// ticket, the card or direct I/O; [`crate::ForeignBufferError`]; [`Error::Invalid`] for
    /// metadata in fast mode. [`Error::System`] if the card cannot be woken: it is then gone, and
    /// with it the message in its work queue.
    pub fn send<'a>(&self, message: &Message<'_>, source: impl Into<Source<'a>>) -> Result<Handle> {
        let request = self.post_source(message, source.into(), Post::When)?;
        Ok(Handle::new(self, request, message.context_word()))
    }

    /// Like [`Terminus::send`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if all work-queue entries are in use; otherwise the errors of
    /// [`Terminus::send`].
    pub fn try_send<'a>(&self, message: &Message<'_>, source: impl Into<Source<'a>>) -> Result<Handle> {
        let request = self.post_source(message, source.into(), Post::Now)?;
        Ok(Handle::new(self, request, message.context_word()))
    }

    /// Like [`Terminus::try_send`], for callers that need no result of each message. Returns the
    /// request's position.
    #[inline]
    pub(crate) fn try_send_unwatched(&self, message: &Message<'_>, source: Source<'_>) -> Result<u64> {
        self.post_source(message, source, Post::Unwatched)
    }

    /// Posts a checked request like [`Terminus::try_send_unwatched`].
    #[inline]
    pub(crate) fn try_post_unwatched(&self, request: &Request<'_>) -> Result<u64> {
        self.post_request(request, &[], Post::Unwatched)
    }

    /// Sends by DMA, whatever the size.
    ///
    /// # Errors
    /// The errors of [`Terminus::send`].
    pub fn send_dma(&self, message: &Message<'_>, piece: Piece<'_>) -> Result<Handle> {
        self.send(message, Source::Gather(&[piece]))
    }

    /// Sends up to 28 pieces of send buffers as one message, by DMA (24 to 27 along with metadata).
    ///
    /// # Errors
    /// The errors of [`Terminus::send`].
    pub fn send_gather(&self, message: &Message<'_>, pieces: &[Piece<'_>]) -> Result<Handle> {
        self.send(message, Source::Gather(pieces))
    }

    /// Posts a raw request. The library does not check it; the card does. For tests of the card's
    /// checks.
    ///
    /// # Errors
    /// [`Error::System`] if the card cannot be woken, as for [`Terminus::send`].
    #[cfg(feature = "test-hooks")]
    pub fn post(&self, request: &RequestBlock) -> Result<Handle> {
        self.post_raw(&request.request())
    }

    pub(crate) fn post_raw(&self, request: &Request<'_>) -> Result<Handle> {
        Ok(Handle::new(self, self.post_request(request, &[], Post::When)?, 0))
    }

    /// Creates a zeroed send buffer of `length` bytes, with the lowest free tag (section 2.3).
    ///
    /// # Errors
    /// [`Error::Exhausted`] if all 8 tags are in use, [`Error::System`] if memory cannot be
    /// allocated or pinned.
    pub fn create_send_buffer(&self, length: usize) -> Result<SendBuffer> {
        let tag = self.inner.take_tag()?;
        match self.inner.attachment().allocate(length) {
            Ok(memory) => Ok(SendBuffer::create(&self.inner, tag, MessageArea::new(memory), 0..length)?),
            Err(error) => {
                self.inner.return_tag(tag);
                Err(error)
            }
        }
    }

    /// Makes a send buffer of a range of a message area, with the lowest free tag: what has arrived
    /// there is sent on without a copy. If the area is registered ([`crate::Card::register`]), its
    /// pages are shared. Bytes that are in flight can still be changed through the area: the
    /// receiver then gets a mix of old and new bytes.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if the range is outside the area, [`Error::Invalid`] if it is empty,
    /// [`Error::Exhausted`] if all 8 tags are in use, [`Error::System`].
    pub fn create_send_buffer_in(&self, area: &MessageArea, range: Range<usize>) -> Result<SendBuffer> {
        let length = range.end.saturating_sub(range.start);
        inside("message area", range.start as u64, length as u64, area.len() as u64)?;
        lend::check(length)?;
        Ok(self.send_buffer_of(area.clone(), range)?)
    }

    /// Makes a send buffer from the caller's own memory, with the lowest free tag, as
    /// [`crate::Card::lend`] makes an area. The library owns the memory until
    /// [`SendBuffer::take_back`].
    ///
    /// # Errors
    /// The errors of [`crate::Card::lend`], and [`Error::Exhausted`] if all 8 tags are in use. On
    /// error the memory is given back.
    pub fn lend<T: Lendable>(&self, memory: T) -> Result<SendBuffer, GivenBack<T>> {
        let memory = lend::lend(&**self.inner.attachment(), memory)?;
        let (length, area) = (memory.len(), MessageArea::new(memory));
        self.send_buffer_of(area, 0..length)
            .map_err(|failed| GivenBack::new(failed.error, failed.back.returned()))
    }

    /// Like [`Terminus::lend`], for memory that is already mapped
    /// ([`crate::attach::Mapping::promised`]). For other languages.
    ///
    /// # Errors
    /// The errors of [`Terminus::lend`].
    pub fn lend_mapping(&self, mapping: Mapping) -> Result<SendBuffer> {
        lend::check(mapping.length())?;
        let area = MessageArea::new(self.inner.attachment().lend(mapping)?);
        let length = area.len();
        Ok(self.send_buffer_of(area, 0..length)?)
    }

    fn send_buffer_of(
        &self,
        area: MessageArea,
        range: Range<usize>,
    ) -> Result<SendBuffer, GivenBack<MessageArea>> {
        match self.inner.take_tag() {
            Ok(tag) => SendBuffer::create(&self.inner, tag, area, range),
            Err(error) => Err(GivenBack::new(error, area)),
        }
    }

    #[inline]
    fn post_source(&self, message: &Message<'_>, source: Source<'_>, post: Post) -> Result<u64> {
        self.with_request(message, source, |request, gathered| self.post_request(request, gathered, post))
    }

    /// Checks a message and its source, and passes them on as a request, with the pieces that it
    /// gathers.
    #[inline(always)]
    fn with_request<T>(
        &self,
        message: &Message<'_>,
        source: Source<'_>,
        then: impl FnOnce(&Request<'_>, &[HamlynGather]) -> Result<T>,
    ) -> Result<T> {
        let packet_size = self.inner.packet_size();
        // Storage that a request points to. Only one is initialized, and only if it is needed.
        let (tuple, tuples);
        let (request, gathered) = match source {
            Source::Bytes(data) => (Request::direct(message, Body::Bytes(data), packet_size)?, &[][..]),
            Source::Piece(small) if small.len() <= message.direct_limit() => {
                (Request::direct(message, Body::Cells(small.cells()?), packet_size)?, &[][..])
            }
            Source::Piece(single) | Source::Gather(&[single]) => {
                self.check_own(&[single])?;
                tuple = [single.tuple()];
                (Request::gather(message, &tuple, packet_size)?, &tuple[..])
            }
            Source::Gather(pieces) => {
                self.check_own(pieces)?;
                tuples = pieces.iter().map(Piece::tuple).collect::<Vec<HamlynGather>>();
                (Request::gather(message, &tuples, packet_size)?, &tuples[..])
            }
        };
        then(&request, gathered)
    }

    /// Fails if this number of requests cannot be posted now.
    pub(crate) fn check_room(&self, requests: usize) -> Result<()> {
        let mut state = self.inner.observe();
        if state.queue.room() < requests {
            self.inner.fall_behind(&mut state);
            return Err(no_room());
        }
        Ok(())
    }

    fn check_own(&self, pieces: &[Piece<'_>]) -> Result<()> {
        match pieces.iter().find(|piece| !piece.belongs_to(&self.inner)) {
            Some(foreign) => Err(ForeignBufferError { tag: foreign.tag() }.into()),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn post_request(&self, request: &Request<'_>, gathered: &[HamlynGather], post: Post) -> Result<u64> {
        let posted = match self.inner.try_post(request, gathered, post != Post::Unwatched) {
            None if post == Post::When => Some(self.inner.post_when_possible(request, gathered)?),
            posted => posted,
        };
        let Some((request, ring)) = posted else {
            return Err(no_room());
        };
        if ring {
            self.inner.ring().inspect_err(|_| self.inner.lock().queue.forget(request))?;
        }
        Ok(request)
    }
}

fn no_room() -> Error {
    Error::WouldBlock { object: "work-queue entries", limit: HAMLYN_WORK_QUEUE_USABLE }
}
