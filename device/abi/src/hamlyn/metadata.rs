//! A metadata entry (section 2.4, Table 2): 128 bytes in the receiving application's own memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of a metadata entry, in bytes.
pub const HAMLYN_METADATA_SIZE: u32 = 128;

/// `one_shot` of a metadata entry that accepts messages.
pub const HAMLYN_ONE_SHOT_OPEN: u32 = 0;
/// `one_shot` of a metadata entry that has received its message and waits for the application
/// (section 2.7).
pub const HAMLYN_ONE_SHOT_LOCKED: u32 = 1;

/// One entry of a slot's metadata area. The application writes all of it. The card writes `user`,
/// `accumulator` and `one_shot`, and trusts none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynMetadataEntry {
    /// Metadata of the message, from its first packet.
    pub user: [u8; 60],
    /// Packet accumulator (section 2.5): zero while no message is incomplete.
    pub accumulator: u32,
    /// Key that replaces the slot's key in the paranoid modes (section 2.7).
    pub key: u64,
    /// Paranoid modes: first byte of the message area that this entry opens.
    pub low: u64,
    /// Paranoid modes: first byte behind the part of the message area that this entry opens.
    pub high: u64,
    /// The library's receive class pointer; the card does not use it.
    pub receive_class: u64,
    /// Paranoid one-shot mode: `HAMLYN_ONE_SHOT_*`.
    pub one_shot: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: [u64; 3],
}
