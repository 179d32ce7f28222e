//! Explains the effects that a card has caused. There must be an order of the waiting messages that
//! leads to the card's registers, memory and queues. Messages take effect one at a time, and those
//! of one connection keep the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use hamlyn_abi::dart::fifo::{DART_FIFO_ARRIVED, DART_FIFO_QUEUE};
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::statistics::DartStatistic as Counter;
use hamlyn_abi::dart::trap::DART_TRAP_NO_MEMORY;
use zerocopy::IntoBytes;

use crate::engine::memory::PAGE;
use crate::engine::violation::{Violation, ensure};

use super::effects::{Access, BARRIER, COMPARE_AND_SWAP, FETCH_AND_INCREMENT, Made, Outcome, outcome};
use super::ledger::{Arrived, End, Ledger, Piece, Spaces};
use super::machine::Machine;
use super::packet::{ANSWER, BLOCK, Message, TRAPPED};

/// Counters that change when a message is done.
const COUNTED: [Counter; 11] = [
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
/// Maximum number of orders that are tried.
const TRIALS: u32 = 50_000;

/// A write of a message to an endpoint: page, offset in it, and the new bytes.
type Patch = ((u32, u64), usize, Vec<u8>);

#[derive(Debug, Clone)]
struct Step {
    end: u32,
    reply: Option<(u32, Message)>,
    trap: Option<u32>,
    event: bool,
}

/// Numbers of executed messages: all of them, and those that are critical when messages contend.
/// These are fetch-and-increments, successful compare-and-swaps, and complete barriers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) all: u64,
    pub(super) fetched: u64,
    pub(super) swapped: u64,
    pub(super) gathered: u64,
}

impl Tally {
    fn add(&mut self, opcode: u32, reply: Option<&(u32, Message)>, event: bool) {
        let answer = reply.filter(|(kind, _)| *kind == ANSWER).map(|(_, message)| message.block);
        let has_changed = answer.is_some_and(|block| block[..8] != block[8..16]);
        match opcode {
            FETCH_AND_INCREMENT => self.fetched += u64::from(has_changed),
            COMPARE_AND_SWAP => self.swapped += u64::from(has_changed),
            BARRIER => self.gathered += u64::from(event),
            _ => {}
        }
    }
}

/// The beginning of an order, and its effects.
#[derive(Debug, Clone)]
struct Trial {
    registers: Vec<u64>,
    /// For each connection, the number of messages that are done.
    done: BTreeMap<u32, usize>,
    /// For each queue, the number of records written.
    written: BTreeMap<u32, u32>,
    /// Number of bytes of the card's writes that are explained.
    at: usize,
    /// Counts that are not explained yet.
    counts: [u64; COUNTED.len()],
    patches: Vec<Patch>,
    steps: Vec<Step>,
    last: Option<u32>,
}

impl Trial {
    /// Returns a hash of everything that determines how the order can go on.
    fn state(&self) -> u64 {
        let mut cells: BTreeMap<u32, usize> = BTreeMap::new();
        for step in &self.steps {
            *cells.entry(step.end).or_default() += step.reply.as_ref().map_or(0, |(_, reply)| reply.cells());
        }
        let mut state = DefaultHasher::new();
        (&self.registers, &self.done, &self.written, self.at, self.counts, &self.patches, cells)
            .hash(&mut state);
        state.finish()
    }
}

/// The effects to be explained.
struct Case<'a> {
    machine: &'a Machine,
    ledger: &'a Ledger,
    spaces: &'a Spaces,
    window: u32,
    writes: Vec<(u64, u8)>,
    /// All address registers, whether or not a connection has them.
    registers: Vec<u64>,
    misses: RefCell<BTreeMap<u32, Vec<(u64, bool)>>>,
    trials: RefCell<u32>,
    /// States of earlier orders that failed.
    vain: RefCell<HashSet<u64>>,
    stale: Cell<Stale>,
}

