//! An area of host memory in pieces: base and bound (section 2.2), over pages at any addresses.
//!
//! The paper's machine mapped a buffer's pages into one range of bus addresses (section 4). A PC
//! does not have such a unit for every guest, so the card walks a two-level list of pages itself.

use std::cell::Cell;

use hamlyn_abi::family::area::{ULN_MAX_AREA, UlnArea};
use hamlyn_abi::family::command::{ULN_STATUS_BAD_ADDRESS, ULN_STATUS_BAD_LENGTH};
use smallvec::SmallVec;

use super::refusal::Refusal;
use crate::ports::{Dma, DmaFault, Pieces, VolatileSlice, read_value};

const PAGE: u64 = 4096;
const ADDRESSES_IN_A_PAGE: u64 = PAGE / 8;
/// Number of addresses that are read and cached at once: a cache line of a list, which covers 32
/// KiB of the area.
const LINE: u64 = 8;
/// Means that no line is cached yet.
const NO_LINE: u64 = u64::MAX;
/// Number of earlier runs that are cached. Messages that go to a few places in turn hit this cache,
/// for example in an area of a few huge pages.
const EARLIER: usize = 3;

/// Pieces of memory that hold a packet's bytes. A packet of 4 KiB normally has no more pieces than
/// fit inline.
pub type Gathered<'a> = SmallVec<[VolatileSlice<'a>; 6]>;

/// An area that has passed [`Area::check`]: its directory is aligned, and none of its bytes is
/// beyond the directory.
///
/// The lists do not change while the area is open, so cached entries stay valid. If a guest changes
/// them nevertheless, the card continues with the old addresses, which are in that guest's own
/// memory.
#[derive(Debug)]
pub struct Area {
    directory: u64,
    length: u64,
    first: u64,
    /// Index of the cached line of addresses.
    line: Cell<u64>,
    pages: [Cell<u64>; LINE as usize],
    /// The last run used.
    run: Cell<Run>,
    /// Runs used before that.
    earlier: [Cell<Run>; EARLIER],
    /// Index of the earlier run that is replaced next.
    oldest: Cell<usize>,
}

/// Pages that are contiguous in the area and in host memory.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// Offset of the run in bytes from the start of the area's first page.
    start: u64,
    length: u64,
    address: u64,
}

impl Run {
    fn end(&self) -> u64 {
        self.start + self.length
    }

    #[inline]
    fn holds(&self, byte: u64) -> bool {
        byte.wrapping_sub(self.start) < self.length
    }

    /// Whether the page at this address directly follows the run.
    fn leads_to(&self, address: u64) -> bool {
        self.address.checked_add(self.length) == Some(address)
    }
}

