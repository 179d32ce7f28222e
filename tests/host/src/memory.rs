//! Host memory.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use hamlyn_card::ports::{Dma, DmaFault, Operation, VolatileSlice};
use vm_memory::{Bytes, MmapRegion, VolatileMemory};

use crate::region::{mapped, zeros};

/// Bytes of a host's memory.
pub const MEMORY_BYTES: usize = 8 << 20;

/// Host memory, 8 MiB from address 0. The card may access all of it.
#[derive(Debug)]
pub struct Memory {
    bytes: MmapRegion,
    /// A write that the owner does right after the card has read from an address. Holds that
    /// address, the address to write, and the 8 bytes to write there.
    pub after_read: Cell<Option<(u64, u64, u64)>>,
}

impl Memory {
    /// Creates zeroed memory. Fails if the system is out of memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self { bytes: zeros(MEMORY_BYTES)?, after_read: Cell::new(None) })
    }

    /// Maps a file, which programs of this host map as well ([`shared_file`](crate::shared_file)).
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self { bytes: mapped(file, MEMORY_BYTES)?, after_read: Cell::new(None) })
    }

    /// Returns a slice of the memory in place. Fails if the range is out of bounds.
    // The benchmark calls this for each packet that it times: a call would take as long as a small
    // copy.
    #[inline]
    pub fn at(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        let fault = DmaFault { address, length: length as u64 };
        self.bytes.get_slice(address as usize, length).map_err(|_| fault)
    }
}

impl Dma for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.at(address, into.len())?.copy_to_volatile_slice(into);
        if let Some((_, to, value)) = self.after_read.get().filter(|(read, ..)| *read == address) {
            self.after_read.set(None);
            self.at(to, 8)?.copy_from(&value.to_le_bytes());
        }
        Ok(())
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.at(address, length)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        from.copy_to_volatile_slice(self.at(address, from.len())?);
        Ok(())
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        let misaligned = DmaFault { address, length: 4 };
        self.at(address, 4)?.store(value.to_le(), 0, Ordering::Release).map_err(|_| misaligned)
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.at(address, length).map(Some)
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.at(address, length).map(Some)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let word = self.at(address, 8)?;
        let misaligned = DmaFault { address, length: 8 };
        word.get_atomic_ref::<AtomicU64>(0).map(|word| operation.apply(word)).map_err(|_| misaligned)
    }
}
