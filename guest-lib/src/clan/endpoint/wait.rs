//! Waiting at an endpoint without lost wake-ups.

use std::time::Duration;

use hamlyn_abi::clan::uapi::ClanWait;

use super::core::Core;
use crate::core::waiting::{Deadline, slept, slice};
use crate::error::Result;

impl Core {
    /// Calls `look` until it finds something: first polls for a while, then calls it whenever one
    /// of `bits` has been set.
    ///
    /// Bits are cleared before each call of `look`, never after it. So an event after the call sets
    /// them again, and no wake-up is lost.
    pub(crate) fn wait_until<T>(
        &self,
        bits: u64,
        timeout: Option<Duration>,
        what: &'static str,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Deadline::new(timeout);
        let asleep = match self.poller().poll(timeout, || look().transpose()) {
            Ok(found) => return found,
            Err(asleep) => asleep,
        };
        loop {
            self.state().clear(bits);
            if let Some(found) = look()? {
                asleep.found();
                return Ok(found);
            }
            let left = deadline.check(what)?;
            let mut wait =
                ClanWait { bits, timeout_ns: slice(left), endpoint: self.number(), ..ClanWait::default() };
            slept(self.card().wait(&mut wait))?;
        }
    }
}
