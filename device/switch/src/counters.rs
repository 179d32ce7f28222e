//! Counters of a switch, for people to read.
//!
//! Every packet that came in is accounted for. Over all ports, once no packet is on a path or in
//! the mesh: `packets_in + copied + cut == joined + packets_out + waiting + copies_lost +
//! dropped_absent + dropped_malformed`.

use crate::mesh::{LinkCounters, Place};

/// Counters of one port since the switch started, over all cards that were attached to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Whether a card is attached now.
    pub attached: bool,
    /// Packets received from the card.
    pub packets_in: u64,
    /// Their bytes, without the fabric's header.
    pub bytes_in: u64,
    /// Packets put into the ring to the card.
    pub packets_out: u64,
    /// Their bytes, without the fabric's header.
    pub bytes_out: u64,
    /// Packets to this port that arrived after a packet which their source had sent later; 0 with
    /// one path.
    pub overtaken: u64,
    /// Packets from this port that had to wait in the switch for room at their destination.
    pub stalls: u64,
    /// Times that this port's card was stopped for a host, because too much of its own traffic
    /// waited for that host.
    pub stops: u64,
    /// Times that this port had to wait as a whole, because no more of its packets could be held.
    pub blocked: u64,
    /// Copies made of this port's packets to groups: one for each member except the first.
    pub copied: u64,
    /// Copies of this port's packets to groups that were lost because a member had no room.
    pub copies_lost: u64,
    /// Packets to this port that were cut in two, while others waited for it, too.
    pub cut: u64,
    /// Packets to this port that were joined with the packet before them.
    pub joined: u64,
    /// Packets that now wait in the switch for room at this port.
    pub waiting: u64,
    /// Times that this port's card was detached because it took nothing while others waited for it.
    pub stalled_out: u64,
    /// Packets from this port to an absent host or to a group without members. Also packets whose
    /// host left while they waited or were on a path to it.
    pub dropped_absent: u64,
    /// Packets from this port without a valid header.
    pub dropped_malformed: u64,
    /// Packets from this port that were not forwarded before its card left, because no more could
    /// be held. They are not in `packets_in`.
    pub orphaned: u64,
    /// Packets to this port, included in `packets_out`, that its card had not taken when it left.
    pub undelivered: u64,
}

/// Counters of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// By port number, which is the host id.
    pub ports: Vec<PortCounters>,
    /// Links of the mesh that have been used; empty without a mesh.
    pub links: Vec<(Place, LinkCounters)>,
}
