//! Host memory, and the ranges of it that the card may access.
//!
//! The card reaches host memory only through its [`Dma`] port. So a check of every write here
//! covers every byte after every step. The rest of memory need not be compared with a shadow copy.
//!
//! A page of host memory may belong to a process's mapping. Then card and library access the same
//! bytes, each in its own way.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_card::ports::{Dma, DmaFault, Operation, VolatileSlice};
use vm_memory::{MmapRegion, VolatileMemory};

use crate::engine::shared::{Shared, region};
use crate::engine::violation::Violation;

pub(crate) const PAGE: u64 = 4096;
/// Start of unassigned addresses. An access from here on faults, but is not a violation.
pub(crate) const NOWHERE: u64 = 1 << 40;

/// A write by the card. Writes are recorded in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The kind of access that a range is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
    /// For fetch-and-ops, which read and write.
    Fetch,
}

/// A write by the owner of the memory while the card processes a packet: it happens after `reads`
/// reads.
#[derive(Debug, Clone)]
pub(crate) struct Mischief {
    pub(crate) reads: u32,
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
struct State {
    /// For each page of host memory, the mapping and the offset that back it.
    frames: Vec<(Arc<dyn Shared>, usize)>,
    /// For each page, the byte ranges that open objects let the card use. Ranges may overlap or
    /// occur twice.
    rights: Vec<Vec<(Right, Range<usize>)>>,
    writes: Vec<Write>,
    mischief: Option<Mischief>,
    /// For each address, the bytes to store there as soon as the card has read any of the old ones.
    changes: BTreeMap<u64, Vec<u8>>,
    complaint: Option<String>,
    /// Number of bytes of the lending buffer that are in use.
    lent: usize,
}

/// Host memory from address 0.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Backing of pages that no process has mapped.
    kernel: Arc<dyn Shared>,
    state: Mutex<State>,
    lent: MmapRegion,
}

/// Size of the buffer for lent copies: larger than any packet.
const LENT: usize = 16384;

impl Memory {
    /// Creates a memory of `frames` pages.
    pub(crate) fn new(frames: u64) -> Result<Self, Violation> {
        let kernel: Arc<dyn Shared> = region(frames * PAGE)?;
        let offsets = (0..frames as usize).map(|frame| frame * PAGE as usize);
        let state = Mutex::new(State {
            frames: offsets.map(|offset| (kernel.clone(), offset)).collect(),
            rights: vec![Vec::new(); frames as usize],
            writes: Vec::new(),
            mischief: None,
            changes: BTreeMap::new(),
            complaint: None,
            lent: 0,
        });
        Ok(Self { kernel, state, lent: MmapRegion::new(LENT).map_err(Violation::new)? })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Backs a page by a mapping, from `offset` on.
    pub(crate) fn map(&self, page: u64, mapping: Arc<dyn Shared>, offset: usize) {
        self.state().frames[(page / PAGE) as usize] = (mapping, offset);
    }

    /// Ends a page's mapping.
    pub(crate) fn unmap(&self, page: u64) {
        self.map(page, self.kernel.clone(), page as usize);
    }

    /// Allows or forbids the card to use a range. Ranges may overlap.
    pub(crate) fn permit(&self, right: Right, address: u64, length: u64, allowed: bool) {
        let mut state = self.state();
        for (frame, offset, range) in pieces(address, length as usize) {
            let (rights, this) = (&mut state.rights[frame], (right, offset..offset + range.len()));
            if allowed {
                rights.push(this);
            } else if let Some(index) = rights.iter().position(|other| *other == this) {
                rights.swap_remove(index);
            }
        }
    }

    /// Stores bytes as the host itself.
    pub(crate) fn poke(&self, address: u64, bytes: &[u8]) {
        self.state().store(address, bytes);
    }

    /// Loads bytes as the host itself.
    pub(crate) fn peek(&self, address: u64, length: usize) -> Vec<u8> {
        self.state().load(address, length)
    }

    pub(crate) fn peek_u32(&self, address: u64) -> u32 {
        let state = self.state();
        let (mapping, offset) = &state.frames[(address / PAGE) as usize];
        mapping.load(offset + (address % PAGE) as usize)
    }

    pub(crate) fn peek_u64(&self, address: u64) -> u64 {
        u64::from(self.peek_u32(address)) | u64::from(self.peek_u32(address + 4)) << 32
    }

    /// Returns the card's writes since the last call.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.state().writes)
    }

    /// Returns the first forbidden access of the card.
    pub(crate) fn take_complaint(&self) -> Option<String> {
        self.state().complaint.take()
    }

    pub(crate) fn plan_mischief(&self, mischief: Option<Mischief>) {
        self.state().mischief = mischief;
    }

    /// Replaces bytes as soon as the card has read any of them. A card that reads them twice gets
    /// different values.
    pub(crate) fn change_once_read(&self, address: u64, bytes: Vec<u8>) {
        self.state().changes.insert(address, bytes);
    }

    /// Returns whether a planned change at this address has not happened yet.
    pub(crate) fn is_to_change(&self, address: u64) -> bool {
        self.state().changes.contains_key(&address)
    }

