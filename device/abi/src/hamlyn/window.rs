//! BAR 2 and BAR 4: a process' view of its send terminus (section 2.3), and the queue control page.
//!
//! BAR 2 holds one window of [`HAMLYN_WINDOW_SIZE`] for each terminus, each mapped only into its
//! owner. The queue control area is behind the last window; only the driver maps it. BAR 4 holds
//! one doorbell page for each terminus. So does BAR 0 of the card's second function, where QEMU
//! posts the store.
//!
//! To post a request, the owner fills entry `tail % 64` of the work queue and stores `tail + 1` to
//! [`HAMLYN_WINDOW_TAIL`] (release). It issues a full barrier and reads [`HAMLYN_WINDOW_AWAKE`].
//! Only if that is zero, it stores to the doorbell page. The card does the converse before it stops
//! polling: it clears `awake`, issues a full barrier, and reads `tail` once more. The card zeroes a
//! window when it opens the terminus.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of a terminus window in BAR 2, in bytes.
pub const HAMLYN_WINDOW_SIZE: u32 = 65536;
/// Offset in a window of `tail`, a u32 written by the owner: total number of requests it has
/// posted, modulo 2^32.
pub const HAMLYN_WINDOW_TAIL: u32 = 0x0000;
/// Offset in a window of `awake`, a u32 written by the card: not zero while it polls `tail`.
pub const HAMLYN_WINDOW_AWAKE: u32 = 0x0040;
/// Offset in a window of the work queue's first entry.
pub const HAMLYN_WINDOW_WORK_QUEUE: u32 = 0x8000;

/// Size of a work-queue entry, in bytes: a request of [`crate::hamlyn::request`].
pub const HAMLYN_ENTRY_SIZE: u32 = 512;
/// Entries in a work queue.
pub const HAMLYN_WORK_QUEUE_ENTRIES: u32 = 64;
/// Entries of a work queue that may be in use at the same time (section 2.3).
pub const HAMLYN_WORK_QUEUE_USABLE: u32 = 63;

/// Size of a terminus' doorbell page in BAR 4, and in BAR 0 of the second function, in bytes. A
/// store of 4 bytes anywhere in the page rings the doorbell.
pub const HAMLYN_DOORBELL_SIZE: u32 = 4096;

/// Size of the queue control area in BAR 2, in bytes, for each 512 notification queues or part of
/// them. The area is contiguous: the words of queue 512 follow those of queue 511.
pub const HAMLYN_QUEUE_CONTROL_SIZE: u32 = 65536;
/// Offset in the queue control area of the vectors' `pending` words, 4 bytes each, 64 bytes apart.
/// The card sets a word when it raises the vector. The driver clears it before it looks at the
/// queues.
pub const HAMLYN_QUEUE_CONTROL_PENDING: u32 = 0x0000;
/// Offset in the queue control area of the queues' `armed` words, 4 bytes each, 64 bytes apart.
pub const HAMLYN_QUEUE_CONTROL_ARMED: u32 = 0x1000;

/// Size of the terminus control area in BAR 2, behind the queue control area, in bytes: 64 for each
/// of 1,024 termini.
pub const HAMLYN_TERMINUS_CONTROL_SIZE: u32 = 65536;
/// Distance between two termini's words in the terminus control area, in bytes.
pub const HAMLYN_TERMINUS_CONTROL_STRIDE: u32 = 64;
/// Offset of the `armed` word, 4 bytes, in a terminus' part of the terminus control area. It works
/// like that of a queue.
pub const HAMLYN_TERMINUS_ARMED: u32 = 0;
/// Offset of `wanted`, 4 bytes, in a terminus' part of the terminus control area. The driver stores
/// it before `armed`. The card interrupts once [`HamlynTerminusStatus::completed`] has reached it,
/// modulo 2^32.
pub const HAMLYN_TERMINUS_WANTED: u32 = 4;

/// [`HamlynTerminusStatus::reasons`]: the request was sent, or the fetch-and-op executed.
pub const HAMLYN_REASON_SENT: u32 = 0;

/// The prearranged words in host memory by which the card reports its progress to a terminus' owner
/// (section 2.3).
///
/// They are at the start of a page of their own. Only the card writes it, and it is mapped
/// read-only into the owner. The card writes `fetched`, `reasons` and `refused` before the
/// `completed` that covers them. All are zero when a terminus opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTerminusStatus {
    /// Number of requests that the card has completed, modulo 2^32. Their entries and buffers may
    /// be reused.
    pub completed: u32,
    /// Number of those that it refused, modulo 2^32.
    pub refused: u32,
    /// Zero.
    pub reserved: [u32; 14],
    /// Result of the last request in each entry of the work queue: [`HAMLYN_REASON_SENT`], or the
    /// number of the refusal's counter (`statistics`).
    pub reasons: [u32; 64],
    /// The word that a fetch-and-op found, for the last request in each entry of the work queue.
    /// Undefined for other requests.
    pub fetched: [u64; 64],
}
