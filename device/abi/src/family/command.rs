//! The command page, by which the driver changes what only the operating system may change.
//!
//! The driver fills the command page with a [`UlnCommand`], followed by the operation's own
//! structure at [`ULN_COMMAND_BODY`]. It then stores to [`ULN_REG_COMMAND_GO`]. The card
//! executes the command completely or not at all, and writes `status`, `value` and `limit` back.
//! When the store has completed, no deposit or gather that only an earlier state allowed is in
//! flight. So memory that a closed object named may be unpinned.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// RW, 8 bytes. Address of the command page in host memory, 4,096-byte aligned.
pub const ULN_REG_COMMAND_PAGE: u32 = 0x040;
/// WO. Any value: executes the command in the command page. The write completes when the command
/// has.
pub const ULN_REG_COMMAND_GO: u32 = 0x048;
/// RO. Status of the last command, even if the command page itself was not accessible.
pub const ULN_REG_COMMAND_STATUS: u32 = 0x04c;

/// Size and alignment of the command page, in bytes.
pub const ULN_COMMAND_PAGE_SIZE: u32 = 4096;
/// Offset in the command page of the operation's own structure.
pub const ULN_COMMAND_BODY: u32 = 64;

/// Writes the card's counters, a u64 each in the model's order, to the body. All models have this
/// operation.
pub const ULN_COMMAND_READ_STATISTICS: u32 = 9;
/// Self-test of DMA. Body: [`UlnTestDma`]. All models have this operation.
pub const ULN_COMMAND_TEST_DMA: u32 = 10;

/// Status: done.
pub const ULN_STATUS_OK: u32 = 0;
/// Status: no such operation; `value` is its code.
pub const ULN_STATUS_BAD_OPCODE: u32 = 1;
/// Status: `index` is out of range; `limit` is the size of the table.
pub const ULN_STATUS_BAD_INDEX: u32 = 2;
/// Status: the object is open already, or in use.
pub const ULN_STATUS_IN_USE: u32 = 3;
/// Status: the object, or one that the body names, is not open.
pub const ULN_STATUS_NOT_OPEN: u32 = 4;
/// Status: a length is zero or over `limit`.
pub const ULN_STATUS_BAD_LENGTH: u32 = 5;
/// Status: an address or offset is misaligned or out of range.
pub const ULN_STATUS_BAD_ADDRESS: u32 = 6;
/// Status: a mode, flag, tag, vector or reserved field has an invalid value.
pub const ULN_STATUS_BAD_VALUE: u32 = 7;
/// Status: host memory was not accessible; `value` is the address.
pub const ULN_STATUS_DMA_FAULT: u32 = 8;
/// Status: the command page was not set, or bus mastering is off.
pub const ULN_STATUS_NO_PAGE: u32 = 9;
/// Status: the card's memory has no free block of `value` bytes; `limit` bytes are free in total.
pub const ULN_STATUS_MEMORY_FULL: u32 = 10;

/// Head of the command page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnCommand {
    /// `ULN_COMMAND_*` of the family or of the model.
    pub opcode: u32,
    /// The object's number.
    pub index: u32,
    /// Written by the card: `ULN_STATUS_*`.
    pub status: u32,
    /// Zero.
    pub reserved: u32,
    /// Written by the card if it refuses the command: the invalid value.
    pub value: u64,
    /// Written by the card if it refuses the command: the limit.
    pub limit: u64,
}

/// Body of [`ULN_COMMAND_TEST_DMA`]: the card copies `length` bytes from `from` to `to`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnTestDma {
    /// Address to read.
    pub from: u64,
    /// Address to write.
    pub to: u64,
    /// Bytes, 1 to 4,096.
    pub length: u64,
}
