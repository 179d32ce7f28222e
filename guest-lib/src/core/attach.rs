//! How any card is reached: what its driver, or whoever stands in for one, does for the library.
//!
//! A card's module has a trait of its own for what its model does beyond that, which asks for this
//! one.

use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use hamlyn_abi::uapi::{
    HamlynConnectionState, HamlynExpressQuery, HamlynQuery, HamlynSelfTest, HamlynStatistics,
};
use hamlyn_sys::Mapping;

use crate::core::express::pages::ExpressParts;
use crate::core::memory::Memory;
use crate::error::{Error, GivenBack, Result};

/// A card of any model as the driver offers it (section 3.1): what needs the operating system's
/// mediation.
///
/// One attachment is one protection domain: what it creates is its own and goes when it is dropped.
pub trait CardAttachment: Debug + Send + Sync {
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

    /// Makes memory of the application's own ([`Mapping::is_lent`]) such that objects of the card
    /// may be made of it.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] for memory that this attachment
    /// cannot reach. The mapping is given back.
    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let error = Error::Unsupported("this way to reach a card knows no memory of the application's own");
        Err(GivenBack::new(error, mapping))
    }

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
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] where no operating system takes
    /// part.
    fn listen(&self, _name: &str, _backlog: u32) -> Result<Box<dyn ListenerParts>> {
        Err(Error::Unsupported(NO_CONNECTIONS))
    }

    /// Asks for a connection (section 6.3).
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] where no operating system takes
    /// part.
    fn connect(&self, _host: u32, _name: &str, _private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        Err(Error::Unsupported(NO_CONNECTIONS))
    }

    /// Asks whether anybody on a host listens under a name (section 6.3). The question stands as a
    /// connection does, and ends with the answer.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] by a driver that cannot, or where no
    /// operating system takes part.
    fn ask(&self, _host: u32, _name: &str) -> Result<Box<dyn ConnectionParts>> {
        Err(Error::Unsupported(NO_QUESTIONS))
    }

    /// Makes an area of express memory for a host, zeros.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] without express memory.
    fn create_express(&self, _host: u32, _length: usize) -> Result<ExpressParts> {
        Err(Error::Unsupported(NO_EXPRESS))
    }

    /// Maps a host's area of express memory.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] without express memory.
    fn map_express(&self, _host: u32, _area: u32, _key: u64) -> Result<ExpressParts> {
        Err(Error::Unsupported(NO_EXPRESS))
    }

    /// Gives an area or a view back; its memory shows what nobody else sees.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_express(&self, _number: u32) -> Result<()> {
        Err(Error::Unsupported(NO_EXPRESS))
    }

    /// What there is of express memory with a host.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] without express memory.
    fn query_express(&self, _host: u32) -> Result<HamlynExpressQuery> {
        Err(Error::Unsupported(NO_EXPRESS))
    }
}

/// What users share that a card has only as many of as its driver has room for.
pub(crate) const CONNECTIONS: &str = "connections and names";
/// How to have more of them.
pub(crate) const CONNECTIONS_REMEDY: &str = "close some, here or in another process: a card has no more";

pub(crate) const NO_QUESTIONS: &str =
    "nobody here can ask whether a name is listened to: this machine's driver is too old, or there is none";

pub(crate) const NO_EXPRESS: &str =
    "there is no express memory: the card, its driver or this way to reach it has none";

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
    Shared(Arc<OwnedFd>),
}

impl std::os::fd::AsFd for QueueFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            QueueFile::Borrowed(file) => *file,
            QueueFile::Shared(file) => file.as_fd(),
        }
    }
}

/// Refuses another major version.
pub(crate) fn check_version(object: &'static str, value: u32, expected: u32) -> Result<()> {
    if value >> 16 != expected >> 16 {
        return Err(Error::Incompatible { object, value: value.into(), expected: expected.into() });
    }
    Ok(())
}
