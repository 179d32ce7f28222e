//! Access to a Hamlyn card: through the driver, or directly through the card's vfio-user socket.
//!
//! Both implement the driver's calls, with the structures of `hamlyn_abi::uapi`. The layers above
//! do not depend on which one is used. Addresses in the structures are [`Memory::card_address`].

use std::fmt::Debug;
use std::time::Duration;

use hamlyn_abi::uapi::{HamlynSendBuffer, HamlynSlotCreate};
use hamlyn_sys::hamlyn::window::{QueueEntries, StatusWords, Window};

use crate::core::attach::{CardAttachment, QueueFile};
use crate::core::doorbell::Doorbell;
use crate::core::memory::Memory;
use crate::error::{Error, Result};
use crate::hamlyn::cursor::Sight;

/// A new send terminus, mapped.
#[derive(Debug)]
pub struct TerminusParts {
    /// The terminus number.
    pub terminus: u32,
    /// The window.
    pub window: Window,
    /// The status words.
    pub status: StatusWords,
    /// The doorbell.
    pub doorbell: Box<dyn Doorbell>,
}

/// A new notification queue, mapped.
#[derive(Debug)]
pub struct QueueParts {
    /// The queue number.
    pub queue: u32,
    /// The entries.
    pub entries: QueueEntries,
    /// The driver's offset for `mmap(2)`, which names the queue in
    /// [`CardAttachment::object_file`]. `None` for an attachment without a driver.
    pub offset: Option<u64>,
}

/// Identifies the notification to wait for: the one that the card writes to entry `cursor` in pass
/// `pass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueWait {
    /// The queue.
    pub queue: u32,
    /// The index of the entry.
    pub cursor: u32,
    /// The pass over the queue, from 0, modulo 2^30.
    pub pass: u32,
}

impl QueueWait {
    /// Returns true if the wait is over: the entry's `wrap` word shows that the notification has
    /// arrived or was overwritten.
    #[must_use]
    pub fn is_over(&self, word: u32) -> bool {
        Sight::of(word, self.pass) != Sight::NotYet
    }
}

/// A Hamlyn card as the driver presents it (section 3.1): termini, queues and slots, in addition to
/// what every card has.
pub trait Attachment: CardAttachment {
    /// Creates a send terminus. `weight` is its share of the link relative to other busy termini,
    /// from 1.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts>;

    /// Destroys a send terminus. Requests that are left in its work queue are abandoned.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_terminus(&self, terminus: u32) -> Result<()>;

    /// Sleeps until `completed` in a terminus' status words has reached a number. May return early,
    /// but not much later than the timeout: the caller checks, and calls again.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] if the driver cannot do this. The
    /// caller then has to poll.
    fn wait_terminus(&self, _terminus: u32, _completed: u32, _timeout: Option<Duration>) -> Result<()> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// Makes [`Attachment::terminus_file`] readable once `completed` has reached a number. Returns
    /// true if it already has.
    ///
    /// # Errors
    /// The errors of [`Attachment::wait_terminus`].
    fn arm_terminus(&self, _terminus: u32, _completed: u32) -> Result<bool> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// Returns the file to poll for a terminus that was armed. Several termini and queues may share
    /// one file.
    ///
    /// # Errors
    /// The errors of [`Attachment::wait_terminus`].
    fn terminus_file(&self, _terminus: u32) -> Result<QueueFile<'_>> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// Registers memory: its pages are pinned and counted once, for all slots and send buffers
    /// that name the registration. Returns its number, or 0 if the card has all memory of its
    /// users anyway, so that there is nothing to share.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] if the driver cannot do this.
    fn register(&self, _memory: &Memory) -> Result<u32> {
        Ok(0)
    }

    /// Ends a registration that no slot and no send buffer uses.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn deregister(&self, _registration: u32) -> Result<()> {
        Ok(())
    }

    /// Sets a piece of `memory` as a send buffer.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn set_send_buffer(&self, buffer: HamlynSendBuffer, memory: &Memory) -> Result<()>;

    /// Clears a send buffer.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()>;

    /// Creates a notification queue of `entries` entries.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn create_queue(&self, entries: u32) -> Result<QueueParts>;

    /// Destroys a notification queue that no slot uses.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_queue(&self, queue: u32) -> Result<()>;

    /// Sleeps until the awaited notification has arrived or was overwritten. May return early, but
    /// not much later than the timeout: the caller checks, and calls again.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()>;

    /// Makes [`Attachment::queue_file`] readable once the awaited notification has arrived. Returns
    /// true if it already has.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn arm_queue(&self, wait: QueueWait) -> Result<bool>;

    /// Returns the file to poll for a queue that was armed. Several queues may share one file.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn queue_file(&self, queue: u32) -> Result<QueueFile<'_>>;

    /// Creates a slot. Fills in its fields `slot` and `key`.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()>;

    /// Destroys a slot. Nothing is deposited after this returns.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_slot(&self, slot: u32) -> Result<()>;
}

pub(crate) const NO_REGISTRATIONS: &str =
    "this driver pins memory for each slot and each send buffer; it has no registrations";
pub(crate) const NO_COMPLETIONS: &str =
    "this driver or card cannot wake a process when its requests are finished";
