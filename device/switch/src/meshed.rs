//! Packets that come through a mesh: from an input into it, and out of it into a card's ring.

use hamlyn_fabric::HostId;
use vm_memory::VolatileSlice;

use super::{Crossbar, State};
use crate::mesh::{Arrival, Mesh};
use crate::refusal::Lost;

impl Crossbar {
    /// A card has room again, or is gone.
    pub(super) fn stir_mesh(&mut self) {
        if let Some(mesh) = &mut self.mesh {
            mesh.stir();
        }
    }

    /// Moves what is in the mesh. Returns how many packets came out of it.
    pub(super) fn run_mesh(&mut self) -> usize {
        let Some(mut mesh) = self.mesh.take_if(|mesh| mesh.can_move()) else { return 0 };
        let (mut full, mut broken) = (Vec::new(), Vec::new());
        let arrived = mesh.run(|packet| {
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
        self.wait_at_nodes(full);
        for (port, error) in broken {
            self.lose(port, Lost::Corrupt(error));
        }
        self.admit_to_mesh();
        arrived
    }

    /// Cards that had no room are to ring when they have; those that have it by now do not ring.
    fn wait_at_nodes(&mut self, full: Vec<usize>) {
        for port in full {
            if !self.ask_for_room(port) {
                self.stir_mesh();
            }
        }
    }

    /// Inputs that waited for their way into the mesh have it, as far as it is free.
    fn admit_to_mesh(&mut self) {
        for port in 0..self.inputs.len() {
            let waits = self.inputs[port].as_ref().is_some_and(|input| input.state == State::AtTheMesh);
            let takes = |mesh: &Mesh| mesh.takes_from(HostId(port as u16));
            if waits && self.mesh.as_ref().is_some_and(takes) {
                self.make_ready(port);
            }
        }
    }
}

#[cfg(test)]
#[path = "meshed_tests.rs"]
mod tests;