impl Area {
    /// Creates an area from a command's arguments.
    pub fn check(area: &UlnArea) -> Result<Self, Refusal> {
        Refusal::unless_zero(area.reserved.into())?;
        let first = u64::from(area.first);
        let limit = ULN_MAX_AREA - first.min(PAGE);
        if first >= PAGE {
            Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, first, PAGE))
        } else if area.directory % PAGE != 0 {
            Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, area.directory, PAGE))
        } else if area.length == 0 || area.length > limit {
            Err(Refusal::new(ULN_STATUS_BAD_LENGTH, area.length, limit))
        } else {
            Ok(Self {
                directory: area.directory,
                length: area.length,
                first,
                line: Cell::new(NO_LINE),
                pages: Default::default(),
                run: Cell::default(),
                earlier: Default::default(),
                oldest: Cell::default(),
            })
        }
    }

    /// Creates an area of `entries` structures of `size` bytes each. `size` is a power of two, and
    /// no structure crosses a page boundary.
    pub fn table(area: &UlnArea, entries: u32, size: u32) -> Result<Self, Refusal> {
        let checked = Self::check(area)?;
        let needed = u64::from(entries) * u64::from(size);
        if !checked.is_aligned(size.into()) {
            Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, area.first, size))
        } else if checked.length() != needed {
            Err(Refusal::new(ULN_STATUS_BAD_LENGTH, checked.length(), needed))
        } else {
            Ok(checked)
        }
    }

    /// Creates an area of this length that starts at a page boundary.
    pub fn pages(area: &UlnArea, length: u64) -> Result<Self, Refusal> {
        let checked = Self::check(area)?;
        if !checked.is_aligned(PAGE) {
            Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, area.first, PAGE))
        } else if checked.length() != length {
            Err(Refusal::new(ULN_STATUS_BAD_LENGTH, checked.length(), length))
        } else {
            Ok(checked)
        }
    }

    /// Returns the bound: the length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether all of `offset..offset + length` lies in the area.
    #[must_use]
    #[inline]
    pub fn contains(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.length)
    }

    /// Whether the area starts at a multiple of `alignment`, so that aligned parts of it never
    /// cross a page boundary.
    #[must_use]
    pub fn is_aligned(&self, alignment: u64) -> bool {
        self.first % alignment == 0
    }

    /// Returns the address of byte `offset`.
    #[inline]
    pub fn locate(&self, dma: &dyn Dma, offset: u64) -> Result<u64, DmaFault> {
        Ok(self.piece(dma, offset, 1)?.0)
    }

    /// Returns the address of byte `offset`, and how many bytes are known to be contiguous there,
    /// at most `most`.
    #[inline(always)]
    fn piece(&self, dma: &dyn Dma, offset: u64, most: u64) -> Result<(u64, u64), DmaFault> {
        let byte = self.first + offset;
        let mut run = self.run.get();
        if !run.holds(byte) {
            run = self.run_with(dma, byte, most)?;
        }
        let passed = byte - run.start;
        Ok((run.address + passed, most.min(run.length - passed)))
    }

    /// Returns the run that contains `byte`: a cached run, or one that is read now for up to `most`
    /// bytes from `byte` on. The new pages extend the last run if they follow it, and otherwise
    /// begin another run.
    #[cold]
    fn run_with(&self, dma: &dyn Dma, byte: u64, most: u64) -> Result<Run, DmaFault> {
        if let Some(earlier) = self.earlier.iter().find(|run| run.get().holds(byte)) {
            earlier.swap(&self.run);
            return Ok(self.run.get());
        }
        let page = byte / PAGE;
        let address = self.page(dma, page)?;
        let last = self.run.get();
        let mut run = if last.length != 0 && last.end() == page * PAGE && last.leads_to(address) {
            Run { length: last.length + PAGE, ..last }
        } else {
            self.earlier[self.oldest.get()].set(last);
            self.oldest.set((self.oldest.get() + 1) % EARLIER);
            Run { start: page * PAGE, length: PAGE, address }
        };
        // A bad page further on is reported when that page is accessed.
        while run.end() < byte + most && self.page(dma, run.end() / PAGE).is_ok_and(|next| run.leads_to(next))
        {
            run.length += PAGE;
        }
        self.run.set(run);
        Ok(run)
    }

    /// Returns the address of a page, from the cached line or from the lists in memory.
    fn page(&self, dma: &dyn Dma, page: u64) -> Result<u64, DmaFault> {
        if self.line.get() != page / LINE {
            self.line.set(NO_LINE);
            let list: u64 = read_value(dma, self.directory + page / ADDRESSES_IN_A_PAGE * 8)?;
            let line = aligned(list)? + page % ADDRESSES_IN_A_PAGE / LINE * LINE * 8;
            let addresses: [u64; LINE as usize] = read_value(dma, line)?;
            self.pages.iter().zip(addresses).for_each(|(page, address)| page.set(address));
            self.line.set(page / LINE);
        }
        let address = self.pages[(page % LINE) as usize].get();
        aligned(address).inspect_err(|_| self.line.set(NO_LINE))
    }

    /// Writes the next `length` bytes of `from` at `offset`. The caller has checked that they fit.
    #[inline]
    pub fn write(
        &self,
        dma: &dyn Dma,
        mut offset: u64,
        from: &mut Pieces<'_>,
        length: usize,
    ) -> Result<(), DmaFault> {
        let end = offset + length as u64;
        while offset < end {
            let (address, here) = self.piece(dma, offset, end - offset)?;
            let piece = from.take(here as usize).ok_or(DmaFault { address, length: here })?;
            dma.write(address, piece)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Appends `offset..offset + length` to `pieces`. The caller has checked that the range is in
    /// the area.
    #[inline]
    pub fn lend<'a>(
        &self,
        dma: &'a dyn Dma,
        mut offset: u64,
        length: u64,
        pieces: &mut Gathered<'a>,
    ) -> Result<(), DmaFault> {
        let end = offset + length;
        while offset < end {
            let (address, here) = self.piece(dma, offset, end - offset)?;
            // The next piece may be another kind of memory, which cannot be lent in one slice with
            // this one.
            let page = here.min(PAGE - address % PAGE);
            let piece = dma.lend(address, here as usize).or_else(|_| dma.lend(address, page as usize))?;
            pieces.push(piece);
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

/// Checks a page address from a list: it must be aligned.
fn aligned(page: u64) -> Result<u64, DmaFault> {
    if page % PAGE == 0 { Ok(page) } else { Err(DmaFault { address: page, length: PAGE }) }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use vm_memory::{MmapRegion, VolatileMemory};

    use super::*;
    use crate::ports::Operation;

    const DIRECTORY: u64 = PAGE;
    const LIST: u64 = 2 * PAGE;

    /// Memory that counts its reads and records its writes. At `edge` the kind of memory changes,
    /// so no slice can cross it.
    struct Memory {
        region: MmapRegion,
        reads: Cell<u32>,
        writes: RefCell<Vec<(u64, usize)>>,
        edge: u64,
    }

    impl Memory {
        /// Creates an area of the given page numbers.
        fn new(pages: &[u64]) -> (Self, Area) {
            let memory = Self {
                region: MmapRegion::new(64 * PAGE as usize).unwrap(),
                reads: Cell::new(0),
                writes: RefCell::default(),
                edge: u64::MAX,
            };
            memory.poke(DIRECTORY, &LIST.to_le_bytes());
            for (index, page) in (0..).step_by(8).zip(pages) {
                memory.poke(LIST + index, &(page * PAGE).to_le_bytes());
            }
            let length = pages.len() as u64 * PAGE - 100;
            let area = UlnArea { directory: DIRECTORY, length, first: 100, reserved: 0 };
            (memory, Area::check(&area).unwrap())
        }

        fn poke(&self, address: u64, bytes: &[u8]) {
            self.region.get_slice(address as usize, bytes.len()).unwrap().copy_from(bytes);
        }
    }

    impl Dma for Memory {
        fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
            self.reads.set(self.reads.get() + 1);
            self.lend(address, into.len())?.copy_to_volatile_slice(into);
            Ok(())
        }

        fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
            let fault = DmaFault { address, length: length as u64 };
            if address < self.edge && address + length as u64 > self.edge {
                return Err(fault);
            }
            self.region.get_slice(address as usize, length).map_err(|_| fault)
        }

        fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
            self.writes.borrow_mut().push((address / PAGE, from.len()));
            Ok(())
        }

        fn publish(&self, address: u64, _value: u32) -> Result<(), DmaFault> {
            Err(DmaFault { address, length: 4 })
        }

        fn fetch(&self, address: u64, _operation: Operation) -> Result<u64, DmaFault> {
            Err(DmaFault { address, length: 8 })
        }
    }

    fn write(memory: &Memory, area: &Area, offset: u64, length: usize) -> Vec<(u64, usize)> {
        let mut bytes = vec![0; length];
        let mut pieces = VolatileSlice::from(&mut bytes[..]).into();
        area.write(memory, offset, &mut pieces, length).unwrap();
        memory.writes.take()
    }

    #[test]
    fn lists_are_read_once_per_eight_pages() {
        let (memory, area) = Memory::new(&[10, 12, 14, 16, 18, 20, 22, 24, 26, 28]);
        for offset in (0..area.length()).step_by(1000) {
            assert_eq!(
                area.locate(&memory, offset).unwrap(),
                10 * PAGE + (100 + offset) / PAGE * PAGE + 100 + offset
            );
        }
        assert_eq!(memory.reads.get(), 4);
        let first = area.locate(&memory, 0).unwrap();
        assert_eq!((first, memory.reads.get()), (10 * PAGE + 100, 6));
    }

    #[test]
    fn contiguous_pages_are_written_as_one() {
        let (memory, area) = Memory::new(&[10, 11, 12, 20, 13, 14, 30, 31, 32, 33]);
        let all = area.length() as usize;
        assert_eq!(write(&memory, &area, 0, all), [(10, 12188), (20, 4096), (13, 8192), (30, 16384)]);
        assert_eq!(write(&memory, &area, 50, 100), [(10, 100)]);
        assert_eq!(write(&memory, &area, 4000, 100), [(11, 100)]);
        assert_eq!(write(&memory, &area, 12000, 300), [(12, 188), (20, 112)]);
    }

    #[test]
    fn runs_used_in_turn_are_cached() {
        let runs = [10..18, 30..38, 20..28];
        let (memory, area) = Memory::new(&runs.clone().into_iter().flatten().collect::<Vec<_>>());
        let length = 7 * PAGE as usize;
        for round in 0..3 {
            for (offset, run) in (100..).step_by(8 * PAGE as usize).zip(&runs) {
                assert_eq!(write(&memory, &area, offset, length), [(run.start, length)]);
            }
            // One read of the directory and one of its list for each run.
            assert_eq!(memory.reads.get(), 6, "round {round}");
        }
    }

    #[test]
    fn other_memory_is_lent_separately() {
        let (mut memory, area) = Memory::new(&[10, 11, 12]);
        for (edge, lengths) in [(u64::MAX, vec![12000]), (12 * PAGE, vec![3996, 4096, 3908])] {
            memory.edge = edge;
            let mut pieces = Gathered::new();
            area.lend(&memory, 0, 12000, &mut pieces).unwrap();
            assert_eq!(pieces.iter().map(VolatileSlice::len).collect::<Vec<_>>(), lengths);
        }
    }
}
