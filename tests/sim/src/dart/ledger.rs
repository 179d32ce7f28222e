//! What each card has been told and has taken in: the simulation's own account.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::DartControl;

use crate::engine::area::Area;
use crate::engine::memory::PAGE;

use super::calling::Entry;
use super::packet::Message;

/// A message that has arrived and is not done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) message: Message,
    pub(super) is_answer: bool,
}

/// A question that is under way: what it is, what its answer is, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) control: DartControl,
    pub(super) answer: DartControl,
    pub(super) length: usize,
}

impl Question {
    pub(super) fn of(message: &Message) -> Option<Self> {
        let length = message.answer_length()?;
        Some(Self { control: message.control, answer: message.answer_control(), length })
    }
}

/// A message that was stored to the Send Registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Send {
    pub(super) control: DartControl,
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// A region of virtual memory, or of memory that stays where it is: then its space is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoint {
    pub(super) space: u32,
    pub(super) base: u64,
    pub(super) length: u64,
}

/// What the card says of a connection to its owner, by words.
pub(super) type State = [u32; 10];

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) host: u16,
    pub(super) key: u64,
    pub(super) peer: Option<(u32, u64)>,
    pub(super) endpoint: Endpoint,
    /// Offsets of its endpoint that messages may reach.
    pub(super) reach: Range<u64>,
    pub(super) window: Range<usize>,
    pub(super) program: Range<usize>,
    pub(super) events: Option<u32>,
    pub(super) exceptions: Option<u32>,
    pub(super) may_write: bool,
    pub(super) may_read: bool,
    pub(super) is_system: bool,
    pub(super) state: State,
    /// The same as the card has written it.
    pub(super) said: State,
    pub(super) area: Area,
    // What it sends.
    pub(super) sends: VecDeque<Send>,
    pub(super) replies: VecDeque<(u32, Message)>,
    pub(super) numbered: u32,
    pub(super) on_their_way: u32,
    pub(super) spent: u32,
    pub(super) returned: u32,
    // What it receives.
    pub(super) expected: u32,
    pub(super) waiting: VecDeque<Arrived>,
    pub(super) questions: VecDeque<Question>,
    /// Cells that may be under way, by what the other end has said.
    pub(super) limit: u32,
    pub(super) done: u32,
    pub(super) told: u32,
    /// The first that waits has found a full queue, or no room for its reply.
    pub(super) was_full: bool,
    /// What the first that waited was known to wait for, and whether it is to be written to.
    pub(super) asked: Vec<(u64, bool)>,
    /// Its owner sleeps until another number of messages has left than this; and whether the driver
    /// was told since.
    pub(super) sleeper: Option<u32>,
    pub(super) woken: bool,
    /// The driver was told that it is broken.
    pub(super) break_told: bool,
    /// The driver does not know of exceptions that no queue took; or of messages that were
    /// executed, if it is an operating system's.
    pub(super) has_news: bool,
}

/// Words of [`State`].
pub(super) const LEFT: usize = DART_STATE_LEFT as usize / 4;
pub(super) const DROPPED: usize = DART_STATE_DROPPED as usize / 4;
pub(super) const WHY: usize = DART_STATE_DROPPED_WHY as usize / 4;
pub(super) const TRAPS: usize = DART_STATE_TRAPS as usize / 4;
pub(super) const TRAP: usize = DART_STATE_TRAP as usize / 4;
pub(super) const TRAP_OPCODE: usize = DART_STATE_TRAP_OPCODE as usize / 4;
pub(super) const BROKEN: usize = DART_STATE_BROKEN as usize / 4;
pub(super) const EXCEPTIONS: usize = DART_STATE_EXCEPTIONS as usize / 4;
pub(super) const EXCEPTION: usize = DART_STATE_EXCEPTION as usize / 4;
pub(super) const EXCEPTION_OPCODE: usize = DART_STATE_EXCEPTION_OPCODE as usize / 4;

/// Bytes of an endpoint that lie together in a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) page: (u32, u64),
    /// Where in the page.
    pub(super) place: usize,
    pub(super) length: usize,
}

impl End {
    /// Where so many bytes of its endpoint are, from an offset on.
    pub(super) fn pieces(&self, mut offset: u64, length: u64) -> Vec<Piece> {
        let end = offset + length;
        let mut pieces = Vec::new();
        while offset < end {
            let (page, place) = self.place(offset);
            let length = (PAGE as usize - place).min((end - offset) as usize);
            pieces.push(Piece { page, place, length });
            offset += length as u64;
        }
        pieces
    }

    /// Where a byte of its endpoint is: in which page of which space, and where there.
    pub(super) fn place(&self, offset: u64) -> ((u32, u64), usize) {
        let address = self.endpoint.base.wrapping_add(offset);
        ((self.endpoint.space, address / PAGE), (address % PAGE) as usize)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state[BROKEN] != 0
    }

    /// So many of the first messages that wait to leave will not.
    pub(super) fn dropped(&mut self, count: u32, why: u32) {
        self.sends.drain(..(count as usize).min(self.sends.len()));
        self.note_dropped(count, why);
    }

    pub(super) fn note_dropped(&mut self, count: u32, why: u32) {
        if count > 0 {
            self.state[LEFT] += count;
            self.state[DROPPED] += count;
            self.state[WHY] = why;
        }
    }

