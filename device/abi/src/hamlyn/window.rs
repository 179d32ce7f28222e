//! BAR 2 and BAR 4: what a process sees of its send terminus (section 2.3), and the queue control
//! page.
//!
//! BAR 2 holds one window of [`HAMLYN_WINDOW_SIZE`] for each terminus, each mapped into its owner
//! alone; behind the last of them lies the queue control area, which only the driver maps. BAR 4
//! holds one doorbell page for each terminus, and so does BAR 0 of the card's second function,
//! where QEMU posts the store.
//!
//! To post a request its owner fills entry `tail % 64` of the work queue, stores `tail + 1` to
//! [`HAMLYN_WINDOW_TAIL`] (release), issues a full barrier and reads [`HAMLYN_WINDOW_AWAKE`]: only
//! when it is zero does the owner store to the doorbell page. The card does the mirror image before
//! it stops looking: it clears `awake`, issues a full barrier, and looks at `tail` once more. The
//! card makes a window zero when it opens the terminus.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of a terminus window in BAR 2, in bytes.
pub const HAMLYN_WINDOW_SIZE: u32 = 65536;
/// Offset in a window of `tail`, a u32 written by the owner: how many requests it has ever posted,
/// modulo 2^32.
pub const HAMLYN_WINDOW_TAIL: u32 = 0x0000;
/// Offset in a window of `awake`, a u32 written by the card: not zero while it looks at `tail`
/// unasked.
pub const HAMLYN_WINDOW_AWAKE: u32 = 0x0040;
/// Offset in a window of the work queue's first entry.
pub const HAMLYN_WINDOW_WORK_QUEUE: u32 = 0x8000;

/// Size of a work-queue entry, in bytes: a request of [`crate::hamlyn::request`].
pub const HAMLYN_ENTRY_SIZE: u32 = 512;
/// Entries in a work queue.
pub const HAMLYN_WORK_QUEUE_ENTRIES: u32 = 64;
/// Entries of a work queue that may be in use at a time (section 2.3).
pub const HAMLYN_WORK_QUEUE_USABLE: u32 = 63;

/// Size of a terminus' doorbell page in BAR 4, and in BAR 0 of the second function, in bytes. A
/// store of 4 bytes anywhere in it rings.
pub const HAMLYN_DOORBELL_SIZE: u32 = 4096;

/// Size of the queue control area in BAR 2, in bytes, for each 512 notification queues or part of
/// them. The area is one range: the words of queue 512 follow those of queue 511.
pub const HAMLYN_QUEUE_CONTROL_SIZE: u32 = 65536;
/// Offset in the queue control area of the vectors' `pending` words, 4 bytes each, 64 bytes apart:
/// set by the card when it raises the vector, cleared by the driver before it looks at the queues.
pub const HAMLYN_QUEUE_CONTROL_PENDING: u32 = 0x0000;
/// Offset in the queue control area of the queues' `armed` words, 4 bytes each, 64 bytes apart.
pub const HAMLYN_QUEUE_CONTROL_ARMED: u32 = 0x1000;

/// Size of the terminus control area in BAR 2, behind the queue control area, in bytes: 64 for each
/// of 1,024 termini.
pub const HAMLYN_TERMINUS_CONTROL_SIZE: u32 = 65536;
/// Distance between two termini's words in the terminus control area, in bytes.
pub const HAMLYN_TERMINUS_CONTROL_STRIDE: u32 = 64;
/// Offset in a terminus' part of the terminus control area of its `armed` word, 4 bytes: as that of
/// a queue.
pub const HAMLYN_TERMINUS_ARMED: u32 = 0;
/// Offset in a terminus' part of the terminus control area of `wanted`, 4 bytes, stored by the
/// driver before `armed`: the card interrupts once [`HamlynTerminusStatus::completed`] has reached
/// it, modulo 2^32.
pub const HAMLYN_TERMINUS_WANTED: u32 = 4;

/// [`HamlynTerminusStatus::reasons`]: the request was sent, and a fetch-and-op carried out.
pub const HAMLYN_REASON_SENT: u32 = 0;

/// The prearranged words in host memory by which the card tells a terminus' owner how far it is
/// (section 2.3).
///
/// They start a page of their own, which the card alone writes and which is mapped read-only into
/// the owner. The card writes `fetched`, `reasons` and `refused` before the `completed` that covers
/// them. All are zero when a terminus opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTerminusStatus {
    /// How many requests the card has finished with, modulo 2^32: their entries and buffers may be
    /// used again.
    pub completed: u32,
    /// How many of those it refused, modulo 2^32.
    pub refused: u32,
    /// Zero.
    pub reserved: [u32; 14],
    /// What became of the request that was last in each entry of the work queue:
    /// [`HAMLYN_REASON_SENT`], or the number of the refusal's counter (`statistics`).
    pub reasons: [u32; 64],
    /// The word that a fetch-and-op found, for the request that was last in each entry of the work
    /// queue. Means nothing for other requests.
    pub fetched: [u64; 64],
}
