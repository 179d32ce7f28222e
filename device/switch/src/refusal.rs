//! Why a card is not attached, or not any more.

use std::time::Duration;

use hamlyn_fabric::{Geometry, HostId, Reason, RingError};
use thiserror::Error;

/// Why a card is not attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Somebody else has the port.
    #[error("port {0} is taken")]
    Taken(HostId),
    /// The switch has no such port.
    #[error("port {host} is out of range (limit {limit})")]
    OutOfRange {
        /// The port wanted.
        host: HostId,
        /// The switch's number of ports.
        limit: usize,
    },
    /// All ports are taken.
    #[error("the switch is full (limit {0} ports)")]
    Full(usize),
    /// Its packets would not fit everybody's rings.
    #[error("link has rings of {} bytes for packets of {} (must be {} and {})",
        link.capacity, link.max_packet, switch.capacity, switch.max_packet)]
    Geometry {
        /// The link's sizes.
        link: Geometry,
        /// The switch's.
        switch: Geometry,
    },
}

/// Why a card is detached that did not leave by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Lost {
    /// It is broken, or hostile.
    #[error(transparent)]
    Corrupt(RingError),
    /// It has stopped, or is hostile.
    #[error("it took nothing for {0:?} while packets of others waited")]
    Stalled(Duration),
}

impl Lost {
    /// What its card is told.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Lost::Corrupt(_) => Reason::Corrupt,
            Lost::Stalled(_) => Reason::Stalled,
        }
    }
}
