//! Message areas: memory that messages are deposited in (section 2.2).

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};

use crate::core::memory::Memory;
use crate::error::{GivenBack, Result};
use crate::hamlyn::attach::Attachment;

/// A contiguous region of this process' memory. Several slots may refer to the same area (section
/// 2.2).
///
/// Cheap to clone: all clones share the same memory. It stays while a clone or a slot is left.
#[derive(Debug, Clone)]
pub struct MessageArea {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Declared first: the driver must release the memory before it is freed.
    registration: OnceLock<Registration>,
    memory: Memory,
}

/// Memory that a card's driver has pinned for all objects over it.
#[derive(Debug)]
struct Registration {
    attachment: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Fails if the card is gone; then the driver has released the memory.
        let _ = self.attachment.deregister(self.number);
    }
}

impl MessageArea {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { inner: Arc::new(Inner { registration: OnceLock::new(), memory }) }
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory().len()
    }

    /// Always returns false: an area has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory().is_empty()
    }

    /// Copies received bytes out, starting at `offset`.
    ///
    /// The copy may contain part of a message that a sender is still writing there. It cannot once
    /// the message's notification has arrived and no sender writes there again.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.memory().read(offset, to)
    }

    /// Writes bytes, starting at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.memory().write(offset, from)
    }

    /// Returns `length` bytes in place, starting at `offset`, without copying. The card may write
    /// to them at any time, so each byte is loaded separately. The bytes of a message whose
    /// notification has arrived do not change until the receiver lets others write there.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn cells(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.memory().cells(offset, length)
    }

    /// Gives back the memory that was passed to [`crate::Card::lend`], with what has arrived in it.
    /// They are plain bytes again, because nothing writes there anymore.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`], with the area, while a slot, a receiver or another clone has it,
    /// or if the type is another one.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        let Inner { registration, memory } = Arc::try_unwrap(self.inner).map_err(|inner| {
            let error = crate::Error::Invalid("a slot, a receiver or a clone still has the message area");
            GivenBack::new(error, Self { inner })
        })?;
        drop(registration);
        memory.take_back().map_err(|failed| GivenBack::new(failed.error, Self::new(failed.back)))
    }

    /// Returns the address in this process' memory. Only for languages that cannot use the other
    /// calls.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.memory().mapping().address() as usize as *const u8
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.inner.memory
    }

    /// Pins the memory for all slots and send buffers over it ([`crate::Card::register`]).
    pub(crate) fn register(&self, attachment: &Arc<dyn Attachment>) -> Result<()> {
        if self.inner.registration.get().is_none() {
            let number = attachment.register(self.memory())?;
            let registration = Registration { attachment: attachment.clone(), number };
            // If another thread was faster, its registration stays, and this one ends.
            let _ = self.inner.registration.set(registration);
        }
        Ok(())
    }

    /// Returns the number of the registration at this card, or 0 if there is none.
    pub(crate) fn registration_at(&self, attachment: &Arc<dyn Attachment>) -> u32 {
        let registration = self.inner.registration.get();
        registration
            .filter(|found| Arc::ptr_eq(&found.attachment, attachment))
            .map_or(0, |found| found.number)
    }

    /// Returns the value of a failed loan, or of an area that has no other user.
    pub(crate) fn returned<T: 'static>(self) -> T {
        match self.take_back() {
            Ok(value) => value,
            Err(failed) => unreachable!("{}", failed.error),
        }
    }

    /// Returns whether [`MessageArea::take_back`] would succeed.
    pub(crate) fn may_take_back<T: 'static>(&self) -> Result<()> {
        if Arc::strong_count(&self.inner) > 1 {
            return Err(crate::Error::Invalid("a slot, a receiver or a clone still has the message area"));
        }
        self.memory().may_take_back::<T>()
    }
}
