//! The beginning of an order of a card's messages, and its effects.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::statistics::DartStatistic as Counter;
use hamlyn_abi::dart::trap::DART_TRAP_NO_MEMORY;
use zerocopy::IntoBytes;

use super::calling::Entry;
use super::effects::{Access, Made, Outcome, outcome};
use super::end::{Arrived, End};
use super::machine::Machine;
use super::packet::{ANSWER, BLOCK, Message, TRAPPED};
use super::pages::Pages;
use super::queue::{Queue, parts};
use super::terms::{Piece, Terms};

/// Counters that change when a message is done.
pub(super) const COUNTED: [Counter; 11] = [
    Counter::Executed,
    Counter::Exceptions,
    Counter::TrapsUnimplemented,
    Counter::TrapsIndex,
    Counter::TrapsRefused,
    Counter::TrapsRight,
    Counter::TrapsMisaligned,
    Counter::TrapsBounds,
    Counter::TrapsNoMemory,
    Counter::BytesRead,
    Counter::BytesDeposited,
];
const BYTES_READ: usize = 9;
const BYTES_DEPOSITED: usize = 10;

/// The effects to be explained, and the state before them.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) machine: &'a Machine,
    pub(super) registers: &'a [u64],
    pub(super) program: &'a [Entry],
    pub(super) ends: &'a BTreeMap<u32, End>,
    pub(super) queues: &'a BTreeMap<u32, Queue>,
    pub(super) pages: &'a Pages,
    /// What waiting messages were known to wait for.
    pub(super) waits: &'a Waits,
    /// The card's writes to endpoints and queues, byte by byte.
    pub(super) writes: Vec<(u64, u8)>,
    /// By how much the counters have changed.
    pub(super) counts: [u64; COUNTED.len()],
}

/// What the first waiting messages wait for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Connections whose message has found a full queue, or no room for its reply.
    pub(super) full: BTreeSet<u32>,
    /// For connections that wait for pages, the pages, and whether each is to be written.
    pub(super) misses: BTreeMap<u32, Vec<(u64, bool)>>,
}

/// A message that is done.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) end: u32,
    pub(super) opcode: u32,
    pub(super) reply: Option<(u32, Message)>,
    pub(super) trap: Option<u32>,
    pub(super) event: bool,
}

/// The effects of messages, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Effects {
    /// All address registers, whether or not a connection has them.
    pub(super) registers: Vec<u64>,
    /// For each queue, the number of records written.
    pub(super) written: BTreeMap<u32, u32>,
    /// Writes to endpoints: page, offset in it, and the new bytes.
    pub(super) patches: Vec<((u32, u64), usize, Vec<u8>)>,
    pub(super) steps: Vec<Step>,
}

/// The beginning of an order.
#[derive(Debug, Clone)]
pub(super) struct Trial<'a> {
    facts: &'a Facts<'a>,
    pub(super) effects: Effects,
    /// For each connection, the number of messages that are done.
    done: BTreeMap<u32, usize>,
    /// Number of bytes of the card's writes that are explained.
    at: usize,
    /// Counts that are not explained yet.
    counts: [u64; COUNTED.len()],
    last: Option<u32>,
}

impl<'a> Trial<'a> {
    /// Creates an order without messages.
    pub(super) fn new(facts: &'a Facts<'a>) -> Self {
        let effects = Effects {
            registers: facts.registers.to_vec(),
            written: facts.queues.iter().map(|(number, queue)| (*number, queue.written())).collect(),
            patches: Vec::new(),
            steps: Vec::new(),
        };
        Self { facts, effects, done: BTreeMap::new(), at: 0, counts: facts.counts, last: None }
    }

