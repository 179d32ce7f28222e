//! The services that a card uses through the bus.

use crate::backing::Backing;
use crate::bar::SharedPages;
use crate::description::{BAR_COUNT, Description};
use crate::dma::Dma;
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
    backing: Option<Backing>,
    bus_master: bool,
}

impl Bus {
    pub(crate) fn new(description: &Description, backing: Option<Backing>) -> io::Result<Self> {
        let mut pages = [const { None }; BAR_COUNT];
        let is_backed = |bar: usize| backing.as_ref().is_some_and(|backing| backing.bar == bar);
        for bar in description.bars.iter().filter(|bar| !bar.areas.is_empty() && !is_backed(bar.index)) {
            pages[bar.index] = Some(SharedPages::new(&format!("bar{}", bar.index), bar.size)?);
        }
        let vectors = description.msix.map_or(0, |msix| msix.vectors);
        let (dma, interrupts) = (Dma::default(), Interrupts::new(vectors));
        Ok(Bus { dma, interrupts, pages, backing, bus_master: false })
    }

    /// Returns the file that backs a BAR, if there is one.
    pub(crate) fn backing(&self, bar: usize) -> Option<&Backing> {
        self.backing.as_ref().filter(|backing| backing.bar == bar)
    }

    /// Returns the memory of a BAR with mapped areas, unless the BAR has a [`Backing`]. It covers
    /// the whole BAR, of which the guest maps only the areas.
    pub fn pages(&self, bar: usize) -> Option<&SharedPages> {
        self.pages.get(bar)?.as_ref()
    }

    /// Whether the function may access guest memory and interrupt.
    pub fn bus_master(&self) -> bool {
        self.bus_master
    }

    pub(crate) fn set_bus_master(&mut self, enabled: bool) {
        self.bus_master = enabled;
        self.dma.set_bus_master(enabled);
        self.interrupts.set_bus_master(enabled);
    }
}
