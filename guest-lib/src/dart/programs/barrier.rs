//! A barrier over several hosts.

use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Awaited, is_decided, receive};
use crate::core::waiting::Deadline;
use crate::dart::{Comparison, Connection, Operation, Queue, Source, Step, Target, What};
use crate::error::{Error, Result};

/// The host's side of a barrier. One register of the host's card counts the members that have not
/// arrived yet. The next register holds the number of members, and the last arrival resets the
/// count to it. The host's software is notified of the last arrival, and releases all members.
#[derive(Debug)]
pub struct Barrier {
    members: Vec<Arc<Connection>>,
    complete: Queue,
    round: u64,
}

impl Barrier {
    /// Creates a barrier with one member for each connection. The windows of all of them must have
    /// register `register` and the next one, and their events must go to `complete`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are no members; [`Error::OutOfRange`] if the connections do not
    /// have the register.
    pub fn new(members: Vec<Arc<Connection>>, complete: Queue, register: u8) -> Result<Self> {
        let first = members.first().ok_or(Error::Invalid("a barrier has at least one member"))?;
        for register in [u32::from(register) + 1, register.into()] {
            first.set_register(register, members.len() as u64)?;
        }
        Ok(Self { members, complete, round: 0 })
    }

    /// Blocks until all members have arrived, and releases them. Returns the number of the round.
    ///
    /// # Errors
    /// The errors of [`Connection::try_send`].
    pub fn release(&mut self) -> Result<u64> {
        self.release_within(None)
    }

    /// As [`Barrier::release`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if some have not arrived yet; those of [`Barrier::release`].
    pub fn release_timeout(&mut self, timeout: Duration) -> Result<u64> {
        self.release_within(Some(timeout))
    }

    fn release_within(&mut self, timeout: Option<Duration>) -> Result<u64> {
        let deadline = Deadline::new(timeout);
        let mut left = deadline.left();
        while self.complete.recv_within(left)?.what != What::Compared {
            left = deadline.check("last arrival")?;
        }
        self.round += 1;
        for member in &self.members {
            member.try_send(&Operation::registers(self.round).tell(), 0..0)?;
        }
        Ok(self.round)
    }
}

/// A member of a barrier. It needs exclusive use of the queue for its connection's events. Nothing
/// else may send over the connection while it waits.
#[derive(Debug)]
pub struct Member {
    connection: Arc<Connection>,
    released: Queue,
    register: u8,
    /// The arrival that was sent and has not been released.
    arrival: Option<Awaited>,
}

impl Member {
    /// Creates a member that uses this connection.
    #[must_use]
    pub fn new(connection: Arc<Connection>, released: Queue, register: u8) -> Self {
        Self { connection, released, register, arrival: None }
    }

    /// Arrives at the barrier, blocks until all members have, and returns the number of the round.
    ///
    /// # Errors
    /// The errors of [`Connection::try_send`]; [`crate::dart::Broken`], [`crate::dart::Trap`].
    pub fn wait(&mut self) -> Result<u64> {
        self.wait_within(None)
    }

    /// As [`Member::wait`], but blocks for at most `timeout`. After that, the member has already
    /// arrived, and the next call only waits.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Member::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<u64> {
        self.wait_within(Some(timeout))
    }

    fn wait_within(&mut self, timeout: Option<Duration>) -> Result<u64> {
        let awaited = match self.arrival {
            Some(arrival) => arrival,
            None => self.arrive()?,
        };
        let released = receive(&mut self.released, &self.connection, &awaited, timeout, |_| true);
        let may_come = !is_decided(&released);
        self.arrival = may_come.then_some(awaited);
        Ok(released?.operand())
    }

    fn arrive(&self) -> Result<Awaited> {
        // The last arrival finds 0, and sets the register to the number of members. No other
        // arrival leaves that value.
        let arrive = Operation::registers(0)
            .first(Step::Decrement, Source::Operand, Target::I)
            .second(Step::ReplaceIfEqual, Source::K, Target::I)
            .tell_if(Comparison::Equal, Target::I, Source::K)
            .indices([self.register, 0, self.register.saturating_add(1)]);
        let awaited = Awaited::new(&self.connection, &arrive);
        self.connection.try_send(&arrive, 0..0)?;
        Ok(awaited)
    }
}
