//! An entry of a notification queue (section 2.6, Table 3): 32 bytes in host memory, written by the
//! card alone.
//!
//! The queue starts as zeros and the card's wrap flag as 1. The card writes an entry, then stores
//! its `wrap` word; behind the last entry it goes back to the first and toggles the flag. A reader
//! keeps a cursor and a wrap flag of its own and has an entry when the flags match.
//!
//! The card does not know how far the reader is: an entry that is not read in time is overwritten.
//! A reader can tell, because the `wrap` word also says in which pass over the queue its entry was
//! written. Before the card overwrites an entry it stores the word with the new pass and the old
//! flag: who finds the word unchanged after reading an entry has read one entry, not pieces of two.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of a notification queue entry, in bytes.
pub const HAMLYN_NOTIFICATION_SIZE: u32 = 32;
/// The fewest entries of a notification queue.
pub const HAMLYN_QUEUE_MIN_ENTRIES: u32 = 2;
/// The most entries of a notification queue.
pub const HAMLYN_QUEUE_MAX_ENTRIES: u32 = 65536;

/// Bit of `wrap`: the wrap flag.
pub const HAMLYN_NOTIFICATION_WRAP: u32 = 1;
/// Bit of `wrap`: a fast-mode message; `metadata` holds its word.
pub const HAMLYN_NOTIFICATION_FAST: u32 = 2;

/// Where in `wrap` the number of the pass starts, from 0, modulo 2^30.
pub const HAMLYN_NOTIFICATION_PASS_SHIFT: u32 = 2;

/// One arrived message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynNotification {
    /// Metadata entry pointer, in the address space that the slot's owner named; in fast mode, the
    /// word.
    pub metadata: u64,
    /// Slot that the message arrived in.
    pub slot: u32,
    /// The number that the slot's owner gave it, to find its receiver by.
    pub notification_index: u32,
    /// Zero.
    pub reserved0: u64,
    /// Zero.
    pub reserved1: u32,
    /// `HAMLYN_NOTIFICATION_*` bits and the pass; written last.
    pub wrap: u32,
}
