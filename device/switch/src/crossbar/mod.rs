//! Routing and arbitration.
//!
//! **Arbitration.** Inputs with packets are in one queue and are served in turn, one packet per
//! visit. So the discipline is round-robin, and an input with nothing to send costs nothing. A
//! packet whose output is full is [held][held], in a queue of its input and output alone, and the
//! input continues. This avoids head-of-line blocking. When the output has room again its queues
//! are served in turn, so no input starves at a contended output either. A large packet that can be
//! [cut][bursts] delays others for no longer than a small one.
//!
//! **Stops.** If many of a card's packets wait for a host, the switch stops the card: it must send
//! no more to that host. See the [bounds][held] for how many can wait. A card that ignores the stop
//! fills its own ring and waits there.
//!
//! **Stalls.** A host that accepts nothing for a while although others wait for it is detached
//! ([`Crossbar::look`]).
//!
//! **Paths.** With one path, a packet is copied from ring to ring and nothing overtakes anything.
//! With several, it is copied onto one of the output's [paths](crate::paths), and from there into
//! the ring. An output has no room when neither its paths nor its ring have any. Packets that can
//! be cut keep their order there.
//!
//! **Mesh.** With a mesh, packets pass through [routers and links](crate::mesh) instead, and
//! nothing is held. A host that accepts nothing blocks packets that share links with its own.
//!
//! **Groups.** A packet to a group is copied to its members' outputs. A member for which no more of
//! the source's packets can be held loses its copy ([`Crossbar::multicast`]).
//!
//! **Loss.** The crossbar drops packets to an absent host, packets without a valid header, packets
//! in or held for the rings of a dead card, and copies to group members without room. It drops no
//! others. Each is counted.
//!
//! **Trust.** A card's ring may hold anything. The source host id is the input port's number,
//! whatever the packet contains. A corrupt ring affects only its own port.
//!
//! [held]: crate::held
//! [bursts]: crate::bursts

mod direct;
mod groups;
mod inputs;
mod meshed;
mod outputs;
mod stalls;
#[cfg(test)]
pub(crate) mod tests;
mod transit;

use std::mem;
use std::time::Duration;

use hamlyn_fabric::stop::DESTINATIONS;
use hamlyn_fabric::{Consumer, Geometry, Header, HostId, Producer, RingError};

use crate::bursts::{Bursts, Policy};
use crate::counters::{PortCounters, SwitchCounters};
use crate::mesh::Shape;
use crate::paths::TURNS;
pub use crate::refusal::{Lost, Refusal};

use direct::Direct;
use groups::Copies;
use inputs::{Inputs, Wait};
use meshed::Meshed;
use outputs::Outputs;
use stalls::StallCheck;
use transit::{Offer, Taken, Transit};

/// The largest number of ports of a switch. Each port can be stopped.
pub const MAX_PORTS: u16 = DESTINATIONS as u16;

/// Result of an attempt to forward an input's oldest packet.
enum Forwarded {
    /// The packet was forwarded, held, or dropped and counted. The number is that of its copies, if
    /// it was for a group.
    Gone(usize),
    /// The input is empty.
    Nothing,
    /// The packet stays in the ring.
    NotNow(Wait),
    /// A ring is corrupt: this port must be detached.
    Broken(usize, RingError),
}

/// A non-blocking crossbar over any number of links. It uses no sockets, descriptors, threads or
/// clocks.
///
/// [`Crossbar::forward`] moves packets. When it finds none, [`Crossbar::sleep`] asks the links to
/// ring. The next work comes when one rings, which the caller reports with [`Crossbar::wake`].
#[derive(Debug)]
pub struct Crossbar {
    geometry: Geometry,
    inputs: Inputs,
    outputs: Outputs,
    transit: Box<dyn Transit>,
    stalls: Option<StallCheck>,
    counters: Vec<PortCounters>,
    lost: Vec<(HostId, Lost)>,
}

impl Crossbar {
    /// Creates a crossbar with `ports` free ports, for links of one geometry.
    pub fn new(ports: u16, geometry: Geometry) -> Crossbar {
        let ports = usize::from(ports.min(MAX_PORTS));
        Crossbar {
            geometry,
            inputs: Inputs::new(ports),
            outputs: Outputs::new(ports),
            transit: Box::new(Direct::new(ports, geometry)),
            stalls: None,
            counters: vec![PortCounters::default(); ports],
            lost: Vec::new(),
        }
    }

    /// Gives each output `paths` paths, on which packets can overtake each other. The seed
    /// determines which packets do. Not for a mesh.
    pub fn with_paths(mut self, paths: u16, seed: u64) -> Crossbar {
        self.outputs.set_paths(paths, seed);
        self
    }

