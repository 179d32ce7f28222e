//! The card's ports, on top of the bus's services and the fabric's link.

use std::sync::atomic::Ordering;

use hamlyn_bus::{Access, BAR_COUNT, Bus, DmaError, SharedPages};
use hamlyn_card::ports::{Dma, DmaFault, Interrupt, Operation, VolatileSlice, Windows};

/// Guest memory and interrupts.
pub(super) struct BusPorts<'a>(pub(super) &'a Bus);

fn fault(error: DmaError) -> DmaFault {
    tracing::debug!("{error}");
    DmaFault { address: error.address, length: error.length }
}

impl Dma for BusPorts<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.0.dma.read(address, &into).map_err(fault)
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.0.dma.slice(address, length as u64, Access::Read).map_err(fault)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.0.dma.write(address, &from).map_err(fault)
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        self.0.dma.store_u32_release(address, value).map_err(fault)
    }

    #[inline]
    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.0.dma.slice(address, length as u64, Access::Write).map(Some).map_err(fault)
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.0.dma.check(address, length as u64, Access::Read).map_err(fault)?;
        self.lend_to_write(address, length)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        self.0.dma.change_u64(address, |word| operation.apply(word)).map_err(fault)
    }
}

impl Interrupt for BusPorts<'_> {
    fn raise(&self, vector: u16) {
        if let Err(error) = self.0.interrupts.interrupt(vector) {
            tracing::debug!("{error}");
        }
    }
}

/// The mapped BARs, by index. The card stays within the size in its identity, so no access is out
/// of bounds. If one were, it would read as zero and change nothing.
#[derive(Default)]
pub(super) struct Pages([Option<SharedPages>; BAR_COUNT]);

impl Pages {
    /// Sets the memory of a BAR.
    pub(super) fn put(&mut self, bar: u8, pages: SharedPages) {
        if let Some(place) = self.0.get_mut(usize::from(bar)) {
            *place = Some(pages);
        }
    }

    fn of(&self, bar: u8) -> Option<&SharedPages> {
        let pages = self.0.get(usize::from(bar)).and_then(Option::as_ref);
        if pages.is_none() {
            tracing::error!("the card looked for a window in BAR {bar}, where none is");
        }
        pages
    }
}

impl Windows for Pages {
    fn load_from(&self, bar: u8, offset: u64) -> u32 {
        self.of(bar).and_then(|pages| pages.load_u32(offset, Ordering::Acquire).ok()).unwrap_or(0)
    }

    fn store_to(&self, bar: u8, offset: u64, value: u32) {
        if let Some(pages) = self.of(bar) {
            inside(pages.store_u32(offset, value, Ordering::Release));
        }
    }

    fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]) {
        if let Some(pages) = self.of(bar) {
            inside(pages.read_bytes(offset, into));
        }
    }

    fn clear_in(&self, bar: u8, offset: u64, length: u64) {
        if let Some(pages) = self.of(bar) {
            inside(pages.clear(offset, length));
        }
    }
}

fn inside<E: std::fmt::Display>(access: Result<(), E>) {
    if let Err(error) = access {
        tracing::error!("the card left its own window: {error}");
    }
}
