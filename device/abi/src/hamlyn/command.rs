//! The Hamlyn card's own commands (sections 2.2, 2.3, 2.6, 3.1), in the family's command page.
//!
//! Memory that a closed slot, queue, terminus or buffer named may be unpinned once the command has
//! completed.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::UlnArea;

/// Opens terminus `index`. Body: [`HamlynOpenTerminus`].
pub const HAMLYN_COMMAND_OPEN_TERMINUS: u32 = 1;
/// Closes terminus `index`. Its pending requests are abandoned, and its send buffers cleared. No
/// body.
pub const HAMLYN_COMMAND_CLOSE_TERMINUS: u32 = 2;
/// Sets a send buffer of terminus `index`. Body: [`HamlynSetSendBuffer`].
pub const HAMLYN_COMMAND_SET_SEND_BUFFER: u32 = 3;
/// Clears a send buffer of terminus `index`. Body: [`HamlynSetSendBuffer`], of which the card reads
/// only `tag`.
pub const HAMLYN_COMMAND_CLEAR_SEND_BUFFER: u32 = 4;
/// Opens notification queue `index`. Body: [`HamlynOpenQueue`].
pub const HAMLYN_COMMAND_OPEN_QUEUE: u32 = 5;
/// Closes notification queue `index`; refused while a slot names it. No body.
pub const HAMLYN_COMMAND_CLOSE_QUEUE: u32 = 6;
/// Opens slot `index`. Body: [`HamlynOpenSlot`].
pub const HAMLYN_COMMAND_OPEN_SLOT: u32 = 7;
/// Closes slot `index`. No body.
pub const HAMLYN_COMMAND_CLOSE_SLOT: u32 = 8;

/// Slot mode: the card checks the slot's own key and bounds.
pub const HAMLYN_MODE_NORMAL: u32 = 0;
/// Slot mode: the card also checks the metadata entry's key and bounds (section 2.7).
pub const HAMLYN_MODE_PARANOID: u32 = 1;
/// Slot mode: like paranoid, but an entry accepts one message until its owner reopens it (section
/// 2.7).
pub const HAMLYN_MODE_PARANOID_ONE_SHOT: u32 = 2;

/// Slot flag: a message interrupts a sleeping receiver even if its sender did not request that.
pub const HAMLYN_SLOT_INTERRUPT: u32 = 1;
/// Slot flag: a sender that may write may also fetch-and-op. It is a separate flag because a
/// fetch-and-op reads.
pub const HAMLYN_SLOT_FETCH: u32 = 2;
/// All slot flags that a process may set.
pub const HAMLYN_SLOT_FLAGS: u32 = 3;
/// Slot flag, only for the operating system: the slot accepts only packets of privileged termini of
/// the host `source` (section 6.3).
pub const HAMLYN_SLOT_PRIVILEGED: u32 = 4;

/// Terminus flag: it belongs to the operating system, and its packets are marked as such.
pub const HAMLYN_TERMINUS_PRIVILEGED: u32 = 1;

/// Terminus flag: `vector` is set, and wakes an owner that sleeps until requests are completed.
pub const HAMLYN_TERMINUS_WAKES: u32 = 2;

/// The largest weight of a terminus.
pub const HAMLYN_MAX_WEIGHT: u32 = 64;

/// No notification queue: messages arrive without a notification.
pub const HAMLYN_NO_QUEUE: u32 = 0xffff_ffff;

/// Body of [`HAMLYN_COMMAND_OPEN_TERMINUS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynOpenTerminus {
    /// Address of the page that starts with [`crate::hamlyn::window::HamlynTerminusStatus`],
    /// 4,096-byte aligned.
    pub status: u64,
    /// Its share of the link relative to other busy termini: 1 to [`HAMLYN_MAX_WEIGHT`].
    pub weight: u32,
    /// `HAMLYN_TERMINUS_*` bits.
    pub flags: u32,
    /// With [`HAMLYN_TERMINUS_WAKES`]: MSI-X vector that wakes its owner, 1 to the number of
    /// vectors minus 1. Otherwise ignored.
    pub vector: u32,
    /// Ignored.
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
    pub area: UlnArea,
}

/// Body of [`HAMLYN_COMMAND_OPEN_QUEUE`]: the initial content of the queue's control block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynOpenQueue {
    /// The queue's memory: `entries` times 32 bytes, zeroed, `first` a multiple of 32.
    pub area: UlnArea,
    /// Entries, 2 to 65,536.
    pub entries: u32,
    /// MSI-X vector that wakes its owner, 1 to the number of vectors minus 1.
    pub vector: u32,
}

/// Body of [`HAMLYN_COMMAND_OPEN_SLOT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynOpenSlot {
    /// The message area.
    pub area: UlnArea,
    /// The metadata area; all zero if there is none. `first` is a multiple of 128.
    pub metadata: UlnArea,
    /// The protection key.
    pub key: u64,
    /// Value that notifications use for the metadata area's first byte: its address in the owner's
    /// memory.
    pub metadata_pointer: u64,
    /// Number of entries of the metadata area.
    pub metadata_entries: u32,
    /// `HAMLYN_MODE_*`.
    pub mode: u32,
    /// The notification queue, or [`HAMLYN_NO_QUEUE`].
    pub queue: u32,
    /// The owner's number for the slot, copied into its notifications.
    pub notification_index: u32,
    /// `HAMLYN_SLOT_*` bits.
    pub flags: u32,
    /// With [`HAMLYN_SLOT_PRIVILEGED`]: the host id of the operating system that may write, 0 to
    /// 65,535; otherwise zero.
    pub source: u32,
}
