//! The two ends without express memory: the same messages, one after the other in a stream, each
//! preceded by its length.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use hamlyn_sys::Mapping;

use crate::core::copies;
use crate::core::express::ring::{HEADER, Nonsense, Span};
use crate::core::waiting::Deadline;
use crate::error::{Error, Result};
use crate::hamlyn::protocol::stream::{StreamReceiver, StreamSender};

/// Initial size of a sender's memory.
const FIRST: u64 = 64 * 1024;
/// Maximum number of bytes that are read from a stream at once.
const PIECE: usize = 16 * 1024;

/// Allocates memory of this process for a message that is built or has arrived.
fn memory(capacity: u64) -> Result<Arc<Mapping>> {
    let length = usize::try_from(capacity).unwrap_or(usize::MAX);
    Mapping::anonymous(length).map(Arc::new).map_err(Error::system(format!("map {length} bytes")))
}

fn data(memory: &Mapping, span: Span) -> &[AtomicU8] {
    memory.cells(span.at as usize, span.length as usize)
}

#[derive(Debug)]
pub(super) struct Sender {
    stream: StreamSender,
    memory: Arc<Mapping>,
    longest: u64,
    /// Bytes that are being written to the stream, and how many of them have been.
    pending: Vec<u8>,
    taken: usize,
}

impl Sender {
    /// `capacity` is the ring size that the other end reports.
    pub(super) fn new(stream: StreamSender, capacity: u64) -> Result<Self> {
        let longest = capacity - HEADER;
        let memory = memory(capacity.min(FIRST))?;
        Ok(Self { stream, memory, longest, pending: Vec::new(), taken: 0 })
    }

    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    pub(super) fn set_token(&mut self, token: u64) {
        self.stream.set_token(token);
    }

    /// Returns room for a message, if the previous one has been written to the stream.
    pub(super) fn reserve(&mut self, length: u64) -> Result<Option<Span>> {
        match self.push() {
            Ok(()) => self.room(length).map(Some),
            Err(error) if error.is_would_block() => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[inline(never)]
    pub(super) fn wait(&mut self, length: u64, timeout: Option<Duration>) -> Result<Span> {
        self.finish(timeout)?;
        self.room(length)
    }

    /// Returns room for a message. The memory grows with the messages sent, whatever length the
    /// other end reports.
    fn room(&mut self, length: u64) -> Result<Span> {
        if length > self.memory.length() as u64 {
            self.memory = memory(length.next_power_of_two())?;
        }
        Ok(Span { at: 0, length, end: 0 })
    }

    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        data(&self.memory, span)
    }

    /// Sends the reserved message, or as much as there is room for. A later call sends the rest.
    pub(super) fn commit(&mut self, span: Span) -> Result<()> {
        self.pending.resize(HEADER as usize + span.length as usize, 0);
        self.pending[..HEADER as usize].copy_from_slice(&span.length.to_le_bytes());
        copies::out_of_express(data(&self.memory, span), &mut self.pending[HEADER as usize..]);
        match self.push() {
            Err(error) if error.is_would_block() => Ok(()),
            pushed => pushed,
        }
    }

    /// Waits until everything is in the stream.
    pub(super) fn finish(&mut self, timeout: Option<Duration>) -> Result<()> {
        let until = Deadline::new(timeout);
        self.finish_within(&until).map_err(|error| until.name(error))
    }

    pub(super) fn close(mut self, timeout: Option<Duration>) -> Result<()> {
        let until = Deadline::new(timeout);
        let finished = self.finish_within(&until);
        finished.and_then(|()| self.stream.close(until.left())).map_err(|error| until.name(error))
    }

    fn finish_within(&mut self, until: &Deadline) -> Result<()> {
        while self.taken < self.pending.len() {
            self.stream.set_timeout(until.left());
            let before = self.stream.accepted();
            let sent = self.stream.send(&self.pending[self.taken..]);
            self.taken += (self.stream.accepted() - before) as usize;
            sent?;
        }
        self.stream.set_timeout(until.left());
        self.stream.flush()?;
        self.forget();
        Ok(())
    }

    pub(super) fn try_close(&mut self) -> Result<()> {
        self.push()?;
        self.stream.try_close()
    }

    pub(super) fn push(&mut self) -> Result<()> {
        while self.taken < self.pending.len() {
            self.taken += self.stream.try_send(&self.pending[self.taken..])?;
        }
        self.stream.try_flush()?;
        self.forget();
        Ok(())
    }

    fn forget(&mut self) {
        self.pending.clear();
        self.taken = 0;
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    stream: StreamReceiver,
    memory: Arc<Mapping>,
    longest: u64,
    head: [u8; HEADER as usize],
    /// Number of bytes of the head and the message that have arrived.
    come: usize,
    /// The message that is complete and not yet released.
    whole: Option<Span>,
    closed: bool,
}

impl Receiver {
    pub(super) fn new(stream: StreamReceiver, capacity: u64) -> Result<Self> {
        Ok(Self {
            stream,
            memory: memory(capacity)?,
            longest: capacity - HEADER,
            head: [0; HEADER as usize],
            come: 0,
            whole: None,
            closed: false,
        })
    }

    pub(super) fn stream(&self) -> &StreamReceiver {
        &self.stream
    }

    pub(super) fn set_token(&mut self, token: u64) {
        self.stream.set_token(token);
    }

    pub(super) fn next(&mut self) -> Result<Option<Option<Span>>> {
        match self.fill(StreamReceiver::try_read) {
            Ok(next) => Ok(Some(next)),
            Err(error) if error.is_would_block() => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[inline(never)]
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Span>> {
        let deadline = Deadline::new(timeout);
        self.fill(|stream, to| stream.read_exact_or_end(to, deadline.left()))
    }

    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        data(&self.memory, span)
    }

    pub(super) fn release(&mut self) {
        (self.whole, self.come) = (None, 0);
    }

    /// Continues with a message until it is complete. Returns `None` if the peer has closed.
    fn fill(
        &mut self,
        mut read: impl FnMut(&mut StreamReceiver, &mut [u8]) -> Result<usize>,
    ) -> Result<Option<Span>> {
        let head = self.head.len();
        let mut piece = [0; PIECE];
        while self.whole.is_none() && !self.closed {
            let length = u64::from_le_bytes(self.head);
            if self.come >= head && length > self.longest {
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                return Err(Nonsense::Length { position: 0, length, limit: self.longest }.into());
            }
            let whole = head + if self.come >= head { length as usize } else { 0 };
            if self.come >= head && self.come == whole {
                self.whole = Some(Span { at: 0, length, end: 0 });
                break;
            }
            let read = if self.come < head {
                read(&mut self.stream, &mut self.head[self.come..])?
            } else {
                let most = (whole - self.come).min(PIECE);
                let read = read(&mut self.stream, &mut piece[..most])?;
                self.memory.write(self.come - head, &piece[..read]);
                read
            };
            if read == 0 && self.come != 0 {
                return Err(Error::Malformed("a message that ends in its middle"));
            }
            self.closed = read == 0;
            self.come += read;
        }
        Ok(self.whole)
    }
}
