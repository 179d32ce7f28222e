//! An entry of a notification queue (section 2.6, Table 3): 32 bytes in host memory, written by the
//! card alone.
//!
//! Initially the queue is zero, and the card's wrap flag is 1. The card writes an entry, and then
//! stores its `wrap` word. After the last entry it continues with the first, and toggles the flag.
//! A reader has its own cursor and wrap flag; an entry is valid when the flags match.
//!
//! The card does not know the reader's position: it overwrites an entry that is not read in time. A
//! reader can detect that, because the `wrap` word also has the number of the pass over the queue
//! in which the entry was written. Before the card overwrites an entry, it stores the word with the
//! new pass and the old flag. So if a reader finds the word unchanged after reading an entry, it
//! has read one entry, not parts of two.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of a notification queue entry, in bytes.
pub const HAMLYN_NOTIFICATION_SIZE: u32 = 32;
/// Minimum number of entries in a notification queue.
pub const HAMLYN_QUEUE_MIN_ENTRIES: u32 = 2;
/// Maximum number of entries in a notification queue.
pub const HAMLYN_QUEUE_MAX_ENTRIES: u32 = 65536;

/// Bit of `wrap`: the wrap flag.
pub const HAMLYN_NOTIFICATION_WRAP: u32 = 1;
/// Bit of `wrap`: a fast-mode message; `metadata` holds its word.
pub const HAMLYN_NOTIFICATION_FAST: u32 = 2;

/// Bit position in `wrap` of the pass number, which counts from 0, modulo 2^30.
pub const HAMLYN_NOTIFICATION_PASS_SHIFT: u32 = 2;

/// One arrived message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynNotification {
    /// Metadata entry pointer, in the address space that the slot's owner named. In fast mode: the
    /// word.
    pub metadata: u64,
    /// Slot that the message arrived in.
    pub slot: u32,
    /// The number that the slot's owner gave the slot, to find the receiver.
    pub notification_index: u32,
    /// Zero.
    pub reserved0: u64,
    /// Zero.
    pub reserved1: u32,
    /// `HAMLYN_NOTIFICATION_*` bits and the pass; written last.
    pub wrap: u32,
}
