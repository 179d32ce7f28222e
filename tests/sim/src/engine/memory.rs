//! Host memory, and what of it the card may touch.
//!
//! The card has no way to host memory but its [`Dma`] port. So a check of every write here is a
//! check of every byte after every step: there is no need to compare the rest of memory with a
//! shadow.
//!
//! A page of host memory may be one of a process' mapping: then card and library see the same
//! bytes, each its own way.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_card::ports::{Dma, DmaFault, Operation, VolatileSlice};
use vm_memory::{MmapRegion, VolatileMemory};

use crate::engine::shared::{Shared, region};
use crate::engine::violation::Violation;

pub(crate) const PAGE: u64 = 4096;
/// Addresses from here on are nobody's: whoever reaches for them gets a fault, which is no offence.
pub(crate) const NOWHERE: u64 = 1 << 40;

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
    /// For fetch-and-ops, which read and write.
    Fetch,
}

/// What the memory's owner does to it while the card is in the middle of a packet: after so many
/// reads.
#[derive(Debug, Clone)]
pub(crate) struct Mischief {
    pub(crate) reads: u32,
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
struct State {
    /// Which page of which mapping each page of host memory is.
    frames: Vec<(Arc<dyn Shared>, usize)>,
    /// For each page, which of its bytes open objects let the card use. Ranges may overlap, and be
    /// there twice.
    rights: Vec<Vec<(Right, Range<usize>)>>,
    writes: Vec<Write>,
    mischief: Option<Mischief>,
    /// By address, what bytes become as soon as the card has read any of them.
    changes: BTreeMap<u64, Vec<u8>>,
    complaint: Option<String>,
    /// How much is lent now, of what may be lent at a time.
    lent: usize,
}

/// Host memory from address 0.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What a page is while no process has mapped it.
    kernel: Arc<dyn Shared>,
    state: Mutex<State>,
    lent: MmapRegion,
}

/// Bytes that are lent at a time, in copies: more than any packet has.
const LENT: usize = 16384;

impl Memory {
    /// So many pages.
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

    /// Makes a page one of a mapping, from `offset` on.
    pub(crate) fn map(&self, page: u64, mapping: Arc<dyn Shared>, offset: usize) {
        self.state().frames[(page / PAGE) as usize] = (mapping, offset);
    }

    /// Makes a page nobody's again.
    pub(crate) fn unmap(&self, page: u64) {
        self.map(page, self.kernel.clone(), page as usize);
    }

    /// Lets the card use a range, or takes that back. Ranges may overlap.
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

    /// The host's own store.
    pub(crate) fn poke(&self, address: u64, bytes: &[u8]) {
        self.state().store(address, bytes);
    }

    /// The host's own load.
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

    /// What the card wrote since the last call.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.state().writes)
    }

    /// The first thing that the card did and must not do.
    pub(crate) fn take_complaint(&self) -> Option<String> {
        self.state().complaint.take()
    }

    pub(crate) fn plan_mischief(&self, mischief: Option<Mischief>) {
        self.state().mischief = mischief;
    }

    /// Their owner makes others of some bytes as soon as the card has read any of them: who reads
    /// them twice has been had.
    pub(crate) fn change_once_read(&self, address: u64, bytes: Vec<u8>) {
        self.state().changes.insert(address, bytes);
    }

    /// Whether bytes from this address on are still to be changed so.
    pub(crate) fn is_to_change(&self, address: u64) -> bool {
        self.state().changes.contains_key(&address)
    }

    /// What is in a page nobody changes any more.
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

    /// Reads for the card. Afterwards the owner may do the mischief that was planned.
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

    /// The card has read these bytes.
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

    /// Whether the card may use all of these bytes of a page.
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

/// The pieces of a range that lie in one page each: the page's number, the offset in it, and which
/// bytes of the range.
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
        // Pages that happen to follow each other may be written at once; who judges knows each by
        // itself.
        let (mut address, mut rest) = (address, &bytes[..]);
        while !rest.is_empty() {
            let (here, behind) = rest.split_at(rest.len().min((PAGE - address % PAGE) as usize));
            state.writes.push(Write { address, bytes: here.to_vec() });
            (address, rest) = (address + here.len() as u64, behind);
        }
        Ok(())
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        // Each write is to be seen.
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
