//! Store indirect with postincrement: a log in another host's memory.

use std::sync::Arc;

use crate::core::place::multiple;
use crate::dart::{Comparison, Connection, Operation, Source, Step, Target};
use crate::error::{Error, Result, at_most};

/// A log in an endpoint: contiguous entries of one length, to which many connections append. Its
/// owner has set three registers of the window ([`Log::set`]), which all these connections have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// The register that holds the address of the next entry.
    pub tail: u8,
    /// The register that holds the length of an entry.
    pub step: u8,
    /// The register that holds the end of the log.
    pub end: u8,
}

impl Log {
    /// Sets the registers for `entries` entries of `length` bytes, a multiple of 4 up to 32,
    /// starting at byte `start` of the endpoint. The owner calls this before any connection
    /// appends. It may use any connection that has the registers in its window.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`].
    pub fn set(&self, connection: &Connection, start: u64, length: u32, entries: u64) -> Result<()> {
        at_most("length of an entry", length.into(), 32)?;
        multiple("length of an entry", length as usize, 4)?;
        let end = entries.checked_mul(length.into()).and_then(|bytes| bytes.checked_add(start));
        let end = end.ok_or(Error::Invalid("the log does not fit into any memory"))?;
        for (register, value) in [(self.tail, start), (self.step, length.into()), (self.end, end)] {
            connection.set_register(register.into(), value)?;
        }
        Ok(())
    }

    /// Returns the number of bytes of entries from `start` on. All entries within them have been
    /// written.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn written(&self, connection: &Connection, start: u64) -> Result<u64> {
        Ok(connection.register(self.tail.into())?.saturating_sub(start))
    }
}

/// Appends to a log: one message for each entry, executed atomically, so that no two entries get
/// the same place. The log's host is not involved in software.
#[derive(Debug, Clone)]
pub struct Appender {
    connection: Arc<Connection>,
    operation: Operation,
    length: u64,
}

impl Appender {
    /// Creates an appender for entries of `length` bytes, as in [`Log::set`], over this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>, log: Log, length: u32) -> Self {
        // Words of the block after the entry's length are not written.
        let mask = (0..8).filter(|word| word * 4 >= length).fold(0, |mask, word| mask | 1 << word);
        let operation = Operation::write(0)
            .indirect(log.tail)
            .first(Step::Add, Source::J, Target::I)
            // A full log is not written to: the message is refused before it changes anything.
            .tell_if(Comparison::Equal, Target::I, Source::K)
            .refuse_instead()
            .order(crate::dart::Order::ComparedFirst)
            .indices([log.tail, log.step, log.end])
            .mask(mask);
        Self { connection, operation, length: length.into() }
    }

    /// Appends the entry at byte `from` of this end's endpoint. If the log is full, the entry is
    /// not appended. The connection's [`crate::dart::Status`] reports this, and so does a later
    /// question.
    ///
    /// # Errors
    /// [`Error::Misaligned`] if the length is invalid for a log's entries; the errors of
    /// [`Connection::try_send`].
    pub fn append(&self, from: u64) -> Result<()> {
        multiple("length of an entry", self.length as usize, 4)?;
        self.connection.try_send(&self.operation, from..from + self.length)
    }
}
