//! A client of the lock managers.

use std::time::Duration;

use hamlyn::Ticket;
use hamlyn_examples::calls::{CallError, Client};

use crate::common::Outcome;
use crate::table::Mode;

/// How long to wait for answers that a manager gives at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// The locks of all managers.
pub(crate) struct Locks {
    managers: Vec<Client>,
    timeout: Duration,
}

impl Locks {
    /// Creates a client of these managers, whose order must be the same at all clients.
    pub(crate) fn new(managers: Vec<Client>, timeout: Duration) -> Outcome<Self> {
        if managers.is_empty() {
            return Err("there is no manager".into());
        }
        Ok(Self { managers, timeout })
    }

    /// Waits for a lock. Returns `None` if it was not granted in time. The returned number rises
    /// with each grant of the manager.
    pub(crate) fn lock(&mut self, lock: &str, mode: Mode) -> Outcome<Option<u64>> {
        let procedure = match mode {
            Mode::Exclusive => "lock exclusive",
            Mode::Shared => "lock shared",
        };
        match self.call(procedure, lock, self.timeout) {
            Ok(number) => {
                let number = number.try_into().map_err(|_| "the manager's answer is not a number")?;
                Ok(Some(u64::from_le_bytes(number)))
            }
            // A later grant would never be released.
            Err(CallError::Failed(error)) if error.is_timed_out() => {
                self.call("withdraw", lock, PATIENCE)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Releases a lock.
    pub(crate) fn unlock(&mut self, lock: &str) -> Outcome {
        Ok(self.call("unlock", lock, PATIENCE).map(drop)?)
    }

    /// Returns the ticket of the words guarded by the locks.
    pub(crate) fn words(&mut self) -> Outcome<Ticket> {
        let ticket = self.managers[0].call("words", &[], PATIENCE)?;
        Ok(Ticket::from_bytes(&ticket)?)
    }

    /// Leaves all managers.
    pub(crate) fn close(self) -> Outcome {
        self.managers.into_iter().try_for_each(|manager| Ok(manager.close(PATIENCE)?))
    }

    /// Calls the manager selected by the lock name's hash (FNV-1a).
    fn call(&mut self, procedure: &str, lock: &str, timeout: Duration) -> Result<Vec<u8>, CallError> {
        let hash = lock.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let manager = (hash % self.managers.len() as u64) as usize;
        self.managers[manager].call(procedure, lock.as_bytes(), timeout)
    }
}
