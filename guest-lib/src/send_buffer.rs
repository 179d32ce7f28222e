//! Send buffers: memory that a terminus gathers from by DMA (section 2.3).

use std::collections::VecDeque;

use hamlyn_abi::hamlyn::request::HamlynGather;
use hamlyn_abi::uapi::HamlynSendBuffer;

use crate::error::{Error, Result, inside};
use crate::memory::Memory;
use crate::terminus::Terminus;

/// One of a terminus' eight send buffers.
///
/// The memory is never handed out, only copied into; while a request that gathers from some of its bytes is under
/// way, those bytes cannot be changed. Dropped with such a request under way, the buffer is taken from the card: the
/// card refuses what it had not gathered yet.
#[derive(Debug)]
pub struct SendBuffer {
    terminus: Terminus,
    tag: u32,
    memory: Memory,
}

impl SendBuffer {
    pub(crate) fn create(terminus: &Terminus, tag: u32, length: usize) -> Result<Self> {
        let attachment = terminus.inner.attachment();
        let memory = attachment.allocate(length)?;
        let buffer = HamlynSendBuffer {
            terminus: terminus.number(),
            tag,
            address: memory.card_address(),
            length: memory.len() as u64,
            reserved: 0,
        };
        attachment.set_send_buffer(buffer, &memory)?;
        Ok(Self { terminus: terminus.clone(), tag, memory })
    }

    /// Its tag, 0 to 7.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Never: a send buffer has at least a byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Copies bytes in, from `offset` bytes on.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::InFlight`] while the card may still gather from one of these bytes.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.store(offset, bytes)
    }

    /// [`SendBuffer::write`] for those who have divided the buffer among themselves.
    pub(crate) fn store(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        inside("send buffer", offset as u64, bytes.len() as u64, self.len() as u64)?;
        self.terminus.inner.observe().uses.check(self.tag, offset as u64, bytes.len() as u64)?;
        self.memory.write(offset, bytes)
    }

    /// Copies bytes out, from `offset` bytes on.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.memory.read(offset, bytes)
    }

    /// Names a piece of it, to be sent.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn piece(&self, offset: usize, length: usize) -> Result<Piece<'_>> {
        inside("send buffer", offset as u64, length as u64, self.len() as u64)?;
        Ok(Piece { buffer: self, offset: offset as u32, length: length as u32 })
    }
}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        // A card that is gone has no buffer to take back.
        let _ = self.terminus.inner.attachment().clear_send_buffer(self.terminus.number(), self.tag);
        self.terminus.inner.return_tag(self.tag);
    }
}

/// Some bytes of a send buffer: the paper's `<tag, offset, length>`.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    buffer: &'a SendBuffer,
    offset: u32,
    length: u32,
}

impl Piece<'_> {
    /// The send buffer's tag.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.buffer.tag
    }

    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn tuple(&self) -> HamlynGather {
        HamlynGather { tag: self.buffer.tag, reserved: 0, offset: self.offset, length: self.length }
    }

    pub(crate) fn belongs_to(&self, terminus: &Terminus) -> bool {
        std::sync::Arc::ptr_eq(&self.buffer.terminus.inner, &terminus.inner)
    }

    pub(crate) fn copy_to(&self, bytes: &mut [u8]) -> Result<()> {
        self.buffer.memory.read(self.offset as usize, bytes)
    }
}

/// Which bytes of a terminus' send buffers requests under way gather from, in the order of the requests.
#[derive(Debug, Default)]
pub(crate) struct Uses(VecDeque<Use>);

#[derive(Debug)]
struct Use {
    tag: u32,
    offset: u64,
    end: u64,
    request: u64,
}

impl Uses {
    /// Notes that a request gathers from a piece.
    pub(crate) fn add(&mut self, piece: &Piece<'_>, request: u64) {
        let offset = u64::from(piece.offset);
        self.0.push_back(Use { tag: piece.tag(), offset, end: offset + u64::from(piece.length), request });
    }

    /// Forgets what requests up to `completed` gathered from.
    pub(crate) fn release(&mut self, completed: u64) {
        while self.0.front().is_some_and(|used| used.request <= completed) {
            self.0.pop_front();
        }
    }

    /// Refuses bytes that are in use.
    fn check(&self, tag: u32, offset: u64, length: u64) -> Result<()> {
        let end = offset + length;
        match self.0.iter().find(|used| used.tag == tag && used.offset < end && offset < used.end) {
            Some(Use { request, offset, end, .. }) => {
                Err(Error::InFlight { tag, request: *request, offset: *offset, end: *end })
            }
            None => Ok(()),
        }
    }
}
