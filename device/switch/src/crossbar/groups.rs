//! Packets to groups (section 2.5 of the CLAN paper): a copy goes to each member, addressed to it,
//! as if the sender had sent it there.
//!
//! Each card declares its own memberships ([`hamlyn_fabric::groups`]), and no other card's. The
//! sender gets its own packet only if it is a member. Each copy is delivered, held and counted like
//! any packet, and keeps its order among those of its source to the same host.
//!
//! **Independence.** If no more of the source's packets can be held for a member, the copy for that
//! member is lost and counted. The others get theirs. So a member blocks neither the sender nor
//! another member.
//!
//! **Stops.** A group has no stop bit. Held copies stop their source for that member, as its other
//! packets do: it sends no more to this host alone, until the queue is empty. The sender need not
//! react to that, which excludes a deadlock.
//!
//! **How much.** A packet makes as many copies as there are members. Each copy counts as a packet
//! of the turn's budget.

use hamlyn_fabric::{Header, HostId, RingError};
use vm_memory::VolatileSlice;

use super::outputs::Outputs;
use crate::counters::PortCounters;
use crate::held::{Bounds, Packet};
use crate::mesh::Mesh;
use crate::output::Taken;

/// A packet for the members of a group.
pub(super) struct Copies<'a> {
    header: Header,
    payload: VolatileSlice<'a>,
    members: &'a [usize],
}

/// What happened to a packet's copies.
#[derive(Default)]
pub(super) struct Handed {
    /// Number of held copies, and their bytes.
    pub(super) waiting: u64,
    pub(super) bytes: usize,
    /// Number of lost copies.
    pub(super) lost: u64,
    /// Members to which the source must stop sending.
    pub(super) stops: Vec<usize>,
    /// Members whose rings are corrupt.
    pub(super) broken: Vec<(usize, RingError)>,
}

impl<'a> Copies<'a> {
    pub(super) fn new(header: Header, payload: VolatileSlice<'a>, members: &'a [usize]) -> Copies<'a> {
        Copies { header, payload, members }
    }

    pub(super) fn source(&self) -> HostId {
        self.header.source
    }

    pub(super) fn members(&self) -> &[usize] {
        self.members
    }

    /// Returns the header of a member's copy.
    fn to(&self, member: usize) -> Header {
        Header { destination: HostId(member as u16), ..self.header }
    }

    /// Injects the copies into a mesh one after another. None is held here.
    pub(super) fn inject(&self, mesh: &mut Mesh) -> Handed {
        self.members.iter().for_each(|&member| mesh.inject(Packet::copy(self.to(member), &self.payload)));
        Handed::default()
    }

    /// Forwards, holds or loses the copy of each member. `held` is the number of the source's bytes
    /// held already.
    pub(super) fn hand_out(
        &self,
        outputs: &mut Outputs,
        bounds: &Bounds,
        held: usize,
        counters: &mut [PortCounters],
    ) -> Handed {
        let mut handed = Handed::default();
        for &member in self.members {
            let Some(output) = outputs.get_mut(member) else { continue };
            let input = held + handed.bytes;
            match output.take(self.to(member), self.payload, bounds, input, &mut counters[member]) {
                Ok(Taken::Accepted) => {}
                Ok(Taken::Held { bytes, stop }) => {
                    handed.waiting += 1;
                    handed.bytes += bytes;
                    handed.stops.extend(stop.then_some(member));
                }
                Ok(Taken::Refused) => handed.lost += 1,
                Err(error) => {
                    handed.lost += 1;
                    handed.broken.push((member, error));
                }
            }
        }
        handed
    }
}
