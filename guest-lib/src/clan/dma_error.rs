//! Reasons why a DMA request failed.

use std::fmt;

use hamlyn_abi::clan::dma::*;

use crate::core::error_kind::{ErrorKind, model_errors};

/// Reasons why a DMA request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DmaError {
    /// The request is malformed.
    BadRequest,
    /// The local aperture does not belong to this process, or is too short.
    BadLocal,
    /// The other host refused a read.
    Refused,
    /// The other host did not answer a read in time, or there is no link.
    Timeout,
    /// Memory at either end could not be accessed.
    Memory,
    /// An earlier request of the chain failed.
    Skipped,
    /// The card returned a result that this library does not know.
    Unknown(u32),
}

impl DmaError {
    pub(super) fn of(result: u32) -> Option<Self> {
        Some(match result {
            CLAN_DMA_DONE => return None,
            CLAN_DMA_BAD_REQUEST => DmaError::BadRequest,
            CLAN_DMA_BAD_LOCAL => DmaError::BadLocal,
            CLAN_DMA_REFUSED => DmaError::Refused,
            CLAN_DMA_TIMEOUT => DmaError::Timeout,
            CLAN_DMA_MEMORY => DmaError::Memory,
            CLAN_DMA_SKIPPED => DmaError::Skipped,
            other => DmaError::Unknown(other),
        })
    }

    /// Returns the kind of the error, which tells a program how to react.
    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            DmaError::BadRequest | DmaError::BadLocal => ErrorKind::Invalid,
            DmaError::Refused | DmaError::Memory | DmaError::Skipped | DmaError::Unknown(_) => {
                ErrorKind::Refused
            }
            DmaError::Timeout => ErrorKind::PeerLost,
        }
    }
}

impl std::error::Error for DmaError {}

impl fmt::Display for DmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DMA request failed: ")?;
        f.write_str(match self {
            DmaError::BadRequest => "the card finds that it means nothing",
            DmaError::BadLocal => "the local aperture is another's, or does not have all the bytes",
            DmaError::Refused => "the other host refused a read",
            DmaError::Timeout => "the other host has not answered a read in time, or there is no link",
            DmaError::Memory => "memory could not be reached, at either end",
            DmaError::Skipped => "an earlier one of its chain had failed",
            DmaError::Unknown(result) => return write!(f, "result {result}, which is not known"),
        })
    }
}

model_errors!("clan", DmaError => |why| (*why).kind());