    /// Cancels all planned changes in a page.
    pub(crate) fn keep(&self, page: u64) {
        self.state().changes.retain(|address, _| address / PAGE != page / PAGE);
    }
}

impl State {
    fn load(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (frame, offset, range) in pieces(address, length) {
            let (mapping, start) = &self.frames[frame];
            mapping.read(start + offset, &mut bytes[range]);
        }
        bytes
    }

    fn store(&mut self, address: u64, bytes: &[u8]) {
        for (frame, offset, range) in pieces(address, bytes.len()) {
            let (mapping, start) = &self.frames[frame];
            mapping.write(start + offset, &bytes[range]);
        }
    }

    /// Reads for the card. Afterwards the planned writes of the owner may happen.
    fn read(&mut self, address: u64, length: usize) -> Result<Vec<u8>, DmaFault> {
        self.check(Right::Read, address, length)?;
        let bytes = self.load(address, length);
        if let Some(mischief) = &mut self.mischief {
            mischief.reads = mischief.reads.saturating_sub(1);
            if mischief.reads == 0 {
                let Mischief { address, bytes, .. } = mischief.clone();
                self.store(address, &bytes);
                self.mischief = None;
            }
        }
        self.change(address, length);
        Ok(bytes)
    }

    /// Applies planned changes to the bytes that the card has read.
    fn change(&mut self, address: u64, length: usize) {
        let before = self.changes.range(..address + length as u64).rev();
        let read = before.filter(|(start, bytes)| *start + bytes.len() as u64 > address);
        let read: Vec<u64> = read.map(|(start, _)| *start).collect();
        for start in read {
            if let Some(bytes) = self.changes.remove(&start) {
                self.store(start, &bytes);
            }
        }
    }

    /// Returns whether the card may use all bytes from `from` to `to` of a page.
    fn allows(&self, right: Right, frame: usize, mut from: usize, to: usize) -> bool {
        let rights = self.rights[frame].iter().filter(|(other, _)| *other == right);
        while from < to {
            let Some((_, range)) = rights.clone().find(|(_, range)| range.contains(&from)) else {
                return false;
            };
            from = range.end;
        }
        true
    }

    /// Checks an access of the card.
    fn check(&mut self, right: Right, address: u64, length: usize) -> Result<(), DmaFault> {
        if address >= NOWHERE {
            return Err(DmaFault { address, length: length as u64 });
        }
        let end = address.checked_add(length as u64).filter(|end| *end <= self.frames.len() as u64 * PAGE);
        let allowed = |(frame, offset, range): (usize, usize, Range<usize>)| {
            self.allows(right, frame, offset, offset + range.len())
        };
        if end.is_some() && pieces(address, length).all(allowed) {
            return Ok(());
        }
        let what = match right {
            Right::Read => "read",
            Right::Write => "wrote",
            Right::Fetch => "fetched",
        };
        self.complaint
            .get_or_insert(format!("the card {what} {address:#x}..+{length}, which no open area has"));
        Err(DmaFault { address, length: length as u64 })
    }
}

/// Splits a range at page boundaries. Each piece is the page's number, the offset in it, and the
/// part of the range.
fn pieces(address: u64, length: usize) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address + done as u64;
        let offset = (at % PAGE) as usize;
        let here = (length - done).min(PAGE as usize - offset);
        let range = done..done + here;
        done += here;
        (here > 0).then_some(((at / PAGE) as usize, offset, range))
    })
}

impl Dma for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        into.copy_from(&self.state().read(address, into.len())?);
        Ok(())
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        let mut state = self.state();
        let bytes = state.read(address, length)?;
        let at = if state.lent + length > LENT { 0 } else { state.lent };
        state.lent = at + length;
        let fault = |_| DmaFault { address, length: length as u64 };
        let copy = self.lent.get_slice(at, length).map_err(fault)?;
        copy.copy_from(&bytes);
        Ok(copy)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let mut state = self.state();
        state.check(Right::Write, address, from.len())?;
        let mut bytes = vec![0; from.len()];
        from.copy_to(&mut bytes[..]);
        state.store(address, &bytes);
        // The card may write pages that happen to be adjacent in one access. The checks expect one
        // write per page.
        let (mut address, mut rest) = (address, &bytes[..]);
        while !rest.is_empty() {
            let (here, behind) = rest.split_at(rest.len().min((PAGE - address % PAGE) as usize));
            state.writes.push(Write { address, bytes: here.to_vec() });
            (address, rest) = (address + here.len() as u64, behind);
        }
        Ok(())
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        // Not lent, because each write must be recorded.
        self.state().check(Right::Write, address, length).map(|()| None)
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        let mut bytes = value.to_le_bytes();
        self.write(address, VolatileSlice::from(&mut bytes[..]))
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        self.state().check(Right::Fetch, address, 8)?;
        let word = AtomicU64::new(self.peek_u64(address));
        let found = operation.apply(&word);
        self.write(address, VolatileSlice::from(&mut word.into_inner().to_le_bytes()[..]))?;
        Ok(found)
    }
}
