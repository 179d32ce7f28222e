//! Faults that every model has, and the end of all faults.

use crate::engine::violation::Violation;
use crate::engine::world::{Healing, Model, World};

impl<M: Model> World<M> {
    /// Takes the port down until step `end`.
    pub(crate) fn port_down(&mut self, host: usize, end: u64) -> Result<(), Violation> {
        if self.unplug(host)? {
            self.healings.push((end, Healing::Port(host)));
        }
        Ok(())
    }

    /// Takes the port down and up again within one step.
    pub(crate) fn port_flickers(&mut self, host: usize) -> Result<(), Violation> {
        if self.unplug(host)? { self.plug_in(host) } else { Ok(()) }
    }

    /// Stops the host and its driver until step `end`. If `frozen`, its card stops too.
    pub(crate) fn host_stops(&mut self, host: usize, end: u64, frozen: bool) {
        if !self.hosts[host].stopped {
            self.note(|| format!("host {host} stops (its card, too: {frozen})"));
            self.hosts[host].stopped = true;
            self.hosts[host].frozen = frozen;
            self.healings.push((end, Healing::Host(host)));
        }
    }

    /// Ends the faults that are due, or all of them if `now`.
    pub(crate) fn heal(&mut self, now: bool) -> Result<(), Violation> {
        let step = self.step;
        let (due, later) =
            std::mem::take(&mut self.healings).into_iter().partition(|(end, _)| now || *end <= step);
        self.healings = later;
        for (_, healing) in due {
            self.note(|| format!("over: {healing:?}"));
            match healing {
                Healing::Port(host) => self.plug_in(host)?,
                Healing::Host(host) => {
                    self.hosts[host].stopped = false;
                    self.hosts[host].frozen = false;
                }
                Healing::Own(own) => M::heal(self, own)?,
            }
        }
        Ok(())
    }
}
