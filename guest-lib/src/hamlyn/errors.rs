//! Errors that only Hamlyn cards have.

use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::core::error_kind::{ErrorKind, model_errors};

/// The card refused the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("the card refused request {request}: {}", .reason.map_or("reason not known", Statistic::name))]
pub struct RefusedError {
    /// Position among the terminus' requests; the first is 1.
    pub request: u64,
    /// Counter of the refusal; `None` if the card names one that this library does not know.
    pub reason: Option<Statistic>,
}

/// Notifications were overwritten before they were read (section 2.6). Reported once; the queue
/// keeps working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("notification queue {queue} was overrun: {lost} notifications are lost (limit {entries} unread)")]
pub struct OverrunError {
    /// The queue's number on the card.
    pub queue: u32,
    /// Number lost since the last check.
    pub lost: u64,
    /// Number of entries of the queue.
    pub entries: u32,
}

/// The caller tried to change bytes of a send buffer that the card may still gather from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("send buffer {tag}: request {request} still gathers from bytes {offset} to {end}")]
pub struct InFlightError {
    /// Tag of the send buffer.
    pub tag: u32,
    /// Position of the request among the terminus' requests.
    pub request: u64,
    /// First byte in use.
    pub offset: u64,
    /// First byte after them.
    pub end: u64,
}

/// The caller tried to send a piece of another terminus' send buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("send buffer {tag} belongs to another terminus")]
pub struct ForeignBufferError {
    /// Tag of the send buffer.
    pub tag: u32,
}

model_errors!(
    "hamlyn",
    RefusedError => |_| ErrorKind::Refused,
    OverrunError => |_| ErrorKind::Overrun,
    InFlightError => |_| ErrorKind::InFlight,
    ForeignBufferError => |_| ErrorKind::Invalid,
);
