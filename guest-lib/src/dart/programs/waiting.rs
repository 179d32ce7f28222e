//! Waiting for what the other end is to tell.

use std::time::Duration;

use crate::core::waiting::Deadline;
use crate::dart::{Connection, Operation, Queue, Record, What};
use crate::error::{Error, Result};

/// How long a record is looked for before it is slept for.
const POLLING: Duration = Duration::from_micros(50);
/// How long is slept before it is looked whether nothing will come any more, which wakes nobody who
/// waits at a queue.
const LOOK: Duration = Duration::from_millis(20);

/// A message that something is to come of. No other is sent by its connection until it has come.
///
/// Of messages that were not executed a connection tells how many there are, and the last one's
/// operation. What was sent before is done before: so if the last one had this operation it is this
/// one, and if not it is one that is no concern of who waits now. Only one of the same operation,
/// for which nobody waits any more, is taken for this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    opcode: u32,
    /// How many of the connection's messages were not executed before it was sent.
    traps: u32,
}

impl Awaited {
    /// A message that is about to be sent.
    pub(super) fn new(connection: &Connection, operation: &Operation) -> Self {
        Self { opcode: operation.control().opcode, traps: connection.status().traps }
    }

    fn can_come(&self, connection: &Connection) -> Result<()> {
        let status = connection.status();
        match (status.broken, status.trap) {
            (Some(broken), _) => Err(Error::Broken(broken)),
            (None, Some((trap, opcode))) if status.traps != self.traps && opcode == self.opcode => {
                Err(Error::Trap(trap))
            }
            _ => Ok(()),
        }
    }
}

/// Waits for the event that is meant; others are passed over, and so are exceptions. Nothing will
/// come if the connection is broken, or the message that it is to come of was not executed.
pub(super) fn receive(
    queue: &mut Queue,
    connection: &Connection,
    awaited: &Awaited,
    timeout: Option<Duration>,
    is_meant: impl Fn(&Record) -> bool,
) -> Result<Record> {
    let is_meant = |record: &Record| record.what == What::Compared && is_meant(record);
    if let Some(found) = queue.poll(POLLING).filter(&is_meant) {
        return Ok(found);
    }
    let deadline = Deadline::new(timeout);
    loop {
        let left = deadline.check("answer")?;
        match queue.wait(Some(left.map_or(LOOK, |left| left.min(LOOK)))) {
            Ok(found) if is_meant(&found) => return Ok(found),
            Ok(_) | Err(Error::TimedOut { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Err(error) = awaited.can_come(connection) {
            // It may have come before that.
            return std::iter::from_fn(|| queue.poll(Duration::ZERO)).find(&is_meant).ok_or(error);
        }
    }
}
