//! What the drivers of two hosts say to each other about endpoints, in messages of the card's own
//! (`HAMLYN_WIRE_CARD`): `reason` says what it is, `from` is the sender's port and `to` the
//! receiver's.
//!
//! All messages of operating systems lie in an aperture that each has for those of the others
//! ([`CLAN_SYSTEM_APERTURE`]), in the sender's part, as
//! [records](crate::kernel::wire::HamlynRecord); a Tripwire over it tells that there is one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The number of the aperture for operating systems' messages: privileged, with parts.
pub const CLAN_SYSTEM_APERTURE: u32 = 0;
/// Its key, which is no secret.
pub const CLAN_SYSTEM_KEY: u64 = 0x4e41_4c43_5359_5354;

/// A message for an endpoint. Behind it: [`ClanSaid`].
pub const CLAN_SAY_MESSAGE: u32 = 1;
/// There is no endpoint `to`, or it has no room, or it has ended without an answer to a request:
/// what was said to it by `from` is lost. Behind it: [`ClanSaid`], the message.
pub const CLAN_SAY_UNDELIVERED: u32 = 2;
/// Endpoint `from`, which was a peer of `to`, is no more.
pub const CLAN_SAY_GONE: u32 = 3;

/// An out-of-band message (section 3.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanSaid {
    /// `CLAN_MESSAGE_*`, of those that a process may send.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// Its payload.
    pub data: [u64; 5],
}
