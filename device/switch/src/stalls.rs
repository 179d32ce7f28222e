//! Detection of cards that accept nothing while others wait for them.

use std::time::Duration;

use hamlyn_fabric::HostId;

use super::Crossbar;
use crate::mesh::Mesh;
use crate::refusal::Lost;

/// Number of checks of each output within the time-out. A switch that was itself stopped for a
/// while checks only once when it resumes, so the cards are not penalized.
const LOOKS: u32 = 8;

/// In a mesh the switch detaches a card that takes less than 1/`PARTS` of its ring within the stall
/// time-out. Such a card blocks the links of other cards.
const PARTS: u64 = 64;

/// How long a card may accept nothing, and when it is checked next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    timeout: Duration,
    next: Duration,
}

impl Patience {
    pub(super) fn new(timeout: Duration) -> Patience {
        Patience { timeout, next: Duration::ZERO }
    }

    /// Returns whether the next check is due.
    fn is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.timeout / LOOKS;
        }
        due
    }
}

impl Crossbar {
    /// Returns the time until the next [check](Crossbar::look). `None`: no packet waits for a card.
    pub fn next_look(&self) -> Option<Duration> {
        let patience = self.patience.as_ref()?;
        let is_awaited = self.all_held > 0 || self.mesh.as_ref().is_some_and(Mesh::stands);
        is_awaited.then(|| patience.timeout / LOOKS)
    }

    /// Checks the cards that packets wait for, if a check is due. Detaches each card that took
    /// nothing, or too little in a mesh, for the stall time-out. `now` is the time since an
    /// arbitrary, fixed moment.
    pub fn look(&mut self, now: Duration) {
        let Some(patience) = &mut self.patience else { return };
        if !patience.is_due(now) {
            return;
        }
        let timeout = patience.timeout;
        let least = if self.mesh.is_some() { self.geometry.capacity as u64 / PARTS } else { 1 };
        for port in 0..self.outputs.len() {
            let Some(output) = &mut self.outputs[port] else { continue };
            let host = HostId(port as u16);
            let is_awaited = self.mesh.as_ref().is_some_and(|mesh| mesh.awaits(host));
            match output.is_stuck(LOOKS, is_awaited, least) {
                Ok(false) => {}
                Ok(true) => {
                    self.counters[port].stalled_out += 1;
                    self.lose(port, Lost::Stalled(timeout));
                }
                Err(error) => self.lose(port, Lost::Corrupt(error)),
            }
        }
    }
}