    /// Returns a hash of everything that determines how the order can go on.
    pub(super) fn state(&self) -> u64 {
        let Effects { registers, written, patches, steps } = &self.effects;
        let mut cells: BTreeMap<u32, usize> = BTreeMap::new();
        for step in steps {
            *cells.entry(step.end).or_default() += step.reply.as_ref().map_or(0, |(_, reply)| reply.cells());
        }
        let mut state = DefaultHasher::new();
        (registers, &self.done, written, self.at, self.counts, patches, cells).hash(&mut state);
        state.finish()
    }

    /// Returns whether it explains all writes and counters.
    pub(super) fn is_over(&self) -> bool {
        self.at == self.facts.writes.len() && self.counts.iter().all(|count| *count == 0)
    }

    /// Returns whether no message of a connection is done.
    pub(super) fn is_untouched(&self, index: u32) -> bool {
        !self.done.contains_key(&index)
    }

    /// Returns the connections in the order in which they are to be tried: mostly the same one goes
    /// on.
    pub(super) fn candidates(&self) -> impl Iterator<Item = u32> + use<'a> {
        let last = self.last;
        let others = self.facts.ends.keys().copied().filter(move |end| Some(*end) != last);
        last.into_iter().chain(others)
    }

    /// Returns a connection's next message.
    pub(super) fn front(&self, index: u32) -> Option<(&'a End, &'a Arrived)> {
        let end = self.facts.ends.get(&index)?;
        let done = self.done.get(&index).copied().unwrap_or_default();
        Some((end, end.waiting(done)?))
    }

    fn outcome(&self, (end, arrived): (&End, &Arrived)) -> Outcome {
        let window = &self.effects.registers[end.terms().window.clone()];
        outcome(end.terms(), self.facts.program, arrived, window)
    }

    /// Returns the possible outcomes of a connection's next message.
    pub(super) fn next(&self, index: u32) -> Vec<Self> {
        let Some((end, arrived)) = self.front(index) else { return Vec::new() };
        let after = |apply: &dyn Fn(&mut Self) -> Option<()>| {
            let mut next = self.clone();
            apply(&mut next)?;
            Some(next)
        };
        let trapped = |trap| after(&|next| next.trap(index, end, arrived, trap));
        match self.outcome((end, arrived)) {
            Outcome::Exception => after(&|next| next.except(index, end, arrived)).into_iter().collect(),
            Outcome::Trap(trap) => trapped(trap).into_iter().collect(),
            Outcome::Made(made) => {
                let may_miss = self.may_miss(end, &made).then(|| trapped(DART_TRAP_NO_MEMORY)).flatten();
                after(&|next| next.make(index, end, arrived, &made)).into_iter().chain(may_miss).collect()
            }
        }
    }

    fn finish(&mut self, end: u32, arrived: &Arrived, reply: Option<(u32, Message)>, trap: Option<u32>) {
        *self.done.entry(end).or_default() += 1;
        self.last = Some(end);
        let opcode = arrived.message.control.opcode;
        self.effects.steps.push(Step { end, opcode, reply, trap, event: false });
    }

    fn count(&mut self, what: usize, count: u64) -> Option<()> {
        self.counts[what] = self.counts[what].checked_sub(count)?;
        Some(())
    }

    fn except(&mut self, index: u32, end: &End, arrived: &Arrived) -> Option<()> {
        self.count(1, 1)?;
        self.record(index, end.terms().exceptions, arrived, DART_RECORD_EXCEPTION)?;
        self.finish(index, arrived, None, None);
        Some(())
    }

    fn trap(&mut self, index: u32, end: &End, arrived: &Arrived, trap: u32) -> Option<()> {
        self.count(1 + trap as usize, 1)?;
        self.record(index, end.terms().exceptions, arrived, DART_RECORD_TRAP + trap)?;
        let Message { control, block, .. } = arrived.message;
        let news = Message { control, block, body: Vec::new() };
        let reply = (!arrived.is_answer && !end.terms().is_system).then_some((TRAPPED + trap, news));
        self.finish(index, arrived, reply, Some(trap));
        Some(())
    }

    fn make(&mut self, index: u32, end: &End, arrived: &Arrived, made: &Made) -> Option<()> {
        self.count(0, 1)?;
        let terms = end.terms();
        let mut reply =
            Message { control: arrived.message.answer_control(), block: [0; BLOCK], body: Vec::new() };
        if let Some([before, after]) = made.answer {
            reply.block[..16].copy_from_slice([before, after].as_bytes());
        }
        if let Some(access) = &made.access {
            let is_known = |(_, piece): &(_, Piece)| self.facts.pages.is_known(piece.page, access.writes);
            if !access.pieces(terms).iter().all(is_known) {
                return None;
            }
            if access.writes {
                self.write(terms, access, arrived)?;
            } else {
                let data = self.read(terms, access)?;
                match data.first_chunk() {
                    Some(block) if access.is_block => reply.block = *block,
                    _ => reply.body = data,
                }
            }
        }
        self.effects.registers[terms.window.clone()].copy_from_slice(&made.registers);
        if made.event {
            self.record(index, terms.events, arrived, DART_RECORD_COMPARED)?;
        }
        self.finish(index, arrived, made.asks.then_some((ANSWER, reply)), None);
        self.effects.steps.last_mut()?.event = made.event;
        Some(())
    }

    /// Matches the next bytes that the card wrote against the expected ones.
    fn expect(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let written = self.facts.writes.get(self.at..self.at + bytes.len())?;
        self.at += bytes.len();
        let is_it = |((at, byte), wanted): (&(u64, u8), (u64, &u8))| (*at, byte) == wanted;
        written.iter().zip((address..).zip(bytes)).all(is_it).then_some(())
    }

    fn write(&mut self, terms: &Terms, access: &Access, arrived: &Arrived) -> Option<()> {
        let Message { block, body, .. } = &arrived.message;
        let data = if access.is_block { &block[..] } else { body };
        self.count(BYTES_DEPOSITED, access.count())?;
        for (bytes, Piece { page, place, .. }) in access.pieces(terms) {
            let frame = self.facts.pages.known(page)?;
            self.expect(frame + place as u64, &data[bytes.clone()])?;
            self.effects.patches.push((page, place, data[bytes].to_vec()));
        }
        Some(())
    }

    fn read(&mut self, terms: &Terms, access: &Access) -> Option<Vec<u8>> {
        self.count(BYTES_READ, access.count())?;
        let mut data = vec![0; access.length];
        for (bytes, piece) in access.pieces(terms) {
            data[bytes.clone()].copy_from_slice(self.facts.pages.contents(&piece)?);
            let Piece { page, place, length } = piece;
            for (_, start, patch) in self.effects.patches.iter().filter(|patch| patch.0 == page) {
                for (at, byte) in (*start..).zip(patch).filter(|(at, _)| (place..place + length).contains(at))
                {
                    data[bytes.start + at - place] = *byte;
                }
            }
        }
        Some(data)
    }

    /// Adds a record to a queue, if there is one. The queue must have room.
    fn record(&mut self, index: u32, queue: Option<u32>, arrived: &Arrived, kind: u32) -> Option<()> {
        let facts = self.facts;
        let Some((number, queue)) = queue.and_then(|number| Some((number, facts.queues.get(&number)?)))
        else {
            return Some(());
        };
        let Arrived { message, .. } = arrived;
        let parts = parts(message, kind);
        let written = self.effects.written.get_mut(&number)?;
        if queue.is_full(*written, message, kind) {
            return None;
        }
        let first = *written;
        *written = first.wrapping_add(1 + parts.len() as u32);
        let is_cut = kind != DART_RECORD_COMPARED && parts.is_empty() && !message.body.is_empty();
        let record = DartRecord {
            control: message.control,
            data: zerocopy::transmute!(message.block),
            length: message.body.len() as u32,
            connection: index,
            kind: kind | if is_cut { DART_RECORD_CUT } else { 0 },
            number: first.wrapping_add(1).wrapping_sub(DART_MIN_RECORDS),
        };
        for (n, mut part) in (first.wrapping_add(1)..).zip(parts) {
            part.resize(DART_PART as usize, 0);
            part.extend(n.wrapping_add(1).to_le_bytes());
            self.expect(queue.address(n), &part)?;
        }
        let address = queue.address(first);
        self.expect(address, record.as_bytes())?;
        self.expect(address + u64::from(DART_RECORD_SIZE) - 4, &first.wrapping_add(1).to_le_bytes())
    }

    /// Returns the pages that a connection's next message needs, and whether each is to be written.
    pub(super) fn needs(&self, index: u32) -> Vec<(u64, bool)> {
        let Some(front) = self.front(index) else { return Vec::new() };
        let Outcome::Made(Made { access: Some(access), .. }) = self.outcome(front) else { return Vec::new() };
        let pieces = access.pieces(front.0.terms());
        pieces.into_iter().map(|(_, piece)| (piece.page.1, access.writes)).collect()
    }

    /// Returns whether a message needs a page that was reported to the card as absent.
    fn may_miss(&self, end: &End, made: &Made) -> bool {
        made.access.as_ref().is_some_and(|access| {
            let pieces = access.pieces(end.terms());
            pieces.iter().any(|(_, piece)| self.facts.pages.is_refused(piece.page, access.writes))
        })
    }

    /// Returns whether a connection's next message finds no room, or waits behind another one that
    /// finds no room in the same queue.
    pub(super) fn is_full(&self, index: u32) -> bool {
        let ends = self.facts.ends;
        let queues = |index| ends.get(&index).map(|end| [end.terms().events, end.terms().exceptions]);
        let shares = |other: u32| {
            let (own, others) = (queues(index), queues(other));
            own.into_iter()
                .flatten()
                .flatten()
                .any(|queue| others.is_some_and(|all| all.contains(&Some(queue))))
        };
        let mut others = ends.keys().filter(|other| **other != index && shares(**other));
        self.finds_no_room(index) || self.tells(index) && others.any(|other| self.finds_no_room(*other))
    }

    /// Returns whether a connection's next message makes a record.
    fn tells(&self, index: u32) -> bool {
        let Some(front) = self.front(index) else { return false };
        match self.outcome(front) {
            Outcome::Exception | Outcome::Trap(_) => true,
            Outcome::Made(made) => made.event || self.may_miss(front.0, &made),
        }
    }

    /// Returns whether a connection's next message finds no room for its effects, or found none
    /// when the card looked at it.
    fn finds_no_room(&self, index: u32) -> bool {
        let Some((end, arrived)) = self.front(index) else { return false };
        if self.facts.waits.full.contains(&index) && self.is_untouched(index) {
            return true;
        }
        let Effects { written, steps, .. } = &self.effects;
        let is_full = |queue: Option<u32>, kind: u32| {
            let queue =
                queue.and_then(|number| Some((written.get(&number)?, self.facts.queues.get(&number)?)));
            queue.is_some_and(|(written, queue)| queue.is_full(*written, &arrived.message, kind))
        };
        let is_filled = || is_full(end.terms().exceptions, DART_RECORD_TRAP);
        let made = steps.iter().filter(|step| step.end == index).filter_map(|step| step.reply.as_ref());
        let replies = end.reply_cells() + made.map(|(_, message)| message.cells()).sum::<usize>();
        let is_stuffed = replies >= self.facts.machine.window() as usize;
        match self.outcome((end, arrived)) {
            Outcome::Exception => is_filled(),
            Outcome::Trap(_) => is_filled() || is_stuffed && !arrived.is_answer,
            Outcome::Made(made) => {
                let news = self.may_miss(end, &made) && (is_filled() || is_stuffed && !arrived.is_answer);
                made.event && is_full(end.terms().events, DART_RECORD_COMPARED)
                    || made.asks && is_stuffed
                    || news
            }
        }
    }
}
