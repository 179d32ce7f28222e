//! Users' shares of a card.
//!
//! What they share is the model's own affair, but for connections, which every card has.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::iowr;

/// How much of the card the user who opened the file holds, and may hold. Argument:
/// [`HamlynShareQuery`].
pub const HAMLYN_IOC_SHARE: u32 = iowr::<HamlynShareQuery>(21);

/// Index into [`HamlynShareQuery`]: connections that have not ended, and listeners.
pub const HAMLYN_SHARE_CONNECTIONS: u32 = 3;

/// What the user who opened the file holds of the card, through all his files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynShareQuery {
    /// Out: how many he holds, by `HAMLYN_SHARE_*`. The first three are what the model says.
    pub held: [u32; 4],
    /// Out: how many he may hold as things stand: a share of what the others leave. It falls while
    /// others take more, and what he holds already stays his.
    pub limit: [u32; 4],
    /// Out: whose share it is: the user id of who opened the file, or of who made the user
    /// namespace in which he did, as the caller sees it.
    pub user: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: [u64; 3],
}
