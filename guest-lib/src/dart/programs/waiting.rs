//! Waiting for events from the other end.

use std::time::Duration;

use crate::core::waiting::Deadline;
use crate::dart::{Connection, Operation, Queue, Record, Trap, What};
use crate::error::{Error, Result};

/// Time between two checks whether the event can still arrive. A failure does not wake a thread
/// that waits at a queue.
const LOOK: Duration = Duration::from_millis(20);

/// A message whose event is awaited. Its connection sends no other message until the event has
/// arrived.
///
/// A connection reports how many messages were not executed, and the operation of the last one.
/// Earlier messages are finished before later ones. So if the last one has this operation, it is
/// this message, and if not, it is irrelevant here. Only an abandoned message of the same operation
/// can be mistaken for this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    opcode: u32,
    /// Number of the connection's messages that were not executed before this one was sent.
    traps: u32,
}

impl Awaited {
    /// Prepares for a message that is about to be sent.
    pub(super) fn new(connection: &Connection, operation: &Operation) -> Self {
        Self { opcode: operation.control().opcode, traps: connection.status().traps }
    }

    fn can_come(&self, connection: &Connection) -> Result<()> {
        let status = connection.status();
        match (status.broken, status.trap) {
            (Some(broken), _) => Err(broken.into()),
            (None, Some((trap, opcode))) if status.traps != self.traps && opcode == self.opcode => {
                Err(trap.into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether the event has come, or can never come because its message was not executed.
pub(super) fn is_decided(received: &Result<Record>) -> bool {
    received.as_ref().map_or_else(|error| error.of::<Trap>().is_some(), |_| true)
}

/// Waits for the event that `is_meant` accepts; discards other events and exceptions. Fails if the
/// connection is broken, or the message that causes the event was not executed.
pub(super) fn receive(
    queue: &mut Queue,
    connection: &Connection,
    awaited: &Awaited,
    timeout: Option<Duration>,
    is_meant: impl Fn(&Record) -> bool,
) -> Result<Record> {
    let is_meant = |record: &Record| record.what == What::Compared && is_meant(record);
    let deadline = Deadline::new(timeout);
    loop {
        let left = deadline.left();
        match queue.recv_timeout(left.map_or(LOOK, |left| left.min(LOOK))) {
            Ok(found) if is_meant(&found) => return Ok(found),
            Ok(_) | Err(Error::TimedOut { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Err(error) = awaited.can_come(connection) {
            // The event may have arrived before that.
            return std::iter::from_fn(|| queue.try_recv()).find(&is_meant).ok_or(error);
        }
        deadline.check("answer")?;
    }
}
