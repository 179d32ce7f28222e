//! How packets get from inputs to outputs: in one step ([`super::direct`]), or through a mesh
//! ([`super::meshed`]).

use std::fmt::Debug;

use hamlyn_fabric::{Header, HostId, RingError};
use vm_memory::VolatileSlice;

use super::groups::{Copies, Handed};
use super::inputs::{Inputs, Wait};
use super::outputs::Outputs;
use crate::bursts::Cutter;
use crate::counters::PortCounters;
use crate::mesh::{LinkCounters, Place};
use crate::output::Output;

/// An input's oldest packet.
pub(super) struct Offer<'a> {
    pub(super) header: Header,
    pub(super) payload: VolatileSlice<'a>,
    /// Bytes of the longest packet received from its source.
    pub(super) largest: usize,
}

/// Result of an offer.
pub(super) enum Taken {
    /// The packet was copied out of the ring, and moves on.
    Accepted,
    /// It is held. `stop`: its source must send no more to its destination.
    Held { stop: bool },
    /// It stays in the ring.
    NotNow(Wait),
}

/// Result of a turn.
#[derive(Default)]
pub(super) struct Served {
    /// Number of packets moved.
    pub(super) moved: usize,
    /// Ports to detach, because their rings are corrupt.
    pub(super) broken: Vec<(usize, RingError)>,
}

/// A way through the crossbar.
pub(super) trait Transit: Debug + Send {
    /// Takes an input's oldest packet for an output, if it can. `counters` are the output's.
    fn take(
        &mut self,
        packet: &Offer<'_>,
        output: &mut Output,
        cutter: Option<&mut Cutter>,
        counters: &mut PortCounters,
    ) -> Result<Taken, RingError>;

    /// Takes copies of an input's oldest packet. Returns `None` if the packet must wait for its
    /// link into the mesh.
    fn take_copies(
        &mut self,
        copies: &Copies<'_>,
        outputs: &mut Outputs,
        counters: &mut [PortCounters],
    ) -> Option<Handed>;

    /// Returns the number of turns after which each packet that may leave has had its chance.
    fn turns(&self) -> usize;

    /// Moves packets for one turn.
    fn serve(&mut self, inputs: &mut Inputs, outputs: &mut Outputs, counters: &mut [PortCounters]) -> Served;

    /// Handles a ring of an output's bell: its card may have room again.
    fn wake(&mut self, port: usize, output: &mut Output);

    /// Drops the packets held for an output that was detached, and counts them.
    fn detach(&mut self, port: usize, output: &Output, inputs: &mut Inputs, counters: &mut [PortCounters]);

    /// Returns whether a packet waits for a card.
    fn is_waiting(&self) -> bool;

    /// Returns the bytes that an output's card must take within the stall time-out. `None`: no
    /// packet waits for it.
    fn demand(&self, host: HostId, output: &Output) -> Option<u64>;

    /// Returns whether no packet is on its way between the rings, apart from those in the outputs.
    fn is_empty(&self) -> bool {
        true
    }

    /// Counts a packet of `length` bytes that bypasses the rings, on the links that it would take.
    fn pass(&mut self, _source: HostId, _destination: HostId, _length: usize) {}

    /// Returns the links that have been used.
    fn links(&self) -> Vec<(Place, LinkCounters)> {
        Vec::new()
    }

    /// Returns the bytes held of a source.
    fn held_from(&self, _source: usize) -> usize {
        0
    }
}
