//! Words that the locks guard, and that tell whether they do.

use std::time::Duration;

use hamlyn::{Card, FetchOp, MessageArea, Slot, Terminus, Ticket};

use crate::common::{Outcome, word_at};

/// How many locks guard words.
pub(crate) const LOCKS: u32 = 4;
/// For each lock: who has it alone (0: nobody), how many share it, and a count, 8 bytes each.
const OWNER: u32 = 0;
const SHARERS: u32 = 8;
const COUNT: u32 = 16;
const SIZE: u32 = 24;

/// The words, where they are.
pub(crate) struct Words {
    area: MessageArea,
    slot: Slot,
}

/// Makes them.
pub(crate) fn words(card: &Card) -> Outcome<Words> {
    let area = card.create_area((LOCKS * SIZE) as usize)?;
    let slot = card.slot(&area).allow_fetch().create()?;
    Ok(Words { area, slot })
}

impl Words {
    pub(crate) fn ticket(&self) -> Outcome<Ticket> {
        Ok(self.slot.fast_ticket()?)
    }

    /// The sum of all counts.
    pub(crate) fn counted(&self) -> Outcome<u64> {
        (0..LOCKS).map(|lock| word_at(&self.area, (lock * SIZE + COUNT) as usize)).sum()
    }
}

/// The words, from afar.
pub(crate) struct Guard {
    terminus: Terminus,
    words: Ticket,
    timeout: Duration,
}

impl Guard {
    pub(crate) fn new(card: &Card, words: Ticket, timeout: Duration) -> Outcome<Self> {
        Ok(Self { terminus: card.create_terminus()?, words, timeout })
    }

    /// Nobody else may be there, and what is read may be written back: that is what an exclusive
    /// lock promises.
    pub(crate) fn alone(&self, lock: u32, number: u64) -> Outcome {
        let at = lock * SIZE;
        expect("another owner", self.fetch(at + OWNER, FetchOp::Swap(number))?, 0)?;
        expect("sharers", self.fetch(at + SHARERS, FetchOp::Add(0))?, 0)?;
        let count = self.fetch(at + COUNT, FetchOp::Add(0))?;
        expect("a count", self.fetch(at + COUNT, FetchOp::Swap(count + 1))?, count)?;
        expect("an owner", self.fetch(at + OWNER, FetchOp::Swap(0))?, number)
    }

    /// Others may be there, but none alone.
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
        Ok(self.terminus.fetch(&self.words, offset, operation)?.wait(Some(self.timeout))?)
    }
}

fn expect(what: &str, found: u64, expected: u64) -> Outcome {
    if found != expected {
        return Err(format!("the lock does not hold: {what} is {found}, not {expected}").into());
    }
    Ok(())
}