    /// Sends packets through a mesh, or through none if `mesh` is `None`. The caller must ensure
    /// that the mesh has at least as many nodes as there are ports. Call this before a card is
    /// attached.
    pub fn with_mesh(mut self, mesh: Option<Shape>) -> Crossbar {
        self.transit = match mesh {
            Some(shape) => Box::new(Meshed::new(shape, self.geometry)),
            None => Box::new(Direct::new(self.inputs.len(), self.geometry)),
        };
        self
    }

    /// Cuts and joins packets of these protocols, and keeps their order on several paths. Call this
    /// before a card is attached.
    pub fn with_bursts(mut self, bursts: &[Bursts], policy: Policy) -> Crossbar {
        self.outputs.set_bursts(bursts, policy);
        self
    }

    /// Detaches cards that accept nothing for `timeout` while others wait; 0: never.
    pub fn with_stall_timeout(self, timeout: Duration) -> Crossbar {
        Crossbar { stalls: (!timeout.is_zero()).then(|| StallCheck::new(timeout)), ..self }
    }

    /// Returns the sizes that every link must have.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the port for a new card: the wanted one, or the first free one.
    pub fn free_port(&self, wanted: Option<HostId>) -> Result<HostId, Refusal> {
        let limit = self.inputs.len();
        match wanted {
            Some(host) if host.index() >= limit => Err(Refusal::OutOfRange { host, limit }),
            Some(host) if self.inputs.is_attached(host.index()) => Err(Refusal::Taken(host)),
            Some(host) => Ok(host),
            // A crossbar has at most MAX_PORTS ports, so the number fits.
            None => match (0..limit).find(|&port| !self.inputs.is_attached(port)) {
                Some(port) => Ok(HostId(port as u16)),
                None => Err(Refusal::Full(limit)),
            },
        }
    }

    /// Attaches the switch's end of a link to a port.
    pub fn attach(
        &mut self,
        sender: Producer,
        receiver: Consumer,
        wanted: Option<HostId>,
    ) -> Result<HostId, Refusal> {
        let host = self.free_port(wanted)?;
        for link in [sender.geometry(), receiver.geometry()] {
            if link != self.geometry {
                return Err(Refusal::Geometry { link, switch: self.geometry });
            }
        }
        let port = host.index();
        self.inputs.attach(port, receiver);
        self.outputs.attach(port, sender);
        self.stop_anew(port);
        self.counters[port].attached = true;
        Ok(host)
    }

    /// Applies the stops of its port's previous card to a new card. Packets of the previous card
    /// still wait, and go first.
    fn stop_anew(&mut self, port: usize) {
        if self.transit.held_from(port) == 0 {
            return;
        }
        for (host, output) in self.outputs.iter().enumerate() {
            if output.is_some_and(|output| output.held().has(port)) {
                self.inputs.stop(port, host);
            }
        }
    }

    /// Detaches a port whose card is gone. Packets that the card has sent are still forwarded or
    /// held. Packets that it has not taken are counted, and packets held for it are dropped.
    pub fn detach(&mut self, host: HostId) {
        let port = host.index();
        let Some(mut output) = self.outputs.detach(port) else { return };
        self.counters[port].undelivered += output.unread();
        for source in output.sources_on_paths() {
            self.counters[source.index()].dropped_absent += 1;
        }
        self.transit.detach(port, &output, &mut self.inputs, &mut self.counters);
        self.drain(port);
        self.inputs.detach(port);
        self.counters[port].attached = false;
    }

    /// Forwards what a dead card has left in its ring, where there is room, and counts the rest.
    /// Another process may still write to the memory, so it takes at most a ring's worth.
    fn drain(&mut self, port: usize) {
        let end = self.inputs.released(port).map(|start| start + self.geometry.capacity as u64);
        while self.inputs.released(port) < end {
            match self.forward_one(port) {
                Forwarded::Gone(_) => {}
                Forwarded::Nothing => return,
                Forwarded::Broken(other, _) if other == port => return,
                Forwarded::NotNow(_) | Forwarded::Broken(..) => {
                    self.inputs.consume(port);
                    self.counters[port].orphaned += 1;
                }
            }
        }
    }

    /// Moves at most about `budget` packets, and returns how many it moved or dropped. A step onto
    /// a path counts as a move, and so does holding a packet.
    pub fn forward(&mut self, budget: usize) -> usize {
        let mut moved = 0;
        while moved < budget && self.has_work() {
            for _ in 0..(TURNS * self.inputs.ready()).min(budget - moved) {
                let Some(port) = self.inputs.next() else { break };
                moved += self.visit(port);
            }
            for _ in 0..self.transit.turns() {
                moved += self.serve();
            }
        }
        moved
    }

