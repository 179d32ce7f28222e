//! What a card reaches the world through.
//!
//! [`VolatileSlice`] is the currency for bytes that others may change while the card looks: guest memory, a mapped
//! window, a ring to the switch. A value read from one is copied out once and checked afterwards.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use thiserror::Error;
pub use vm_memory::VolatileSlice;
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

/// Host memory, by bus address. It belongs to a guest: it is hostile, and can vanish between two calls.
pub trait Dma {
    /// Fills `into` from host memory.
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault>;

    /// Writes `from` to host memory.
    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault>;

    /// Stores an aligned word that somebody polls, after everything written before it.
    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault>;

    /// Changes the 8 bytes at an address that is a multiple of 8 in one piece, also for the host's processors. Returns
    /// what was there.
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
pub(crate) fn read_value<T: FromBytes + IntoBytes>(dma: &dyn Dma, address: u64) -> Result<T, DmaFault> {
    let mut value = T::new_zeroed();
    dma.read(address, VolatileSlice::from(value.as_mut_bytes()))?;
    Ok(value)
}

/// Writes a structure to host memory.
pub(crate) fn write_value<T: FromBytes + IntoBytes>(
    dma: &dyn Dma,
    address: u64,
    mut value: T,
) -> Result<(), DmaFault> {
    dma.write(address, VolatileSlice::from(value.as_mut_bytes()))
}

/// The card's mapped BAR: memory that guest processes write while the card reads. Offsets are the card's own and
/// lie within what its identity declared.
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

/// The host's interrupt lines.
pub trait Interrupt {
    /// Raises an MSI-X vector.
    fn raise(&self, vector: u16);
}

/// The time.
pub trait Clock {
    /// How long ago some moment was; the same moment each time.
    fn now(&self) -> Duration;
}

/// The way to the switch.
pub trait Link {
    /// Room for a packet of `length` bytes to a host, or `None` while there is none. Reserving again before
    /// [`Link::commit`] forgets what was reserved before.
    fn reserve(&mut self, destination: u16, length: usize) -> Option<VolatileSlice<'_>>;

    /// Sends what was reserved.
    fn commit(&mut self);
}

/// A packet that has arrived, without the fabric's own header.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The host it came from, as the switch's port says.
    pub source: u16,
    /// The card's header and what follows it.
    pub bytes: VolatileSlice<'a>,
}

/// What a card may reach in any call. Only [`Card::transmit`](crate::card::Card::transmit) is handed the link as well.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// Host memory.
    pub dma: &'a dyn Dma,
    /// The mapped BAR.
    pub window: &'a dyn Window,
    /// Interrupt lines.
    pub interrupt: &'a dyn Interrupt,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// Orders a store that says "what follows is being overwritten" before the overwriting.
pub(crate) fn barrier_before_overwriting() {
    fence(Ordering::Release);
}

/// Orders two looks at what its owner may be changing.
pub(crate) fn barrier_between_looks() {
    fence(Ordering::Acquire);
}

/// Orders a store of ours before a load of ours that somebody mirrors, so that of two sides which each say "I sleep"
/// and then look once more at least one sees the other.
pub(crate) fn barrier_before_last_look() {
    fence(Ordering::SeqCst);
}
