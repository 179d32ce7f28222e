//! Inboxes: rings of records in the receiver's memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a record.
pub const ECHO_RECORD_SIZE: u32 = 1024;

/// An arrived message. Message `n` since the mailbox was opened, counted from 0, is in record `n`
/// modulo the inbox's size.
///
/// The card writes `number` last: the record is valid when it is `n + 1`, modulo 2^32. The card
/// drops and counts a message if the inbox is full according to `ECHO_OUTBOX_TAKEN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EchoRecord {
    /// The message's number, from 1, modulo 2^32.
    pub number: u32,
    /// The host that sent it, as reported by the switch.
    pub source: u32,
    /// The sender's mailbox, as reported by that host's card. An answer may be sent to it.
    pub mailbox: u32,
    /// Bytes of `data` that belong to the message.
    pub length: u32,
    /// The message; the bytes behind it are undefined.
    pub data: [u8; 1008],
}