    fn has_work(&self) -> bool {
        self.inputs.ready() > 0 || self.transit.turns() > 0
    }

    /// Serves an input that was removed from the ready queue. Returns how many packets it moved.
    fn visit(&mut self, port: usize) -> usize {
        if !self.inputs.visit(port) {
            return 0;
        }
        match self.forward_one(port) {
            Forwarded::Gone(packets) => {
                self.inputs.make_ready(port);
                return packets;
            }
            Forwarded::Nothing => self.inputs.list_empty(port),
            Forwarded::NotNow(wait) => {
                self.counters[port].blocked += u64::from(wait == Wait::Bounds);
                self.inputs.wait(port, wait);
            }
            Forwarded::Broken(other, error) => {
                self.lose(other, Lost::Corrupt(error));
                self.inputs.make_ready(port);
            }
        }
        0
    }

    /// Gives a turn to packets on their way to the outputs. Returns how many moved.
    fn serve(&mut self) -> usize {
        let served = self.transit.serve(&mut self.inputs, &mut self.outputs, &mut self.counters);
        for (port, error) in served.broken {
            self.lose(port, Lost::Corrupt(error));
        }
        served.moved
    }

    /// Forwards an input's oldest packet, or holds it.
    fn forward_one(&mut self, port: usize) -> Forwarded {
        let oldest = match self.inputs.peek(port) {
            Err(error) => return Forwarded::Broken(port, error),
            Ok(None) => return Forwarded::Nothing,
            Ok(Some(oldest)) => oldest,
        };
        let length = oldest.payload.len();
        match oldest.header {
            None => self.counters[port].dropped_malformed += 1,
            Some(header) => {
                if let Some(group) = header.destination.group() {
                    return self.multicast(port, header, group);
                }
                let destination = header.destination.index();
                let packet = Offer { header, payload: oldest.payload, largest: oldest.largest };
                match self.outputs.with_cutter(destination) {
                    None => self.counters[port].dropped_absent += 1,
                    Some((output, cutter)) => {
                        match self.transit.take(&packet, output, cutter, &mut self.counters[destination]) {
                            Err(error) => return Forwarded::Broken(destination, error),
                            Ok(Taken::NotNow(wait)) => return Forwarded::NotNow(wait),
                            Ok(Taken::Accepted) => {}
                            Ok(Taken::Held { stop }) => {
                                self.counters[port].stalls += 1;
                                let stops = stop && self.inputs.stop(port, destination);
                                self.counters[port].stops += u64::from(stops);
                            }
                        }
                    }
                }
            }
        }
        self.finish(port, length);
        Forwarded::Gone(1)
    }

    /// Removes an input's oldest packet, of `length` bytes, and counts it.
    fn finish(&mut self, port: usize, length: usize) {
        self.inputs.consume(port);
        self.counters[port].packets_in += 1;
        self.counters[port].bytes_in += length as u64;
    }

    /// Forwards an input's oldest packet, which has this header and is for a group.
    fn multicast(&mut self, port: usize, header: Header, group: u32) -> Forwarded {
        // Read only once: the cards may change it meanwhile.
        let is_member = |&port: &usize| self.outputs.is_attached(port) && self.inputs.is_member(port, group);
        let members: Vec<usize> = (0..self.inputs.len()).filter(is_member).collect();
        let payload = match self.inputs.peek(port) {
            Err(error) => return Forwarded::Broken(port, error),
            Ok(None) => return Forwarded::Nothing,
            Ok(Some(oldest)) => oldest.payload,
        };
        let length = payload.len();
        let copies = Copies::new(header, payload, &members);
        let Some(handed) = self.transit.take_copies(&copies, &mut self.outputs, &mut self.counters) else {
            return Forwarded::NotNow(Wait::Link);
        };
        for &member in &handed.stops {
            self.counters[port].stops += u64::from(self.inputs.stop(port, member));
        }
        self.finish(port, length);
        let counters = &mut self.counters[port];
        counters.stalls += handed.waiting;
        counters.copies_lost += handed.lost;
        match members.len() {
            0 => counters.dropped_absent += 1,
            members => counters.copied += members as u64 - 1,
        }
        for (member, error) in handed.broken {
            self.lose(member, Lost::Corrupt(error));
        }
        Forwarded::Gone(members.len().max(1))
    }

