//! The messages between operating systems: requests for connections, their ends, and what has been
//! received.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What has been received, in `expected`; goes to one of the entries behind those for messages.
pub const HAMLYN_WIRE_ACK: u32 = 1;
/// The same, and asks for the same.
pub const HAMLYN_WIRE_PROBE: u32 = 2;
/// Asks for a connection to the listener `name`; `from` is its number at the sender. Carries
/// private data. One without a name is a question, whether anybody listens under the name that is
/// its private data: the answer is a refusal, for `HAMLYN_END_LISTENING` or `HAMLYN_END_NOBODY`; or
/// for `HAMLYN_END_NO_NAME`, from an operating system that knows no questions.
pub const HAMLYN_WIRE_REQUEST: u32 = 3;
/// Accepts connection `to`; `from` is its number at the sender. Carries private data.
pub const HAMLYN_WIRE_ACCEPT: u32 = 4;
/// Refuses connection `to` for `reason`. Carries private data.
pub const HAMLYN_WIRE_REJECT: u32 = 5;
/// Ends connection `to`, or if that is 0 the one that has number `from` at the sender, for
/// `reason`. Carries private data.
pub const HAMLYN_WIRE_CLOSE: u32 = 6;
/// From one card's own part of the driver to the other's: what `from`, `to`, `reason` and the
/// private data mean is that card's. An operating system whose card has no such messages passes
/// over it.
pub const HAMLYN_WIRE_CARD: u32 = 7;
/// About express memory: `reason` is a `HAMLYN_EXPRESS_SAY_*` ([`super::express`]). An operating
/// system that has none passes over it.
pub const HAMLYN_WIRE_EXPRESS: u32 = 8;

/// Head of a message between operating systems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynWire {
    /// The sender's incarnation, never 0: what it knew of this receiver under an earlier one is
    /// forgotten.
    pub incarnation: u64,
    /// The receiver's incarnation as far as the sender knows, or 0. Messages to an earlier one are
    /// stale.
    pub to_incarnation: u64,
    /// Sequence number of the message, from 0; 0 in an acknowledgement.
    pub sequence: u32,
    /// The sequence number that the sender expects next: all before it have been received.
    pub expected: u32,
    /// `HAMLYN_WIRE_*`.
    pub kind: u32,
    /// The sender's number for the connection, from 1.
    pub from: u32,
    /// The receiver's number for the connection.
    pub to: u32,
    /// `HAMLYN_END_*`, in a refusal or a close.
    pub reason: u32,
    /// Bytes of name at the start of the data, in a request.
    pub name_length: u32,
    /// Bytes of private data behind it.
    pub private_length: u32,
    /// Which of the sender's requests to this receiver it is, in a request. It is not counted anew
    /// with an incarnation, so that a request which is made again is not taken again.
    pub request: u32,
    /// The user of the process that asks or answers, as its operating system says: its id plus 1.
    /// 0: not told.
    pub user: u32,
}

/// A message in memory of the receiver's to which the sender's card writes, for cards that have
/// nothing else for it. A host has `2 * HAMLYN_WELL_KNOWN_PLACES` places for each other one.
/// Neither side waits for the other: a record may be overwritten, and may be looked at while the
/// card writes it, so it is whole only if the checksum says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynRecord {
    /// CRC-32 of what is behind it, up to the end of the message's data.
    pub checksum: u32,
    /// Counts the sender's records, from 1: one that is there already has come before.
    pub serial: u32,
    /// The message.
    pub wire: HamlynWire,
    /// What belongs to it.
    pub data: [u8; 320],
}
