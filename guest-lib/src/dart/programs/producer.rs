//! A queue of several producers.

use std::sync::Arc;
use std::time::Duration;

use crate::dart::{Connection, Operation};
use crate::error::Result;

/// Who puts items of up to 32 bytes into the queue that its connection's other end has for events,
/// as any number of others do. If the queue is full they wait, in order, first in the cards and
/// then in [`Producer::put`]: nothing is lost, and nobody else waits.
///
/// The consumer takes them as they come ([`crate::dart::Queue::next`]): an item is the record's
/// data, its tag the record's operand.
#[derive(Debug, Clone)]
pub struct Producer {
    connection: Arc<Connection>,
}

impl Producer {
    /// Puts items by this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    /// Puts the item that is at byte `from` of this end's endpoint; sleeps while there is no room.
    ///
    /// # Errors
    /// Those of [`Connection::send_wait`].
    pub fn put(&self, tag: u64, from: u64, length: u64, timeout: Option<Duration>) -> Result<()> {
        self.connection.send_wait(&Operation::registers(tag).tell(), from..from + length, timeout)
    }
}
