//! The two ways to reach a card: through the driver, or straight through the card's vfio-user socket.
//!
//! Both speak the driver's verbs, with the structures of `hamlyn_abi::uapi`; nothing above knows which it is.
//! Addresses in the structures are [`Memory::card_address`].

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// What driver and library agree on, for an attachment of one's own.
pub use hamlyn_abi::uapi;
use hamlyn_abi::uapi::{
    HamlynConnectionState, HamlynQuery, HamlynSelfTest, HamlynSendBuffer, HamlynSlotCreate, HamlynStatistics,
};
/// Mapped memory, for an attachment of one's own.
pub use hamlyn_sys::Mapping;
/// The mapped structures of the data path, for an attachment of one's own.
pub use hamlyn_sys::window;
use hamlyn_sys::window::{QueueEntries, StatusWords, Window};

use crate::cursor::Sight;
use crate::error::{Error, GivenBack, Result};
use crate::memory::Memory;

mod connection;
mod device;
#[cfg(feature = "socket")]
mod socket;

pub use device::DeviceAttachment;
#[cfg(feature = "socket")]
pub use socket::SocketAttachment;

/// Rings a terminus: wakes a card that declared itself asleep.
pub trait Doorbell: Debug + Send + Sync {
    /// Rings.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card cannot be reached.
    fn ring(&self) -> Result<()>;
}

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
    /// Whether there is nothing to wait for: by its entry's `wrap` word, the notification is there or was overwritten.
    #[must_use]
    pub fn is_over(&self, word: u32) -> bool {
        Sight::of(word, self.pass) != Sight::NotYet
    }
}

/// A card as the driver offers it (section 3.1): what needs the operating system's mediation.
///
/// One attachment is one protection domain: what it creates is its own and goes when it is dropped.
pub trait Attachment: Debug + Send + Sync {
    /// Describes the card as it is now.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn query(&self) -> Result<HamlynQuery>;

    /// Zeroed memory that objects of the card may be made of, `length` bytes, 1 to 1 GiB.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::OutOfRange`].
    fn allocate(&self, length: usize) -> Result<Memory>;

    /// Makes memory of the application's own ([`Mapping::is_lent`]) such that objects of the card may be made of it.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] for memory that this attachment cannot reach. The mapping is given
    /// back.
    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let error = Error::Unsupported("this way to reach a card knows no memory of the application's own");
        Err(GivenBack::new(error, mapping))
    }

    /// Creates a send terminus; `weight` is its share of the link beside other busy termini, from 1.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts>;

    /// Destroys a send terminus; what is left in its work queue is abandoned.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_terminus(&self, terminus: u32) -> Result<()>;

    /// Sleeps until the status words' `completed` of a terminus has reached a number. It may return early, but not much later
    /// than the time-out: the caller looks, and calls again.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] by a driver that cannot: the caller has to look from time to time.
    fn wait_terminus(&self, _terminus: u32, _completed: u32, _timeout: Option<Duration>) -> Result<()> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// Makes [`Attachment::terminus_file`] readable once `completed` has reached a number. True if it has already.
    ///
    /// # Errors
    /// Those of [`Attachment::wait_terminus`].
    fn arm_terminus(&self, _terminus: u32, _completed: u32) -> Result<bool> {
        Err(Error::Unsupported(NO_COMPLETIONS))
    }

    /// What to poll for a terminus that was armed. One file may stand for several termini, and for queues.
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

    /// Sleeps until the awaited notification is there, or overwritten. It may return early, but not much later than the
    /// time-out: the caller looks, and calls again.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()>;

    /// Makes [`Attachment::queue_file`] readable once the awaited notification is there. True if it is already.
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

    /// Reads the card's counters.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn statistics(&self) -> Result<HamlynStatistics>;

    /// Runs the self-tests of access, DMA and interrupts.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn self_test(&self) -> Result<HamlynSelfTest>;

    /// Takes a name to listen under (section 6.3).
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] where no operating system takes part.
    fn listen(&self, _name: &str, _backlog: u32) -> Result<Box<dyn ListenerParts>> {
        Err(Error::Unsupported(NO_CONNECTIONS))
    }

    /// Asks for a connection (section 6.3).
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] where no operating system takes part.
    fn connect(&self, _host: u32, _name: &str, _private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        Err(Error::Unsupported(NO_CONNECTIONS))
    }

    /// Asks whether anybody on a host listens under a name (section 6.3). The question stands as a connection does, and ends with
    /// the answer.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] by a driver that cannot, or where no operating system takes part.
    fn ask(&self, _host: u32, _name: &str) -> Result<Box<dyn ConnectionParts>> {
        Err(Error::Unsupported(NO_QUESTIONS))
    }
}

