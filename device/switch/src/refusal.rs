//! Why a card is not attached, or was detached.

use std::time::Duration;

use hamlyn_fabric::{Geometry, HostId, Reason, RingError};
use thiserror::Error;

/// Why a card is not attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Another card has the port.
    #[error("port {0} is taken")]
    Taken(HostId),
    /// The switch has no such port.
    #[error("port {host} is out of range (limit {limit})")]
    OutOfRange {
        /// The wanted port.
        host: HostId,
        /// Number of ports of the switch.
        limit: usize,
    },
    /// All ports are taken.
    #[error("the switch is full (limit {0} ports)")]
    Full(usize),
    /// Its packets would not fit the other cards' rings.
    #[error("link has rings of {} bytes for packets of {} (must be {} and {})",
        link.capacity, link.max_packet, switch.capacity, switch.max_packet)]
    Geometry {
        /// The link's sizes.
        link: Geometry,
        /// The switch's.
        switch: Geometry,
    },
}

/// Why a card that did not leave by itself was detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Lost {
    /// Its ring is corrupt: the card is faulty or hostile.
    #[error(transparent)]
    Corrupt(RingError),
    /// It accepted nothing: the card has stopped, or is hostile.
    #[error("it took nothing for {0:?} while packets of others waited")]
    Stalled(Duration),
}

impl Lost {
    /// Returns the reason that is sent to the card.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Lost::Corrupt(_) => Reason::Corrupt,
            Lost::Stalled(_) => Reason::Stalled,
        }
    }
}
