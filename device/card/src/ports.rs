//! The interfaces through which a card reaches its host.
//!
//! [`VolatileSlice`] holds bytes that another party may change during an access: guest memory, a
//! mapped window, a ring to the switch. A value is copied out of it once and checked afterwards.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use thiserror::Error;
pub use vm_memory::{VolatileMemory, VolatileSlice};
use zerocopy::{FromBytes, IntoBytes};

/// Host memory that the card cannot access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("host memory {address:#x}..+{length:#x} cannot be reached")]
pub struct DmaFault {
    /// First byte of the access.
    pub address: u64,
    /// Length of the access in bytes.
    pub length: u64,
}

/// Host memory, by bus address. It belongs to a guest, so its contents are untrusted, and it can be
/// unmapped between two calls.
pub trait Dma {
    /// Fills `into` from host memory.
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault>;

    /// Returns host memory in place for reading, valid until the current call of the card returns.
    /// A range within one page can be lent if it is readable. A longer range may fail.
    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault>;

    /// Writes `from` to host memory.
    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault>;

    /// Stores an aligned word that the peer polls, after all earlier writes.
    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault>;

    /// Returns host memory in place for writing, valid until the current call of the card returns.
    /// One look-up serves all accesses to it. A range within one page can be lent if it is
    /// writable. A longer range may fail. Returns `None` if this host does not lend memory for
    /// writing: use [`Dma::write`].
    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        let _ = (address, length);
        Ok(None)
    }

    /// Like [`Dma::lend_to_write`], but for reading and writing.
    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        let _ = (address, length);
        Ok(None)
    }

    /// Applies an operation atomically to the 8 bytes at `address`, a multiple of 8. It is also
    /// atomic for the host's processors. Returns the old value.
    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault>;
}

/// The operation of a fetch-and-op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Adds, modulo 2^64.
    Add(u64),
    /// Bitwise AND.
    And(u64),
    /// Bitwise OR.
    Or(u64),
    /// Bitwise exclusive OR.
    Xor(u64),
    /// Replaces the word.
    Swap(u64),
    /// Replaces the word if it equals `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
}

impl Operation {
    /// Applies the operation to `word` and returns the old value.
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

/// A mapped BAR: memory that guest processes write while the card reads it. Offsets are computed by
/// the card and lie within the size in its identity.
pub trait Window {
    /// Loads an aligned word (acquire).
    fn load(&self, offset: u64) -> u32;

    /// Stores an aligned word (release).
    fn store(&self, offset: u64, value: u32);

    /// Copies bytes out.
    fn copy_out(&self, offset: u64, into: &mut [u8]);

    /// Zeroes bytes.
    fn clear(&self, offset: u64, length: u64);
}

/// All of a card's mapped BARs, by index, with the methods of [`Window`]. The window of a card that
/// has only one ignores the index.
pub trait Windows {
    /// See [`Window::load`].
    fn load_from(&self, bar: u8, offset: u64) -> u32;

    /// See [`Window::store`].
    fn store_to(&self, bar: u8, offset: u64, value: u32);

    /// See [`Window::copy_out`].
    fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]);

    /// See [`Window::clear`].
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
    /// See [`Window::load`].
    #[must_use]
    #[inline]
    pub fn load(&self, offset: u64) -> u32 {
        self.windows.load_from(self.bar, offset)
    }

    /// See [`Window::store`].
    #[inline]
    pub fn store(&self, offset: u64, value: u32) {
        self.windows.store_to(self.bar, offset, value);
    }

    /// See [`Window::copy_out`].
    #[inline]
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.windows.copy_out_of(self.bar, offset, into);
    }

    /// See [`Window::clear`].
    #[inline]
    pub fn clear(&self, offset: u64, length: u64) {
        self.windows.clear_in(self.bar, offset, length);
    }
}

/// The card's interrupts.
pub trait Interrupt {
    /// Raises an MSI-X vector.
    fn raise(&self, vector: u16);
}

/// The card's clock.
pub trait Clock {
    /// Returns the time since a fixed moment.
    fn now(&self) -> Duration;
}

/// The link to the switch.
pub trait Link {
    /// Sends a packet, which is the concatenation of `packet`, to a host or a group. Returns
    /// `false` if the link has no space for it yet.
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool;

