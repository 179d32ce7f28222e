//! Priority queueing (section 2): an entry only causes an event if it is more urgent than all
//! pending ones.

use std::sync::Arc;

use crate::dart::{Comparison, Connection, Endpoint, Operation, Order, Source, Step, Target};
use crate::error::{Error, Result};

/// Size of an entry in bytes: 24 bytes of data, then its priority.
const ENTRY: u64 = 32;
/// Size of an entry's data in bytes.
const DATA: u64 = 24;

/// The registers of the window that form a priority queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityRegisters {
    /// Address of the next entry.
    pub tail: u8,
    /// Highest priority of the entries that were not taken yet.
    pub most: u8,
    /// Length of an entry.
    pub step: u8,
}

/// The receiver's side: entries in an endpoint, in order of arrival, and an event when an entry is
/// more urgent than all before it.
///
/// Entries are refused at the endpoint's end. So the receiver must begin a new backlog before that,
/// at a time when no sender puts entries.
#[derive(Debug)]
pub struct Backlog {
    connection: Arc<Connection>,
    registers: PriorityRegisters,
    /// Address of the first entry that was not taken.
    next: u64,
}

impl Backlog {
    /// Begins a new backlog without entries, starting at byte `start` of the endpoint.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] if the window does not have these registers.
    pub fn new(connection: Arc<Connection>, registers: PriorityRegisters, start: u64) -> Result<Self> {
        connection.set_register(registers.tail.into(), start)?;
        connection.set_register(registers.step.into(), ENTRY)?;
        connection.set_register(registers.most.into(), 0)?;
        Ok(Self { connection, registers, next: start })
    }

    /// Takes all new entries, each with its priority, the most urgent first. Afterwards, an entry
    /// of any priority causes an event.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`] if the queue's registers have invalid values. Nothing is then
    /// taken.
    pub fn take(&mut self, endpoint: &Endpoint) -> Result<Vec<(u64, [u8; DATA as usize])>> {
        // Reset this first, so that entries that arrive from now on cause events.
        self.connection.set_register(self.registers.most.into(), 0)?;
        let tail = self.connection.register(self.registers.tail.into())?;
        let (mut found, mut next) = (Vec::new(), self.next);
        while next < tail {
            let mut entry = [0; ENTRY as usize];
            endpoint.read(next as usize, &mut entry)?;
            let (data, priority) = entry.split_at(DATA as usize);
            let mut own = [0; DATA as usize];
            own.copy_from_slice(data);
            let priority = priority.try_into().map_or(0, u64::from_le_bytes);
            found.push((priority, own));
            next += ENTRY;
        }
        self.next = next;
        found.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        Ok(found)
    }
}

/// The sender's side: puts entries into another host's priority queue, one message for each.
#[derive(Debug, Clone)]
pub struct Urgent {
    connection: Arc<Connection>,
    registers: PriorityRegisters,
}

impl Urgent {
    /// Creates a sender that uses this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>, registers: PriorityRegisters) -> Self {
        Self { connection, registers }
    }

    /// Puts an entry: 24 bytes of this end's endpoint from byte `from` on. Writes the priority
    /// after them, which must be more than 0.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the priority is 0; the errors of [`Endpoint::write`] and
    /// [`Connection::try_send`].
    pub fn put(&self, endpoint: &Endpoint, from: u64, priority: u64) -> Result<()> {
        if priority == 0 {
            return Err(Error::Invalid("a priority is more than 0"));
        }
        endpoint.write((from + DATA) as usize, &priority.to_le_bytes())?;
        let PriorityRegisters { tail, most, step } = self.registers;
        let operation = Operation::write(priority)
            .indirect(tail)
            .order(Order::ComparedFirst)
            .tell_if(Comparison::Less, Target::J, Source::Operand)
            .first(Step::Add, Source::K, Target::I)
            .second(Step::Maximum, Source::Operand, Target::J)
            .indices([tail, most, step]);
        self.connection.try_send(&operation, from..from + ENTRY)
    }
}
