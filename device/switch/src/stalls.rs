//! Cards that take nothing while others wait for them.

use std::time::Duration;

use hamlyn_fabric::HostId;

use super::Crossbar;
use crate::mesh::Mesh;
use crate::refusal::Lost;

/// How often an output is looked at within the time-out. A switch that was itself stopped for a while looks only once when it
/// goes on, and so does not blame the cards.
const LOOKS: u32 = 8;

/// In a mesh a card has to take one of so many parts of its ring in the time-out, as whoever takes little there holds up others.
const PARTS: u64 = 64;

/// How long a card may take nothing, and when it is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    timeout: Duration,
    next: Duration,
}

impl Patience {
    pub(super) fn new(timeout: Duration) -> Patience {
        Patience { timeout, next: Duration::ZERO }
    }

    /// Whether it is time to look.
    fn is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.timeout / LOOKS;
        }
        due
    }
}

impl Crossbar {
    /// When to [look](Crossbar::look) next, from now; `None`: nobody waits for a card.
    pub fn next_look(&self) -> Option<Duration> {
        let patience = self.patience.as_ref()?;
        let is_awaited = self.all_held > 0 || self.mesh.as_ref().is_some_and(Mesh::stands);
        is_awaited.then(|| patience.timeout / LOOKS)
    }

    /// Looks, if it is time, whether the cards that others wait for take anything, or enough in a mesh, and detaches those that have
    /// not for as long as the stall time-out says. `now` is the time since some moment.
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
