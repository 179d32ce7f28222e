//! Send buffers: memory that a terminus gathers from by DMA (section 2.3).

use std::collections::VecDeque;
use std::sync::atomic::AtomicU8;

use hamlyn_abi::hamlyn::request::HamlynGather;
use hamlyn_abi::uapi::HamlynSendBuffer;

use crate::core::lend;
use crate::core::memory::Memory;
use crate::error::{Error, GivenBack, Result, inside};
use crate::hamlyn::terminus::Terminus;

/// One of a terminus' eight send buffers.
///
/// It is the library's memory, or the application's own ([`Terminus::lend`]). While a request that
/// gathers from some of its bytes is under way, those bytes cannot be changed. Dropped with such a
/// request under way, the buffer is taken from the card: the card refuses what it had not gathered
/// yet.
#[derive(Debug)]
pub struct SendBuffer {
    // The card gives the memory up before it goes.
    registration: Registration,
    memory: Memory,
}

/// That a terminus gathers from a memory by this tag.
#[derive(Debug)]
struct Registration {
    terminus: Terminus,
    tag: u32,
}

impl SendBuffer {
    /// Has the terminus gather from this memory.
    pub(crate) fn create(terminus: &Terminus, tag: u32, memory: Memory) -> Result<Self, GivenBack<Memory>> {
        let buffer = HamlynSendBuffer {
            terminus: terminus.number(),
            tag,
            address: memory.card_address(),
            length: memory.len() as u64,
            reserved: 0,
        };
        match terminus.inner.attachment().set_send_buffer(buffer, &memory) {
            Ok(()) => Ok(Self { registration: Registration { terminus: terminus.clone(), tag }, memory }),
            Err(error) => {
                terminus.inner.return_tag(tag);
                Err(GivenBack::new(error, memory))
            }
        }
    }

    /// Gives back the memory that [`Terminus::lend`] was given.
    ///
    /// # Errors
    /// [`Error::InFlight`] while the card may still gather from it, [`Error::Invalid`] for another
    /// type; and the buffer.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        match self.memory.may_take_back::<T>().and_then(|()| self.check_idle(0, self.len())) {
            Ok(()) => {
                let Self { registration, memory } = self;
                drop(registration);
                Ok(lend::returned(memory))
            }
            Err(error) => Err(GivenBack::new(error, self)),
        }
    }

    /// Its bytes in place, `length` of them from `offset` on, to be filled without copying: each is
    /// stored by itself.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::InFlight`] while the card may still gather from one of these
    /// bytes.
    pub fn cells(&mut self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.cells_of(offset, length)
    }

    /// [`SendBuffer::cells`] for those who have divided the buffer among themselves.
    pub(crate) fn cells_of(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.check_idle(offset, length)?;
        self.memory.cells(offset, length)
    }

    /// Where it lies in this process' memory. Only for languages that can make no other use of it.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.mapping().address() as usize as *const u8
    }

    /// Whether it is the application's own memory.
    pub(crate) fn is_lent(&self) -> bool {
        self.memory.mapping().is_lent()
    }

    /// Whether it is a value's of this type.
    pub(crate) fn is_over<T: 'static>(&self) -> bool {
        self.memory.mapping().is_over::<T>()
    }

    /// Refuses bytes that the card may still gather from.
    pub(crate) fn check_idle(&self, offset: usize, length: usize) -> Result<()> {
        inside("send buffer", offset as u64, length as u64, self.len() as u64)?;
        let state = self.registration.terminus.inner.observe();
        state.uses.check(self.tag(), offset as u64, length as u64)
    }

    /// Its tag, 0 to 7.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.registration.tag
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
    /// [`Error::PastEnd`]; [`Error::InFlight`] while the card may still gather from one of these
    /// bytes.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.store(offset, bytes)
    }

    /// [`SendBuffer::write`] for those who have divided the buffer among themselves.
    pub(crate) fn store(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check_idle(offset, bytes.len())?;
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

impl Drop for Registration {
    fn drop(&mut self) {
        // A card that is gone has no buffer to take back; and it only reads.
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
        self.buffer.tag()
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
        HamlynGather { tag: self.buffer.tag(), reserved: 0, offset: self.offset, length: self.length }
    }

    pub(crate) fn belongs_to(&self, terminus: &Terminus) -> bool {
        std::sync::Arc::ptr_eq(&self.buffer.registration.terminus.inner, &terminus.inner)
    }

    pub(crate) fn copy_to(&self, bytes: &mut [u8]) -> Result<()> {
        self.buffer.memory.read(self.offset as usize, bytes)
    }
}

/// Which bytes of a terminus' send buffers requests under way gather from, in the order of the
/// requests.
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
