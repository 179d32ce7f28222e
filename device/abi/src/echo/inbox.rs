//! Inboxes: rings of records in the receiver's memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a record.
pub const ECHO_RECORD_SIZE: u32 = 1024;

/// A message that has arrived. The `n`-th since the mailbox was opened, from 0, is in record `n`
/// modulo the inbox's size.
///
/// The card writes `number` last: a record is there when that is `n + 1`, modulo 2^32. A message
/// for which there is no room, by the owner's word in `ECHO_OUTBOX_TAKEN`, is lost, and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EchoRecord {
    /// The message's number, from 1, modulo 2^32.
    pub number: u32,
    /// The host that it came from, as the switch says.
    pub source: u32,
    /// The mailbox there, as that host's card says: an answer may be sent to it.
    pub mailbox: u32,
    /// Bytes of `data` that are the message.
    pub length: u32,
    /// The message; what is behind it means nothing.
    pub data: [u8; 1008],
}
