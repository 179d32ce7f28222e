//! Commands: how the driver changes what only the operating system may change (sections 2.2, 2.3, 2.6, 3.1).
//!
//! The driver fills the command page (a [`HamlynCommand`], then the operation's own structure at
//! [`HAMLYN_COMMAND_BODY`]) and stores to `HAMLYN_REG_COMMAND_GO`. The card carries the command out whole or not at
//! all, and writes `status`, `value` and `limit` back. When the store has completed no deposit and no gather that an
//! earlier state allowed is under way: what a closed slot, queue, terminus or buffer named may be unpinned.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size and alignment of the command page, in bytes.
pub const HAMLYN_COMMAND_PAGE_SIZE: u32 = 4096;
/// Offset in the command page of the operation's own structure.
pub const HAMLYN_COMMAND_BODY: u32 = 64;

/// Open terminus `index`. Body: [`HamlynOpenTerminus`].
pub const HAMLYN_COMMAND_OPEN_TERMINUS: u32 = 1;
/// Close terminus `index`; requests that it still holds are abandoned, its send buffers cleared. No body.
pub const HAMLYN_COMMAND_CLOSE_TERMINUS: u32 = 2;
/// Set a send buffer of terminus `index`. Body: [`HamlynSetSendBuffer`].
pub const HAMLYN_COMMAND_SET_SEND_BUFFER: u32 = 3;
/// Clear a send buffer of terminus `index`. Body: [`HamlynSetSendBuffer`], of which only `tag` is read.
pub const HAMLYN_COMMAND_CLEAR_SEND_BUFFER: u32 = 4;
/// Open notification queue `index`. Body: [`HamlynOpenQueue`].
pub const HAMLYN_COMMAND_OPEN_QUEUE: u32 = 5;
/// Close notification queue `index`: refused while a slot names it. No body.
pub const HAMLYN_COMMAND_CLOSE_QUEUE: u32 = 6;
/// Open slot `index`. Body: [`HamlynOpenSlot`].
pub const HAMLYN_COMMAND_OPEN_SLOT: u32 = 7;
/// Close slot `index`. No body.
pub const HAMLYN_COMMAND_CLOSE_SLOT: u32 = 8;
/// Write the card's counters, a u64 each in the order of [`crate::hamlyn::statistics`], to the body.
pub const HAMLYN_COMMAND_READ_STATISTICS: u32 = 9;
/// Self-test of DMA. Body: [`HamlynTestDma`].
pub const HAMLYN_COMMAND_TEST_DMA: u32 = 10;

/// Status: done.
pub const HAMLYN_STATUS_OK: u32 = 0;
/// Status: no such operation; `value` is its code.
pub const HAMLYN_STATUS_BAD_OPCODE: u32 = 1;
/// Status: `index` is out of range; `limit` is the size of the table.
pub const HAMLYN_STATUS_BAD_INDEX: u32 = 2;
/// Status: the object is open already.
pub const HAMLYN_STATUS_IN_USE: u32 = 3;
/// Status: the object, or one that the body names, is not open.
pub const HAMLYN_STATUS_NOT_OPEN: u32 = 4;
/// Status: a length is zero or over `limit`.
pub const HAMLYN_STATUS_BAD_LENGTH: u32 = 5;
/// Status: an address or offset is misaligned or out of range.
pub const HAMLYN_STATUS_BAD_ADDRESS: u32 = 6;
/// Status: a mode, flag, tag, vector or reserved field has a value that means nothing.
pub const HAMLYN_STATUS_BAD_VALUE: u32 = 7;
/// Status: host memory could not be reached; `value` is the address.
pub const HAMLYN_STATUS_DMA_FAULT: u32 = 8;
/// Status: the command page was not set, or bus mastering is off.
pub const HAMLYN_STATUS_NO_PAGE: u32 = 9;

/// Slot mode: the slot's own key and bounds.
pub const HAMLYN_MODE_NORMAL: u32 = 0;
/// Slot mode: the metadata entry's key and bounds as well (section 2.7).
pub const HAMLYN_MODE_PARANOID: u32 = 1;
/// Slot mode: paranoid, and an entry takes one message until its owner opens it again (section 2.7).
pub const HAMLYN_MODE_PARANOID_ONE_SHOT: u32 = 2;

/// Slot flag: a message interrupts a sleeping receiver even if its sender did not ask.
pub const HAMLYN_SLOT_INTERRUPT: u32 = 1;
/// Slot flag: who may write may also fetch-and-op. It is asked for because a fetch-and-op reads.
pub const HAMLYN_SLOT_FETCH: u32 = 2;
/// All slot flags that a process may ask for.
pub const HAMLYN_SLOT_FLAGS: u32 = 3;
/// Slot flag, the operating system's own: takes packets only of privileged termini of the host `source` (section 6.3).
pub const HAMLYN_SLOT_PRIVILEGED: u32 = 4;

