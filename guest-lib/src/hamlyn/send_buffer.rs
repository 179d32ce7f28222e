//! Send buffers: memory that a terminus gathers from by DMA (section 2.3).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use hamlyn_abi::hamlyn::request::HamlynGather;
use hamlyn_abi::uapi::HamlynSendBuffer;
use hamlyn_sys::Mapping;

use crate::error::{GivenBack, Result, inside};
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::terminus::inner::TerminusInner;

/// One of a terminus' eight send buffers.
///
/// The memory is the library's, the application's own ([`crate::Terminus::lend`]), or part of a
/// message area ([`crate::Terminus::create_send_buffer_in`]). While a
/// request that gathers from some of its bytes is in flight, those bytes cannot be changed. If the
/// buffer is dropped while such a request is in flight, it is taken from the card. The card
/// then refuses what it has not gathered yet.
#[derive(Debug)]
pub struct SendBuffer {
    // Declared first: the card must release the memory before it is freed.
    setting: Setting,
    area: MessageArea,
    start: usize,
    length: usize,
}

/// A tag of a terminus that the card has memory for.
#[derive(Debug)]
struct Setting {
    terminus: Arc<TerminusInner>,
    tag: u32,
}

impl SendBuffer {
    /// Sets a range of this area as a send buffer of the terminus. It must be within the area.
    pub(crate) fn create(
        terminus: &Arc<TerminusInner>,
        tag: u32,
        area: MessageArea,
        range: Range<usize>,
    ) -> Result<Self, GivenBack<MessageArea>> {
        let (start, length) = (range.start, range.len());
        let buffer = HamlynSendBuffer {
            terminus: terminus.number(),
            tag,
            address: area.memory().card_address() + start as u64,
            length: length as u64,
            registration: area.registration_at(terminus.attachment()),
            reserved: 0,
        };
        match terminus.attachment().set_send_buffer(buffer, area.memory()) {
            Ok(()) => Ok(Self { setting: Setting { terminus: terminus.clone(), tag }, area, start, length }),
            Err(error) => {
                terminus.return_tag(tag);
                Err(GivenBack::new(error, area))
            }
        }
    }

    /// Gives back the memory that was passed to [`crate::Terminus::lend`].
    ///
    /// # Errors
    /// [`crate::InFlightError`] while the card may still gather from it,
    /// [`crate::Error::Invalid`] if the type is another one. On error the buffer is given back.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        match self.area.may_take_back::<T>().and_then(|()| self.check_idle(0, self.len())) {
            Ok(()) => {
                let Self { setting, area, .. } = self;
                drop(setting);
                Ok(area.returned())
            }
            Err(error) => Err(GivenBack::new(error, self)),
        }
    }

    /// Returns `length` bytes in place, starting at `offset`, to be filled without copying. Each
    /// byte is stored separately.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`]; [`crate::InFlightError`] while the card may still gather from
    /// one of these bytes.
    pub fn cells(&mut self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.cells_of(offset, length)
    }

    /// Like [`SendBuffer::cells`], for callers that have divided the buffer among themselves.
    pub(crate) fn cells_of(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.check_idle(offset, length)?;
        self.area.cells(self.start + offset, length)
    }

    /// Returns the address in this process' memory. Only for languages that cannot use the other
    /// calls.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.area.as_ptr().wrapping_add(self.start)
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        self.area.memory().mapping()
    }

    /// Returns true if this is the application's own memory.
    pub(crate) fn is_lent(&self) -> bool {
        self.area.memory().mapping().is_lent()
    }

    /// Returns true if the memory belongs to a value of this type.
    pub(crate) fn is_over<T: 'static>(&self) -> bool {
        self.area.memory().mapping().is_over::<T>()
    }

    /// Fails if the card may still gather from any of these bytes.
    pub(crate) fn check_idle(&self, offset: usize, length: usize) -> Result<()> {
        inside("send buffer", offset as u64, length as u64, self.len() as u64)?;
        let state = self.setting.terminus.observe();
        state.uses.check(self.tag(), offset as u64, length as u64)
    }

    /// Returns the tag, 0 to 7.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.setting.tag
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Always returns false: a send buffer has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes in, starting at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`]; [`crate::InFlightError`] while the card may still gather from
    /// one of these bytes.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.store(offset, bytes)
    }

    /// Like [`SendBuffer::write`], for callers that have divided the buffer among themselves.
    pub(crate) fn store(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check_idle(offset, bytes.len())?;
        self.area.write(self.start + offset, bytes)
    }

    /// Copies bytes out, starting at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        inside("send buffer", offset as u64, bytes.len() as u64, self.len() as u64)?;
        self.area.read(self.start + offset, bytes)
    }

    /// Returns a reference to a piece of the buffer, for sending.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn piece(&self, offset: usize, length: usize) -> Result<Piece<'_>> {
        inside("send buffer", offset as u64, length as u64, self.len() as u64)?;
        Ok(Piece { buffer: self, offset: offset as u32, length: length as u32 })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // Ignore the error: a card that is gone has no send buffers, and no card writes to them.
        let _ = self.terminus.attachment().clear_send_buffer(self.terminus.number(), self.tag);
        self.terminus.return_tag(self.tag);
    }
}

/// A range of a send buffer: the paper's `<tag, offset, length>`.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    buffer: &'a SendBuffer,
    offset: u32,
    length: u32,
}

impl<'a> Piece<'a> {
    /// Returns the bytes in place.
    pub(crate) fn cells(&self) -> Result<&'a [AtomicU8]> {
        self.buffer.area.cells(self.buffer.start + self.offset as usize, self.len())
    }
}

impl Piece<'_> {
    /// Returns the send buffer's tag.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.buffer.tag()
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns true if the piece has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn tuple(&self) -> HamlynGather {
        HamlynGather { tag: self.buffer.tag(), reserved: 0, offset: self.offset, length: self.length }
    }

    pub(crate) fn belongs_to(&self, terminus: &Arc<TerminusInner>) -> bool {
        Arc::ptr_eq(&self.buffer.setting.terminus, terminus)
    }
}
