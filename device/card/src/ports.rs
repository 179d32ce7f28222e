//! What a card reaches the world through.
//!
//! [`VolatileSlice`] is the currency for bytes that others may change while the card looks: guest
//! memory, a mapped window, a ring to the switch. A value read from one is copied out once and
//! checked afterwards.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use thiserror::Error;
pub use vm_memory::{VolatileMemory, VolatileSlice};
use zerocopy::{FromBytes, IntoBytes};

/// Host memory that the card cannot reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("host memory {address:#x}..+{length:#x} cannot be reached")]
pub struct DmaFault {
    /// First byte wanted.
    pub address: u64,
    /// Bytes wanted.
    pub length: u64,
}

/// Host memory, by bus address. It belongs to a guest: it is hostile, and can vanish between two
/// calls.
pub trait Dma {
    /// Fills `into` from host memory.
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault>;

    /// Host memory in place, to be read from before the call of the card returns. What lies in one
    /// page can be lent if it can be read; more, perhaps not.
    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault>;

    /// Writes `from` to host memory.
    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault>;

    /// Stores an aligned word that somebody polls, after everything written before it.
    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault>;

    /// Host memory in place, to be written to before the call of the card returns: one look-up
    /// serves all that is done there. What lies in one page can be lent if it can be written to;
    /// more, perhaps not. `None`: this host does not lend for that, and [`Dma::write`] is the way.
    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        let _ = (address, length);
        Ok(None)
    }

    /// The same, to be read and written.
    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        let _ = (address, length);
        Ok(None)
    }

    /// Changes the 8 bytes at an address that is a multiple of 8 in one piece, also for the host's
    /// processors. Returns what was there.
    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault>;
}

/// What a fetch-and-op does to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Adds, modulo 2^64.
    Add(u64),
    /// And, bit by bit.
    And(u64),
    /// Or, bit by bit.
    Or(u64),
    /// Exclusive or, bit by bit.
    Xor(u64),
    /// Replaces.
    Swap(u64),
    /// Replaces if the word is `compare`.
    CompareSwap {
        /// What it must be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
}

impl Operation {
    /// Carries it out. Returns what was there.
    pub fn apply(self, word: &AtomicU64) -> u64 {
        match self {
            Operation::Add(operand) => word.fetch_add(operand, Ordering::AcqRel),
            Operation::And(operand) => word.fetch_and(operand, Ordering::AcqRel),
            Operation::Or(operand) => word.fetch_or(operand, Ordering::AcqRel),
            Operation::Xor(operand) => word.fetch_xor(operand, Ordering::AcqRel),
            Operation::Swap(operand) => word.swap(operand, Ordering::AcqRel),
            Operation::CompareSwap { compare, swap } => {
                match word.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(found) | Err(found) => found,
                }
            }
        }
    }
}

/// Reads a structure from host memory.
pub fn read_value<T: FromBytes + IntoBytes>(dma: &(impl Dma + ?Sized), address: u64) -> Result<T, DmaFault> {
    let mut value = T::new_zeroed();
    dma.read(address, VolatileSlice::from(value.as_mut_bytes()))?;
    Ok(value)
}

/// Writes a structure to host memory.
pub fn write_value<T: FromBytes + IntoBytes>(
    dma: &(impl Dma + ?Sized),
    address: u64,
    mut value: T,
) -> Result<(), DmaFault> {
    dma.write(address, VolatileSlice::from(value.as_mut_bytes()))
}

/// A mapped BAR: memory that guest processes write while the card reads. Offsets are the card's own
/// and lie within what its identity declared.
pub trait Window {
    /// Loads an aligned word (acquire).
    fn load(&self, offset: u64) -> u32;

    /// Stores an aligned word (release).
    fn store(&self, offset: u64, value: u32);

    /// Copies bytes out.
    fn copy_out(&self, offset: u64, into: &mut [u8]);

    /// Makes bytes zero.
    fn clear(&self, offset: u64, length: u64);
}

/// All of a card's mapped BARs, by index: as [`Window`]. A card's only window is all of them.
pub trait Windows {
    /// [`Window::load`].
    fn load_from(&self, bar: u8, offset: u64) -> u32;

    /// [`Window::store`].
    fn store_to(&self, bar: u8, offset: u64, value: u32);

