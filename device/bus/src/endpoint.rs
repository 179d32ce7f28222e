//! The PCI function as the client sees it: its regions and the effects of accesses to them.

use crate::backing::Backing;
use crate::bus::Bus;
use crate::codec::{IrqInfo, RegionAccess, RegionInfo, SparseArea, region_info_size};
use crate::config_space::{CONFIG_SIZE, ConfigSpace};
use crate::counters::Counters;
use crate::description::{BAR_COUNT, Description, Msix, Widths};
use crate::function::{Answer, BarRead, Function, ReadToken, ResetCause};
use crate::irq::{IRQ_TYPES, MSIX_TYPE};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use thiserror::Error;

/// Number of regions of a VFIO PCI device: six BARs, expansion ROM, configuration space, VGA.
pub(crate) const REGION_COUNT: u32 = 9;
const CONFIG_REGION: u32 = 7;

const REGION_READ: u32 = 1 << 0;
const REGION_WRITE: u32 = 1 << 1;
const REGION_MAPPABLE: u32 = 1 << 2;
const REGION_CAPABILITIES: u32 = 1 << 3;

const IRQ_EVENTFD: u32 = 1 << 0;
const IRQ_MASKABLE: u32 = 1 << 1;

/// Why an access to a region is refused. Nothing has changed.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessError {
    /// The index is out of range.
    #[error("{what} {index} is out of range (limit {limit})")]
    Index {
        /// Region or interrupt type.
        what: &'static str,
        /// The requested index.
        index: u32,
        /// Number of valid indices.
        limit: u32,
    },
    /// The access is empty, or exceeds the region's end.
    #[error("{count} bytes at {offset:#x} of region {region} (size {size:#x})")]
    Bounds {
        /// Index of the region.
        region: u32,
        /// Offset from the start of the region.
        offset: u64,
        /// Number of bytes.
        count: u32,
        /// Size of the region.
        size: u64,
    },
}

/// The target of an access.
enum Place {
    Config,
    Msix(Msix),
    Mapped,
    Trapped,
    /// Trapped, but with a width that the card does not support, or not naturally aligned. As on
    /// PCI, a read returns all ones and a write is dropped. Both succeed, because a guest can cause
    /// such an access, and an error makes its VMM log a line or stop.
    Refused,
}

/// A function's description, its configuration space, and its services.
#[derive(Debug)]
pub(crate) struct Endpoint {
    description: Description,
    config: ConfigSpace,
    pub(crate) bus: Bus,
    pub(crate) counters: Counters,
}

impl Endpoint {
    pub(crate) fn new(description: Description, backing: Option<Backing>) -> io::Result<Self> {
        let bus = Bus::new(&description, backing)?;
        let config = ConfigSpace::new(&description);
        Ok(Endpoint { description, config, bus, counters: Counters::default() })
    }

    /// Returns the region's size, or 0 if the function does not have the region.
    fn region_size(&self, region: u32) -> u64 {
        let bar = |bar: &&crate::description::Bar| bar.index == region as usize;
        match (region, self.description.msix) {
            (CONFIG_REGION, _) => CONFIG_SIZE as u64,
            (_, Some(msix)) if msix.bar == region as usize => msix.bar_size(),
            _ => self.description.bars.iter().find(bar).map_or(0, |bar| bar.size),
        }
    }

    /// Returns the mapped areas of a region.
    fn areas(&self, region: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        let bars = self.description.bars.iter().filter(move |bar| bar.index == region as usize);
        bars.flat_map(|bar| bar.areas.iter()).map(|area| area.offset..area.offset + area.size)
    }

    /// Handles `DEVICE_GET_REGION_INFO`. If `argsz` is too small for the mapped areas, the client
    /// learns the size needed and asks again.
    pub(crate) fn region_info(
        &self,
        index: u32,
        argsz: u32,
    ) -> Result<(RegionInfo, Vec<SparseArea>), AccessError> {
        if index >= REGION_COUNT {
            return Err(AccessError::Index { what: "region", index, limit: REGION_COUNT });
        }
        let sparse = |area: Range<u64>| SparseArea { offset: area.start, size: area.end - area.start };
        let areas: Vec<_> = self.areas(index).map(sparse).collect();
        let size = self.region_size(index);
        let needed = region_info_size(areas.len());
        let fits = argsz >= needed;
        let flags = match (size, areas.len()) {
            (0, _) => 0,
            (_, 0) => REGION_READ | REGION_WRITE,
            // The flag must not be set without the capability, because QEMU relies on it.
            _ if !fits => REGION_READ | REGION_WRITE | REGION_MAPPABLE,
            _ => REGION_READ | REGION_WRITE | REGION_MAPPABLE | REGION_CAPABILITIES,
        };
        let capability_offset = if fits && !areas.is_empty() { region_info_size(0) } else { 0 };
        let info = RegionInfo { argsz: needed, flags, index, capability_offset, size, offset: 0 };
        Ok((info, if fits { areas } else { Vec::new() }))
    }

    /// Returns the memory of a region with mapped areas.
    pub(crate) fn region_fd(&self, index: u32) -> io::Result<Option<OwnedFd>> {
        let bar = index as usize;
        match self.bus.backing(bar) {
            Some(backing) => backing.duplicate_fd().map(Some),
            None => self.bus.pages(bar).map(|pages| pages.duplicate_fd()).transpose(),
        }
    }

    /// Handles `DEVICE_GET_IRQ_INFO`.
    pub(crate) fn irq_info(&self, index: u32) -> Result<IrqInfo, AccessError> {
        if index >= IRQ_TYPES {
            return Err(AccessError::Index { what: "interrupt type", index, limit: IRQ_TYPES });
        }
        let count = if index == MSIX_TYPE { self.bus.interrupts.count() } else { 0 };
        let flags = if count > 0 { IRQ_EVENTFD | IRQ_MASKABLE } else { 0 };
        Ok(IrqInfo { argsz: size_of::<IrqInfo>() as u32, flags, index, count })
    }

