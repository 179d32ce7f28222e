//! A barrier over several hosts.

use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Awaited, receive};
use crate::core::waiting::Deadline;
use crate::dart::{Comparison, Connection, Operation, Queue, Source, Step, Target, What};
use crate::error::{Error, Result};

/// Who looks after a barrier: one register of its host's card counts those that have still to come,
/// and the next one is how many members there are, to which the last arrival sets the first again.
/// Its software is told of that arrival, and releases all.
#[derive(Debug)]
pub struct Barrier {
    members: Vec<Arc<Connection>>,
    complete: Queue,
    round: u64,
}

impl Barrier {
    /// A barrier of as many members as there are connections, all of whose windows have the
    /// register under this number and the next, and whose events go to `complete`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no members; [`Error::OutOfRange`] for a register that they do not
    /// have.
    pub fn new(members: Vec<Arc<Connection>>, complete: Queue, register: u8) -> Result<Self> {
        let first = members.first().ok_or(Error::Invalid("a barrier has at least one member"))?;
        for register in [u32::from(register) + 1, register.into()] {
            first.set_register(register, members.len() as u64)?;
        }
        Ok(Self { members, complete, round: 0 })
    }

    /// Waits until all have come, and releases them.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: some have not come yet; those of [`Connection::send`].
    pub fn release(&mut self, timeout: Option<Duration>) -> Result<u64> {
        let deadline = Deadline::new(timeout);
        let mut left = deadline.left();
        while self.complete.wait(left)?.what != What::Compared {
            left = deadline.check("last arrival")?;
        }
        self.round += 1;
        for member in &self.members {
            member.send(&Operation::registers(self.round).tell(), 0..0)?;
        }
        Ok(self.round)
    }
}

/// A member of a barrier. It has the queue that its connection's events go to for itself, and
/// nobody else sends by the connection while it waits.
#[derive(Debug)]
pub struct Member {
    connection: Arc<Connection>,
    released: Queue,
    register: u8,
    /// The arrival that was sent and has not been released.
    arrival: Option<Awaited>,
}

impl Member {
    /// A member by this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>, released: Queue, register: u8) -> Self {
        Self { connection, released, register, arrival: None }
    }

    /// Comes to the barrier, and waits until all have; the round. After a time-out it has come
    /// already, and waits alone.
    ///
    /// # Errors
    /// Those of [`Connection::send`]; [`Error::Broken`], [`Error::Trap`]; [`Error::TimedOut`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<u64> {
        let awaited = match self.arrival {
            Some(arrival) => arrival,
            None => self.arrive()?,
        };
        let released = receive(&mut self.released, &self.connection, &awaited, timeout, |_| true);
        let may_come = !matches!(released, Ok(_) | Err(Error::Trap(_)));
        self.arrival = may_come.then_some(awaited);
        Ok(released?.operand())
    }

    fn arrive(&self) -> Result<Awaited> {
        // The last arrival finds 0, and sets the register to the number of members, which no other
        // arrival leaves there.
        let arrive = Operation::registers(0)
            .first(Step::Decrement, Source::Operand, Target::I)
            .second(Step::ReplaceIfEqual, Source::K, Target::I)
            .tell_if(Comparison::Equal, Target::I, Source::K)
            .indices([self.register, 0, self.register.saturating_add(1)]);
        let awaited = Awaited::new(&self.connection, &arrive);
        self.connection.send(&arrive, 0..0)?;
        Ok(awaited)
    }
}
