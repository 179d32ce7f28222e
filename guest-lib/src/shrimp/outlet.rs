//! The faces of a send buffer: its memory, the mapping of it that stores go to, its command pages
//! and its window pages.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hamlyn_abi::shrimp::entry::SHRIMP_MODE_DELIBERATE;
use hamlyn_abi::shrimp::memory::SHRIMP_SET_MODE;
use hamlyn_sys::{Mapping, Word};

use super::own_memory::Span;
use super::place::WORD;
use super::transfer::Transfer;
use crate::core::copies;
use crate::core::place::{PAGE, aligned};
use crate::error::{Result, inside};

/// Addresses of a send buffer in this process, from its first byte on. For languages that cannot
/// use the other methods, and for building other primitives. They are valid for as long as the
/// buffer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pointers {
    /// Its memory, for loads.
    pub memory: *const u8,
    /// Stores here are sent by automatic update. This is another mapping of the same memory, or the
    /// window pages if the card does not see this machine's stores. A load from the window pages
    /// waits for earlier stores. The address changes with
    /// [`SendBuffer::set_mode`](super::SendBuffer::set_mode).
    pub stores: *mut u8,
    /// A store of 4 bytes at a byte's offset here is a command about that byte (sections 4.2 and
    /// 4.3).
    pub commands: *mut u8,
}

/// The targets of stores and commands. Each face but the memory begins with the page that the
/// buffer begins in.
///
/// The driver may temporarily withdraw pages of all faces but the memory (section 4.4): an access
/// then blocks. So loads use the memory itself.
#[derive(Debug)]
pub(super) struct Outlet {
    memory: Span,
    /// Another mapping of the memory's pages, for stores that the card must see. If `None`, the
    /// memory itself is used.
    seen: Option<Arc<Mapping>>,
    pub(super) commands: Arc<Mapping>,
    window: Arc<Mapping>,
    /// The card sees stores to memory.
    is_seen: AtomicBool,
    /// Page offset of the buffer's first byte.
    place: usize,
    /// `SHRIMP_MODE_*`.
    mode: AtomicU32,
    /// Number of stores by the window, and how many of them are known to be in memory.
    stored: AtomicU64,
    carried_out: AtomicU64,
    /// The last transfer of the engine.
    pub(super) transfer: Mutex<Transfer>,
}

/// A mapping through which a buffer's bytes can be stored.
#[derive(Clone, Copy)]
pub(super) struct Face<'a> {
    pub(super) mapping: &'a Mapping,
    /// Offset of the buffer's first byte in the mapping.
    pub(super) first: usize,
}

impl Outlet {
    /// Creates an outlet. Each of the faces must have all pages that the memory touches.
    pub(super) fn new(
        memory: Span,
        seen: Option<Arc<Mapping>>,
        commands: Arc<Mapping>,
        window: Arc<Mapping>,
        mode: u32,
    ) -> Self {
        Self {
            place: memory.place(),
            memory,
            seen,
            commands,
            window,
            is_seen: AtomicBool::new(false),
            mode: AtomicU32::new(mode),
            stored: AtomicU64::new(0),
            carried_out: AtomicU64::new(0),
            transfer: Mutex::new(Transfer::default()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    pub(super) fn mode(&self) -> u32 {
        self.mode.load(Ordering::Acquire)
    }

    /// Checks that the range is inside the buffer.
    fn check(&self, offset: usize, length: usize) -> Result<()> {
        inside("send buffer", offset as u64, length as u64, self.len() as u64)
    }

    /// Returns the offset of bytes of the buffer in the command pages.
    pub(super) fn at(&self, offset: usize, length: usize) -> Result<usize> {
        self.check(offset, length)?;
        Ok(self.place + offset)
    }

    pub(super) fn pointers(&self) -> Pointers {
        let first = |face: Face<'_>| (face.mapping.address() as usize + face.first) as *mut u8;
        Pointers {
            memory: first(self.own()),
            stores: first(self.stored_to()),
            commands: first(self.behind_place(&self.commands)),
        }
    }

    fn own(&self) -> Face<'_> {
        Face { mapping: self.memory.mapping(), first: self.memory.start() }
    }

    fn behind_place<'a>(&self, mapping: &'a Mapping) -> Face<'a> {
        Face { mapping, first: self.place }
    }

