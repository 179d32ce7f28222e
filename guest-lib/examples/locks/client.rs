//! A client of the lock managers.

use std::time::Duration;

use hamlyn::Ticket;

use crate::calls::Client;
use crate::common::Outcome;
use crate::table::Mode;

/// The locks of all managers.
pub(crate) struct Locks {
    managers: Vec<Client>,
    timeout: Duration,
}

impl Locks {
    /// With these managers, in an order on which all clients agree.
    pub(crate) fn new(managers: Vec<Client>, timeout: Duration) -> Outcome<Self> {
        if managers.is_empty() {
            return Err("there is no manager".into());
        }
        Ok(Self { managers, timeout })
    }

    /// Waits for a lock. The number rises with each grant of the manager.
    pub(crate) fn lock(&mut self, lock: &str, mode: Mode) -> Outcome<u64> {
        let procedure = match mode {
            Mode::Exclusive => "lock exclusive",
            Mode::Shared => "lock shared",
        };
        let number = self.call(procedure, lock)?;
        let number = number.try_into().map_err(|_| "the manager's answer is not a number")?;
        Ok(u64::from_le_bytes(number))
    }

    /// Gives a lock back.
    pub(crate) fn unlock(&mut self, lock: &str) -> Outcome {
        self.call("unlock", lock).map(drop)
    }

    /// The ticket of the words that the locks guard.
    pub(crate) fn words(&mut self) -> Outcome<Ticket> {
        let ticket = self.managers[0].call("words", &[], self.timeout)?;
        Ok(Ticket::from_bytes(&ticket)?)
    }

    /// Leaves all managers.
    pub(crate) fn close(self) -> Outcome {
        self.managers.into_iter().try_for_each(|manager| Ok(manager.close(self.timeout)?))
    }

    /// Calls the manager that the lock's name hashes to (FNV-1a).
    fn call(&mut self, procedure: &str, lock: &str) -> Outcome<Vec<u8>> {
        let hash = lock.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let manager = (hash % self.managers.len() as u64) as usize;
        Ok(self.managers[manager].call(procedure, lock.as_bytes(), self.timeout)?)
    }
}
