//! Reads and writes an aperture's memory word by word: a reader that sees a word also sees those
//! before it (section 2.1).

use hamlyn_card::chassis::area::Area;
use hamlyn_card::ordered::write_in_order;
use hamlyn_card::ports::{Dma, DmaFault, VolatileSlice};

use crate::PAGE;

/// Writes `bytes` at `offset` in order: each aligned word, or part of one, in one piece. The caller
/// has checked that the area contains them.
pub(crate) fn write(dma: &dyn Dma, area: &Area, mut offset: u64, mut bytes: &[u8]) -> Result<(), DmaFault> {
    while !bytes.is_empty() {
        let address = area.locate(dma, offset)?;
        let here = (PAGE - address % PAGE).min(bytes.len() as u64) as usize;
        let (now, behind) = bytes.split_at(here);
        write_in_order(dma, address, now)?;
        (offset, bytes) = (offset + here as u64, behind);
    }
    Ok(())
}

/// Reads `length` bytes at `offset`. The caller has checked that the area contains them.
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
