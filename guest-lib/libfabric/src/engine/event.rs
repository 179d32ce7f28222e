//! Operations of the program, and how they end.

use super::matching::Envelope;
use crate::abi::{FI_ENOMSG, FI_MSG, FI_RECV, FI_REMOTE_CQ_DATA, FI_TAGGED};

/// An operation of the program that sends something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) context: usize,
    /// Kind of the operation, as completions report it.
    pub(crate) flags: u64,
    /// Whether success is reported to the completion queue.
    pub(crate) report: bool,
}

/// What a message has beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Message {
    pub(crate) tag: Option<u64>,
    pub(crate) data: Option<u64>,
    /// The bytes are the program's again when the call returns.
    pub(crate) inject: bool,
    /// Complete when the bytes are in the receiver's buffer.
    pub(crate) delivery: bool,
}

/// Which completion queue hears of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Transmit,
    Receive,
}

/// A completion, or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) side: Side,
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) length: usize,
    /// Address of the message in a buffer for several.
    pub(crate) buffer: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    /// The peer that sent the message.
    pub(crate) peer: Option<usize>,
    /// An `errno`, or 0.
    pub(crate) error: i32,
    /// Number of the message's bytes that its buffer had no room for.
    pub(crate) missing: usize,
    pub(crate) report: bool,
}

/// The end of an operation that sent something.
pub(super) fn finished(operation: Operation, length: usize, error: i32) -> Event {
    let Operation { context, flags, report } = operation;
    Event { context, flags, length, report: report || error != 0, ..failed(Side::Transmit, error) }
}

/// An event of which nothing is known but its side and error.
pub(super) fn failed(side: Side, error: i32) -> Event {
    Event {
        side,
        context: 0,
        flags: 0,
        length: 0,
        buffer: 0,
        data: 0,
        tag: 0,
        peer: None,
        error,
        missing: 0,
        report: true,
    }
}

/// What a look at the messages that are here reports.
pub(super) fn envelope_event(found: Option<Envelope>, tagged: bool, context: usize) -> Event {
    let flags = FI_RECV | if tagged { FI_TAGGED } else { FI_MSG };
    let Some(envelope) = found else { return Event { context, flags, ..failed(Side::Receive, FI_ENOMSG) } };
    Event {
        context,
        flags: flags | if envelope.data.is_some() { FI_REMOTE_CQ_DATA } else { 0 },
        length: envelope.length,
        data: envelope.data.unwrap_or(0),
        tag: envelope.tag,
        peer: Some(envelope.peer),
        ..failed(Side::Receive, 0)
    }
}