/// Which messages may wait for a page that they no longer need.
///
/// The card looks at a waiting message again when the driver has told it where its pages are.
/// Meanwhile its registers may change, and with them the pages that it needs. The first variant
/// that allows an order is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stale {
    Nobody,
    /// Those that were known to wait for it.
    Known,
    /// All messages.
    Any,
}

/// Explains what a card has done since the last call, and updates the ledger.
pub(super) fn explain(
    machine: &Machine,
    ledger: &mut Ledger,
    spaces: &mut Spaces,
    window: u32,
    tally: &mut Tally,
) -> Result<(), Violation> {
    let counters = machine.counters();
    let before = |counter: usize| ledger.counters.get(counter).copied().unwrap_or_default();
    let counts = COUNTED.map(|counter| counters[usize::from(counter)] - before(counter.into()));
    let writes = judged(machine, ledger, spaces);
    let registers = machine.all_registers()?;
    let start = Trial {
        registers: ledger.registers.clone(),
        done: BTreeMap::new(),
        written: ledger.queues.iter().map(|(number, queue)| (*number, queue.written)).collect(),
        at: 0,
        counts,
        patches: Vec::new(),
        steps: Vec::new(),
        last: None,
    };
    let case = Case {
        machine,
        ledger,
        spaces,
        window,
        writes,
        registers,
        misses: RefCell::default(),
        trials: RefCell::default(),
        vain: RefCell::default(),
        stale: Cell::new(Stale::Nobody),
    };
    let mut found = None;
    for stale in [Stale::Nobody, Stale::Known, Stale::Any] {
        case.stale.set(stale);
        case.vain.borrow_mut().clear();
        found = case.search(&start)?;
        if found.is_some() {
            break;
        }
    }
    let found = found.ok_or_else(|| {
        Violation::new(format!(
            "host {}: no order of its messages explains what the card did: {counts:?}, {} bytes; {:?}",
            machine.id,
            case.writes.len(),
            ledger.ends
        ))
    })?;
    let full = case.full_ones(&found);
    let misses = case.misses.take();
    tally.all += counts[0];
    for (index, end) in &mut ledger.ends {
        end.asked = misses.get(index).cloned().unwrap_or_default();
    }
    commit(ledger, spaces, found, &full, tally);
    ledger.counters = counters;
    Ok(())
}

/// Returns what the card has written to endpoints and queues, byte by byte.
fn judged(machine: &Machine, ledger: &mut Ledger, spaces: &Spaces) -> Vec<(u64, u8)> {
    let writes = machine.memory.take_writes();
    if writes.is_empty() {
        return Vec::new();
    }
    for end in ledger.ends.values_mut() {
        let start = end.area.address(0);
        for write in writes.iter().filter(|write| write.address / PAGE == start / PAGE) {
            let words = write.bytes.chunks_exact(4).zip((write.address - start) as usize / 4..);
            for (word, at) in words {
                if let Some(said) = end.said.get_mut(at) {
                    *said = word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
                }
            }
        }
    }
    let queues = ledger.queues.values().flat_map(|queue| &queue.area.pages()[1..]).copied();
    let frames: Vec<u64> = spaces.frames().chain(queues).collect();
    let writes = writes.into_iter().filter(|write| frames.contains(&(write.address / PAGE * PAGE)));
    writes.flat_map(|write| (write.address..).zip(write.bytes)).collect()
}

