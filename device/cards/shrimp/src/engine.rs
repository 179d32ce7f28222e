//! The engine for deliberate update (section 4.3). There is one engine, and it has one transfer at
//! a time.

use std::collections::VecDeque;

use hamlyn_abi::shrimp::entry::{SHRIMP_SYSTEM_PAGE, ShrimpEntry};
use hamlyn_abi::shrimp::memory::*;
use hamlyn_card::ports::{Dma, DmaFault, VolatileSlice};

use crate::nipt::Nipt;
use crate::{PAGE, Target};

/// A block of data that is being sent.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    /// Address at which the process started it.
    base: u64,
    next: u64,
    /// Number of bytes left.
    left: u64,
    /// The transfer is the operating system's own.
    is_system: bool,
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Engine {
    /// The first transfer is under way, and the others wait.
    transfers: VecDeque<Transfer>,
    /// Number of bytes that are read in a turn and put into a packet.
    piece: usize,
}

/// The result of a step of the engine.
pub(crate) enum Step {
    /// There is no transfer.
    Idle,
    /// Data to send.
    Data(Target, Vec<u8>),
    /// The transfer cannot continue.
    Cut,
}

impl Engine {
    pub(crate) fn new(piece: usize) -> Self {
        Self { transfers: VecDeque::new(), piece }
    }

    pub(crate) fn clear(&mut self) {
        self.transfers.clear();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.transfers.is_empty()
    }

    /// Returns the value of a load from a command page.
    pub(crate) fn answer(&self, address: u64) -> u32 {
        let Some(transfer) = self.transfers.front() else { return 0 };
        let base = if transfer.base == address { SHRIMP_BASE } else { 0 };
        let waits = if self.waits(address) { SHRIMP_WAITS } else { 0 };
        SHRIMP_BUSY | base | waits | transfer.left.div_ceil(4) as u32 & SHRIMP_LEFT
    }

    /// Returns whether a transfer that was started at the address waits for others.
    fn waits(&self, address: u64) -> bool {
        self.transfers.iter().skip(1).any(|transfer| transfer.base == address)
    }

    /// Starts a transfer, or lets it wait if another processor was faster. Returns `None` if the
    /// transfer is not possible.
    pub(crate) fn start(&mut self, nipt: &Nipt, address: u64, words: u32) -> Option<()> {
        let length = u64::from(words) * 4;
        let part = nipt.part_out(address).filter(|part| part.is_sent(address, length))?;
        let is_system = part.is_system || part.target.address / PAGE == SHRIMP_SYSTEM_PAGE;
        if words > SHRIMP_MAX_WORDS || !self.may_wait(address, is_system) {
            return None;
        }
        self.transfers.push_back(Transfer { base: address, next: address, left: length, is_system });
        Some(())
    }

    /// Returns whether there is room for one more transfer. Processes cannot take the operating
    /// system's room.
    fn may_wait(&self, address: u64, is_system: bool) -> bool {
        let alike = self.transfers.iter().filter(|transfer| transfer.is_system == is_system).count();
        if is_system {
            // What the operating system sends is at different places of a page.
            return alike <= SHRIMP_MAX_SYSTEM_WAITING as usize && !self.waits(address);
        }
        let mut waiting = self.transfers.iter().skip(1);
        alike <= SHRIMP_MAX_WAITING as usize
            && !waiting.any(|transfer| transfer.base / PAGE == address / PAGE)
    }

    /// Returns the next piece of the transfer that is under way, and whether it was the last.
    pub(crate) fn step(&mut self, nipt: &Nipt, dma: &dyn Dma) -> (Step, bool) {
        let Some(transfer) = self.transfers.front_mut() else { return (Step::Idle, false) };
        let length = transfer.left.min(self.piece as u64);
        // The process may have changed the page's mode meanwhile.
        let part = nipt.part_out(transfer.next).filter(|part| part.is_sent(transfer.next, length));
        let data = part.and_then(|part| Some((part.target, read(dma, transfer.next, length).ok()?)));
        let Some((target, data)) = data else {
            self.transfers.pop_front();
            return (Step::Cut, true);
        };
        (transfer.next, transfer.left) = (transfer.next + length, transfer.left - length);
        let done = transfer.left == 0;
        if done {
            self.transfers.pop_front();
        }
        (Step::Data(target, data), done)
    }

    /// Returns whether an entry would end a transfer from the page, whether the transfer is under
    /// way or waits.
    pub(crate) fn is_ended_by(&self, nipt: &Nipt, page: u64, entry: &ShrimpEntry) -> bool {
        self.transfers.iter().any(|transfer| transfer.is_ended_by(nipt, page, entry))
    }

    /// Ends the transfers that the page's new entry ends. Returns their number.
    pub(crate) fn cut(&mut self, nipt: &Nipt, page: u64, entry: &ShrimpEntry) -> usize {
        let before = self.transfers.len();
        self.transfers.retain(|transfer| !transfer.is_ended_by(nipt, page, entry));
        before - self.transfers.len()
    }
}

impl Transfer {
    fn is_ended_by(&self, nipt: &Nipt, page: u64, entry: &ShrimpEntry) -> bool {
        self.base / PAGE == page && !nipt.sends_alike(self.next, self.left, entry)
    }
}

fn read(dma: &dyn Dma, address: u64, length: u64) -> Result<Vec<u8>, DmaFault> {
    let mut data = vec![0; length as usize];
    dma.read(address, VolatileSlice::from(&mut data[..]))?;
    Ok(data)
}