    fn check_word<W: Word>(&self, offset: usize) -> Result<()> {
        aligned::<W>("offset", offset)?;
        self.check(offset, size_of::<W>())?;
        // This can only fail if the buffer begins at an odd place.
        aligned::<W>("place in the page", self.place + offset)
    }

    /// Sets whether the card sees stores to memory. The card only reports this for pages that are
    /// already mapped for automatic update. No thread may store concurrently.
    pub(super) fn set_seen(&self, is_seen: bool) {
        // Stores by the window that are in flight must not be overtaken by a store to memory.
        self.settle();
        self.is_seen.store(is_seen, Ordering::Release);
    }

    /// Returns the face through which the card notices stores. Deliberate update does not need
    /// this, so its stores go to memory. [`Outlet::settle`] does not know of stores that others
    /// make through a face that they got earlier.
    pub(super) fn stored_to(&self) -> Face<'_> {
        if self.mode() == SHRIMP_MODE_DELIBERATE {
            self.own()
        } else if self.is_seen.load(Ordering::Acquire) {
            self.seen.as_deref().map_or(self.own(), |seen| self.behind_place(seen))
        } else {
            self.behind_place(&self.window)
        }
    }

    fn store_by(&self, store: impl FnOnce(Face<'_>)) {
        let face = self.stored_to();
        store(face);
        if std::ptr::eq(face.mapping, &*self.window) {
            self.stored.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns whether the buffer begins at a page boundary, in each of its faces.
    pub(super) fn begins_with_page(&self) -> bool {
        self.place == 0 && self.memory.start() == 0
    }

    /// Returns the memory itself.
    pub(super) fn span(&self) -> &Span {
        &self.memory
    }

    pub(super) fn memory(&self) -> &Mapping {
        self.memory.mapping()
    }

    pub(super) fn store<W: Word>(&self, offset: usize, value: W) -> Result<()> {
        self.check_word::<W>(offset)?;
        self.store_by(|face| face.mapping.store_word(face.first + offset, value));
        Ok(())
    }

    pub(super) fn load<W: Word>(&self, offset: usize) -> Result<W> {
        self.check_word::<W>(offset)?;
        self.settle();
        let own = self.own();
        Ok(own.mapping.load_word(own.first + offset))
    }

    pub(super) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(offset, from.len())?;
        copies::count(from.len());
        self.store_by(|face| face.mapping.write(face.first + offset, from));
        Ok(())
    }

    pub(super) fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check(offset, to.len())?;
        self.settle();
        self.memory.read(offset, to)
    }

    /// Returns when all earlier stores are in memory. Stores by the window are on their way to the
    /// card, which carries them out before it answers a later load.
    pub(super) fn settle(&self) {
        let stored = self.stored.load(Ordering::Acquire);
        if self.carried_out.load(Ordering::Acquire) < stored {
            black_box(self.window.load_word::<u32>(0));
            self.carried_out.fetch_max(stored, Ordering::AcqRel);
        }
    }

    /// Changes the mode of each page. The change has taken effect when this returns.
    pub(super) fn set_mode(&self, mode: u32) {
        let pages = (self.place + self.len()).div_ceil(PAGE);
        // The first page may begin with a part of another buffer.
        let first = self.place / WORD * WORD;
        for at in (0..pages).map(|page| first.max(page * PAGE)) {
            self.commands.store_u32_release(at, SHRIMP_SET_MODE + mode);
        }
        // Stores reach the card in order, and it answers this load after them.
        black_box(self.commands.load_u32_acquire(0));
        self.carried_out.fetch_max(self.stored.load(Ordering::Acquire), Ordering::AcqRel);
        self.mode.store(mode, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_BLOCKED, SHRIMP_MODE_SINGLE};

    use super::super::fake::{outlet, outlet_over};
    use super::super::own_memory::OwnMemory;
    use super::*;
    use crate::core::lend::Pages;

    fn bytes(from: &Mapping, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        from.read(at, &mut bytes);
        bytes
    }

    #[test]
    fn store_goes_where_card_sees_it() {
        for (snoops, mode, face) in [
            (true, SHRIMP_MODE_SINGLE, "seen"),
            (false, SHRIMP_MODE_SINGLE, "window"),
            (false, SHRIMP_MODE_BLOCKED, "window"),
            // The card need not notice these stores before they are sent.
            (false, SHRIMP_MODE_DELIBERATE, "memory"),
            (true, SHRIMP_MODE_DELIBERATE, "memory"),
        ] {
            let pages = outlet(16, 8000, snoops, mode);
            pages.outlet.store(8, 0x55_u8).unwrap();
            pages.outlet.store(4096, u64::MAX).unwrap();
            pages.outlet.write(101, b"in order").unwrap();
            for (name, there) in
                [("memory", pages.memory.mapping()), ("seen", &pages.seen), ("window", &pages.window)]
            {
                if name != face {
                    assert!(bytes(there, 0, 8016).iter().all(|byte| *byte == 0), "{snoops} {mode} {name}");
                    continue;
                }
                assert_eq!(bytes(there, 24, 1), [0x55], "{snoops} {mode} {name}");
                assert_eq!(bytes(there, 4112, 8), [0xff; 8]);
                assert_eq!(bytes(there, 117, 8), b"in order");
            }
        }
    }

    #[test]
    fn loads_read_memory() {
        let pages = outlet(16, 100, false, SHRIMP_MODE_SINGLE);
        pages.memory.mapping().store_word(24, 0x1234_u16);
        assert_eq!(pages.outlet.load::<u16>(8).unwrap(), 0x1234);
        let mut two = [0; 2];
        pages.outlet.read(8, &mut two).unwrap();
        assert_eq!(two, [0x34, 0x12]);
    }

    #[test]
    fn load_waits_for_window_stores() {
        let pages = outlet(0, 100, false, SHRIMP_MODE_SINGLE);
        let known = || pages.outlet.carried_out.load(Ordering::Relaxed);
        pages.outlet.store(0, 1_u32).unwrap();
        pages.outlet.store(4, 1_u32).unwrap();
        assert_eq!(known(), 0);
        pages.outlet.load::<u32>(8).unwrap();
        assert_eq!(known(), 2);
        pages.outlet.write(0, b"x").unwrap();
        pages.outlet.read(9, &mut [0]).unwrap();
        assert_eq!(known(), 3);
    }

    #[test]
    fn memory_store_does_not_overtake_window_stores() {
        let pages = outlet(0, 100, false, SHRIMP_MODE_SINGLE);
        pages.outlet.store(0, 1_u32).unwrap();
        pages.outlet.set_seen(true);
        assert_eq!(pages.outlet.carried_out.load(Ordering::Relaxed), 1);
        pages.outlet.store(0, 2_u32).unwrap();
        assert_eq!((pages.seen.load_u32(0), pages.window.load_u32(0)), (2, 1));
    }

    #[test]
    fn accesses_outside_buffer_are_refused() {
        let pages = outlet(16, 100, false, SHRIMP_MODE_SINGLE);
        let refused = pages.outlet.store(100, 1_u8).unwrap_err().to_string();
        assert_eq!(refused, "1 bytes at offset 100 reach past the end of the send buffer (limit 100)");
        for offset in [97, 98, usize::MAX, usize::MAX - 3] {
            assert!(pages.outlet.store(offset, 1_u32).is_err() && pages.outlet.load::<u32>(offset).is_err());
            assert!(pages.outlet.write(offset, &[1; 4]).is_err());
            assert!(pages.outlet.read(offset, &mut [1; 4]).is_err());
        }
        assert!(pages.outlet.store(2, 1_u32).is_err(), "misaligned");
        assert!(bytes(&pages.window, 0, 4096).iter().all(|byte| *byte == 0));
        // A multiple in the buffer, but not in memory.
        let odd = outlet(6, 100, false, SHRIMP_MODE_SINGLE);
        assert_eq!(
            odd.outlet.store(0, 1_u32).unwrap_err().to_string(),
            "place in the page 6 is not a multiple of 4"
        );
        odd.outlet.store(0, 1_u16).unwrap();
    }

    #[test]
    fn pointers_are_first_byte_of_each_face() {
        let pages = outlet(16, 100, false, SHRIMP_MODE_SINGLE);
        let places = |pages: &super::super::fake::Pages| {
            [pages.memory.mapping(), &pages.window, &pages.commands, &pages.seen]
                .map(|face| (face.address() as usize + 16) as *mut u8)
        };
        let [memory, window, commands, _] = places(&pages);
        let told = pages.outlet.pointers();
        assert_eq!((told.memory, told.stores, told.commands), (memory.cast_const(), window, commands));
        let pages = outlet(16, 100, true, SHRIMP_MODE_SINGLE);
        assert_eq!(pages.outlet.pointers().stores, places(&pages)[3], "the card sees stores to memory");
    }

    #[test]
    fn set_mode_reaches_each_page() {
        let pages = outlet(16, 2 * PAGE, false, SHRIMP_MODE_SINGLE);
        pages.outlet.store(0, 1_u8).unwrap();
        pages.outlet.set_mode(SHRIMP_MODE_DELIBERATE);
        for at in [16, PAGE, 2 * PAGE] {
            assert_eq!(pages.commands.load_u32(at), SHRIMP_SET_MODE + SHRIMP_MODE_DELIBERATE);
        }
        assert_eq!(pages.commands.load_u32(0), 0, "the page's other part keeps its mode");
        assert_eq!(pages.outlet.mode(), SHRIMP_MODE_DELIBERATE);
        pages.outlet.store(0, 2_u8).unwrap();
        assert_eq!(bytes(pages.memory.mapping(), 16, 1), [2], "its stores go to memory from now on");
    }

    #[test]
    fn own_memory_and_faces_begin_inside_page() {
        let own = OwnMemory::new(Pages::new(2 * PAGE)).unwrap();
        for (snoops, mode) in
            [(true, SHRIMP_MODE_SINGLE), (false, SHRIMP_MODE_SINGLE), (true, SHRIMP_MODE_DELIBERATE)]
        {
            let pages = outlet_over(own.span(PAGE - 96..PAGE + 100).unwrap(), snoops, mode);
            pages.outlet.store(8, 0x1234_u16).unwrap();
            pages.outlet.write(100, b"own").unwrap();
            let face: &Mapping = match (mode, snoops) {
                (SHRIMP_MODE_DELIBERATE, _) => pages.memory.mapping(),
                (_, true) => &pages.seen,
                _ => &pages.window,
            };
            assert_eq!(
                (bytes(face, PAGE - 88, 2), bytes(face, PAGE + 4, 3)),
                (vec![0x34, 0x12], b"own".to_vec())
            );
            pages.memory.mapping().store_word(PAGE - 96, 0x99_u8);
            assert_eq!(pages.outlet.load::<u8>(0).unwrap(), 0x99);
            assert_eq!(pages.outlet.pointers().memory as u64, own.address() + PAGE as u64 - 96);
            assert!(pages.outlet.store(196, 1_u8).is_err());
        }
    }

    #[test]
    fn two_buffers_in_page_stay_separate() {
        let own = OwnMemory::new(Pages::new(PAGE)).unwrap();
        let [low, high] = [0..1000, 1000..PAGE]
            .map(|range| outlet_over(own.span(range).unwrap(), true, SHRIMP_MODE_SINGLE));
        low.outlet.write(0, &[1; 1000]).unwrap();
        high.outlet.write(0, &[2; PAGE - 1000]).unwrap();
        assert!(low.outlet.store(1000, 1_u8).is_err());
        assert_eq!((bytes(&low.seen, 999, 2), bytes(&high.seen, 999, 2)), (vec![1, 0], vec![0, 2]));
        high.outlet.set_mode(SHRIMP_MODE_DELIBERATE);
        assert_eq!((high.commands.load_u32(0), low.outlet.mode()), (0, SHRIMP_MODE_SINGLE));
    }
}
