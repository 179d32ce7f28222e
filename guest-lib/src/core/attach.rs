//! Access to any card: the operations that its driver, or a substitute for it, performs for the
//! library.
//!
//! Each card's module has its own trait for model-specific operations, which requires this trait.

use std::fmt::Debug;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hamlyn_abi::uapi::{UlnConnectionState, UlnExpressQuery, UlnQuery, UlnSelfTest, UlnStatistics};
use hamlyn_sys::Mapping;

use crate::core::memory::Memory;
use crate::error::{Error, GivenBack, Result};

/// A card of any model as its driver presents it (section 3.1): the operations that the operating
/// system mediates.
///
/// An attachment is one protection domain: it owns the objects it creates, and they go when it is
/// dropped.
pub trait CardAttachment: Debug + Send + Sync {
    /// Returns the card's current description.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn query(&self) -> Result<UlnQuery>;

    /// Allocates zeroed memory for objects of the card, `length` bytes, 1 to 1 GiB.
    ///
    /// # Errors
    /// [`crate::Error::System`], [`crate::Error::OutOfRange`].
    fn allocate(&self, length: usize) -> Result<Memory>;

    /// Prepares application memory ([`Mapping::is_lent`]) for objects of the card.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] for memory that this attachment
    /// cannot reach. The mapping is returned.
    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let error = Error::Unsupported("this way to reach a card knows no memory of the application's own");
        Err(GivenBack::new(error, mapping))
    }

    /// Reads the card's counters.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn statistics(&self) -> Result<UlnStatistics>;

    /// Runs the self-tests of access, DMA and interrupts.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn self_test(&self) -> Result<UlnSelfTest>;

    /// Registers a name to listen under (section 6.3).
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] for an attachment without an
    /// operating system.
    fn listen(&self, _name: &str, _backlog: u32) -> Result<Box<dyn ListenerParts>> {
        Err(Error::Unsupported(NO_CONNECTIONS))
    }

    /// Registers the name of a TCP connection, which only its owner gets.
    ///
    /// # Errors
    /// Those of [`CardAttachment::listen`].
    fn listen_as_socket(
        &self,
        _name: &str,
        _socket: BorrowedFd<'_>,
        _backlog: u32,
    ) -> Result<Box<dyn ListenerParts>> {
        Err(Error::Unsupported("names of TCP connections need a machine's driver"))
    }

    /// Requests a connection (section 6.3).
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] for an attachment without an
    /// operating system.
    fn connect(&self, _host: u32, _name: &str, _private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        Err(Error::Unsupported(NO_CONNECTIONS))
    }

    /// Asks a host whether it has a listener of this name (section 6.3). The query is an object
    /// like a connection, and ends with the answer.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] if the driver does not support
    /// queries, or for an attachment without an operating system.
    fn ask(&self, _host: u32, _name: &str) -> Result<Box<dyn ConnectionParts>> {
        Err(Error::Unsupported(NO_QUESTIONS))
    }

    /// Opens a file of its own for the object at this offset for `mmap(2)`. It is readable while
    /// the object has the awaited event: `what` is bits of a CLAN endpoint's bitmap, and zero for
    /// other objects.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] if the driver does not support such
    /// files, or for an attachment without an operating system.
    fn object_file(&self, _offset: u64, _what: u64) -> Result<OwnedFd> {
        Err(Error::Unsupported(NO_FILES))
    }

    /// Creates a zeroed area of express memory for a host.
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

    /// Releases an area or a view. Its mapping then shows private memory.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn destroy_express(&self, _number: u32) -> Result<()> {
        Err(Error::Unsupported(NO_EXPRESS))
    }

    /// Returns the state of the express memory shared with a host.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] without express memory.
    fn query_express(&self, _host: u32) -> Result<UlnExpressQuery> {
        Err(Error::Unsupported(NO_EXPRESS))
    }
}

/// How to get more of [`crate::error::CONNECTIONS`].
pub(crate) const CONNECTIONS_REMEDY: &str = "close some, here or in another process: a card has no more";

pub(crate) const NO_QUESTIONS: &str =
    "cannot ask whether a name has a listener: this machine's driver is too old, or the card has none";

pub(crate) const NO_FILES: &str =
    "cannot open a file for one object: this machine's driver is too old, or the card has none";

pub(crate) const NO_EXPRESS: &str =
    "there is no express memory: the card, its driver or this way to reach it has none";

const NO_CONNECTIONS: &str =
    "connections are the operating system's affair: this card is attached to without one";

/// A listener in the operating system.
pub trait ListenerParts: Debug + Send + Sync {
    /// Returns the next pending request, if any.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn next_request(&self) -> Result<Option<Box<dyn ConnectionParts>>>;

    /// Returns the file, which is readable while a request is pending.
    fn file(&self) -> BorrowedFd<'_>;
}

/// A connection in the operating system.
pub trait ConnectionParts: Debug + Send + Sync {
    /// Returns the current state.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn state(&self) -> Result<UlnConnectionState>;

    /// Accepts the request.
    ///
    /// # Errors
    /// [`crate::Error::NotConnected`], [`crate::Error::System`].
    fn accept(&self, private: &[u8]) -> Result<()>;

    /// Rejects the request.
    ///
    /// # Errors
    /// [`crate::Error::NotConnected`], [`crate::Error::System`].
    fn reject(&self, private: &[u8]) -> Result<()>;

    /// Closes the connection gracefully.
    ///
    /// # Errors
    /// [`crate::Error::NotConnected`], [`crate::Error::System`].
    fn close(&self, private: &[u8]) -> Result<()>;

    /// Returns the file: writable while established, readable once ended.
    fn file(&self) -> BorrowedFd<'_>;
}

/// An area or a view of express memory that the driver has created, mapped.
#[derive(Debug)]
pub struct ExpressParts {
    /// Its number on this host; the peer host uses an area's number as well.
    pub number: u32,
    /// Key of an area; 0 for a view.
    pub key: u64,
    /// The mapping.
    pub memory: Arc<Mapping>,
}

/// A file descriptor to poll.
#[derive(Debug)]
pub enum QueueFile<'a> {
    /// The attachment's file.
    Borrowed(BorrowedFd<'a>),
    /// The queue's file.
    Shared(Arc<OwnedFd>),
}

impl AsFd for QueueFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            QueueFile::Borrowed(file) => *file,
            QueueFile::Shared(file) => file.as_fd(),
        }
    }
}

/// Opens the file of the object at this offset. Where single objects have none, returns the file of
/// all objects.
pub(crate) fn file_of(
    card: &(impl CardAttachment + ?Sized),
    offset: u64,
    all: &QueueFile<'_>,
) -> Result<OwnedFd> {
    match card.object_file(offset, 0) {
        Err(Error::Unsupported(_)) => {
            all.as_fd().try_clone_to_owned().map_err(Error::system("have the card's file once more"))
        }
        file => file,
    }
}

/// Fails with [`Error::Incompatible`] if the major version differs.
pub(crate) fn check_version(object: &'static str, value: u32, expected: u32) -> Result<()> {
    if value >> 16 != expected >> 16 {
        return Err(Error::Incompatible { object, value: value.into(), expected: expected.into() });
    }
    Ok(())
}
