//! Packets to groups (section 2.5 of the CLAN paper): a copy goes to each member, addressed to it, as if the sender had sent it there.
//!
//! Who is a member the cards say themselves ([`hamlyn_fabric::groups`]), and nobody for another. The sender gets its own packet if it is
//! a member, and otherwise not. Each copy is delivered, held and counted as any packet, and keeps its place among those of its
//! source to the same host.
//!
//! **All or none.** A packet that one member can hold no more of waits in its input, and none of the others gets it before: so
//! nobody gets it twice. What each can hold is as much as ever, so a member that takes nothing holds up the sender once that
//! is full, and then until it takes something or is detached. It is the sender's own packets that wait, and nobody else's.
//!
//! **Stops.** A group has none. Copies that are held stop their source for that member, as its other packets do: it sends
//! no more to this host alone, until the queue is empty. That needs nothing of the sender, so there is nobody to wait in a circle.
//!
//! **How much.** A packet makes as many copies as there are members, each a packet of the turn's budget. The bound for all that is held
//! of a source may be exceeded once by the copies of one packet.

use hamlyn_fabric::{Header, HostId, RingError};
use vm_memory::VolatileSlice;

use super::{Crossbar, Forwarded};
use crate::counters::PortCounters;
use crate::held::{Bounds, Packet};
use crate::mesh::Mesh;
use crate::output::{Output, Taken};

impl Crossbar {
    /// The ports whose cards are members of a group now.
    fn members(&self, group: u32) -> Vec<usize> {
        let is_member = |port: &usize| {
            let input = self.inputs[*port].as_ref().filter(|_| self.outputs[*port].is_some());
            input.is_some_and(|input| input.ring.groups() >> group & 1 == 1)
        };
        (0..self.inputs.len()).filter(is_member).collect()
    }

    /// Forwards an input's oldest packet, which has this header and is for a group.
    pub(super) fn multicast(&mut self, port: usize, header: Header, group: u32) -> Forwarded {
        // Looked at once: the cards may change it meanwhile.
        let members = self.members(group);
        let Some(input) = &mut self.inputs[port] else { return Forwarded::Nothing };
        let payload = match input.ring.peek() {
            Err(error) => return Forwarded::Broken(port, error),
            Ok(None) => return Forwarded::Nothing,
            Ok(Some(record)) => record.payload,
        };
        let length = payload.len();
        let copies = Copies { header, payload: &payload, members: &members, bounds: &self.bounds };
        let waiting = match &mut self.mesh {
            Some(mesh) if members.is_empty() || mesh.takes_from(header.source) => copies.inject(mesh),
            Some(_) => return Forwarded::AtTheMesh,
            None => match copies.find_full(&mut self.outputs, self.held[port]) {
                Err((member, error)) => return Forwarded::Broken(member, error),
                Ok(true) => return Forwarded::Blocked,
                Ok(false) => copies.hand_out(&mut self.outputs, &mut self.counters),
            },
        };
        for member in &waiting.stops {
            self.counters[port].stops += u64::from(input.ring.stop(HostId(*member as u16)));
        }
        input.ring.consume();
        self.held[port] += waiting.bytes;
        self.all_held += waiting.bytes;
        self.counters[port].stalls += waiting.copies;
        self.count_copies(port, length, members.len());
        members.iter().for_each(|&member| self.list_loaded(member));
        Forwarded::Gone(members.len().max(1))
    }

    /// Counts a packet of so many bytes that went to so many members.
    fn count_copies(&mut self, port: usize, length: usize, members: usize) {
        let counters = &mut self.counters[port];
        counters.packets_in += 1;
        counters.bytes_in += length as u64;
        match members {
            0 => counters.dropped_absent += 1,
            _ => counters.copied += members as u64 - 1,
        }
    }
}

/// A packet for the members of a group.
struct Copies<'a> {
    header: Header,
    payload: &'a VolatileSlice<'a>,
    members: &'a [usize],
    bounds: &'a Bounds,
}

/// Those of a packet's copies that are held.
#[derive(Default)]
struct Waiting {
    copies: u64,
    bytes: usize,
    /// Members to which the source is to send no more.
    stops: Vec<usize>,
}

impl Copies<'_> {
    /// The header of a member's copy.
    fn to(&self, member: usize) -> Header {
        Header { destination: HostId(member as u16), ..self.header }
    }

    /// Through a mesh they go in one after another, and none is held here.
    fn inject(&self, mesh: &mut Mesh) -> Waiting {
        self.members.iter().for_each(|&member| mesh.inject(Packet::copy(self.to(member), self.payload)));
        Waiting::default()
    }

    /// Whether a member has no room for its copy, and can hold no more of its source, of which so much is held. A ring that is corrupt
    /// is that of a member.
    fn find_full(&self, outputs: &mut [Option<Output>], held: usize) -> Result<bool, (usize, RingError)> {
        for &member in self.members {
            let Some(output) = &mut outputs[member] else { continue };
            let takes = output.would_take(self.to(member), self.payload.len(), self.bounds, held);
            if !takes.map_err(|error| (member, error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives each member its copy, or holds it.
    fn hand_out(&self, outputs: &mut [Option<Output>], counters: &mut [PortCounters]) -> Waiting {
        let mut waiting = Waiting::default();
        for &member in self.members {
            let Some(output) = &mut outputs[member] else { continue };
            let taken =
                output.take_or_hold(self.to(member), self.payload, self.bounds, &mut counters[member]);
            if let Taken::Held { bytes, stop } = taken {
                waiting.copies += 1;
                waiting.bytes += bytes;
                waiting.stops.extend(stop.then_some(member));
            }
        }
        waiting
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
