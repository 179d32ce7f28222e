//! An area of host memory in pieces: base and bound (section 2.2), over pages that lie anywhere.
//!
//! The paper's machine mapped a buffer's pages into one range of bus addresses (section 4); a PC has no such unit for
//! every guest, so the card walks a two-level list of pages itself.

use hamlyn_abi::hamlyn::command::{HAMLYN_MAX_AREA, HamlynArea};
use vm_memory::VolatileSlice;

use crate::ports::{Dma, DmaFault, read_value};

const PAGE: u64 = 4096;
const ADDRESSES_IN_A_PAGE: u64 = PAGE / 8;

/// An area that has passed [`Area::check`]: its directory is aligned, and no byte of it is beyond the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    directory: u64,
    length: u64,
    first: u64,
}

/// What is wrong with an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadArea {
    Length { value: u64, limit: u64 },
    Address { value: u64 },
    Reserved { value: u64 },
}

impl Area {
    /// Takes an area from a command.
    pub(super) fn check(area: &HamlynArea) -> Result<Self, BadArea> {
        let first = u64::from(area.first);
        let limit = HAMLYN_MAX_AREA - first.min(PAGE);
        if area.reserved != 0 {
            Err(BadArea::Reserved { value: area.reserved.into() })
        } else if first >= PAGE {
            Err(BadArea::Address { value: first })
        } else if area.directory % PAGE != 0 {
            Err(BadArea::Address { value: area.directory })
        } else if area.length == 0 || area.length > limit {
            Err(BadArea::Length { value: area.length, limit })
        } else {
            Ok(Self { directory: area.directory, length: area.length, first })
        }
    }

    /// Its bound: how many bytes it has.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether all of `offset..offset + length` lies in it.
    pub(super) fn contains(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.length)
    }

    /// Whether it starts on a multiple of `alignment`, so that aligned parts of it never straddle two pages.
    pub(super) fn is_aligned(&self, alignment: u64) -> bool {
        self.first % alignment == 0
    }

    /// The address of byte `offset`, and how many bytes follow it in the same page.
    pub(super) fn locate(&self, dma: &dyn Dma, offset: u64) -> Result<(u64, u64), DmaFault> {
        let byte = self.first + offset;
        let page = byte / PAGE;
        let list = page_at(dma, self.directory + page / ADDRESSES_IN_A_PAGE * 8)?;
        let page = page_at(dma, list + page % ADDRESSES_IN_A_PAGE * 8)?;
        Ok((page + byte % PAGE, PAGE - byte % PAGE))
    }

    /// Deposits `from` at `offset`. The caller has checked that it fits.
    pub(super) fn write(&self, dma: &dyn Dma, offset: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.pieces(dma, offset, from, |address, piece| dma.write(address, piece))
    }

    /// Fills `into` from `offset`. The caller has checked that it fits.
    pub(super) fn read(&self, dma: &dyn Dma, offset: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.pieces(dma, offset, into, |address, piece| dma.read(address, piece))
    }

    fn pieces(
        &self,
        dma: &dyn Dma,
        mut offset: u64,
        mut bytes: VolatileSlice<'_>,
        mut each: impl FnMut(u64, VolatileSlice<'_>) -> Result<(), DmaFault>,
    ) -> Result<(), DmaFault> {
        while !bytes.is_empty() {
            let (address, room) = self.locate(dma, offset)?;
            let here = bytes.len().min(room as usize);
            let fault = |_| DmaFault { address, length: here as u64 };
            let (piece, rest) = bytes.split_at(here).map_err(fault)?;
            each(address, piece)?;
            offset += here as u64;
            bytes = rest;
        }
        Ok(())
    }
}

/// A page address from a list. One that is misaligned is no page's.
fn page_at(dma: &dyn Dma, entry: u64) -> Result<u64, DmaFault> {
    let page: u64 = read_value(dma, entry)?;
    if page % PAGE == 0 { Ok(page) } else { Err(DmaFault { address: page, length: PAGE }) }
}
