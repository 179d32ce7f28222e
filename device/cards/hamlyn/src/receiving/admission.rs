//! Access checks (sections 2.2 and 2.7): all checks that a packet must pass. None of them changes
//! anything.

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::ports::Dma;

use super::metadata::Entry;
use super::slot::{Mode, Slot};
use crate::packet::{PACKET_PRIVILEGED, PACKET_SILENT, PacketHeader};

/// The destination of a packet that has passed its checks.
pub(super) struct Admitted<'a> {
    pub(super) slot: &'a Slot,
    /// The metadata entry, or `None` in fast mode.
    pub(super) entry: Option<Entry>,
}

/// Runs all checks of sections 2.2 and 2.7. Fails with the counter of the first check that fails.
#[inline(always)]
pub(super) fn admit<'a>(
    slots: &'a [Option<Slot>],
    dma: &dyn Dma,
    source: u16,
    header: &PacketHeader,
) -> Result<Admitted<'a>, Statistic> {
    let slot = slots.get(header.slot as usize).ok_or(Statistic::RefusedSlot)?;
    let slot = slot.as_ref().ok_or(Statistic::RefusedClosedSlot)?;
    if slot.privileged.is_some_and(|host| host != source || !header.has(PACKET_PRIVILEGED)) {
        return Err(Statistic::RefusedPrivilege);
    }
    // A silent message would lock its entry for good: the operating system would not be notified
    // and would not reopen it.
    if slot.privileged.is_some() && header.has(PACKET_SILENT) {
        return Err(Statistic::RefusedPrivilege);
    }
    if slot.mode == Mode::Normal && header.key != slot.key {
        return Err(Statistic::RefusedKey);
    }
    if !slot.area.contains(header.offset.into(), header.extent().into()) {
        return Err(Statistic::RefusedBounds);
    }
    if header.is_fast_mode() {
        // In the paranoid modes, the key and bounds are in a metadata entry, and a fast-mode packet
        // names no entry.
        let paranoid = slot.mode != Mode::Normal;
        return if paranoid {
            Err(Statistic::RefusedFastParanoid)
        } else {
            Ok(Admitted { slot, entry: None })
        };
    }
    let entry = Entry::find(dma, slot, header.metadata_index)?;
    if slot.mode != Mode::Normal {
        entry.admits(dma, slot.mode, header)?;
    }
    Ok(Admitted { slot, entry: Some(entry) })
}
