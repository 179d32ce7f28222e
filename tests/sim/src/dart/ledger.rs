//! The simulation's own account of each card: what it was told and what it has taken in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::DartControl;

use crate::engine::area::Area;
use crate::engine::memory::PAGE;

use super::calling::Entry;
use super::packet::Message;

/// A message that has arrived and is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) message: Message,
    pub(super) is_answer: bool,
}

/// An outstanding question: its control, and the control and length of its answer.
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

/// A region of virtual memory, or of pinned memory, which has space 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoint {
    pub(super) space: u32,
    pub(super) base: u64,
    pub(super) length: u64,
}

/// State of a connection that the card writes for its owner, in words.
pub(super) type State = [u32; 10];

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) host: u16,
    pub(super) key: u64,
    pub(super) peer: Option<(u32, u64)>,
    pub(super) endpoint: Endpoint,
    /// Offsets of its endpoint that messages may access.
    pub(super) reach: Range<u64>,
    pub(super) window: Range<usize>,
    pub(super) program: Range<usize>,
    pub(super) events: Option<u32>,
    pub(super) exceptions: Option<u32>,
    pub(super) may_write: bool,
    pub(super) may_read: bool,
    pub(super) is_system: bool,
    pub(super) state: State,
    /// The state as written by the card.
    pub(super) said: State,
    pub(super) area: Area,
    // Sending side.
    pub(super) sends: VecDeque<Send>,
    pub(super) replies: VecDeque<(u32, Message)>,
    pub(super) numbered: u32,
    pub(super) on_their_way: u32,
    pub(super) spent: u32,
    pub(super) returned: u32,
    // Receiving side.
    pub(super) expected: u32,
    pub(super) waiting: VecDeque<Arrived>,
    pub(super) questions: VecDeque<Question>,
    /// Maximum number of cells in flight, according to the other end.
    pub(super) limit: u32,
    pub(super) done: u32,
    pub(super) told: u32,
    /// The first waiting message has found a full queue, or no room for its reply.
    pub(super) was_full: bool,
    /// Pages that the first waiting message was known to wait for, and whether each is to be
    /// written.
    pub(super) asked: Vec<(u64, bool)>,
    /// `sleeper`: its owner sleeps until the number of messages that have left differs from this.
    /// `woken`: the driver was notified since.
    pub(super) sleeper: Option<u32>,
    pub(super) woken: bool,
    /// The driver was notified that it is broken.
    pub(super) break_told: bool,
    /// The driver was not notified yet of exceptions that no queue took. For an operating system's
    /// connection: of messages that were executed.
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

/// Bytes of an endpoint that are contiguous in a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) page: (u32, u64),
    /// Offset in the page.
    pub(super) place: usize,
    pub(super) length: usize,
}

impl End {
    /// Returns where `length` bytes of its endpoint are, from an offset on.
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

    /// Returns where a byte of its endpoint is: the page and its space, and the offset in the page.
    pub(super) fn place(&self, offset: u64) -> ((u32, u64), usize) {
        let address = self.endpoint.base.wrapping_add(offset);
        ((self.endpoint.space, address / PAGE), (address % PAGE) as usize)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state[BROKEN] != 0
    }

    /// Drops the first `count` messages that wait to leave.
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

    /// Breaks the connection: it no longer takes or sends anything. Returns whether it did before.
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

    /// Notes an exception that no queue takes.
    pub(super) fn excepted(&mut self, trap: u32, opcode: u32) {
        self.state[EXCEPTIONS] += 1;
        (self.state[EXCEPTION], self.state[EXCEPTION_OPCODE]) = (trap, opcode);
        self.has_news = true;
    }

    /// Returns the number of cells of replies.
    pub(super) fn reply_cells(&self) -> usize {
        self.replies.iter().map(|(_, message)| message.cells()).sum()
    }

