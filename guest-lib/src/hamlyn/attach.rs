//! How a Hamlyn card is reached: through the driver, or straight through the card's vfio-user
//! socket.
//!
//! Both speak the driver's verbs, with the structures of `hamlyn_abi::uapi`; nothing above knows
//! which it is. Addresses in the structures are [`Memory::card_address`].

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
    /// Its number.
    pub terminus: u32,
    /// Its window.
    pub window: Window,
    /// Its status words.
    pub status: StatusWords,
    /// Its doorbell.
    pub doorbell: Box<dyn Doorbell>,
}

/// A new notification queue, mapped.
#[derive(Debug)]
pub struct QueueParts {
    /// Its number.
    pub queue: u32,
    /// Its entries.
    pub entries: QueueEntries,
}

/// Which notification to wait for: the one that the card writes to entry `cursor` in pass `pass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueWait {
    /// The queue.
    pub queue: u32,
    /// An entry's index.
    pub cursor: u32,
    /// The pass over the queue, from 0, modulo 2^30.
    pub pass: u32,
}

impl QueueWait {
    /// Whether there is nothing to wait for: by its entry's `wrap` word, the notification is there
    /// or was overwritten.
    #[must_use]
    pub fn is_over(&self, word: u32) -> bool {
        Sight::of(word, self.pass) != Sight::NotYet
    }
}

/// A Hamlyn card as the driver offers it (section 3.1): termini, queues and slots, besides what any
/// card has.
pub trait Attachment: CardAttachment {
    /// Creates a send terminus; `weight` is its share of the link beside other busy termini, from
    /// 1.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts>;

    /// Destroys a send terminus; what is left in its work queue is abandoned.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_terminus(&self, terminus: u32) -> Result<()>;

    /// Sleeps until the status words' `completed` of a terminus has reached a number. It may return
    /// early, but not much later than the time-out: the caller looks, and calls again.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] by a driver that cannot: the caller
    /// has to look from time to time.
    fn wait_terminus(&self, _terminus: u32, _completed: u32, _timeout: Option<Duration>) -> Result<()> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// Makes [`Attachment::terminus_file`] readable once `completed` has reached a number. True if
    /// it has already.
    ///
    /// # Errors
    /// Those of [`Attachment::wait_terminus`].
    fn arm_terminus(&self, _terminus: u32, _completed: u32) -> Result<bool> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// What to poll for a terminus that was armed. One file may stand for several termini, and for
    /// queues.
    ///
    /// # Errors
    /// Those of [`Attachment::wait_terminus`].
    fn terminus_file(&self, _terminus: u32) -> Result<QueueFile<'_>> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// Makes a piece of `memory` a send buffer.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn set_send_buffer(&self, buffer: HamlynSendBuffer, memory: &Memory) -> Result<()>;

    /// Takes a send buffer back.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()>;

    /// Creates a notification queue of `entries` entries.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn create_queue(&self, entries: u32) -> Result<QueueParts>;

    /// Destroys a notification queue that no slot names.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_queue(&self, queue: u32) -> Result<()>;

    /// Sleeps until the awaited notification is there, or overwritten. It may return early, but not
    /// much later than the time-out: the caller looks, and calls again.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()>;

    /// Makes [`Attachment::queue_file`] readable once the awaited notification is there. True if it
    /// is already.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn arm_queue(&self, wait: QueueWait) -> Result<bool>;

    /// What to poll for a queue that was armed. One file may stand for several queues.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn queue_file(&self, queue: u32) -> Result<QueueFile<'_>>;

    /// Creates a slot. `slot` and `key` are filled in.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()>;

    /// Destroys a slot. Nothing more is deposited when it returns.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_slot(&self, slot: u32) -> Result<()>;
}

pub(crate) const NO_COMPLETIONS: &str = "nobody here wakes who sleeps until requests are finished";