    /// [`Window::copy_out`].
    fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]);

    /// [`Window::clear`].
    fn clear_in(&self, bar: u8, offset: u64, length: u64);
}

impl<W: Window> Windows for W {
    #[inline]
    fn load_from(&self, _bar: u8, offset: u64) -> u32 {
        self.load(offset)
    }

    #[inline]
    fn store_to(&self, _bar: u8, offset: u64, value: u32) {
        self.store(offset, value);
    }

    #[inline]
    fn copy_out_of(&self, _bar: u8, offset: u64, into: &mut [u8]) {
        self.copy_out(offset, into);
    }

    #[inline]
    fn clear_in(&self, _bar: u8, offset: u64, length: u64) {
        self.clear(offset, length);
    }
}

/// One of a card's mapped BARs.
#[derive(Clone, Copy)]
pub struct Mapped<'a> {
    windows: &'a dyn Windows,
    bar: u8,
}

impl Mapped<'_> {
    /// [`Window::load`].
    #[must_use]
    #[inline]
    pub fn load(&self, offset: u64) -> u32 {
        self.windows.load_from(self.bar, offset)
    }

    /// [`Window::store`].
    #[inline]
    pub fn store(&self, offset: u64, value: u32) {
        self.windows.store_to(self.bar, offset, value);
    }

    /// [`Window::copy_out`].
    #[inline]
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.windows.copy_out_of(self.bar, offset, into);
    }

    /// [`Window::clear`].
    #[inline]
    pub fn clear(&self, offset: u64, length: u64) {
        self.windows.clear_in(self.bar, offset, length);
    }
}

/// The host's interrupt lines.
pub trait Interrupt {
    /// Raises an MSI-X vector.
    fn raise(&self, vector: u16);
}

/// The time.
pub trait Clock {
    /// The time since some moment, which is always the same one.
    fn now(&self) -> Duration;
}

/// The way to the switch.
pub trait Link {
    /// Sends a packet to a host, or to a group of them; its bytes are those of all pieces, in
    /// order. `false`: there is no room for it yet.
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool;

    /// Whether the switch wants no more packets to a host for now, because that host takes none.
    fn is_stopped(&self, destination: u16) -> bool;

    /// Has packets that are sent to these groups come to this card, a bit for each: 64 groups, of
    /// which the destinations are 0xff00 to 0xff3f. Before the first call it is in none, and a
    /// reset of the card changes nothing. To be called before anybody is told that the card is a
    /// member: then it gets all that who was told sends. What is sent to a group comes to its
    /// sender, too, if that is a member.
    ///
    /// A group has no stop of its own: a member that takes less than is sent loses copies in the
    /// end.
    fn set_groups(&mut self, groups: u64) {
        let _ = groups;
    }

    /// Changes whenever the switch wants packets to a host again; then
    /// [`Card::transmit`](crate::card::Card::transmit) is called.
    fn resumptions(&self) -> u64;
}

/// A packet that has arrived, without the fabric's own header.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The host it came from, as the switch's port says.
    pub source: u16,
    /// The card's header and what follows it.
    pub bytes: Pieces<'a>,
}

/// Bytes that lie in pieces, in a ring or in another host's memory, taken from the front.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'a> {
    front: VolatileSlice<'a>,
    behind: &'a [VolatileSlice<'a>],
    length: usize,
}

impl<'a> Pieces<'a> {
    /// All bytes of `pieces`.
    #[must_use]
    #[inline]
    pub fn new(pieces: &'a [VolatileSlice<'a>]) -> Self {
        let length = pieces.iter().map(VolatileSlice::len).sum();
        Self { front: no_bytes(), behind: pieces, length }
    }

    /// How many are left.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether none is left.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first bytes that lie together; an empty slice if none are left.
    #[inline]
    #[must_use]
    pub fn first(&self) -> &VolatileSlice<'a> {
        let next = if self.front.is_empty() { self.behind.first() } else { None };
        next.unwrap_or(&self.front)
    }

    /// Takes the next bytes that lie together: at least one, at most `most`, which is more than
    /// none. `None`: no byte is left.
    #[inline]
    pub fn take(&mut self, most: usize) -> Option<VolatileSlice<'a>> {
        while self.front.is_empty() {
            (self.front, self.behind) = self.behind.split_first().map(|(next, behind)| (*next, behind))?;
        }
        let whole = self.front.len() <= most;
        let (taken, rest) = if whole { (self.front, no_bytes()) } else { self.front.split_at(most).ok()? };
        (self.front, self.length) = (rest, self.length - taken.len());
        Some(taken)
    }

    /// Takes the next bytes out into private memory, as many as it has. `None`: so many are not
    /// left.
    #[inline]
    pub fn take_into(&mut self, mut into: &mut [u8]) -> Option<()> {
        while !into.is_empty() {
            let taken = self.take(into.len())?.copy_to(into);
            into = &mut into[taken..];
        }
        Some(())
    }

    /// Passes over the next `count` bytes.
    #[inline]
    pub fn skip(&mut self, mut count: usize) {
        while count > 0 {
            let Some(passed) = self.take(count) else { return };
            count -= passed.len();
        }
    }
}

