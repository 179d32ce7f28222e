//! What went wrong with a load or store of another host's memory.

use std::fmt;

use hamlyn_abi::clan::endpoint::*;

use crate::error::ErrorKind;

/// A fault of an endpoint: a load, store or DMA write of its owner's that came to nothing. A store
/// is posted, so its fault is told a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of aperture {aperture} of host {host}: {reason}")]
#[non_exhaustive]
pub struct Fault {
    /// Why.
    pub reason: FaultReason,
    /// The host, or that of a group ([`super::Descriptor::of_group`]).
    pub host: u32,
    /// The aperture there.
    pub aperture: u32,
    /// Which byte of it.
    pub offset: u64,
}

/// Why there was a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultReason {
    /// There is no such aperture there, or not under this key, or it does not allow that, or the
    /// byte is outside.
    Refused,
    /// The other host has not answered in time, or there is no link.
    Timeout,
    /// The other host's memory could not be reached.
    Memory,
    /// It was not the window's: outside of it, not aligned, or a load from a group.
    Window,
    /// A store was lost, as the link is down or the other host takes nothing for so long.
    Lost,
    /// One that this library does not know.
    Unknown(u32),
}

impl Fault {
    pub(super) fn new(reason: u32, host: u32, aperture: u32, offset: u64) -> Self {
        Self { reason: FaultReason::of(reason), host, aperture, offset }
    }

    /// What a program can do about it.
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
