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
//! react to that, so there is no cyclic wait.
//!
//! **How much.** A packet makes as many copies as there are members. Each copy counts as a packet
//! of the turn's budget.

use hamlyn_fabric::{Header, HostId, RingError};
use vm_memory::VolatileSlice;

use super::{Crossbar, Forwarded};
use crate::counters::PortCounters;
use crate::held::{Bounds, Packet};
use crate::mesh::Mesh;
use crate::output::{Output, Taken};
use crate::refusal::Lost;

impl Crossbar {
    /// Returns the ports whose cards are members of a group now.
    fn members(&self, group: u32) -> Vec<usize> {
        let is_member = |port: &usize| {
            let input = self.inputs[*port].as_ref().filter(|_| self.outputs[*port].is_some());
            input.is_some_and(|input| input.ring.groups() >> group & 1 == 1)
        };
        (0..self.inputs.len()).filter(is_member).collect()
    }

    /// Forwards an input's oldest packet, which has this header and is for a group.
    pub(super) fn multicast(&mut self, port: usize, header: Header, group: u32) -> Forwarded {
        // Read only once: the cards may change it meanwhile.
        let members = self.members(group);
        let Some(input) = &mut self.inputs[port] else { return Forwarded::Nothing };
        let payload = match input.ring.peek() {
            Err(error) => return Forwarded::Broken(port, error),
            Ok(None) => return Forwarded::Nothing,
            Ok(Some(record)) => record.payload,
        };
        let length = payload.len();
        let copies = Copies { header, payload: &payload, members: &members, bounds: &self.bounds };
        let handed = match &mut self.mesh {
            Some(mesh) if members.is_empty() || mesh.takes_from(header.source) => copies.inject(mesh),
            Some(_) => return Forwarded::AtTheMesh,
            None => copies.hand_out(&mut self.outputs, self.held[port], &mut self.counters),
        };
        for member in &handed.stops {
            self.counters[port].stops += u64::from(input.ring.stop(HostId(*member as u16)));
        }
        input.ring.consume();
        self.held[port] += handed.bytes;
        self.all_held += handed.bytes;
        self.counters[port].stalls += handed.waiting;
        self.counters[port].copies_lost += handed.lost;
        self.count_copies(port, length, members.len());
        members.iter().for_each(|&member| self.list_loaded(member));
        for (member, error) in handed.broken {
            self.lose(member, Lost::Corrupt(error));
        }
        Forwarded::Gone(members.len().max(1))
    }

    /// Counts a packet of `length` bytes that went to `members` members.
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

/// What happened to a packet's copies.
#[derive(Default)]
struct Handed {
    /// Number of held copies, and their bytes.
    waiting: u64,
    bytes: usize,
    /// Number of lost copies.
    lost: u64,
    /// Members to which the source must stop sending.
    stops: Vec<usize>,
    /// Members whose rings are corrupt.
    broken: Vec<(usize, RingError)>,
}

impl Copies<'_> {
    /// Returns the header of a member's copy.
    fn to(&self, member: usize) -> Header {
        Header { destination: HostId(member as u16), ..self.header }
    }

    /// Injects the copies into a mesh one after another. None is held here.
    fn inject(&self, mesh: &mut Mesh) -> Handed {
        self.members.iter().for_each(|&member| mesh.inject(Packet::copy(self.to(member), self.payload)));
        Handed::default()
    }

    /// Forwards, holds or loses the copy of each member. `held` is the number of the source's bytes
    /// held already.
    fn hand_out(&self, outputs: &mut [Option<Output>], held: usize, counters: &mut [PortCounters]) -> Handed {
        let mut handed = Handed::default();
        for &member in self.members {
            let Some(output) = &mut outputs[member] else { continue };
            let input = held + handed.bytes;
            match output.take(self.to(member), *self.payload, self.bounds, input, &mut counters[member]) {
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

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
