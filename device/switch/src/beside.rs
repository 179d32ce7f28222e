//! Packets that pass beside the rings, for cards in one process, which can hand them over
//! themselves.

use hamlyn_fabric::HostId;

use super::Crossbar;
use crate::mesh::Mesh;

impl Crossbar {
    /// Whether a packet may pass from one card to another beside the rings: both are there, there
    /// is but one path, and nothing is on its way that the packet would overtake.
    ///
    /// For cards in one process, which can hand it over themselves.
    pub fn is_clear(&mut self, source: HostId, destination: HostId) -> bool {
        let input = self.inputs.get_mut(source.index()).and_then(Option::as_mut);
        let output = self.outputs.get_mut(destination.index()).and_then(Option::as_mut);
        let (Some(input), Some(output)) = (input, output) else { return false };
        // A ring that is corrupt is found out when it is used.
        output.paths.is_none()
            && self.mesh.as_ref().is_none_or(Mesh::is_empty)
            && output.held.is_empty()
            && input.ring.is_empty().unwrap_or(false)
            && output.ring.is_drained().unwrap_or(false)
    }

    /// Counts a packet of `length` bytes that passes beside the rings. `false`: it may not.
    pub fn pass(&mut self, source: HostId, destination: HostId, length: usize) -> bool {
        if !self.is_clear(source, destination) {
            return false;
        }
        if let Some(mesh) = &mut self.mesh {
            mesh.pass(source, destination, length);
        }
        self.counters[source.index()].packets_in += 1;
        self.counters[source.index()].bytes_in += length as u64;
        self.counters[destination.index()].packets_out += 1;
        self.counters[destination.index()].bytes_out += length as u64;
        true
    }
}
