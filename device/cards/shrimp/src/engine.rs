//! The engine for deliberate update (section 4.3): one, and it has one transfer at a time.

use std::collections::VecDeque;

use hamlyn_abi::shrimp::entry::{SHRIMP_SYSTEM_PAGE, ShrimpEntry};
use hamlyn_abi::shrimp::memory::*;
use hamlyn_card::ports::{Dma, DmaFault, VolatileSlice};

use crate::nipt::Nipt;
use crate::{PAGE, Target};

/// A block of data that is being sent.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    /// Where the process started it.
    base: u64,
    next: u64,
    /// Bytes.
    left: u64,
    /// It is the operating system's own.
    is_system: bool,
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Engine {
    /// The first is under way, the others wait.
    transfers: VecDeque<Transfer>,
    /// Bytes that are read in a turn, and put into a packet.
    piece: usize,
}

/// What came of a look at the engine's work.
pub(crate) enum Step {
    /// There is none.
    Idle,
    /// Data to send.
    Data(Target, Vec<u8>),
    /// The transfer cannot go on.
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

    /// What a load from a command page says.
    pub(crate) fn answer(&self, address: u64) -> u32 {
        let Some(transfer) = self.transfers.front() else { return 0 };
        let base = if transfer.base == address { SHRIMP_BASE } else { 0 };
        SHRIMP_BUSY | base | transfer.left.div_ceil(4) as u32 & SHRIMP_LEFT
    }

    /// Starts a transfer, or has it wait if another processor was quicker. `None`: it cannot be.
    pub(crate) fn start(&mut self, nipt: &Nipt, address: u64, words: u32) -> Option<()> {
        let length = u64::from(words) * 4;
        let part = nipt.part_out(address).filter(|part| part.is_sent(address, length))?;
        let is_system = part.target.address / PAGE == SHRIMP_SYSTEM_PAGE;
        if words > SHRIMP_MAX_WORDS || !self.may_wait(address, is_system) {
            return None;
        }
        self.transfers.push_back(Transfer { base: address, next: address, left: length, is_system });
        Some(())
    }

    /// Whether there is a place for one more. Processes cannot take those of the operating system.
    fn may_wait(&self, address: u64, is_system: bool) -> bool {
        let mut waiting = self.transfers.iter().skip(1);
        if is_system {
            // Its messages are at different places of a page.
            return !waiting.any(|transfer| transfer.base == address);
        }
        let others = self.transfers.iter().filter(|transfer| !transfer.is_system).count();
        others <= SHRIMP_MAX_WAITING as usize
            && !waiting.any(|transfer| transfer.base / PAGE == address / PAGE)
    }

    /// The next piece of the transfer that is under way. `true`: it was the last.
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

    /// Whether an entry would end a transfer from the page: one that is under way, or waits.
    pub(crate) fn is_ended_by(&self, nipt: &Nipt, page: u64, entry: &ShrimpEntry) -> bool {
        self.transfers.iter().any(|transfer| transfer.is_ended_by(nipt, page, entry))
    }

    /// The page is about to have this entry: transfers that it ends end. Says how many.
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
