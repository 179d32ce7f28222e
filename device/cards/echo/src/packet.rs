//! A message on its way from card to card. In front of it is the fabric's own header, which has the
//! hosts.

use hamlyn_abi::echo::window::ECHO_MAX_MESSAGE;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The largest packet, in bytes.
pub(super) const LARGEST: usize = size_of::<EchoPacket>() + ECHO_MAX_MESSAGE as usize;

/// What is in front of the message's bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct EchoPacket {
    /// The mailbox that it is for.
    pub(super) to: U32,
    /// The mailbox that it is from.
    pub(super) from: U32,
}
