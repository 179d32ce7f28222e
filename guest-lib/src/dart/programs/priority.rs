//! Priority queueing (section 2): who is disturbed only by what is more urgent than all that he
//! has.

use std::sync::Arc;

use crate::dart::{Comparison, Connection, Endpoint, Operation, Order, Source, Step, Target};
use crate::error::{Error, Result};

/// Bytes of an entry: what is sent is in its first 24, its priority behind.
const ENTRY: u64 = 32;
/// What an entry has for who put it.
const DATA: u64 = 24;

/// Which registers of the window a priority queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityRegisters {
    /// Where the next entry goes.
    pub tail: u8,
    /// The most urgent of those that were not looked at.
    pub most: u8,
    /// The length of an entry.
    pub step: u8,
}

/// The receiver's side: entries in an endpoint, in the order in which they came, and an event when
/// one is more urgent than all before it. They go on to the endpoint's end, where they are refused;
/// so a backlog is begun anew before, when nobody puts any.
#[derive(Debug)]
pub struct Backlog {
    connection: Arc<Connection>,
    registers: PriorityRegisters,
    /// Where the next entry is that was not taken.
    next: u64,
}

impl Backlog {
    /// Begins anew, with no entries, from byte `start` of the endpoint on.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for registers that the window has not.
    pub fn new(connection: Arc<Connection>, registers: PriorityRegisters, start: u64) -> Result<Self> {
        connection.set_register(registers.tail.into(), start)?;
        connection.set_register(registers.step.into(), ENTRY)?;
        connection.set_register(registers.most.into(), 0)?;
        Ok(Self { connection, registers, next: start })
    }

    /// Takes what has come since, each with its priority, the most urgent first. From then on
    /// anything is more urgent than nothing.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`] if the queue's registers were given what they cannot be. Then
    /// nothing is taken.
    pub fn take(&mut self, endpoint: &Endpoint) -> Result<Vec<(u64, [u8; DATA as usize])>> {
        // First, so that what comes from now on is told.
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

/// Who puts entries into another host's priority queue: a message for each.
#[derive(Debug, Clone)]
pub struct Urgent {
    connection: Arc<Connection>,
    registers: PriorityRegisters,
}

impl Urgent {
    /// Puts entries by this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>, registers: PriorityRegisters) -> Self {
        Self { connection, registers }
    }

    /// Puts an entry: 24 bytes of this end's endpoint from byte `from` on, behind which it writes
    /// the priority, more than 0.
    ///
    /// # Errors
    /// [`Error::Invalid`] for priority 0; those of [`Endpoint::write`] and [`Connection::send`].
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
        self.connection.send(&operation, from..from + ENTRY)
    }
}
