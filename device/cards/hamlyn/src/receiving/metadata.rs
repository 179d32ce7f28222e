//! A metadata entry in host memory, as the card uses it (sections 2.4, 2.5, 2.7).
//!
//! The entry belongs to a process, so its content can only narrow access, never widen it.

use std::mem::offset_of;

use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HAMLYN_ONE_SHOT_LOCKED, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::ports::{Dma, DmaFault, Pieces, barrier_between_looks, read_value, write_value};
use vm_memory::VolatileMemory;

use super::slot::{Mode, Slot};
use crate::packet::PacketHeader;

/// The location of a metadata entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    address: u64,
    /// The entry's address as its owner sees it.
    pub(super) pointer: u64,
}

impl Entry {
    /// Finds the entry that a packet names. An entry never straddles two pages, because areas start
    /// on a multiple of its size.
    #[inline(always)]
    pub(super) fn find(dma: &dyn Dma, slot: &Slot, index: u32) -> Result<Self, Statistic> {
        let (area, entries) = slot.metadata.as_ref().ok_or(Statistic::RefusedMetadataIndex)?;
        if index >= *entries {
            return Err(Statistic::RefusedMetadataIndex);
        }
        let offset = u64::from(index) * u64::from(HAMLYN_METADATA_SIZE);
        let address = area.locate(dma, offset).map_err(|_| Statistic::RefusedReceiveDma)?;
        Ok(Self { address, pointer: slot.metadata_pointer.wrapping_add(offset) })
    }

    /// Runs the paranoid modes' checks: the entry's own key and bounds, after the slot's bounds
    /// have been checked.
    ///
    /// The checks run twice. An owner that changes an entry first closes it with the low limit, and
    /// opens it again last. A packet that sees a mixture of old and new values the first time finds
    /// the entry closed, or the new key, the second time.
    pub(super) fn admits(&self, dma: &dyn Dma, mode: Mode, packet: &PacketHeader) -> Result<(), Statistic> {
        self.admits_now(dma, mode, packet)?;
        barrier_between_looks();
        self.admits_now(dma, mode, packet)
    }

    fn admits_now(&self, dma: &dyn Dma, mode: Mode, packet: &PacketHeader) -> Result<(), Statistic> {
        let entry: HamlynMetadataEntry =
            read_value(dma, self.address).map_err(|_| Statistic::RefusedReceiveDma)?;
        let from = u64::from(packet.offset);
        if packet.key != entry.key {
            Err(Statistic::RefusedParanoidKey)
        } else if from < entry.low || from + u64::from(packet.extent()) > entry.high {
            Err(Statistic::RefusedParanoidBounds)
        } else if mode == Mode::ParanoidOneShot && entry.one_shot == HAMLYN_ONE_SHOT_LOCKED {
            Err(Statistic::RefusedOneShot)
        } else {
            Ok(())
        }
    }

    /// Deposits the user's metadata: the next `length` bytes of `from`.
    pub(super) fn deposit(
        &self,
        dma: &dyn Dma,
        mut from: Pieces<'_>,
        mut length: usize,
    ) -> Result<(), DmaFault> {
        let mut address = self.address;
        while length > 0 {
            let piece = from.take(length).ok_or(DmaFault { address, length: length as u64 })?;
            dma.write(address, piece)?;
            address += piece.len() as u64;
            length -= piece.len();
        }
        Ok(())
    }

    /// Adds a packet to the accumulator (section 2.5). Returns `true` if that completes the
    /// message.
    pub(super) fn count(&self, dma: &dyn Dma, delta: u32) -> Result<bool, DmaFault> {
        if delta == 0 {
            return Ok(true);
        }
        Ok(self.accumulate(dma, |sum| sum.wrapping_add(delta))? == 0)
    }

    /// Takes back the counts of packets whose message will stay incomplete. If the accumulator
    /// holds fewer, its owner has zeroed it since, and the counts are already gone.
    pub(super) fn retract(&self, dma: &dyn Dma, packets: u32) -> Result<(), DmaFault> {
        self.accumulate(dma, |sum| sum.checked_sub(packets).unwrap_or(sum)).map(drop)
    }

    fn accumulate(&self, dma: &dyn Dma, change: impl FnOnce(u32) -> u32) -> Result<u32, DmaFault> {
        change_word(dma, self.address + offset_of!(HamlynMetadataEntry, accumulator) as u64, change)
    }

    /// Locks the entry until its owner opens it again.
    pub(super) fn lock(&self, dma: &dyn Dma) -> Result<(), DmaFault> {
        let one_shot = self.address + offset_of!(HamlynMetadataEntry, one_shot) as u64;
        write_value(dma, one_shot, HAMLYN_ONE_SHOT_LOCKED)
    }
}

/// Changes a word that has no other writer meanwhile. Returns its new value.
#[inline]
fn change_word(dma: &dyn Dma, address: u64, change: impl FnOnce(u32) -> u32) -> Result<u32, DmaFault> {
    if let Some(place) = dma.lend_to_change(address, size_of::<u32>())? {
        let fault = |_| DmaFault { address, length: size_of::<u32>() as u64 };
        let word = place.get_ref::<u32>(0).map_err(fault)?;
        let sum = change(u32::from_le(word.load()));
        word.store(sum.to_le());
        return Ok(sum);
    }
    let sum = change(u32::from_le(read_value(dma, address)?));
    write_value(dma, address, sum.to_le())?;
    Ok(sum)
}
