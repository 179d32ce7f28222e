//! The way through a [mesh](crate::mesh): from an input into it, and out of it into a card's ring.
//!
//! Nothing is held: a packet whose link into the mesh is not free stays in its input's ring.

use hamlyn_fabric::{Geometry, HostId, RingError};
use vm_memory::VolatileSlice;

use super::groups::{Copies, Handed};
use super::inputs::{Inputs, Wait};
use super::outputs::Outputs;
use super::transit::{Offer, Served, Taken, Transit};
use crate::bursts::Cutter;
use crate::counters::PortCounters;
use crate::held::Packet;
use crate::mesh::{Arrival, LinkCounters, Mesh, Place, Shape};
use crate::output::Output;

/// A card must take 1/`PARTS` of its ring within the stall time-out. A slower card blocks the links
/// of other cards.
const PARTS: u64 = 64;

#[derive(Debug)]
pub(super) struct Meshed {
    mesh: Mesh,
    /// Bytes that a card must take within the stall time-out.
    least: u64,
}

impl Meshed {
    pub(super) fn new(shape: Shape, geometry: Geometry) -> Meshed {
        Meshed { mesh: Mesh::new(shape), least: geometry.capacity as u64 / PARTS }
    }

    /// Joins a packet with the one before it, if that waits. Returns whether it did.
    fn join(&mut self, packet: &Offer<'_>, cutter: Option<&mut Cutter>) -> bool {
        let may_extend = self.mesh.may_extend(packet.header.source);
        let Some(cutter) = cutter.filter(|cutter| may_extend && cutter.knows(packet.header.protocol)) else {
            return false;
        };
        let join = |last: &Packet, next: &Packet, is_contended| {
            cutter.join_in_mesh((last, next), is_contended, packet.largest)
        };
        self.mesh.extend(&Packet::copy(packet.header, &packet.payload), join)
    }

    /// Asks cards that had no room to ring when they have. A card that has room by now does not
    /// ring, so the mesh is moved again. Returns the ports whose rings are corrupt.
    fn ask_for_room(&mut self, full: Vec<usize>, outputs: &mut Outputs) -> Vec<(usize, RingError)> {
        let mut broken: Vec<(usize, RingError)> = Vec::new();
        for port in full {
            if broken.iter().any(|(other, _)| *other == port) {
                continue;
            }
            match outputs.get_mut(port).map(Output::ask_for_room) {
                Some(Ok(false)) => self.mesh.stir(),
                Some(Ok(true)) | None => {}
                Some(Err(error)) => broken.push((port, error)),
            }
        }
        broken
    }

    /// Makes waiting inputs ready if their link into the mesh is free, or if their next packet may
    /// be joined with the last.
    fn admit(&self, inputs: &mut Inputs, joins: bool) {
        for port in 0..inputs.len() {
            let host = HostId(port as u16);
            if self.mesh.takes_from(host) || joins && self.mesh.may_extend(host) {
                inputs.end_wait(port, Wait::Link);
            }
        }
    }
}

impl Transit for Meshed {
    fn take(
        &mut self,
        packet: &Offer<'_>,
        _output: &mut Output,
        cutter: Option<&mut Cutter>,
        counters: &mut PortCounters,
    ) -> Result<Taken, RingError> {
        if self.mesh.takes_from(packet.header.source) {
            self.mesh.inject(Packet::copy(packet.header, &packet.payload));
            return Ok(Taken::Accepted);
        }
        if !self.join(packet, cutter) {
            return Ok(Taken::NotNow(Wait::Link));
        }
        counters.joined += 1;
        Ok(Taken::Accepted)
    }

    fn take_copies(
        &mut self,
        copies: &Copies<'_>,
        _outputs: &mut Outputs,
        _counters: &mut [PortCounters],
    ) -> Option<Handed> {
        let may_enter = copies.members().is_empty() || self.mesh.takes_from(copies.source());
        may_enter.then(|| copies.inject(&mut self.mesh))
    }

    fn turns(&self) -> usize {
        usize::from(self.mesh.can_move())
    }

    fn serve(&mut self, inputs: &mut Inputs, outputs: &mut Outputs, counters: &mut [PortCounters]) -> Served {
        let next: Vec<HostId> = inputs.waiting(Wait::Link).map(|port| HostId(port as u16)).collect();
        let (mut full, mut broken, mut cuts) = (Vec::new(), Vec::new(), Vec::new());
        let (ports, mut cutter) = outputs.all_with_cutter();
        let joins = cutter.is_some();
        let cut = |packet: &Packet, is_contended: bool| {
            let parts = cutter.as_mut()?.cut_in_mesh(packet, is_contended)?;
            cuts.push(packet.header.destination.index());
            Some(parts)
        };
        let moved = self.mesh.run(&next, cut, |packet| {
            let (port, source) = (packet.header.destination.index(), packet.header.source.index());
            let Some(output) = &mut ports[port] else {
                counters[source].dropped_absent += 1;
                return Arrival::Taken;
            };
            let payload = VolatileSlice::from(&mut packet.payload[..]);
            match output.accept(packet.header, &payload, &mut counters[port]) {
                Ok(true) => return Arrival::Taken,
                Ok(false) => full.push(port),
                Err(error) => broken.push((port, error)),
            }
            Arrival::NoRoom
        });
        cuts.into_iter().for_each(|port| counters[port].cut += 1);
        let mut unasked = self.ask_for_room(full, outputs);
        unasked.append(&mut broken);
        self.admit(inputs, joins);
        Served { moved, broken: unasked }
    }

    fn wake(&mut self, _port: usize, _output: &mut Output) {
        self.mesh.stir();
    }

    fn detach(&mut self, _: usize, _: &Output, _: &mut Inputs, _: &mut [PortCounters]) {
        self.mesh.stir();
    }

    fn is_waiting(&self) -> bool {
        self.mesh.stands()
    }

    fn demand(&self, host: HostId, _output: &Output) -> Option<u64> {
        self.mesh.awaits(host).then_some(self.least)
    }

    fn is_empty(&self) -> bool {
        self.mesh.is_empty()
    }

    fn pass(&mut self, source: HostId, destination: HostId, length: usize) {
        self.mesh.pass(source, destination, length);
    }

    fn links(&self) -> Vec<(Place, LinkCounters)> {
        self.mesh.links().collect()
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_fabric::{Header, Link, Protocol};

    use super::*;
    use crate::crossbar::tests::{SMALL, take};

    #[test]
    fn mesh_does_not_wait_for_returned_room() {
        let (mut card, switch) = Link::pair(SMALL).unwrap();
        let (mut inputs, mut outputs) = (Inputs::new(1), Outputs::new(1));
        outputs.attach(0, switch.sender);
        let mut meshed = Meshed::new(Shape { columns: 1, rows: 1 }, SMALL);
        let (source, destination) = (HostId(0), HostId(0));
        let header = Header { destination, source, protocol: Protocol::parse(1).unwrap() };
        loop {
            meshed.mesh.inject(Packet::new(header, vec![7; 500]));
            if meshed.serve(&mut inputs, &mut outputs, &mut [PortCounters::default()]).moved == 0 {
                break;
            }
        }
        meshed.ask_for_room(vec![0], &mut outputs);
        assert!(!meshed.mesh.can_move(), "the card rings when it has room");
        // The card takes packets after the mesh found it full, and before it is asked to ring.
        while take(&mut card).is_some() {}
        meshed.ask_for_room(vec![0], &mut outputs);
        assert!(meshed.mesh.can_move());
    }
}
