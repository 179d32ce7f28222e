//! An aperture's memory, read and written word by word: who sees a word sees those before it (section 2.1).

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use hamlyn_card::chassis::area::Area;
use hamlyn_card::ports::{Dma, DmaFault, VolatileMemory, VolatileSlice, barrier_before_overwriting};

use crate::PAGE;

/// Writes `bytes` at `offset`, in order: each aligned word, or part of one, in one piece. The caller has checked that the area has them.
pub(crate) fn write(dma: &dyn Dma, area: &Area, mut offset: u64, mut bytes: &[u8]) -> Result<(), DmaFault> {
    while !bytes.is_empty() {
        let address = area.locate(dma, offset)?;
        let here = (PAGE - address % PAGE).min(bytes.len() as u64) as usize;
        let (now, behind) = bytes.split_at(here);
        match dma.lend_to_write(address, here)? {
            Some(memory) => store(&memory, address, now),
            None => write_piecewise(dma, address, now)?,
        }
        (offset, bytes) = (offset + here as u64, behind);
    }
    Ok(())
}

/// How many bytes go in one piece, that far from an aligned address.
fn width(address: u64, left: usize) -> usize {
    [8, 4, 2].into_iter().find(|width| address % *width as u64 == 0 && *width <= left).unwrap_or(1)
}

fn store(memory: &VolatileSlice<'_>, start: u64, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let width = width(start + done as u64, bytes.len() - done);
        let mut value = [0; 8];
        value[..width].copy_from_slice(&bytes[done..done + width]);
        let value = u64::from_le_bytes(value);
        // What is lent begins at the address, and is aligned as that is.
        let stored = match width {
            8 => memory.get_atomic_ref::<AtomicU64>(done).map(|word| word.store(value, Ordering::Release)),
            4 => memory
                .get_atomic_ref::<AtomicU32>(done)
                .map(|word| word.store(value as u32, Ordering::Release)),
            2 => memory
                .get_atomic_ref::<AtomicU16>(done)
                .map(|word| word.store(value as u16, Ordering::Release)),
            _ => {
                memory.get_atomic_ref::<AtomicU8>(done).map(|word| word.store(value as u8, Ordering::Release))
            }
        };
        debug_assert!(stored.is_ok(), "memory that is lent is aligned as its address is");
        done += width;
    }
}

/// For hosts that do not lend memory to be written to.
fn write_piecewise(dma: &dyn Dma, start: u64, bytes: &[u8]) -> Result<(), DmaFault> {
    let mut done = 0;
    while done < bytes.len() {
        let width = width(start + done as u64, bytes.len() - done);
        let mut piece = [0; 8];
        piece[..width].copy_from_slice(&bytes[done..done + width]);
        barrier_before_overwriting();
        dma.write(start + done as u64, VolatileSlice::from(&mut piece[..width]))?;
        done += width;
    }
    Ok(())
}

/// Reads `length` bytes at `offset`. The caller has checked that the area has them.
pub(crate) fn read(dma: &dyn Dma, area: &Area, mut offset: u64, length: u64) -> Result<Vec<u8>, DmaFault> {
    let mut bytes = vec![0; length as usize];
    let mut left = &mut bytes[..];
    while !left.is_empty() {
        let address = area.locate(dma, offset)?;
        let here = (PAGE - address % PAGE).min(left.len() as u64) as usize;
        let (now, behind) = left.split_at_mut(here);
        dma.read(address, VolatileSlice::from(now))?;
        (offset, left) = (offset + here as u64, behind);
    }
    Ok(bytes)
}