impl Case<'_> {
    fn search(&self, trial: &Trial) -> Result<Option<Trial>, Violation> {
        *self.trials.borrow_mut() += 1;
        ensure(*self.trials.borrow() < TRIALS, || {
            format!("host {}: too many orders of messages for what the card did", self.machine.id)
        })?;
        let is_over = trial.at == self.writes.len() && trial.counts.iter().all(|count| *count == 0);
        if is_over && self.agrees(trial)? {
            return Ok(Some(trial.clone()));
        }
        if is_over && trial.counts[0] == 0 && trial.steps.is_empty() {
            return Ok(None);
        }
        // Independent messages have the same effects in any order.
        if !self.vain.borrow_mut().insert(trial.state()) {
            return Ok(None);
        }
        // Mostly the same connection goes on.
        let others = self.ledger.ends.keys().copied().filter(|end| Some(*end) != trial.last);
        for index in trial.last.into_iter().chain(others) {
            for next in self.next(trial, index) {
                if let Some(found) = self.search(&next)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    fn front<'a>(&'a self, trial: &Trial, index: u32) -> Option<(&'a End, &'a Arrived)> {
        let end = self.ledger.ends.get(&index)?;
        let done = trial.done.get(&index).copied().unwrap_or_default();
        Some((end, end.waiting.get(done)?))
    }

    /// Returns the possible outcomes of a connection's next message.
    fn next(&self, trial: &Trial, index: u32) -> Vec<Trial> {
        let Some((end, arrived)) = self.front(trial, index) else { return Vec::new() };
        match outcome(end, &self.ledger.program, arrived, &trial.registers[end.window.clone()]) {
            Outcome::Exception => {
                let excepted = self.counted(trial, 1, 1);
                let record =
                    |trial| self.record(trial, index, end.exceptions, arrived, DART_RECORD_EXCEPTION);
                excepted.and_then(record).map(|trial| over(trial, index, None, None)).into_iter().collect()
            }
            Outcome::Trap(trap) => self.trapped(trial, index, trap).into_iter().collect(),
            Outcome::Made(made) => {
                let may_miss = made.access.as_ref().is_some_and(|access| self.is_refused(end, access));
                let trapped = may_miss.then(|| self.trapped(trial, index, DART_TRAP_NO_MEMORY)).flatten();
                self.made(trial, index, &made).into_iter().chain(trapped).collect()
            }
        }
    }

    fn counted(&self, trial: &Trial, what: usize, count: u64) -> Option<Trial> {
        let mut next = trial.clone();
        next.counts[what] = next.counts[what].checked_sub(count)?;
        Some(next)
    }

    fn trapped(&self, trial: &Trial, index: u32, trap: u32) -> Option<Trial> {
        let (end, arrived) = self.front(trial, index)?;
        let next = self.counted(trial, 1 + trap as usize, 1)?;
        let next = self.record(next, index, end.exceptions, arrived, DART_RECORD_TRAP + trap)?;
        let Message { control, block, .. } = arrived.message;
        let news = Message { control, block, body: Vec::new() };
        let reply = (!arrived.is_answer && !end.is_system).then_some((TRAPPED + trap, news));
        Some(over(next, index, reply, Some(trap)))
    }

    fn made(&self, trial: &Trial, index: u32, made: &Made) -> Option<Trial> {
        let (end, arrived) = self.front(trial, index)?;
        let mut next = self.counted(trial, 0, 1)?;
        let mut reply =
            Message { control: arrived.message.answer_control(), block: [0; BLOCK], body: Vec::new() };
        if let Some([before, after]) = made.answer {
            reply.block[..16].copy_from_slice([before, after].as_bytes());
        }
        if let Some(access) = &made.access {
            if !self.is_known(end, access) {
                return None;
            }
            if access.writes {
                self.write(&mut next, end, access, arrived)?;
            } else {
                let data = self.read(&mut next, end, access)?;
                match data.first_chunk() {
                    Some(block) if access.is_block => reply.block = *block,
                    _ => reply.body = data,
                }
            }
        }
        next.registers[end.window.clone()].copy_from_slice(&made.registers);
        if made.event {
            next = self.record(next, index, end.events, arrived, DART_RECORD_COMPARED)?;
        }
        let mut next = over(next, index, made.asks.then_some((ANSWER, reply)), None);
        if let Some(step) = next.steps.last_mut() {
            step.event = made.event;
        }
        Some(next)
    }

    /// Matches the next bytes that the card wrote against the expected ones.
    fn expect(&self, trial: &mut Trial, address: u64, bytes: &[u8]) -> Option<()> {
        let written = self.writes.get(trial.at..trial.at + bytes.len())?;
        trial.at += bytes.len();
        let is_it = |((at, byte), wanted): (&(u64, u8), (u64, &u8))| (*at, byte) == wanted;
        written.iter().zip((address..).zip(bytes)).all(is_it).then_some(())
    }

    fn write(&self, trial: &mut Trial, end: &End, access: &Access, arrived: &Arrived) -> Option<()> {
        let Message { block, body, .. } = &arrived.message;
        let data = if access.is_block { &block[..] } else { body };
        trial.counts[BYTES_DEPOSITED] = trial.counts[BYTES_DEPOSITED].checked_sub(access.count())?;
        for (bytes, Piece { page, place, .. }) in access.pieces(end) {
            let (frame, _) = self.ledger.known.get(&page)?;
            self.expect(trial, frame + place as u64, &data[bytes.clone()])?;
            trial.patches.push((page, place, data[bytes].to_vec()));
        }
        Some(())
    }

    fn read(&self, trial: &mut Trial, end: &End, access: &Access) -> Option<Vec<u8>> {
        trial.counts[BYTES_READ] = trial.counts[BYTES_READ].checked_sub(access.count())?;
        let mut data = vec![0; access.length];
        for (bytes, Piece { page, place, length }) in access.pieces(end) {
            data[bytes.clone()].copy_from_slice(&self.spaces.contents.get(&page)?[place..place + length]);
            for (_, start, patch) in trial.patches.iter().filter(|patch| patch.0 == page) {
                for (at, byte) in (*start..).zip(patch).filter(|(at, _)| (place..place + length).contains(at))
                {
                    data[bytes.start + at - place] = *byte;
                }
            }
        }
        Some(data)
    }

    /// Adds a record to a queue, if there is one. The queue must have room.
    fn record(
        &self,
        mut trial: Trial,
        index: u32,
        queue: Option<u32>,
        arrived: &Arrived,
        kind: u32,
    ) -> Option<Trial> {
        let Some((number, queue)) = queue.and_then(|number| Some((number, self.ledger.queues.get(&number)?)))
        else {
            return Some(trial);
        };
        let parts = parts(&arrived.message, kind);
        let written = trial.written.get_mut(&number)?;
        if written.wrapping_sub(queue.taken) + 1 + parts.len() as u32 > DART_MIN_RECORDS {
            return None;
        }
        let address =
            |n: u32| queue.area.address((DART_QUEUE_HEAD + n % DART_MIN_RECORDS * DART_RECORD_SIZE).into());
        let first = *written;
        *written = first.wrapping_add(1 + parts.len() as u32);
        let is_cut = kind != DART_RECORD_COMPARED && parts.is_empty() && !arrived.message.body.is_empty();
        let record = DartRecord {
            control: arrived.message.control,
            data: zerocopy::transmute!(arrived.message.block),
            length: arrived.message.body.len() as u32,
            connection: index,
            kind: kind | if is_cut { DART_RECORD_CUT } else { 0 },
            number: first.wrapping_add(1).wrapping_sub(DART_MIN_RECORDS),
        };
        for (n, mut part) in (first.wrapping_add(1)..).zip(parts) {
            part.resize(DART_PART as usize, 0);
            part.extend(n.wrapping_add(1).to_le_bytes());
            self.expect(&mut trial, address(n), &part)?;
        }
        let last = address(first) + u64::from(DART_RECORD_SIZE) - 4;
        self.expect(&mut trial, address(first), record.as_bytes())?;
        self.expect(&mut trial, last, &first.wrapping_add(1).to_le_bytes())?;
        Some(trial)
    }

    /// Returns the pages that a message needs.
    fn pages(&self, end: &End, access: &Access) -> Vec<(u32, u64)> {
        let mut pages: Vec<_> = access.pieces(end).into_iter().map(|(_, piece)| piece.page).collect();
        pages.dedup();
        pages
    }

    /// Returns whether the card was told where all of these pages are.
    fn is_known(&self, end: &End, access: &Access) -> bool {
        let known =
            |page| self.ledger.known.get(page).is_some_and(|(_, writable)| *writable || !access.writes);
        self.pages(end, access).iter().all(known)
    }

    /// Returns whether one of these pages was reported to the card as absent.
    fn is_refused(&self, end: &End, access: &Access) -> bool {
        self.pages(end, access).iter().any(|page| self.ledger.is_refused(*page, access.writes))
    }

    /// Returns whether the registers match, and each waiting message has a reason to wait.
    fn agrees(&self, trial: &Trial) -> Result<bool, Violation> {
        if trial.registers != self.registers {
            return Ok(false);
        }
        for index in self.ledger.ends.keys() {
            if !self.waits(trial, *index)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a connection's next message, if any, has to wait.
    fn waits(&self, trial: &Trial, index: u32) -> Result<bool, Violation> {
        let Some((end, arrived)) = self.front(trial, index) else { return Ok(true) };
        // A turn that was too short continues at the card's alarm, which is due at once.
        if end.is_system || self.is_full(trial, index) || self.machine.is_due() {
            return Ok(true);
        }
        if !self.misses.borrow().contains_key(&index) {
            let misses = self.machine.misses(index)?.1;
            self.misses.borrow_mut().insert(index, misses);
        }
        let misses = &self.misses.borrow()[&index];
        let waited = !trial.done.contains_key(&index);
        match self.stale.get() {
            Stale::Any if !misses.is_empty() => return Ok(true),
            Stale::Known if waited && misses.iter().any(|miss| end.asked.contains(miss)) => return Ok(true),
            _ => {}
        }
        let outcome = outcome(end, &self.ledger.program, arrived, &trial.registers[end.window.clone()]);
        let Outcome::Made(Made { access: Some(access), .. }) = outcome else { return Ok(false) };
        Ok(self.pages(end, &access).iter().any(|(_, page)| misses.contains(&(*page, access.writes))))
    }

    /// Returns whether a connection's next message finds no room, or waits behind another one that
    /// finds no room in the same queue.
    fn is_full(&self, trial: &Trial, index: u32) -> bool {
        let queues = |index| self.ledger.ends.get(&index).map(|end| [end.events, end.exceptions]);
        let shares = |other: u32| {
            let (own, others) = (queues(index), queues(other));
            own.into_iter()
                .flatten()
                .flatten()
                .any(|queue| others.is_some_and(|all| all.contains(&Some(queue))))
        };
        let mut others = self.ledger.ends.keys().filter(|other| **other != index && shares(**other));
        self.finds_no_room(trial, index)
            || self.tells(trial, index) && others.any(|other| self.finds_no_room(trial, *other))
    }

    /// Returns whether a connection's next message makes a record.
    fn tells(&self, trial: &Trial, index: u32) -> bool {
        let Some((end, arrived)) = self.front(trial, index) else { return false };
        match outcome(end, &self.ledger.program, arrived, &trial.registers[end.window.clone()]) {
            Outcome::Exception | Outcome::Trap(_) => true,
            Outcome::Made(made) => {
                made.event || made.access.as_ref().is_some_and(|access| self.is_refused(end, access))
            }
        }
    }

    /// Returns whether a connection's next message finds no room for its effects, or found none
    /// when the card looked at it.
    fn finds_no_room(&self, trial: &Trial, index: u32) -> bool {
        let Some((end, arrived)) = self.front(trial, index) else { return false };
        if end.was_full && !trial.done.contains_key(&index) {
            return true;
        }
        let is_full = |queue: Option<u32>, kind: u32| {
            let queue = queue
                .and_then(|number| Some((trial.written.get(&number)?, self.ledger.queues.get(&number)?)));
            let needed = 1 + parts(&arrived.message, kind).len() as u32;
            queue
                .is_some_and(|(written, queue)| written.wrapping_sub(queue.taken) + needed > DART_MIN_RECORDS)
        };
        let is_filled = || is_full(end.exceptions, DART_RECORD_TRAP);
        let made = trial.steps.iter().filter(|step| step.end == index).filter_map(|step| step.reply.as_ref());
        let replies = end.reply_cells() + made.map(|(_, message)| message.cells()).sum::<usize>();
        let is_stuffed = replies >= self.window as usize;
        match outcome(end, &self.ledger.program, arrived, &trial.registers[end.window.clone()]) {
            Outcome::Exception => is_filled(),
            Outcome::Trap(_) => is_filled() || is_stuffed && !arrived.is_answer,
            Outcome::Made(made) => {
                let refused = made.access.as_ref().is_some_and(|access| self.is_refused(end, access));
                let news = refused && (is_filled() || is_stuffed && !arrived.is_answer);
                made.event && is_full(end.events, DART_RECORD_COMPARED) || made.asks && is_stuffed || news
            }
        }
    }

    /// Returns the connections whose next message finds no room.
    fn full_ones(&self, trial: &Trial) -> Vec<u32> {
        self.ledger.ends.keys().copied().filter(|index| self.is_full(trial, *index)).collect()
    }
}

/// Returns the parts that follow the record of an exception: the data that is not in the record, if
/// a queue can hold it. No parts follow the record of an event.
pub(super) fn parts(message: &Message, kind: u32) -> Vec<Vec<u8>> {
    let in_record = if message.body.len() > BLOCK { BLOCK } else { 0 };
    let parts: Vec<_> = message.body[in_record..].chunks(DART_PART as usize).map(<[u8]>::to_vec).collect();
    let fits = kind != DART_RECORD_COMPARED && parts.len() < DART_MIN_RECORDS as usize;
    if fits { parts } else { Vec::new() }
}

fn over(mut trial: Trial, end: u32, reply: Option<(u32, Message)>, trap: Option<u32>) -> Trial {
    *trial.done.entry(end).or_default() += 1;
    trial.last = Some(end);
    trial.steps.push(Step { end, reply, trap, event: false });
    trial
}

fn commit(ledger: &mut Ledger, spaces: &mut Spaces, trial: Trial, full: &[u32], tally: &mut Tally) {
    ledger.registers = trial.registers;
    for (number, written) in trial.written {
        let Some(queue) = ledger.queues.get_mut(&number) else { continue };
        let more = written.wrapping_sub(std::mem::replace(&mut queue.written, written));
        if queue.is_immediate {
            *ledger.reasons.entry(DART_FIFO_QUEUE | number).or_default() += more;
        }
    }
    for (page, place, patch) in trial.patches {
        if let Some(bytes) = spaces.contents.get_mut(&page) {
            bytes[place..place + patch.len()].copy_from_slice(&patch);
        }
    }
    for Step { end: index, reply, trap, event } in trial.steps {
        let Some(end) = ledger.ends.get_mut(&index) else { continue };
        let Some(arrived) = end.waiting.pop_front() else { continue };
        tally.add(arrived.message.control.opcode, reply.as_ref(), event);
        let cells = arrived.message.cells() as u32;
        if let Some(trap) = trap.filter(|_| end.exceptions.is_none() && !end.is_system) {
            end.excepted(trap, arrived.message.control.opcode);
            *ledger.reasons.entry(DART_FIFO_ARRIVED | index).or_default() += 1;
        }
        if arrived.is_answer {
            end.on_their_way -= cells;
            if let Some(trap) = trap {
                end.trapped(trap, arrived.message.control.opcode);
            }
        } else if end.is_system {
            end.has_news = true;
            *ledger.reasons.entry(DART_FIFO_ARRIVED | index).or_default() += 1;
        } else {
            end.done = end.done.wrapping_add(cells);
        }
        end.replies.extend(reply);
    }
    for (index, end) in &mut ledger.ends {
        end.was_full = full.contains(index);
    }
}
