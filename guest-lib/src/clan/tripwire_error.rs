//! Reasons why a Tripwire could not be set.

use std::time::Duration;

use hamlyn_abi::clan::tripwire::*;

use crate::core::error_kind::{ErrorKind, model_errors};

/// Maximum time for the card to answer. It answers at once, but a machine may be paused for a
/// while.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Reasons why a Tripwire could not be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TripwireError {
    /// The aperture does not exist, or belongs to another open card.
    #[error("the card refused a Tripwire: there is no such aperture of this process' open card")]
    NoAperture,
    /// The range is not within the aperture.
    #[error("the card refused a Tripwire: its range is empty, or not within the aperture")]
    BadRange,
    /// The card does not know the flags.
    #[error("the card refused a Tripwire: its flags mean nothing")]
    BadFlags,
    /// Too many Tripwires watch the same bytes.
    #[error(
        "the card refused a Tripwire: as many as there may be watch a part of its range (limit {CLAN_TRIPWIRES_AT_ONCE})"
    )]
    Crowded,
    /// There is no room for its events.
    #[error(
        "the card refused a Tripwire: its endpoint has no event queue, or that has no room for one more source"
    )]
    NoEvents,
    /// The card did not answer.
    #[error("the card has not answered what a Tripwire was told within {PATIENCE:?}")]
    NoAnswer,
    /// The card returned an answer that this library does not know.
    #[error("the card answers {0} to what a Tripwire was told, which is not known")]
    Unknown(u32),
}

impl TripwireError {
    pub(super) fn of(answer: u32) -> std::result::Result<(), Self> {
        Err(match answer {
            CLAN_TRIPWIRE_OK => return Ok(()),
            CLAN_TRIPWIRE_NO_APERTURE => TripwireError::NoAperture,
            CLAN_TRIPWIRE_BAD_RANGE => TripwireError::BadRange,
            CLAN_TRIPWIRE_BAD_FLAGS => TripwireError::BadFlags,
            CLAN_TRIPWIRE_CROWDED => TripwireError::Crowded,
            CLAN_TRIPWIRE_NO_EVENTS => TripwireError::NoEvents,
            other => TripwireError::Unknown(other),
        })
    }

    /// Returns the kind of the error, which tells a program how to react.
    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            TripwireError::NoAperture | TripwireError::BadRange | TripwireError::BadFlags => {
                ErrorKind::Invalid
            }
            TripwireError::Crowded | TripwireError::NoEvents => ErrorKind::Exhausted,
            TripwireError::NoAnswer => ErrorKind::TimedOut,
            TripwireError::Unknown(_) => ErrorKind::Refused,
        }
    }
}

model_errors!("clan", TripwireError => |why| (*why).kind());