#[inline]
fn no_bytes<'a>() -> VolatileSlice<'a> {
    VolatileSlice::from(&mut [][..])
}

impl<'a> From<VolatileSlice<'a>> for Pieces<'a> {
    #[inline]
    fn from(piece: VolatileSlice<'a>) -> Self {
        Self { front: piece, behind: &[], length: piece.len() }
    }
}

/// What a card may reach in any call. Only [`Card::transmit`](crate::card::Card::transmit) is
/// handed the link as well.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// Host memory.
    pub dma: &'a dyn Dma,
    /// The mapped BARs.
    pub windows: &'a dyn Windows,
    /// Interrupt lines.
    pub interrupt: &'a dyn Interrupt,
    /// The time.
    pub clock: &'a dyn Clock,
}

impl<'a> Ports<'a> {
    /// The mapped BAR with this index.
    #[must_use]
    #[inline]
    pub fn window(&self, bar: u8) -> Mapped<'a> {
        Mapped { windows: self.windows, bar }
    }
}

/// Orders a store that says "what follows is being overwritten" before the overwriting.
#[inline]
pub fn barrier_before_overwriting() {
    fence(Ordering::Release);
}

/// Orders two looks at what its owner may be changing.
#[inline]
pub fn barrier_between_looks() {
    fence(Ordering::Acquire);
}

/// Orders a store of ours before a load of ours that somebody mirrors, so that of two sides which
/// each say "I sleep" and then look once more at least one sees the other.
#[inline]
pub fn barrier_before_last_look() {
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory by BAR of which each word says where it is.
    struct Places;

    impl Windows for Places {
        fn load_from(&self, bar: u8, offset: u64) -> u32 {
            u32::from(bar) << 16 | offset as u32
        }

        fn store_to(&self, _bar: u8, _offset: u64, _value: u32) {}

        fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]) {
            into.copy_from_slice(&self.load_from(bar, offset).to_le_bytes()[..into.len()]);
        }

        fn clear_in(&self, _bar: u8, _offset: u64, _length: u64) {}
    }

    #[test]
    fn windows_are_told_apart_by_their_bar() {
        let [two, four] = [2, 4].map(|bar| Mapped { windows: &Places, bar });
        assert_eq!((two.load(8), four.load(8)), (0x2_0008, 0x4_0008));
        let mut bytes = [0; 4];
        four.copy_out(16, &mut bytes);
        assert_eq!(u32::from_le_bytes(bytes), 0x4_0010);
    }

    #[test]
    fn pieces_are_taken_from_the_front_and_empty_ones_passed_over() {
        let (mut first, mut second) = ([1, 2, 3], [4, 5, 6, 7]);
        let (first, second) = (VolatileSlice::from(&mut first[..]), VolatileSlice::from(&mut second[..]));
        let none = first.subslice(3, 0).unwrap();
        let pieces = [none, first, none, none, second, none];
        let mut bytes = Pieces::new(&pieces);
        assert_eq!(bytes.len(), 7);
        assert_eq!(bytes.take(2).map(|piece| piece.len()), Some(2));
        let mut next = [0; 3];
        bytes.take_into(&mut next).unwrap();
        assert_eq!((next, bytes.len()), ([3, 4, 5], 2));
        bytes.skip(1);
        assert_eq!(bytes.take(100).map(|piece| piece.len()), Some(1));
        assert!(bytes.is_empty() && bytes.take(1).is_none() && bytes.take_into(&mut next).is_none());
    }
}