/// What users share that a card has only as many of as its driver has room for.
pub(crate) const CONNECTIONS: &str = "connections and names";

const NO_QUESTIONS: &str =
    "nobody here can ask whether a name is listened to: this machine's driver is too old, or there is none";

const NO_COMPLETIONS: &str = "nobody here wakes who sleeps until requests are finished";

const NO_CONNECTIONS: &str =
    "connections are the operating system's affair: this card is attached to without one";

/// A listener, as the operating system has it.
pub trait ListenerParts: Debug + Send + Sync {
    /// The next request, if one waits.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn next_request(&self) -> Result<Option<Box<dyn ConnectionParts>>>;

    /// What is readable while one waits.
    fn file(&self) -> BorrowedFd<'_>;
}

/// A connection, as the operating system has it.
pub trait ConnectionParts: Debug + Send + Sync {
    /// How it stands.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn state(&self) -> Result<HamlynConnectionState>;

    /// Accepts what was asked for.
    ///
    /// # Errors
    /// [`crate::Error::NotConnected`], [`crate::Error::System`].
    fn accept(&self, private: &[u8]) -> Result<()>;

    /// Rejects what was asked for.
    ///
    /// # Errors
    /// [`crate::Error::NotConnected`], [`crate::Error::System`].
    fn reject(&self, private: &[u8]) -> Result<()>;

    /// Closes it gracefully.
    ///
    /// # Errors
    /// [`crate::Error::NotConnected`], [`crate::Error::System`].
    fn close(&self, private: &[u8]) -> Result<()>;

    /// What is writable while it is established, and readable once it has ended.
    fn file(&self) -> BorrowedFd<'_>;
}

/// A file descriptor to poll.
#[derive(Debug)]
pub enum QueueFile<'a> {
    /// The attachment's own.
    Borrowed(BorrowedFd<'a>),
    /// The queue's own.
    Shared(Arc<std::os::fd::OwnedFd>),
}

impl std::os::fd::AsFd for QueueFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            QueueFile::Borrowed(file) => *file,
            QueueFile::Shared(file) => file.as_fd(),
        }
    }
}

/// Says that the card has none left, and how it can have more. The driver has one terminus and one queue of its own in each
/// guest.
fn none_left(object: &'static str, limit: u32) -> Error {
    let remedy = match object {
        "termini" => "close some, or give the card more (hamlyn card --termini)",
        CONNECTIONS => "close some, here or in another process: a card has no more",
        "notification queues" => "close some, or give the card more (hamlyn card --queues)",
        _ => "close some, or give the card more memory (hamlyn card --sram)",
    };
    Error::Exhausted { object, limit, remedy }
}

/// Refuses another major version.
fn check_version(object: &'static str, value: u32, expected: u32) -> Result<()> {
    if value >> 16 != expected >> 16 {
        return Err(Error::Incompatible { object, value: value.into(), expected: expected.into() });
    }
    Ok(())
}

/// Refuses another card of the family.
fn check_model(value: u32, expected: u32) -> Result<()> {
    if value != expected {
        let object = "card model";
        return Err(Error::Incompatible { object, value: value.into(), expected: expected.into() });
    }
    Ok(())
}
