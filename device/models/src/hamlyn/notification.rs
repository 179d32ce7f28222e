//! Notification queues (section 2.6): how a receiver learns that a message is whole.

use std::mem::offset_of;

use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_FAST, HAMLYN_NOTIFICATION_PASS_SHIFT, HAMLYN_NOTIFICATION_SIZE,
    HAMLYN_NOTIFICATION_WRAP, HamlynNotification,
};
use hamlyn_abi::hamlyn::window::{
    HAMLYN_ARMED_FIRED, HAMLYN_ARMED_STRIDE, HAMLYN_ARMED_YES, HAMLYN_PENDING_STRIDE,
    HAMLYN_QUEUE_CONTROL_ARMED, HAMLYN_QUEUE_CONTROL_PENDING,
};

use zerocopy::IntoBytes;

use super::area::Area;
use crate::ports::{Dma, DmaFault, Interrupt, VolatileSlice, Window, barrier_before_last_look};

/// A notification queue control block (Figure 4).
#[derive(Debug)]
pub(super) struct Nqcb {
    area: Area,
    entries: u32,
    /// The entry that is written next.
    cursor: u32,
    /// How often the queue has been gone through. The first pass writes wrap flags of 1, the next of 0.
    pass: u32,
    /// The interrupt vector of its owner.
    vector: u32,
}

/// What a notification is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject {
    /// A message with a metadata entry: what its owner calls the entry.
    Entry(u64),
    /// A fast-mode message: its word.
    Word(u32),
}

impl Nqcb {
    /// A queue whose memory is zero.
    pub(super) fn new(area: Area, entries: u32, vector: u32) -> Self {
        Self { area, entries, cursor: 0, pass: 0, vector }
    }

    /// Writes the next entry, its wrap flag last, and advances the cursor.
    pub(super) fn append(
        &mut self,
        dma: &dyn Dma,
        slot: u32,
        notification_index: u32,
        subject: Subject,
    ) -> Result<(), DmaFault> {
        let (metadata, kind) = match subject {
            Subject::Entry(pointer) => (pointer, 0),
            Subject::Word(word) => (u64::from(word), HAMLYN_NOTIFICATION_FAST),
        };
        let pass = self.pass << HAMLYN_NOTIFICATION_PASS_SHIFT;
        let (stale, fresh) = if self.pass % 2 == 0 {
            (pass, pass | HAMLYN_NOTIFICATION_WRAP)
        } else {
            (pass | HAMLYN_NOTIFICATION_WRAP, pass)
        };
        let offset = u64::from(self.cursor) * u64::from(HAMLYN_NOTIFICATION_SIZE);
        // Entries are 32-byte aligned, so one never straddles two pages.
        let address = self.area.locate(dma, offset)?;
        // The wrap word keeps its old flag until the rest is written. Its pass is changed first, so that a reader that is
        // still at this entry, a pass behind, learns that it is being overwritten.
        let overwritten = (self.pass != 0).then_some(stale);
        let mut entry =
            HamlynNotification { metadata, slot, notification_index, wrap: stale, ..Default::default() };
        let entry = VolatileSlice::from(entry.as_mut_bytes());
        dma.publish_entry(address, entry, offset_of!(HamlynNotification, wrap), overwritten, fresh | kind)?;
        self.cursor += 1;
        if self.cursor == self.entries {
            self.cursor = 0;
            self.pass = self.pass.wrapping_add(1);
        }
        Ok(())
    }
}

/// Where the words that the driver and the card share about sleepers are in the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueControl {
    /// Offset of the queue control area.
    pub(super) base: u64,
}

/// What came of a wish to interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// The receiver does not sleep.
    Awake,
    /// An interrupt that its vector's handler has not seen yet will wake it.
    Coalesced,
    /// The vector was raised.
    Raised,
}

impl QueueControl {
    /// Offset of a queue's armed word.
    pub(super) fn armed(self, queue: u32) -> u64 {
        self.base + u64::from(HAMLYN_QUEUE_CONTROL_ARMED) + u64::from(queue) * u64::from(HAMLYN_ARMED_STRIDE)
    }

    /// Interrupts the owner of `queue` if it sleeps and no interrupt is pending on its vector (section 2.6).
    pub(super) fn wake(
        self,
        window: &dyn Window,
        interrupt: &dyn Interrupt,
        queue: u32,
        nqcb: &Nqcb,
    ) -> Wake {
        barrier_before_last_look();
        if window.load(self.armed(queue)) != HAMLYN_ARMED_YES {
            return Wake::Awake;
        }
        window.store(self.armed(queue), HAMLYN_ARMED_FIRED);
        barrier_before_last_look();
        let pending = self.base
            + u64::from(HAMLYN_QUEUE_CONTROL_PENDING)
            + u64::from(nqcb.vector) * u64::from(HAMLYN_PENDING_STRIDE);
        if window.load(pending) != 0 {
            return Wake::Coalesced;
        }
        window.store(pending, 1);
        interrupt.raise(nqcb.vector as u16);
        Wake::Raised
    }
}
