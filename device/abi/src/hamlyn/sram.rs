//! The card's SRAM: one memory for slots, notification queue control blocks and send termini
//! (sections 2.6, 6.6).
//!
//! The directory is at address 0. It has one word for each number, with the address of the object
//! with that number. The rest is for the objects. An object takes its bytes when it is opened, in
//! one block, and gives them back when it is closed. If no block is long enough, opening fails with
//! [`crate::family::command::ULN_STATUS_MEMORY_FULL`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the directory for each number of a terminus, slot or queue.
pub const HAMLYN_SRAM_NUMBER: u32 = 4;
/// Sizes and addresses of objects are multiples of this.
pub const HAMLYN_SRAM_UNIT: u32 = 64;
/// Bytes of a send terminus.
pub const HAMLYN_SRAM_TERMINUS: u32 = 512;
/// Bytes of a notification queue control block.
pub const HAMLYN_SRAM_QUEUE: u32 = 64;
/// Bytes of a slot.
pub const HAMLYN_SRAM_SLOT: u32 = 128;

/// Location of an object in the SRAM. The card writes it to the body of the command that opened the
/// object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSramPlace {
    /// Address of its first byte.
    pub address: u32,
    /// Bytes.
    pub bytes: u32,
}
