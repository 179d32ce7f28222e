//! Packets that pass through a mesh: from an input into it, and out of it into a card's ring.

use hamlyn_fabric::{Header, HostId};
use vm_memory::VolatileSlice;

use super::{Crossbar, Input, State};
use crate::bursts::Cutter;
use crate::held::Packet;
use crate::mesh::{Arrival, Mesh};
use crate::refusal::Lost;

/// Result of an attempt to put a packet into the mesh.
pub(super) enum Entered {
    /// It is in the mesh as a packet of its own.
    Alone,
    /// It was joined with the packet before it.
    Joined,
    /// Its link into the mesh is not free.
    NotNow,
}

/// Puts a packet into the mesh, or joins it with the one before it. `largest` is the length of the
/// longest packet that its source has sent.
pub(super) fn enter(
    mesh: &mut Mesh,
    cutter: Option<&mut Cutter>,
    (header, payload): (Header, &VolatileSlice<'_>),
    largest: usize,
) -> Entered {
    if mesh.takes_from(header.source) {
        mesh.inject(Packet::copy(header, payload));
        return Entered::Alone;
    }
    let joins = mesh.may_extend(header.source);
    let Some(cutter) = cutter.filter(|cutter| joins && cutter.knows(header.protocol)) else {
        return Entered::NotNow;
    };
    let join =
        |last: &Packet, next: &Packet, is_contended| cutter.join_in_mesh((last, next), is_contended, largest);
    if mesh.extend(&Packet::copy(header, payload), join) { Entered::Joined } else { Entered::NotNow }
}

/// Returns the host of an input that waits for its link into the mesh.
fn waiting((host, input): (HostId, &Option<Input>)) -> Option<HostId> {
    input.as_ref().is_some_and(|input| input.state == State::AtTheMesh).then_some(host)
}

impl Crossbar {
    /// Lets the mesh move again: a card has room again, or is gone.
    pub(super) fn stir_mesh(&mut self) {
        if let Some(mesh) = &mut self.mesh {
            mesh.stir();
        }
    }

    /// Moves the packets in the mesh. Returns how many left it.
    pub(super) fn run_mesh(&mut self) -> usize {
        let Some(mut mesh) = self.mesh.take_if(|mesh| mesh.can_move()) else { return 0 };
        let next: Vec<HostId> = (0..).map(HostId).zip(&self.inputs).filter_map(waiting).collect();
        let (mut full, mut broken, mut cuts) = (Vec::new(), Vec::new(), Vec::new());
        let cutter = &mut self.cutter;
        let cut = |packet: &Packet, is_contended: bool| {
            let parts = cutter.as_mut()?.cut_in_mesh(packet, is_contended)?;
            cuts.push(packet.header.destination.index());
            Some(parts)
        };
        let arrived = mesh.run(&next, cut, |packet| {
            let (port, source) = (packet.header.destination.index(), packet.header.source.index());
            let Some(output) = &mut self.outputs[port] else {
                self.counters[source].dropped_absent += 1;
                return Arrival::Taken;
            };
            let payload = VolatileSlice::from(&mut packet.payload[..]);
            match output.accept(packet.header, &payload, &mut self.counters[port]) {
                Ok(true) => return Arrival::Taken,
                Ok(false) => full.push(port),
                Err(error) => broken.push((port, error)),
            }
            Arrival::NoRoom
        });
        self.mesh = Some(mesh);
        cuts.into_iter().for_each(|port| self.counters[port].cut += 1);
        self.wait_at_nodes(full);
        for (port, error) in broken {
            self.lose(port, Lost::Corrupt(error));
        }
        self.admit_to_mesh();
        arrived
    }

    /// Asks cards that had no room to ring when they have. A card that has room by now does not
    /// ring, so the mesh is moved again.
    fn wait_at_nodes(&mut self, full: Vec<usize>) {
        for port in full {
            if !self.ask_for_room(port) {
                self.stir_mesh();
            }
        }
    }

    /// Makes waiting inputs ready if their link into the mesh is free, or if their next packet may
    /// be joined with the last.
    fn admit_to_mesh(&mut self) {
        let joins = self.cutter.is_some();
        for port in 0..self.inputs.len() {
            let waits = self.inputs[port].as_ref().is_some_and(|input| input.state == State::AtTheMesh);
            let host = HostId(port as u16);
            let takes = |mesh: &Mesh| mesh.takes_from(host) || joins && mesh.may_extend(host);
            if waits && self.mesh.as_ref().is_some_and(takes) {
                self.make_ready(port);
            }
        }
    }
}

#[cfg(test)]
#[path = "meshed_tests.rs"]
mod tests;
