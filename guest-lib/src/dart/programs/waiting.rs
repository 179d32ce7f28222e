//! Waiting for what the other end is to tell.

use std::time::Duration;

use crate::core::waiting::Deadline;
use crate::dart::{Connection, Queue, Record};
use crate::error::{Error, Result};

/// How long a record is looked for before it is slept for.
const POLLING: Duration = Duration::from_micros(50);
/// How long is slept before it is looked whether nothing will come any more, which wakes nobody who waits at a queue.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for the record that is meant; others are passed over. Nothing will come if the connection is broken, or a message of it was not
/// executed since there were so many `traps`.
pub(super) fn receive(
    queue: &mut Queue,
    connection: &Connection,
    traps: u32,
    timeout: Option<Duration>,
    is_meant: impl Fn(&Record) -> bool,
) -> Result<Record> {
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
        let status = connection.status();
        match (status.broken, status.trap) {
            (Some(broken), _) => return Err(Error::Broken(broken)),
            (None, Some((trap, _))) if status.traps != traps => return Err(Error::Trap(trap)),
            _ => {}
        }
    }
}