    /// Returns the number of cells of waiting messages, without answers.
    pub(super) fn waiting_cells(&self) -> usize {
        let messages = self.waiting.iter().filter(|arrived| !arrived.is_answer);
        messages.map(|arrived| arrived.message.cells()).sum()
    }
}

/// State of a page of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Hole,
    /// The driver believes that the page is present, but its frame cannot be accessed.
    Nowhere {
        frame: u64,
    },
    /// Present in that frame. It is writable, read-only, or writable only after it is copied.
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
    /// `asleep`: its owner sleeps. `woken`: the driver was notified since.
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
    /// Translations that the card was told and that were not invalidated: frames, and whether they
    /// are writable.
    pub(super) known: BTreeMap<(u32, u64), (u64, bool)>,
    /// Pages that the driver reported as absent, for reading or writing, while a message waited.
    pub(super) refused: BTreeSet<(u32, u64, bool)>,
    /// Pages that the driver reported to be in frames that cannot be accessed, and has not
    /// invalidated.
    pub(super) nowhere: BTreeSet<(u32, u64)>,
    /// Connections whose misses the driver is about to serve.
    pub(super) missing: BTreeSet<u32>,
    /// For each value of a FIFO record, the maximum number of times the driver may be notified of
    /// it. It is once for each sleeper, each connection that breaks, and each record of an
    /// immediate queue.
    pub(super) reasons: BTreeMap<u32, u32>,
    /// Records of the FIFO that the driver has taken.
    pub(super) fifo_taken: u32,
    pub(super) is_called: bool,
    /// The last values of the counters.
    pub(super) counters: Vec<u64>,
    /// Number of calls of the card when all its effects were last explained.
    pub(super) calls: u64,
}

/// A host's memory, which a reset of the card does not change.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    pub(super) pages: BTreeMap<(u32, u64), Page>,
    /// Contents of each page.
    pub(super) contents: BTreeMap<(u32, u64), Vec<u8>>,
}

impl Ledger {
    /// Returns whether a page was reported as absent for a message that reads or writes it.
    pub(super) fn is_refused(&self, (space, page): (u32, u64), writes: bool) -> bool {
        self.nowhere.contains(&(space, page))
            || [false, writes].iter().any(|writes| self.refused.contains(&(space, page, *writes)))
    }

    /// Forgets the absent pages that the driver has reported to waiting messages, once no message
    /// waits.
    pub(super) fn forget_refusals(&mut self) {
        if self.ends.values().all(|end| end.sends.is_empty() && end.waiting.is_empty()) {
            self.refused.clear();
        }
    }

    /// Adds a reason to notify the driver of `what`.
    pub(super) fn give_reason(&mut self, what: u32) {
        *self.reasons.entry(what).or_default() += 1;
    }

    /// Uses up a reason when the driver is notified. Returns `None` if there is no reason.
    pub(super) fn take_reason(&mut self, what: u32) -> Option<()> {
        let left = self.reasons.get_mut(&what)?;
        *left = left.checked_sub(1)?;
        Some(())
    }
}

impl Spaces {
    /// Returns the frame of a page, if it is present.
    pub(super) fn frame(&self, page: (u32, u64)) -> Option<u64> {
        match self.pages.get(&page)? {
            Page::There { frame, .. } => Some(*frame),
            Page::Hole | Page::Nowhere { .. } => None,
        }
    }

    /// Returns the frames of all pages.
    pub(super) fn frames(&self) -> impl Iterator<Item = u64> {
        self.pages.values().filter_map(|page| match page {
            Page::There { frame, .. } => Some(*frame),
            Page::Hole | Page::Nowhere { .. } => None,
        })
    }

    /// Returns the bytes of these pieces, if their pages are present.
    pub(super) fn bytes(&self, pieces: &[Piece]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for Piece { page, place, length } in pieces {
            self.frame(*page)?;
            bytes.extend(&self.contents.get(page)?[*place..place + length]);
        }
        Some(bytes)
    }
}
