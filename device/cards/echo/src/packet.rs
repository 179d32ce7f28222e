//! A message in flight between two cards. The fabric's own header precedes it and holds the hosts.

use hamlyn_abi::echo::window::ECHO_MAX_MESSAGE;
use hamlyn_card::packet::PacketField;
use hamlyn_card::packet_field;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of the largest packet, in bytes.
pub(super) const LARGEST: usize = size_of::<EchoPacket>() + ECHO_MAX_MESSAGE as usize;

/// The header's fields, for traces.
pub(super) const FIELDS: &[PacketField] =
    &[packet_field!(EchoPacket, to), packet_field!(EchoPacket, from), packet_field!(EchoPacket, key)];

/// The header in front of the message's bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct EchoPacket {
    /// The receiving mailbox.
    pub(super) to: U32,
    /// The sending mailbox.
    pub(super) from: U32,
    /// The key that the sender knows.
    pub(super) key: U64,
}