    /// Checks an access and returns its target.
    fn place(&self, access: &RegionAccess) -> Result<Place, AccessError> {
        let RegionAccess { offset, region, count } = *access;
        if region >= REGION_COUNT {
            return Err(AccessError::Index { what: "region", index: region, limit: REGION_COUNT });
        }
        let size = self.region_size(region);
        let end = offset.checked_add(u64::from(count)).filter(|end| count > 0 && *end <= size);
        let Some(end) = end else {
            return Err(AccessError::Bounds { region, offset, count, size });
        };
        if region == CONFIG_REGION {
            return Ok(Place::Config);
        }
        if self.areas(region).any(|area| area.start <= offset && end <= area.end) {
            return Ok(Place::Mapped);
        }
        let msix = self.description.msix.filter(|msix| msix.bar == region as usize);
        let bar = self.description.bars.iter().find(|bar| bar.index == region as usize);
        let widths = bar.map_or(Widths::all(), |bar| bar.widths);
        // A naturally aligned access cannot be partly in a mapped area, because areas are whole
        // pages.
        if !widths.accept(count as usize) || offset % u64::from(count) != 0 {
            return Ok(Place::Refused);
        }
        Ok(msix.map_or(Place::Trapped, Place::Msix))
    }

    /// Reads a region into `data`, which has the access's size and is zeroed.
    pub(crate) fn read(
        &mut self,
        function: &mut dyn Function,
        access: &RegionAccess,
        token: ReadToken,
        data: &mut [u8],
    ) -> Result<Answer, AccessError> {
        match self.place(access)? {
            Place::Config => self.config.read(access.offset as usize, data),
            Place::Msix(msix) => self.read_msix(&msix, access.offset, data),
            Place::Mapped => {
                let (bar, offset) = (access.region as usize, access.offset);
                match (self.bus.backing(bar), self.bus.pages(bar)) {
                    (Some(backing), _) => backing.read(offset, data),
                    // This cannot fail: the area lies in the BAR.
                    (None, pages) => _ = pages.map(|pages| pages.read_bytes(offset, data)),
                }
            }
            Place::Trapped => {
                self.counters.trapped_reads += 1;
                let read = BarRead { bar: access.region as usize, offset: access.offset, token };
                return Ok(function.bar_read(&self.bus, read, data));
            }
            Place::Refused => {
                self.counters.refused += 1;
                data.fill(0xff);
            }
        }
        Ok(Answer::Now)
    }

    /// Whether the function handles a read at this place.
    pub(crate) fn is_trapped(&self, access: &RegionAccess) -> bool {
        matches!(self.place(access), Ok(Place::Trapped))
    }

    /// The table reads as zero, because the client keeps it (VFIO requires that). The pending bits
    /// are the server's.
    fn read_msix(&self, msix: &Msix, offset: u64, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            if let Some(place) = at.checked_sub(msix.pending_offset()) {
                let word = self.bus.interrupts.pending_word((place / 8) as usize);
                *byte = word.to_le_bytes()[(place % 8) as usize];
            }
        }
    }

    /// Writes to a region. Returns whether the write has reset the function.
    pub(crate) fn write(
        &mut self,
        function: &mut dyn Function,
        access: &RegionAccess,
        data: &[u8],
    ) -> Result<bool, AccessError> {
        match self.place(access)? {
            Place::Config => return Ok(self.write_config(function, access.offset as usize, data)),
            Place::Msix(_) => {}
            Place::Refused => self.counters.refused += 1,
            Place::Mapped => {
                let (bar, offset) = (access.region as usize, access.offset);
                match (self.bus.backing(bar), self.bus.pages(bar)) {
                    (Some(backing), _) => backing.write(offset, data),
                    // This cannot fail: the area lies in the BAR.
                    (None, pages) => _ = pages.map(|pages| pages.write_bytes(offset, data)),
                }
            }
            Place::Trapped => {
                self.counters.trapped_writes += 1;
                function.bar_write(&self.bus, access.region as usize, access.offset, data);
            }
        }
        Ok(false)
    }

    fn write_config(&mut self, function: &mut dyn Function, offset: usize, data: &[u8]) -> bool {
        let effects = self.config.write(offset, data);
        if effects.function_level_reset {
            self.reset(function, ResetCause::FunctionLevel);
            return true;
        }
        if self.description.msix.is_some() {
            self.bus.interrupts.set_function_mask(self.config.function_mask());
        }
        if effects.bus_master_changed {
            let enabled = self.config.bus_master();
            self.bus.set_bus_master(enabled);
            function.bus_master_changed(&self.bus, enabled);
        }
        false
    }

    /// Returns to the power-on state. Guest memory and eventfds belong to the client and stay.
    pub(crate) fn reset(&mut self, function: &mut dyn Function, cause: ResetCause) {
        self.counters.resets += 1;
        self.config = ConfigSpace::new(&self.description);
        self.bus.set_bus_master(false);
        self.bus.interrupts.reset();
        self.bus.interrupts.set_function_mask(false);
        function.reset(&self.bus, cause);
    }

    /// Handles the client's disconnect. Its memory and its eventfds are dropped before the function
    /// is notified.
    pub(crate) fn disconnect(&mut self, function: &mut dyn Function) {
        self.bus.dma.unmap_all();
        self.bus.interrupts.disconnect();
        self.reset(function, ResetCause::ClientLeft);
    }
}

const _: () = assert!(BAR_COUNT == 6 && CONFIG_REGION == 7, "VFIO numbers the BARs 0 to 5");
