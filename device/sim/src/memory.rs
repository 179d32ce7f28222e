//! Host memory, and what of it the card may touch.
//!
//! The card has no way to host memory but its [`Dma`] port. So a check of every write here is a check of every byte
//! after every step: there is no need to compare the rest of memory with a shadow.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use hamlyn_models::ports::{Dma, DmaFault, Operation, VolatileSlice};

pub(crate) const PAGE: u64 = 4096;
/// Pages of a host's memory.
pub(crate) const FRAMES: u64 = 160;

/// A write of the card, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What a piece of memory is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
}

/// What the memory's owner does to it while the card is in the middle of a packet: after so many reads.
#[derive(Debug, Clone)]
pub(crate) struct Mischief {
    pub(crate) reads: u32,
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    /// For each byte, how many open objects let the card read it.
    readable: Vec<u8>,
    /// For each byte, how many open objects let the card write it.
    writable: Vec<u8>,
    writes: Vec<Write>,
    mischief: Option<Mischief>,
    complaint: Option<String>,
}

/// Host memory from address 0.
#[derive(Debug)]
pub(crate) struct Memory(RefCell<State>);

impl Memory {
    pub(crate) fn new() -> Self {
        let size = (FRAMES * PAGE) as usize;
        Self(RefCell::new(State {
            bytes: vec![0; size],
            readable: vec![0; size],
            writable: vec![0; size],
            writes: Vec::new(),
            mischief: None,
            complaint: None,
        }))
    }

    /// Lets the card use a range, or takes that back. Ranges may overlap.
    pub(crate) fn permit(&self, right: Right, address: u64, length: u64, allowed: bool) {
        let mut state = self.0.borrow_mut();
        let rights = match right {
            Right::Read => &mut state.readable,
            Right::Write => &mut state.writable,
        };
        for count in &mut rights[address as usize..(address + length) as usize] {
            *count = if allowed { *count + 1 } else { *count - 1 };
        }
    }

    /// The host's own store.
    pub(crate) fn poke(&self, address: u64, bytes: &[u8]) {
        self.0.borrow_mut().bytes[address as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// The host's own load.
    pub(crate) fn peek(&self, address: u64, length: usize) -> Vec<u8> {
        self.0.borrow().bytes[address as usize..][..length].to_vec()
    }

    pub(crate) fn peek_u32(&self, address: u64) -> u32 {
        let state = self.0.borrow();
        let at = address as usize;
        u32::from_le_bytes([state.bytes[at], state.bytes[at + 1], state.bytes[at + 2], state.bytes[at + 3]])
    }

    pub(crate) fn peek_u64(&self, address: u64) -> u64 {
        u64::from(self.peek_u32(address)) | u64::from(self.peek_u32(address + 4)) << 32
    }

    /// What the card wrote since the last call.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.0.borrow_mut().writes)
    }

    /// The first thing that the card did and must not do.
    pub(crate) fn take_complaint(&self) -> Option<String> {
        self.0.borrow_mut().complaint.take()
    }

    pub(crate) fn plan_mischief(&self, mischief: Option<Mischief>) {
        self.0.borrow_mut().mischief = mischief;
    }
}

impl State {
    /// Checks an access of the card.
    fn check(&mut self, right: Right, address: u64, length: usize) -> Result<Range<usize>, DmaFault> {
        let fault = DmaFault { address, length: length as u64 };
        let end = address.checked_add(length as u64).filter(|end| *end <= self.bytes.len() as u64);
        let range = end.map(|end| address as usize..end as usize);
        let rights = if right == Right::Read { &self.readable } else { &self.writable };
        match range {
            Some(range) if rights[range.clone()].iter().all(|count| *count != 0) => Ok(range),
            _ => {
                let what = if right == Right::Read { "read" } else { "wrote" };
                self.complaint.get_or_insert(format!(
                    "the card {what} {address:#x}..+{length}, which no open area has"
                ));
                Err(fault)
            }
        }
    }
}

impl Dma for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let mut state = self.0.borrow_mut();
        let range = state.check(Right::Read, address, into.len())?;
        into.copy_from(&state.bytes[range]);
        if let Some(mischief) = &mut state.mischief {
            mischief.reads = mischief.reads.saturating_sub(1);
            if mischief.reads == 0 {
                let Mischief { address, bytes, .. } = mischief.clone();
                state.bytes[address as usize..][..bytes.len()].copy_from_slice(&bytes);
                state.mischief = None;
            }
        }
        Ok(())
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let mut state = self.0.borrow_mut();
        let range = state.check(Right::Write, address, from.len())?;
        from.copy_to(&mut state.bytes[range.clone()]);
        let bytes = state.bytes[range].to_vec();
        state.writes.push(Write { address, bytes });
        Ok(())
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        let mut bytes = value.to_le_bytes();
        self.write(address, VolatileSlice::from(&mut bytes[..]))
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let word = AtomicU64::new(self.peek_u64(address));
        let found = operation.apply(&word);
        self.write(address, VolatileSlice::from(&mut word.into_inner().to_le_bytes()[..]))?;
        Ok(found)
    }
}
