//! Notification queues (section 2.6): how a receiver learns that a message is complete.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_FAST, HAMLYN_NOTIFICATION_PASS_SHIFT, HAMLYN_NOTIFICATION_SIZE,
    HAMLYN_NOTIFICATION_WRAP, HamlynNotification,
};
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::sleeper::Sleeper;
use hamlyn_card::ports::{Dma, DmaFault, VolatileSlice, barrier_before_overwriting};
use vm_memory::VolatileMemory;
use zerocopy::IntoBytes;

use crate::sram::Place;

/// Offset of the polled word in an entry.
const WRAP: usize = offset_of!(HamlynNotification, wrap);

/// A notification queue control block (Figure 4).
#[derive(Debug)]
pub(super) struct Nqcb {
    /// Its place in the SRAM.
    place: Place,
    area: Area,
    entries: u32,
    /// Index of the entry that is written next.
    cursor: u32,
    /// Number of finished passes through the queue. The first pass writes wrap flags of 1, the next
    /// pass flags of 0.
    pass: u32,
    /// The sleeper that waits for the next entry.
    pub(super) sleeper: Sleeper,
}

/// The subject of a notification.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject {
    /// A message with a metadata entry: the entry's address as its owner sees it.
    Entry(u64),
    /// A fast-mode message: its word.
    Word(u32),
}

impl Nqcb {
    /// Creates a queue. Its memory is zero.
    pub(super) fn new(area: Area, entries: u32, sleeper: Sleeper, place: Place) -> Self {
        Self { place, area, entries, cursor: 0, pass: 0, sleeper }
    }

    /// Closes the queue. Returns its place in the SRAM.
    pub(super) fn into_place(self) -> Place {
        self.place
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
        // Entries are 32-byte aligned, so no entry straddles two pages.
        let address = self.area.locate(dma, offset)?;
        // The wrap word keeps its old flag until the rest is written. Its pass is changed first. A
        // reader that is still at this entry, one pass behind, then learns that the entry is being
        // overwritten.
        let overwritten = (self.pass != 0).then_some(stale);
        let mut entry =
            HamlynNotification { metadata, slot, notification_index, wrap: stale, ..Default::default() };
        let entry = VolatileSlice::from(entry.as_mut_bytes());
        publish(dma, address, entry, overwritten, fresh | kind)?;
        self.cursor += 1;
        if self.cursor == self.entries {
            self.cursor = 0;
            self.pass = self.pass.wrapping_add(1);
        }
        Ok(())
    }
}

/// Replaces an entry that a reader polls. The wrap word becomes `stale`, if given, before anything
/// else changes, and `fresh` after everything else has changed.
#[inline]
fn publish(
    dma: &dyn Dma,
    address: u64,
    entry: VolatileSlice<'_>,
    stale: Option<u32>,
    fresh: u32,
) -> Result<(), DmaFault> {
    if let Some(place) = dma.lend_to_write(address, entry.len())? {
        let fault = DmaFault { address, length: entry.len() as u64 };
        return publish_in_place(&place, entry, stale, fresh).ok_or(fault);
    }
    let word = address + WRAP as u64;
    if let Some(stale) = stale {
        dma.publish(word, stale)?;
        barrier_before_overwriting();
    }
    dma.write(address, entry)?;
    dma.publish(word, fresh)
}

/// Does the same in lent memory. Returns `None` if the memory has no wrap word.
#[inline]
fn publish_in_place(
    place: &VolatileSlice<'_>,
    entry: VolatileSlice<'_>,
    stale: Option<u32>,
    fresh: u32,
) -> Option<()> {
    let polled = place.get_atomic_ref::<AtomicU32>(WRAP).ok()?;
    if let Some(stale) = stale {
        polled.store(stale.to_le(), Ordering::Release);
        barrier_before_overwriting();
    }
    entry.copy_to_volatile_slice(*place);
    polled.store(fresh.to_le(), Ordering::Release);
    Some(())
}