/// Terminus flag: it is the operating system's, and its packets say so.
pub const HAMLYN_TERMINUS_PRIVILEGED: u32 = 1;

/// Terminus flag: `vector` is set, and wakes an owner that sleeps until requests are finished.
pub const HAMLYN_TERMINUS_WAKES: u32 = 2;

/// The largest weight of a terminus.
pub const HAMLYN_MAX_WEIGHT: u32 = 64;

/// No notification queue: messages arrive without a word.
pub const HAMLYN_NO_QUEUE: u32 = 0xffff_ffff;

/// The largest area, in bytes: what a page of pointers to pages of addresses of pages reaches.
pub const HAMLYN_MAX_AREA: u64 = 1_073_741_824;

/// Head of the command page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynCommand {
    /// `HAMLYN_COMMAND_*`.
    pub opcode: u32,
    /// Which terminus, queue or slot.
    pub index: u32,
    /// Written by the card: `HAMLYN_STATUS_*`.
    pub status: u32,
    /// Zero.
    pub reserved: u32,
    /// Written by the card when it refuses: what was wrong.
    pub value: u64,
    /// Written by the card when it refuses: what the limit is.
    pub limit: u64,
}

/// A piece of host memory that need not be contiguous: message area, metadata area, queue or send buffer.
///
/// `directory` is the address of a 4,096-byte page of 512 addresses of list pages, each of 512 addresses of 4,096-byte
/// pages; byte `i` of the area is byte `first + i` of the pages laid end to end. (The paper's machine had an I/O
/// memory-management unit that did this, section 4.) The pages of the directory and lists belong to the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynArea {
    /// Address of the directory page, 4,096-byte aligned.
    pub directory: u64,
    /// Bytes, 1 to [`HAMLYN_MAX_AREA`] less `first`.
    pub length: u64,
    /// Where in the first page the area starts, 0 to 4,095.
    pub first: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`HAMLYN_COMMAND_OPEN_TERMINUS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynOpenTerminus {
    /// Address of the page that starts with [`crate::hamlyn::window::HamlynTerminusStatus`], 4,096-byte aligned.
    pub status: u64,
    /// Its share of the link beside other busy termini: 1 to [`HAMLYN_MAX_WEIGHT`].
    pub weight: u32,
    /// `HAMLYN_TERMINUS_*` bits.
    pub flags: u32,
    /// With [`HAMLYN_TERMINUS_WAKES`]: MSI-X vector that wakes its owner, 1 to the number of vectors less 1. Else not read.
    pub vector: u32,
    /// Not read.
    pub reserved: u32,
}

/// Body of [`HAMLYN_COMMAND_SET_SEND_BUFFER`] and [`HAMLYN_COMMAND_CLEAR_SEND_BUFFER`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSetSendBuffer {
    /// Tag, 0 to 7.
    pub tag: u32,
    /// Zero.
    pub reserved: u32,
    /// The buffer.
    pub area: HamlynArea,
}

/// Body of [`HAMLYN_COMMAND_OPEN_QUEUE`]: what the queue's control block starts with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynOpenQueue {
    /// The queue's memory: `entries` times 32 bytes, zeroed, `first` a multiple of 32.
    pub area: HamlynArea,
    /// Entries, 2 to 65,536.
    pub entries: u32,
    /// MSI-X vector that wakes its owner, 1 to the number of vectors less 1.
    pub vector: u32,
}

/// Body of [`HAMLYN_COMMAND_OPEN_SLOT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynOpenSlot {
    /// The message area.
    pub area: HamlynArea,
    /// The metadata area; all zero if there is none. `first` is a multiple of 128.
    pub metadata: HamlynArea,
    /// The protection key.
    pub key: u64,
    /// What notifications call the metadata area's first byte: its address in the owner's memory.
    pub metadata_pointer: u64,
    /// Entries of the metadata area.
    pub metadata_entries: u32,
    /// `HAMLYN_MODE_*`.
    pub mode: u32,
    /// The notification queue, or [`HAMLYN_NO_QUEUE`].
    pub queue: u32,
    /// The owner's number for the slot, for its notifications.
    pub notification_index: u32,
    /// `HAMLYN_SLOT_*` bits.
    pub flags: u32,
    /// With [`HAMLYN_SLOT_PRIVILEGED`]: the host id of the operating system that may write, 0 to 65,535; else zero.
    pub source: u32,
}

/// Body of [`HAMLYN_COMMAND_TEST_DMA`]: the card copies `length` bytes from one place to the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTestDma {
    /// Address to read.
    pub from: u64,
    /// Address to write.
    pub to: u64,
    /// Bytes, 1 to 4,096.
    pub length: u64,
}
