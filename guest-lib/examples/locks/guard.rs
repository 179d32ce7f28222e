//! Words guarded by the locks, which show whether mutual exclusion works.

use std::time::Duration;

use hamlyn::{Card, FetchOp, MessageArea, Slot, Terminus, Ticket};

use crate::common::{Outcome, word_at};

/// Number of locks that guard words.
pub(crate) const LOCKS: u32 = 4;
/// Per lock, 8 bytes each: its exclusive owner (0: none), its number of sharers, and a count.
const OWNER: u32 = 0;
const SHARERS: u32 = 8;
const COUNT: u32 = 16;
const SIZE: u32 = 24;

/// The words, in this process' memory.
pub(crate) struct Words {
    area: MessageArea,
    slot: Slot,
}

/// Creates the words.
pub(crate) fn words(card: &Card) -> Outcome<Words> {
    let area = card.create_area((LOCKS * SIZE) as usize)?;
    let slot = card.slot(&area).allow_fetch().create()?;
    Ok(Words { area, slot })
}

impl Words {
    pub(crate) fn ticket(&self) -> Outcome<Ticket> {
        Ok(self.slot.fast_ticket()?)
    }

    /// Returns the sum of all counts.
    pub(crate) fn counted(&self) -> Outcome<u64> {
        (0..LOCKS).map(|lock| word_at(&self.area, (lock * SIZE + COUNT) as usize)).sum()
    }
}

/// Remote access to the words.
pub(crate) struct Guard {
    terminus: Terminus,
    words: Ticket,
    timeout: Duration,
}

impl Guard {
    pub(crate) fn new(card: &Card, words: Ticket, timeout: Duration) -> Outcome<Self> {
        Ok(Self { terminus: card.create_terminus()?, words, timeout })
    }

    /// Checks the guarantees of an exclusive lock: no other holder is inside, and what was read may
    /// be written back.
    pub(crate) fn alone(&self, lock: u32, number: u64) -> Outcome {
        let at = lock * SIZE;
        expect("another owner", self.fetch(at + OWNER, FetchOp::Swap(number))?, 0)?;
        expect("sharers", self.fetch(at + SHARERS, FetchOp::Add(0))?, 0)?;
        let count = self.fetch(at + COUNT, FetchOp::Add(0))?;
        expect("a count", self.fetch(at + COUNT, FetchOp::Swap(count + 1))?, count)?;
        expect("an owner", self.fetch(at + OWNER, FetchOp::Swap(0))?, number)
    }

    /// Checks the guarantees of a shared lock: others may be inside, but no exclusive owner.
    pub(crate) fn together(&self, lock: u32) -> Outcome {
        let at = lock * SIZE;
        self.fetch(at + SHARERS, FetchOp::Add(1))?;
        let count = self.fetch(at + COUNT, FetchOp::Add(0))?;
        expect("an owner", self.fetch(at + OWNER, FetchOp::Add(0))?, 0)?;
        expect("a count", self.fetch(at + COUNT, FetchOp::Add(0))?, count)?;
        self.fetch(at + SHARERS, FetchOp::Add(1_u64.wrapping_neg()))?;
        Ok(())
    }

    fn fetch(&self, offset: u32, operation: FetchOp) -> Outcome<u64> {
        Ok(self.terminus.fetch(&self.words, offset, operation)?.wait_timeout(self.timeout)?)
    }
}

fn expect(what: &str, found: u64, expected: u64) -> Outcome {
    if found != expected {
        return Err(format!("the lock does not hold: {what} is {found}, not {expected}").into());
    }
    Ok(())
}
