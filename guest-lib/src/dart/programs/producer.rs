//! A queue of several producers.

use std::sync::Arc;
use std::time::Duration;

use crate::dart::{Connection, Operation};
use crate::error::Result;

/// A producer of items of up to 32 bytes for the event queue of its connection's other end, which
/// any number of producers share. If the queue is full, items wait in order, first in the cards and
/// then in [`Producer::put`]. Nothing is lost, and messages for other queues do not wait.
///
/// The consumer takes items as they arrive ([`crate::dart::Queue::recv`]): an item is the record's
/// data, and its tag the record's operand.
#[derive(Debug, Clone)]
pub struct Producer {
    connection: Arc<Connection>,
}

impl Producer {
    /// Creates a producer that uses this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    /// Puts the item at byte `from` of this end's endpoint; blocks while there is no room.
    ///
    /// # Errors
    /// Same as [`Connection::send`].
    pub fn put(&self, tag: u64, from: u64, length: u64) -> Result<()> {
        self.connection.send(&Operation::registers(tag).tell(), from..from + length)
    }

    /// As [`Producer::put`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`Producer::put`].
    pub fn put_timeout(&self, tag: u64, from: u64, length: u64, timeout: Duration) -> Result<()> {
        self.connection.send_timeout(&Operation::registers(tag).tell(), from..from + length, timeout)
    }
}