    /// It takes and sends nothing any more; returns whether it did before.
    pub(super) fn break_off(&mut self, why: u32) -> bool {
        if self.is_system || self.is_broken() {
            return false;
        }
        self.state[BROKEN] = why;
        self.waiting.clear();
        self.replies.clear();
        self.dropped(self.sends.len() as u32, DART_DROPPED_BROKEN);
        true
    }

    pub(super) fn trapped(&mut self, trap: u32, opcode: u32) {
        self.state[TRAPS] += 1;
        (self.state[TRAP], self.state[TRAP_OPCODE]) = (trap, opcode);
    }

    /// It has had an exception that no queue takes.
    pub(super) fn excepted(&mut self, trap: u32, opcode: u32) {
        self.state[EXCEPTIONS] += 1;
        (self.state[EXCEPTION], self.state[EXCEPTION_OPCODE]) = (trap, opcode);
        self.has_news = true;
    }

    /// Cells of replies.
    pub(super) fn reply_cells(&self) -> usize {
        self.replies.iter().map(|(_, message)| message.cells()).sum()
    }

    /// Cells of messages that wait, but answers.
    pub(super) fn waiting_cells(&self) -> usize {
        let messages = self.waiting.iter().filter(|arrived| !arrived.is_answer);
        messages.map(|arrived| arrived.message.cells()).sum()
    }
}

/// What a page of an address space is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Hole,
    /// The driver believes that it is there, in a frame that cannot be reached.
    Nowhere {
        frame: u64,
    },
    /// In that frame; to be written to or not, or only once it is copied.
    There {
        frame: u64,
        kind: Kind,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Writable,
    ReadOnly,
    CopyOnWrite,
}

/// A queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) area: Area,
    pub(super) written: u32,
    pub(super) taken: u32,
    pub(super) is_immediate: bool,
    /// Its owner sleeps, and the driver was told since.
    pub(super) asleep: bool,
    pub(super) woken: bool,
}

/// The account of a card.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) registers: Vec<u64>,
    pub(super) program: Vec<Entry>,
    pub(super) ends: BTreeMap<u32, End>,
    pub(super) queues: BTreeMap<u32, Queue>,
    /// Translations that the card was told of, and that were not taken back: frames, and whether
    /// they may be written to.
    pub(super) known: BTreeMap<(u32, u64), (u64, bool)>,
    /// Pages of which the driver has said that there are none, for reading or writing, while
    /// somebody waited.
    pub(super) refused: BTreeSet<(u32, u64, bool)>,
    /// Pages of which the driver has said, and not taken back, that they are in frames that cannot
    /// be reached.
    pub(super) nowhere: BTreeSet<(u32, u64)>,
    /// Connections whose misses the driver is about to look after.
    pub(super) missing: BTreeSet<u32>,
    /// How often the driver may be told of a connection or a queue, at most: once for each who
    /// sleeps, each that breaks, each record of an immediate queue. By what there is in the FIFO.
    pub(super) reasons: BTreeMap<u32, u32>,
    /// Records of the FIFO that the driver has taken.
    pub(super) fifo_taken: u32,
    pub(super) is_called: bool,
    /// Counters as they were last.
    pub(super) counters: Vec<u64>,
    /// How often the card had been called when all that it had done was explained.
    pub(super) calls: u64,
}

/// A host's memory, which a reset of the card does not change.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    pub(super) pages: BTreeMap<(u32, u64), Page>,
    /// What each page has in it.
    pub(super) contents: BTreeMap<(u32, u64), Vec<u8>>,
}

impl Ledger {
    /// Whether there is no such page for a message that reads or writes.
    pub(super) fn is_refused(&self, (space, page): (u32, u64), writes: bool) -> bool {
        self.nowhere.contains(&(space, page))
            || [false, writes].iter().any(|writes| self.refused.contains(&(space, page, *writes)))
    }

    /// What the driver has said to who waited is forgotten when nobody waits any more.
    pub(super) fn forget_refusals(&mut self) {
        if self.ends.values().all(|end| end.sends.is_empty() && end.waiting.is_empty()) {
            self.refused.clear();
        }
    }

    /// There is one reason more for the driver to be told of this.
    pub(super) fn give_reason(&mut self, what: u32) {
        *self.reasons.entry(what).or_default() += 1;
    }

    /// The driver is told of it. `None`: for no reason.
    pub(super) fn take_reason(&mut self, what: u32) -> Option<()> {
        let left = self.reasons.get_mut(&what)?;
        *left = left.checked_sub(1)?;
        Some(())
    }
}

impl Spaces {
    /// Where a page is, if it is there.
    pub(super) fn frame(&self, page: (u32, u64)) -> Option<u64> {
        match self.pages.get(&page)? {
            Page::There { frame, .. } => Some(*frame),
            Page::Hole | Page::Nowhere { .. } => None,
        }
    }

    /// The frames of all pages.
    pub(super) fn frames(&self) -> impl Iterator<Item = u64> {
        self.pages.values().filter_map(|page| match page {
            Page::There { frame, .. } => Some(*frame),
            Page::Hole | Page::Nowhere { .. } => None,
        })
    }

    /// The bytes of these pieces, if their pages are there.
    pub(super) fn bytes(&self, pieces: &[Piece]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for Piece { page, place, length } in pieces {
            self.frame(*page)?;
            bytes.extend(&self.contents.get(page)?[*place..place + length]);
        }
        Some(bytes)
    }
}
