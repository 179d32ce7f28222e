//! Operations that the library needs from the driver of a DART card.

use std::sync::Arc;

use hamlyn_abi::dart::connection::DART_PAGE_SIZE;
use hamlyn_abi::dart::uapi::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Mapping};

use super::model::Dart;
use crate::core::attach::{CardAttachment, QueueFile};
use crate::core::device::Node;
use crate::core::memory::Memory;
use crate::error::Result;

/// The driver's interface to a DART card: the operations that need the operating system. The calls
/// and their arguments are described in `hamlyn_abi::dart::uapi`.
pub trait Attachment: CardAttachment {
    /// Opens an endpoint over `memory`.
    ///
    /// # Errors
    /// [`crate::Error::Exhausted`], [`crate::Error::Quota`], [`crate::Error::System`].
    fn open_endpoint(&self, argument: &mut DartEndpoint, memory: &Memory) -> Result<()>;

    /// Opens a bank.
    ///
    /// # Errors
    /// Same as [`Attachment::open_endpoint`].
    fn open_bank(&self, argument: &mut DartBank) -> Result<()>;

    /// Opens a queue.
    ///
    /// # Errors
    /// Same as [`Attachment::open_endpoint`].
    fn open_queue(&self, argument: &mut DartQueue) -> Result<()>;

    /// Opens a connection.
    ///
    /// # Errors
    /// Same as [`Attachment::open_endpoint`]; [`crate::Error::System`], also with `EHOSTUNREACH`.
    fn open_connection(&self, argument: &mut DartConnection) -> Result<()>;

    /// Closes the object with this number.
    fn close(&self, what: Object, number: u32);

    /// Returns a connection's page of the card, at an offset that the driver returned.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn page(&self, connection: u32, offset: u64) -> Result<Box<dyn Page>>;

    /// Maps the pages at an offset that the driver returned.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn map_pages(&self, what: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>>;

    /// Sets a connection's other end.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn set_peer(&self, argument: &mut DartPeer) -> Result<()>;

    /// Sets entries of a bank's programs.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn set_program(&self, argument: &mut DartSetProgram) -> Result<()>;

    /// Blocks until a queue has more records.
    ///
    /// # Errors
    /// [`crate::Error::System`], also with `ETIMEDOUT` or `EINTR`.
    fn wait_for_records(&self, argument: &mut DartQueueWait) -> Result<()>;

    /// Blocks until messages have left.
    ///
    /// # Errors
    /// [`crate::Error::System`], also with `ETIMEDOUT` or `EINTR`.
    fn wait_until_left(&self, argument: &mut DartLeftWait) -> Result<()>;

    /// Blocks until a connection has had exceptions that went to no queue.
    ///
    /// # Errors
    /// [`crate::Error::System`], also with `ETIMEDOUT` or `EINTR`.
    fn wait_for_exceptions(&self, argument: &mut DartExceptionWait) -> Result<()>;

    /// Returns a file that is readable while a queue is not empty.
    fn file(&self) -> QueueFile<'_>;
}

/// A connection's page of the card: the Send Registers, and the address registers of its window, at
/// the offsets of `hamlyn_abi::dart::connection`. This is MMIO, not memory: the card handles each
/// load and store.
pub trait Page: std::fmt::Debug + Send + Sync {
    /// Loads 8 bytes.
    fn load_u64(&self, place: u32) -> u64;

    /// Stores 8 bytes, after all earlier stores to memory.
    fn store_u64(&self, place: u32, value: u64);

    /// Stores 4 bytes, after all earlier stores to memory.
    fn store_u32(&self, place: u32, value: u32);
}

impl Page for Arc<Mapping> {
    fn load_u64(&self, place: u32) -> u64 {
        Mapping::load_u64(self, place as usize)
    }

    fn store_u64(&self, place: u32, value: u64) {
        self.store_u64_release(place as usize, value);
    }

    fn store_u32(&self, place: u32, value: u32) {
        self.store_u32_release(place as usize, value);
    }
}

/// Kinds of objects that the driver opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// An endpoint.
    Endpoint,
    /// A bank.
    Bank,
    /// A queue.
    Queue,
    /// A connection.
    Connection,
}

impl Attachment for Node<Dart> {
    fn open_endpoint(&self, argument: &mut DartEndpoint, memory: &Memory) -> Result<()> {
        let action = format!("open an endpoint of {} bytes", argument.length);
        self.create::<DART_IOC_ENDPOINT_OPEN, _>(&action, DART_SHARE_CONNECTIONS, argument, &[memory])
    }

    fn open_bank(&self, argument: &mut DartBank) -> Result<()> {
        self.create::<DART_IOC_BANK_OPEN, _>("open a bank", DART_SHARE_REGISTERS, argument, &[])
    }

    fn open_queue(&self, argument: &mut DartQueue) -> Result<()> {
        self.create::<DART_IOC_QUEUE_OPEN, _>("open a queue", DART_SHARE_QUEUES, argument, &[])
    }

    fn open_connection(&self, argument: &mut DartConnection) -> Result<()> {
        let action = format!("open a connection with host {}", argument.host);
        self.create::<DART_IOC_CONNECTION_OPEN, _>(&action, DART_SHARE_CONNECTIONS, argument, &[])
    }

    fn close(&self, what: Object, number: u32) {
        let mut object = UlnObject { index: number, ..UlnObject::default() };
        // A failure means that the card is gone, and the object with it.
        let _ = match what {
            Object::Endpoint => {
                self.call::<DART_IOC_ENDPOINT_CLOSE, _>("close an endpoint", &mut object, &[])
            }
            Object::Bank => self.call::<DART_IOC_BANK_CLOSE, _>("close a bank", &mut object, &[]),
            Object::Queue => self.call::<DART_IOC_QUEUE_CLOSE, _>("close a queue", &mut object, &[]),
            Object::Connection => {
                self.call::<DART_IOC_CONNECTION_CLOSE, _>("close a connection", &mut object, &[])
            }
        };
    }

    fn page(&self, _: u32, offset: u64) -> Result<Box<dyn Page>> {
        let length = DART_PAGE_SIZE as usize;
        Ok(Box::new(self.map("connection", offset, length, Access::ReadWrite)?))
    }

    fn map_pages(&self, what: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>> {
        self.map(what, offset, length, access)
    }

    fn set_peer(&self, argument: &mut DartPeer) -> Result<()> {
        self.call::<DART_IOC_CONNECT, _>("name the other end of a connection", argument, &[])
    }

    fn set_program(&self, argument: &mut DartSetProgram) -> Result<()> {
        self.call::<DART_IOC_SET_PROGRAM, _>("set entries of a program", argument, &[])
    }

    fn wait_for_records(&self, argument: &mut DartQueueWait) -> Result<()> {
        self.call::<DART_IOC_QUEUE_WAIT, _>("wait at a queue", argument, &[])
    }

    fn wait_until_left(&self, argument: &mut DartLeftWait) -> Result<()> {
        self.call::<DART_IOC_LEFT_WAIT, _>("wait until messages have left", argument, &[])
    }

    fn wait_for_exceptions(&self, argument: &mut DartExceptionWait) -> Result<()> {
        self.call::<DART_IOC_EXCEPTION_WAIT, _>("wait for exceptions", argument, &[])
    }

    fn file(&self) -> QueueFile<'_> {
        Node::file(self)
    }
}
