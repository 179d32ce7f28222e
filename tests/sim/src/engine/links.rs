//! Packets between cards and the switch, or directly from card to card; and ports that go down.

use hamlyn_card::card::Progress;
use hamlyn_fabric::HostId;

use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Model, World};

impl<M: Model> World<M> {
    /// Returns the hosts to which a card may hand over a packet directly. The packet must not
    /// overtake another one on its way to the same host.
    fn neighbours(&mut self, host: usize) -> Vec<u16> {
        if self.course.by_hand == 0 || !self.rng.percent(self.course.by_hand) {
            return Vec::new();
        }
        let takes = |world: &mut Self, other: usize| {
            let there = &world.hosts[other];
            other != host
                && !there.frozen
                && there.uplink.stage.is_empty()
                && there.machine.takes_packets()
                && world.switch.crossbar().is_clear(HostId(host as u16), HostId(other as u16))
        };
        (0..self.hosts.len()).filter(|other| takes(self, *other)).map(|other| other as u16).collect()
    }

    /// Brings a packet directly from one card to another, bypassing the rings.
    fn hand_over(&mut self, source: usize, destination: u16, bytes: Vec<u8>) -> Result<(), Violation> {
        let (source, host) = (source as u16, usize::from(destination));
        let passes = self.switch.crossbar().pass(HostId(source), HostId(destination), bytes.len());
        ensure(passes, || format!("host {source} may not hand a packet to {destination} any more"))?;
        self.note(|| format!("host {source} hands a packet to {destination}"));
        self.hosts[host].uplink.taken += 1;
        M::arrived(self, host, Arrived { source, bytes })?;
        // The packet may be an answer that the card waits for: wake it.
        self.hosts[host].machine.set_asleep(false);
        Ok(())
    }

    /// Lets a card send a packet.
    pub(crate) fn transmit(&mut self, host: usize) -> Result<Progress, Violation> {
        let neighbours = self.neighbours(host);
        let at = &mut self.hosts[host];
        at.uplink.neighbours = neighbours;
        let sent = at.uplink.sent;
        let progress = at.machine.with_card(|card, ports| card.transmit(ports, &mut at.uplink))?;
        at.uplink.check()?;
        let packets = at.uplink.sent - sent;
        ensure(packets <= 1, || format!("host {host}: {packets} packets went in one turn"))?;
        if packets == 1 {
            self.note(|| format!("host {host} sends a packet"));
        }
        for (destination, packet) in std::mem::take(&mut self.hosts[host].uplink.departed) {
            M::sent(self, host, destination, &packet);
        }
        if let Some((destination, packet)) = self.hosts[host].uplink.handed.take() {
            self.hand_over(host, destination, packet)?;
        }
        Ok(progress)
    }

    /// Hands a packet of the stage to its card.
    pub(crate) fn deliver(&mut self, host: usize, index: usize) -> Result<(), Violation> {
        let arrived = self.hosts[host].uplink.stage.remove(index);
        M::arrived(self, host, arrived)
    }

    /// Takes a port down, together with the packets in its rings. Returns whether the port was up.
    pub(crate) fn unplug(&mut self, host: usize) -> Result<bool, Violation> {
        if !self.hosts[host].uplink.is_up() {
            return Ok(false);
        }
        self.note(|| format!("port {host} goes down"));
        self.hosts[host].was_unplugged = true;
        M::before_unplug(self, host);
        self.switch.remove_port(HostId(host as u16));
        self.hosts[host].uplink.set_link(None);
        self.hosts[host].machine.set_link_state(false)?;
        M::after_unplug(self, host)?;
        Ok(true)
    }
}
