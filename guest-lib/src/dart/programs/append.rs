//! Store indirect with postincrement: a log in another host's memory.

use std::sync::Arc;

use crate::core::place::multiple;
use crate::dart::{Comparison, Connection, Operation, Source, Step, Target};
use crate::error::{Error, Result, at_most};

/// A log in an endpoint: entries of one length behind each other, to which many append. Its owner
/// has set three registers of the window, which all of them have ([`Log::set`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// The register that says where the next entry goes.
    pub tail: u8,
    /// The register that is an entry's length.
    pub step: u8,
    /// The register that says where the log ends.
    pub end: u8,
}

impl Log {
    /// Sets the registers for `entries` entries of `length` bytes, a multiple of 4 up to 32, from
    /// byte `start` of the endpoint on: by its owner, with any connection that has them in its
    /// window, before anybody appends.
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

    /// How many bytes of entries there are from `start` on: what is there of them has been written.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn written(&self, connection: &Connection, start: u64) -> Result<u64> {
        Ok(connection.register(self.tail.into())?.saturating_sub(start))
    }
}

/// Who appends to a log: a message for each entry, executed at one moment, so that no two have the
/// same place. The log's host has nothing to do with it.
#[derive(Debug, Clone)]
pub struct Appender {
    connection: Arc<Connection>,
    operation: Operation,
    length: u64,
}

impl Appender {
    /// Appends entries of `length` bytes, those of [`Log::set`], by this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>, log: Log, length: u32) -> Self {
        // What is behind an entry's length in its block is not written.
        let mask = (0..8).filter(|word| word * 4 >= length).fold(0, |mask, word| mask | 1 << word);
        let operation = Operation::write(0)
            .indirect(log.tail)
            .first(Step::Add, Source::J, Target::I)
            // A full log is not written to: it is refused before it changes anything.
            .tell_if(Comparison::Equal, Target::I, Source::K)
            .refuse_instead()
            .order(crate::dart::Order::ComparedFirst)
            .indices([log.tail, log.step, log.end])
            .mask(mask);
        Self { connection, operation, length: length.into() }
    }

    /// Appends the entry that is at byte `from` of this end's endpoint. If the log is full it is
    /// not appended, which the connection's [`crate::dart::Status`] tells, and a question that is
    /// asked behind it.
    ///
    /// # Errors
    /// [`Error::Misaligned`] for a length that no log's entries have; those of
    /// [`Connection::send`].
    pub fn append(&self, from: u64) -> Result<()> {
        multiple("length of an entry", self.length as usize, 4)?;
        self.connection.send(&self.operation, from..from + self.length)
    }
}
