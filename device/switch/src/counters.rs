//! What a person can read of a switch.
//!
//! Every packet that came in is accounted for: over all ports, once nothing lies on a path or is in
//! the mesh, `packets_in + copied + cut == joined + packets_out + waiting + copies_lost +
//! dropped_absent + dropped_malformed`.

use crate::mesh::{LinkCounters, Place};

/// Counters of one port since the switch started, whichever cards have been attached to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Whether a card is attached now.
    pub attached: bool,
    /// Packets taken from the card.
    pub packets_in: u64,
    /// Their bytes, without the fabric's header.
    pub bytes_in: u64,
    /// Packets put into the ring to the card.
    pub packets_out: u64,
    /// Their bytes, without the fabric's header.
    pub bytes_out: u64,
    /// Packets to this port that came later than one which their source had sent after them; none
    /// with one path.
    pub overtaken: u64,
    /// Packets from this port that had to wait in the switch for room at their destination.
    pub stalls: u64,
    /// Times that this port's card was asked to send no more to a host for a while, as much of its
    /// own waited for that.
    pub stops: u64,
    /// Times that this port had to wait as a whole: no more of its packets could be held.
    pub blocked: u64,
    /// Copies that were made of this port's packets to groups: one for each member, the first not
    /// counted.
    pub copied: u64,
    /// Copies of this port's packets to groups that a member had no room for.
    pub copies_lost: u64,
    /// Packets to this port of which two were made, while others waited for it too.
    pub cut: u64,
    /// Packets to this port that became one with that before them.
    pub joined: u64,
    /// Packets that wait in the switch now for room at this port.
    pub waiting: u64,
    /// Times that this port's card was detached because it took nothing while others waited for it.
    pub stalled_out: u64,
    /// Packets from this port to a host that was not there, or to a group without a member, or that
    /// left while they waited or were on a path to it.
    pub dropped_absent: u64,
    /// Packets from this port without a sound header.
    pub dropped_malformed: u64,
    /// Packets from this port that had not been forwarded when its card left: no more could be
    /// held. They are not in `packets_in`.
    pub orphaned: u64,
    /// Packets to this port, of those in `packets_out`, that its card had not taken when it left.
    pub undelivered: u64,
}

/// Counters of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// By port number, which is the host id.
    pub ports: Vec<PortCounters>,
    /// Those links of the mesh that have been of use; none without a mesh.
    pub links: Vec<(Place, LinkCounters)>,
}
