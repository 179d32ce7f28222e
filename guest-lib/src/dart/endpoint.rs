//! Regions of this process' memory that messages can access.

use std::sync::Arc;

use hamlyn_abi::dart::uapi::DartEndpoint;
use hamlyn_sys::Mapping;

use super::attachment::{Attachment, Object};
use crate::core::lend::{self, Lendable};
use crate::core::memory::Memory;
use crate::core::place::{aligned, multiple};
use crate::error::{Error, GivenBack, Result, inside};

/// An endpoint (section 3): a region of this process' memory. Messages of its connections write to
/// it and read it, at offsets from its first byte. It is also the source of data to be sent.
///
/// The memory is not pinned. If a message needs a page that was never touched, or is swapped out,
/// the page is brought in.
#[derive(Debug)]
pub struct Endpoint {
    parts: Arc<Parts>,
}

/// The part of an endpoint that connections keep alive.
#[derive(Debug)]
pub(super) struct Parts {
    // Dropped before `memory`: the card closes the endpoint first.
    open: Open,
    memory: Memory,
}

#[derive(Debug)]
struct Open {
    card: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.close(Object::Endpoint, self.number);
    }
}

impl Endpoint {
    pub(super) fn open(card: &Arc<dyn Attachment>, length: usize) -> Result<Self> {
        check(length)?;
        Self::make(card, card.allocate(length)?).map_err(Into::into)
    }

    pub(super) fn over<T: Lendable>(card: &Arc<dyn Attachment>, mut memory: T) -> Result<Self, GivenBack<T>> {
        let bytes = memory.as_mut();
        let (at, length) = (bytes.as_ptr() as usize, bytes.len());
        if let Err(error) = check(length).and_then(|()| multiple("address of the memory", at, 4)) {
            return Err(GivenBack::new(error, memory));
        }
        let memory = lend::lend(&**card, memory)?;
        Self::make(card, memory).map_err(|failed| GivenBack::new(failed.error, lend::returned(failed.back)))
    }

    /// Opens an endpoint over memory that is lent as a mapping, not by value.
    pub(super) fn over_mapping(card: &Arc<dyn Attachment>, mapping: Mapping) -> Result<Self> {
        check(mapping.length())?;
        multiple("address of the memory", mapping.address() as usize, 4)?;
        Self::make(card, card.lend(mapping)?).map_err(Into::into)
    }

    fn make(card: &Arc<dyn Attachment>, memory: Memory) -> Result<Self, GivenBack<Memory>> {
        let (address, length) = (memory.card_address(), memory.len() as u64);
        let mut opened = DartEndpoint { address, length, ..DartEndpoint::default() };
        if let Err(error) = card.open_endpoint(&mut opened, &memory) {
            return Err(GivenBack::new(error, memory));
        }
        let open = Open { card: card.clone(), number: opened.endpoint };
        Ok(Self { parts: Arc::new(Parts { open, memory }) })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.memory.len()
    }

    /// Returns whether the length is zero, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.parts.memory.mapping().address()
    }

    /// Copies bytes out of the endpoint. The copy may contain a part of a concurrent write.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.parts.memory.read(offset, to)
    }

    /// Copies bytes into the endpoint, for this process, for remote readers, and for sending.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.parts.memory.write(offset, from)
    }

    /// Loads 4 bytes atomically at `offset`, a multiple of 4. Later loads see everything that a
    /// message wrote before them.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn load_u32(&self, offset: usize) -> Result<u32> {
        self.check::<u32>(offset)?;
        Ok(self.parts.memory.mapping().load_u32_acquire(offset))
    }

    /// Stores 4 bytes atomically.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.check::<u32>(offset)?;
        self.parts.memory.mapping().store_u32_release(offset, value);
        Ok(())
    }

    fn check<W>(&self, offset: usize) -> Result<()> {
        inside("endpoint", offset as u64, size_of::<W>() as u64, self.len() as u64)?;
        aligned::<W>("offset", offset)
    }

    /// Tells the kernel that the endpoint's memory is not needed soon, so its pages may be swapped
    /// out. Does not apply to the application's own memory.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn page_out(&self) -> Result<()> {
        let told = self.parts.memory.mapping().page_out();
        told.map_err(Error::system("have an endpoint's pages swapped out"))
    }

    /// Returns the memory's pages to the kernel. Pages that are touched again, locally or by
    /// messages, are zero.
    ///
    /// # Errors
    /// [`Error::System`]; [`Error::Invalid`] if the memory is the application's own.
    pub fn discard(&self) -> Result<()> {
        let told = self.parts.memory.mapping().discard();
        told.map_err(Error::system("give an endpoint's pages back"))
    }

    /// Makes a child process keep a copy of the current bytes.
    ///
    /// # Errors
    /// [`Error::System`].
    #[cfg(feature = "test-hooks")]
    pub fn keep_copy(&self) -> Result<hamlyn_sys::KeptCopy> {
        let kept = self.parts.memory.mapping().keep_copy();
        kept.map_err(Error::system("have a child process"))
    }

    /// Closes the endpoint and returns the memory that was lent.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the memory was not lent as a value of this type, or a connection uses
    /// the endpoint. The error returns the endpoint unchanged.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        if let Err(error) = self.parts.memory.may_take_back::<T>() {
            return Err(GivenBack::new(error, self));
        }
        match Arc::try_unwrap(self.parts) {
            Ok(Parts { open, memory }) => {
                drop(open);
                Ok(lend::returned(memory))
            }
            Err(parts) => {
                let error = Error::Invalid("a connection names the endpoint");
                Err(GivenBack::new(error, Self { parts }))
            }
        }
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }
}

impl Parts {
    pub(super) fn card(&self) -> &Arc<dyn Attachment> {
        &self.open.card
    }

    pub(super) fn number(&self) -> u32 {
        self.open.number
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}

fn check(length: usize) -> Result<()> {
    if length == 0 {
        return Err(Error::Invalid("an endpoint has at least one byte"));
    }
    Ok(())
}
