//! A mapped BAR.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use hamlyn_card::ports::{VolatileSlice, Window};
use vm_memory::{Bytes, MmapRegion, VolatileMemory};

use crate::region::{mapped, zeros};

/// The only mapped BAR of a card. Callers make sure that offsets are in range and that words are
/// aligned.
#[derive(Debug)]
pub struct Pages(MmapRegion);

impl Pages {
    /// Creates a window of `bytes` zeros. Fails if the system is out of memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        zeros(bytes).map(Self)
    }

    /// Maps a file, which others map as well ([`shared_file`](crate::shared_file)).
    pub fn of(file: &File, bytes: usize) -> io::Result<Self> {
        mapped(file, bytes).map(Self)
    }

    /// Stores bytes, as a process that has mapped the BAR does.
    pub fn put(&self, offset: u64, bytes: &[u8]) {
        self.at(offset, bytes.len()).copy_from(bytes);
    }

    fn at(&self, offset: u64, length: usize) -> VolatileSlice<'_> {
        self.0.get_slice(offset as usize, length).expect("bytes of the window")
    }
}

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        u32::from_le(self.at(offset, 4).load(0, Ordering::Acquire).expect("a word of the window"))
    }

    fn store(&self, offset: u64, value: u32) {
        self.at(offset, 4).store(value.to_le(), 0, Ordering::Release).expect("a word of the window");
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.at(offset, into.len()).copy_to(into);
    }

    fn clear(&self, offset: u64, length: u64) {
        self.put(offset, &vec![0; length as usize]);
    }
}
