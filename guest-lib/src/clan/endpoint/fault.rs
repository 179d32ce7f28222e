//! Faults of loads and stores to another host's memory.

use std::fmt;

use hamlyn_abi::clan::endpoint::*;

use crate::core::error_kind::{ErrorKind, model_errors};

/// A fault of an endpoint: a failed load, store or DMA write of its owner. A store is posted, so
/// its fault is reported a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of aperture {aperture} of host {host}: {reason}")]
#[non_exhaustive]
pub struct Fault {
    /// The reason.
    pub reason: FaultReason,
    /// The host, or the host number of a group ([`super::Descriptor::of_group`]).
    pub host: u32,
    /// The aperture at that host.
    pub aperture: u32,
    /// The byte of the aperture.
    pub offset: u64,
}

/// Reasons for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultReason {
    /// The aperture does not exist, the key is wrong, the access is not allowed, or the byte is
    /// outside.
    Refused,
    /// The other host did not answer in time, or there is no link.
    Timeout,
    /// The other host's memory could not be accessed.
    Memory,
    /// The access is invalid for the window: outside of it, not aligned, or a load from a group.
    Window,
    /// A store was lost: the link is down, or the other host did not accept data for too long.
    Lost,
    /// A reason that this library does not know.
    Unknown(u32),
}

impl Fault {
    pub(super) fn new(reason: u32, host: u32, aperture: u32, offset: u64) -> Self {
        Self { reason: FaultReason::of(reason), host, aperture, offset }
    }

    /// Returns the kind of the error, which tells a program how to react.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self.reason {
            FaultReason::Refused | FaultReason::Memory | FaultReason::Unknown(_) => ErrorKind::Refused,
            FaultReason::Timeout | FaultReason::Lost => ErrorKind::PeerLost,
            FaultReason::Window => ErrorKind::Invalid,
        }
    }
}

impl FaultReason {
    fn of(reason: u32) -> Self {
        match reason {
            CLAN_FAULT_REFUSED => FaultReason::Refused,
            CLAN_FAULT_TIMEOUT => FaultReason::Timeout,
            CLAN_FAULT_MEMORY => FaultReason::Memory,
            CLAN_FAULT_WINDOW => FaultReason::Window,
            CLAN_FAULT_LOST => FaultReason::Lost,
            other => FaultReason::Unknown(other),
        }
    }
}

impl fmt::Display for FaultReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultReason::Refused => {
                "its host refused: there is no such aperture, or not under this key, or not for this"
            }
            FaultReason::Timeout => "its host has not answered in time, or there is no link",
            FaultReason::Memory => "its host could not reach the memory",
            FaultReason::Window => {
                "the access was outside of the window, not aligned, or a load from a group"
            }
            FaultReason::Lost => "a store was lost, as the link is down or the host takes nothing",
            FaultReason::Unknown(reason) => return write!(f, "reason {reason}, which is not known"),
        })
    }
}

model_errors!("clan", Fault => |why| why.kind());
