//! Messages between the drivers of two hosts about endpoints, of the card's own kind
//! (`ULN_WIRE_CARD`). `reason` is the message's kind, `from` the sender's port, and `to` the
//! receiver's.
//!
//! Each operating system has an aperture for the messages of the others ([`CLAN_SYSTEM_APERTURE`]).
//! The messages lie in the sender's part of it, as [records](crate::kernel::wire::UlnRecord). A
//! Tripwire over the aperture shows that there is one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of the aperture for operating systems' messages. It is privileged, and has parts.
pub const CLAN_SYSTEM_APERTURE: u32 = 0;
/// Its key, which is not a secret.
pub const CLAN_SYSTEM_KEY: u64 = 0x4e41_4c43_5359_5354;

/// A message for an endpoint. Followed by [`ClanSaid`].
pub const CLAN_SAY_MESSAGE: u32 = 1;
/// The message of `from` was lost: endpoint `to` does not exist, has no space, or ended without an
/// answer to a request. Followed by [`ClanSaid`], the message.
pub const CLAN_SAY_UNDELIVERED: u32 = 2;
/// Endpoint `from`, which was a peer of `to`, has ended.
pub const CLAN_SAY_GONE: u32 = 3;

/// An out-of-band message (section 3.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanSaid {
    /// `CLAN_MESSAGE_*`, one that a process may send.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// Its payload.
    pub data: [u64; 5],
}
