//! Messages between operating systems: requests for connections, their ends, and acknowledgements.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Acknowledges messages, by `expected`. It goes to one of the entries behind those for messages.
pub const ULN_WIRE_ACK: u32 = 1;
/// Like [`ULN_WIRE_ACK`], and requests one.
pub const ULN_WIRE_PROBE: u32 = 2;
/// Requests a connection to the listener `name`; `from` is its number at the sender. Carries
/// private data. Without a name it is a question whether a process listens under the name in its
/// private data. The answer is a refusal with `ULN_END_LISTENING` or `ULN_END_NOT_LISTENING`. An
/// operating system without support for questions answers with `ULN_END_NO_NAME`.
pub const ULN_WIRE_REQUEST: u32 = 3;
/// Accepts connection `to`; `from` is its number at the sender. Carries private data.
pub const ULN_WIRE_ACCEPT: u32 = 4;
/// Refuses connection `to` for `reason`. Carries private data.
pub const ULN_WIRE_REJECT: u32 = 5;
/// Ends connection `to` for `reason`. If `to` is 0, ends the connection with number `from` at the
/// sender. Carries private data.
pub const ULN_WIRE_CLOSE: u32 = 6;
/// From one card's own part of the driver to the other's. That card defines the meaning of `from`,
/// `to`, `reason` and the private data. An operating system whose card has no such messages skips
/// it.
pub const ULN_WIRE_CARD: u32 = 7;
/// About express memory: `reason` is a `ULN_EXPRESS_SAY_*` ([`super::express`]). An operating
/// system without express memory skips it.
pub const ULN_WIRE_EXPRESS: u32 = 8;

/// Head of a message between operating systems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnWire {
    /// The sender's incarnation, never 0. The receiver forgets the state of an earlier one.
    pub incarnation: u64,
    /// The receiver's incarnation as the sender knows it, or 0. Messages to an earlier one are
    /// stale.
    pub to_incarnation: u64,
    /// Sequence number of the message, from 0; 0 in an acknowledgement.
    pub sequence: u32,
    /// The sequence number that the sender expects next: it has received all before it.
    pub expected: u32,
    /// `ULN_WIRE_*`.
    pub kind: u32,
    /// The sender's number for the connection, from 1.
    pub from: u32,
    /// The receiver's number for the connection.
    pub to: u32,
    /// `ULN_END_*`, in a refusal or a close.
    pub reason: u32,
    /// Bytes of name at the start of the data, in a request.
    pub name_length: u32,
    /// Bytes of private data behind the name.
    pub private_length: u32,
    /// In a request: number of the sender's request to this receiver. It continues across
    /// incarnations, so that a repeated request is not accepted twice.
    pub request: u32,
    /// The user of the process that asks or answers, as reported by its operating system: its id
    /// plus 1. 0: not reported.
    pub user: u32,
}

/// A message in the receiver's memory, written by the sender's card, for cards that have no other
/// means. A host has `2 * ULN_WELL_KNOWN_PLACES` places for each other host. Neither side waits
/// for the other. A record may be overwritten, and may be read while the card writes it. So it is
/// complete only if the checksum matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnRecord {
    /// CRC-32 of everything behind it, up to the end of the message's data.
    pub checksum: u32,
    /// Counts the sender's records, from a random number on and never 0, so that the receiver
    /// detects one that it has already seen.
    pub serial: u32,
    /// The message.
    pub wire: UlnWire,
    /// Name and private data of the message.
    pub data: [u8; 320],
}
