//! Users' shares of a card.
//!
//! The model defines what is shared, except connections, which every card has.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::iowr;

/// Returns how much of the card the user that opened the file holds, and may hold. Argument:
/// [`UlnShareQuery`].
pub const ULN_IOC_SHARE: u32 = iowr::<UlnShareQuery>(21);

/// Index into [`UlnShareQuery`]: connections that have not ended, and listeners.
pub const ULN_SHARE_CONNECTIONS: u32 = 3;

/// Usage of the card by the user that opened the file, through all of this user's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnShareQuery {
    /// Out: numbers that the user holds, by `ULN_SHARE_*`. The model defines the first three.
    pub held: [u32; 4],
    /// Out: numbers that the user may hold at present: a share of what other users leave. It falls
    /// while others take more; what the user already holds is kept.
    pub limit: [u32; 4],
    /// Out: the user that the share belongs to, as the caller sees its id. It is the user that
    /// opened the file, or that made the user namespace in which the file was opened.
    pub user: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: [u64; 3],
}
