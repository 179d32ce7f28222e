//! Packets that bypass the rings, between cards in one process, which hands them over itself.

use hamlyn_fabric::HostId;

use super::Crossbar;
use crate::mesh::Mesh;

impl Crossbar {
    /// Returns whether a packet may bypass the rings: both cards are attached, there is only one
    /// path, and no packet is in flight that it would overtake.
    ///
    /// For cards in one process, which hands the packet over itself.
    pub fn is_clear(&mut self, source: HostId, destination: HostId) -> bool {
        let input = self.inputs.get_mut(source.index()).and_then(Option::as_mut);
        let output = self.outputs.get_mut(destination.index()).and_then(Option::as_mut);
        let (Some(input), Some(output)) = (input, output) else { return false };
        // A corrupt ring is detected when it is used.
        output.paths.is_none()
            && self.mesh.as_ref().is_none_or(Mesh::is_empty)
            && output.held.is_empty()
            && input.ring.is_empty().unwrap_or(false)
            && output.ring.is_drained().unwrap_or(false)
    }

    /// Counts a packet of `length` bytes that bypasses the rings. Returns `false` if it may not.
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