    /// Stops polling the inputs that were empty, until [`Crossbar::wake`] names them.
    ///
    /// For cards in one process, which knows which card ran last: use it instead of
    /// [`Crossbar::poll`] and [`Crossbar::sleep`].
    pub fn leave(&mut self) {
        self.inputs.take_empty();
    }

    /// Returns how often an input was visited since the start, to check that unused inputs are not
    /// visited.
    pub fn looks(&self) -> u64 {
        self.inputs.looks()
    }

    /// Checks again the inputs that were empty and are not asleep. Returns whether there may be
    /// work.
    pub fn poll(&mut self) -> bool {
        for port in self.inputs.take_empty() {
            self.inputs.make_ready(port);
        }
        self.has_work()
    }

    /// Asks the empty inputs' links to ring. Returns true if the next work comes with a bell, and
    /// false if work is pending.
    pub fn sleep(&mut self) -> bool {
        if self.has_work() {
            return false;
        }
        for port in self.inputs.take_empty() {
            if let Err(error) = self.inputs.sleep(port) {
                self.lose(port, Lost::Corrupt(error));
            }
        }
        !self.has_work() && self.lost.is_empty()
    }

    /// Handles a ring of a port's bell: the card has sent packets, or has room again. There may be
    /// work now.
    pub fn wake(&mut self, host: HostId) {
        let port = host.index();
        if !self.inputs.wake(port) {
            return;
        }
        if let Some(output) = self.outputs.get_mut(port) {
            output.wake();
            self.transit.wake(port, output);
        }
    }

    /// Returns the time until the next [check](Crossbar::look). `None`: no packet waits for a card.
    pub fn next_look(&self) -> Option<Duration> {
        self.stalls.filter(|_| self.transit.is_waiting()).map(|stalls| stalls.interval())
    }

    /// Checks the cards that packets wait for, if a check is due. Detaches each card that took
    /// nothing, or too little in a mesh, for the stall time-out. `now` is the time since an
    /// arbitrary, fixed moment.
    pub fn look(&mut self, now: Duration) {
        if !self.stalls.as_mut().is_some_and(|stalls| stalls.is_due(now)) {
            return;
        }
        for port in 0..self.inputs.len() {
            let Some(output) = self.outputs.get_mut(port) else { continue };
            let demand = self.transit.demand(HostId(port as u16), output);
            if let Some(reason) = self.stalls.and_then(|stalls| stalls.check(output, demand)) {
                self.counters[port].stalled_out += u64::from(matches!(reason, Lost::Stalled(_)));
                self.lose(port, reason);
            }
        }
    }

    /// Returns whether a packet may bypass the rings: both cards are attached, there is only one
    /// path, and no packet is in flight that it would overtake.
    ///
    /// For cards in one process, which hands the packet over itself.
    pub fn is_clear(&mut self, source: HostId, destination: HostId) -> bool {
        let Some(output) = self.outputs.get_mut(destination.index()) else { return false };
        output.may_be_bypassed()
            && self.transit.is_empty()
            && self.inputs.is_empty(source.index())
            && output.is_drained()
    }

    /// Counts a packet of `length` bytes that bypasses the rings. Returns `false` if it may not.
    pub fn pass(&mut self, source: HostId, destination: HostId, length: usize) -> bool {
        if !self.is_clear(source, destination) {
            return false;
        }
        self.transit.pass(source, destination, length);
        self.counters[source.index()].packets_in += 1;
        self.counters[source.index()].bytes_in += length as u64;
        self.counters[destination.index()].packets_out += 1;
        self.counters[destination.index()].bytes_out += length as u64;
        true
    }

    /// Returns the ports that were detached since the last call, because their rings were corrupt
    /// or their cards accepted nothing.
    pub fn take_lost(&mut self) -> Vec<(HostId, Lost)> {
        mem::take(&mut self.lost)
    }

    /// Returns a copy of all counters.
    pub fn counters(&self) -> SwitchCounters {
        let mut ports = self.counters.clone();
        for (port, output) in ports.iter_mut().zip(self.outputs.iter()) {
            port.waiting = output.map_or(0, |output| output.held().packets());
        }
        SwitchCounters { ports, links: self.transit.links() }
    }

    /// Detaches a port for a reason.
    fn lose(&mut self, port: usize, reason: Lost) {
        let host = HostId(port as u16);
        self.detach(host);
        self.lost.push((host, reason));
    }

    /// Returns whether the switch holds any packet, according to the bounds' counters.
    #[cfg(test)]
    pub(crate) fn holds_anything(&self) -> bool {
        (0..self.inputs.len()).any(|port| self.transit.held_from(port) > 0)
    }
}