    /// Whether the switch has stopped sends to a host, because that host does not accept packets.
    fn is_stopped(&self, destination: u16) -> bool;

    /// Sets the groups whose packets this card receives, one bit per group. There are 64 groups,
    /// with destinations 0xff00 to 0xff3f. The card is in no group before the first call, and a
    /// reset of the card does not change its groups.
    ///
    /// Call this before announcing membership, so that no packet is missed. A sender that is a
    /// member also receives its own packets.
    ///
    /// Groups have no backpressure of their own: a member that receives more slowly than the group
    /// sends eventually loses copies.
    fn set_groups(&mut self, groups: u64) {
        let _ = groups;
    }

    /// Returns a counter that changes whenever the switch resumes sends to a host. After a change,
    /// [`Card::transmit`](crate::card::Card::transmit) is called.
    fn resumptions(&self) -> u64;
}

/// A received packet, without the fabric's header.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The sending host, as the switch's port reports it.
    pub source: u16,
    /// The card's header and payload.
    pub bytes: Pieces<'a>,
}

/// Bytes in several pieces, in a ring or in another host's memory, which are consumed from the
/// front.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'a> {
    front: VolatileSlice<'a>,
    behind: &'a [VolatileSlice<'a>],
    length: usize,
}

impl<'a> Pieces<'a> {
    /// Creates a cursor over all bytes of `pieces`.
    #[must_use]
    #[inline]
    pub fn new(pieces: &'a [VolatileSlice<'a>]) -> Self {
        let length = pieces.iter().map(VolatileSlice::len).sum();
        Self { front: no_bytes(), behind: pieces, length }
    }

    /// Returns the number of bytes left.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no bytes are left.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the first contiguous bytes, or an empty slice if no bytes are left.
    #[inline]
    #[must_use]
    pub fn first(&self) -> &VolatileSlice<'a> {
        let next = if self.front.is_empty() { self.behind.first() } else { None };
        next.unwrap_or(&self.front)
    }

    /// Takes the next contiguous bytes: at least one and at most `most`, which must not be 0.
    /// Returns `None` if no bytes are left.
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

    /// Copies the next bytes to private memory and fills `into`. Returns `None` if fewer bytes are
    /// left.
    #[inline]
    pub fn take_into(&mut self, mut into: &mut [u8]) -> Option<()> {
        while !into.is_empty() {
            let taken = self.take(into.len())?.copy_to(into);
            into = &mut into[taken..];
        }
        Some(())
    }

    /// Skips the next `count` bytes.
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

/// What a card may access in any call. Only [`Card::transmit`](crate::card::Card::transmit) also
/// gets the link.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// Host memory.
    pub dma: &'a dyn Dma,
    /// The mapped BARs.
    pub windows: &'a dyn Windows,
    /// Interrupts.
    pub interrupt: &'a dyn Interrupt,
    /// Clock.
    pub clock: &'a dyn Clock,
}

impl<'a> Ports<'a> {
    /// Returns the mapped BAR with this index.
    #[must_use]
    #[inline]
    pub fn window(&self, bar: u8) -> Mapped<'a> {
        Mapped { windows: self.windows, bar }
    }
}

/// Orders a store that announces an overwrite before the overwrite itself.
#[inline]
pub fn barrier_before_overwriting() {
    fence(Ordering::Release);
}

/// Orders two loads of data that its owner may be changing.
#[inline]
pub fn barrier_between_looks() {
    fence(Ordering::Acquire);
}

/// Orders a store before a later load of the same thread (full barrier). If each side stores "I
/// sleep" and then checks once more, at least one of them sees the other's store.
#[inline]
pub fn barrier_before_last_look() {
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in which each word holds its BAR and offset.
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
    fn windows_are_distinguished_by_bar() {
        let [two, four] = [2, 4].map(|bar| Mapped { windows: &Places, bar });
        assert_eq!((two.load(8), four.load(8)), (0x2_0008, 0x4_0008));
        let mut bytes = [0; 4];
        four.copy_out(16, &mut bytes);
        assert_eq!(u32::from_le_bytes(bytes), 0x4_0010);
    }

    #[test]
    fn pieces_skips_empty_slices() {
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
