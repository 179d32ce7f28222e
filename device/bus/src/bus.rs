//! What a card can do through the bus.

use crate::bar::SharedPages;
use crate::dma::Dma;
use crate::function::{BAR_COUNT, Description};
use crate::irq::Interrupts;
use std::io;

/// The services of one PCI function: guest memory, interrupts, and the memory of its mapped BARs.
#[derive(Debug)]
pub struct Bus {
    /// Guest memory.
    pub dma: Dma,
    /// MSI-X.
    pub interrupts: Interrupts,
    pages: [Option<SharedPages>; BAR_COUNT],
    bus_master: bool,
}

impl Bus {
    pub(crate) fn new(description: &Description) -> io::Result<Self> {
        let mut pages = [const { None }; BAR_COUNT];
        for bar in description.bars.iter().filter(|bar| !bar.areas.is_empty()) {
            pages[bar.index] = Some(SharedPages::new(&format!("bar{}", bar.index), bar.size)?);
        }
        let vectors = description.msix.map_or(0, |msix| msix.vectors);
        Ok(Bus { dma: Dma::default(), interrupts: Interrupts::new(vectors), pages, bus_master: false })
    }

    /// The memory of a BAR with mapped areas: all of the BAR, of which the guest sees only the areas.
    pub fn pages(&self, bar: usize) -> Option<&SharedPages> {
        self.pages.get(bar)?.as_ref()
    }

    /// May the function reach guest memory and interrupt?
    pub fn bus_master(&self) -> bool {
        self.bus_master
    }

    pub(crate) fn set_bus_master(&mut self, enabled: bool) {
        self.bus_master = enabled;
        self.dma.set_bus_master(enabled);
        self.interrupts.set_bus_master(enabled);
    }
}
