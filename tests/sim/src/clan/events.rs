//! Event queues and the FIFO of a card: which records are due, and which the card has written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_EVENTS, CLAN_FIFO_SIZE};
use hamlyn_abi::family::command::{ULN_STATUS_BAD_LENGTH, ULN_STATUS_IN_USE};

use crate::engine::area::Area;
use crate::engine::memory::{Memory, Right};
use crate::engine::violation::{Violation, ensure};

use super::faults::word;

/// A source of records: endpoint, kind, detail. It has at most one record of an event queue that is
/// not taken.
pub(super) type Source = (u32, u32, u32);

/// Returns the source that a record names.
fn source([kind, endpoint, detail]: [u32; 3]) -> Source {
    (endpoint, kind, if kind == CLAN_EVENT_TRIPWIRE { detail } else { 0 })
}

/// An open event queue.
#[derive(Debug)]
pub(super) struct Queue {
    area: Area,
    owner: u32,
    records: u32,
    /// Sources of all records so far.
    written: Vec<Source>,
    /// `taken`: records that its owner has taken. `said`: the count that its owner has stored.
    /// `known`: the count that the card assumed when it last looked.
    taken: u32,
    said: u32,
    known: u32,
    /// Sources whose records are due.
    owed: BTreeSet<Source>,
    /// Number of records taken by a process that sleeps on it.
    armed: Option<u32>,
}

impl Queue {
    pub(super) fn new(area: Area, owner: u32, records: u32) -> Self {
        Self {
            area,
            owner,
            records,
            written: Vec::new(),
            taken: 0,
            said: 0,
            known: 0,
            owed: BTreeSet::new(),
            armed: None,
        }
    }

    pub(super) fn area(&self) -> &Area {
        &self.area
    }

    /// Allows or forbids the card to use its parts of the memory.
    pub(super) fn permit(&self, memory: &Memory, allowed: bool) {
        let records = u64::from(self.records * CLAN_EVENT_SIZE);
        self.area.permit(memory, Right::Read, CLAN_EVENTS_TAKEN.into(), 4, allowed);
        self.area.permit(memory, Right::Write, CLAN_EVENTS_HEAD.into(), records, allowed);
    }

    fn count(&self) -> u32 {
        self.written.len() as u32
    }

    fn place(&self, number: u32) -> u64 {
        u64::from(CLAN_EVENTS_HEAD) + u64::from(number & (self.records - 1)) * u64::from(CLAN_EVENT_SIZE)
    }

    /// Lets the card look at the number of records taken. An impossible number, or one that would
    /// take some back, takes all.
    fn look(&mut self) {
        let is_possible = self.said.wrapping_sub(self.known) <= self.count() - self.known;
        self.known = if is_possible { self.said } else { self.count() };
    }

    /// Returns the sources of the records that are untaken from the card's view.
    fn untaken(&self) -> &[Source] {
        &self.written[self.known as usize..]
    }

    /// Takes up to `most` records as its owner, and stores the new count.
    fn take(
        &mut self,
        memory: &Memory,
        most: u32,
        wrong: impl Fn(String) -> Violation,
    ) -> Result<(), Violation> {
        for _ in 0..most {
            let at = self.area.address(self.place(self.taken));
            let found = (memory.peek_u32(at + 12) == self.taken.wrapping_add(1))
                .then(|| source([0, 4, 8].map(|word| memory.peek_u32(at + word))));
            let expected = self.written.get(self.taken as usize).copied();
            if found != expected {
                return Err(wrong(format!("is {found:?}, and must be {expected:?}")));
            }
            if expected.is_none() {
                break;
            }
            self.taken = self.taken.wrapping_add(1);
        }
        self.said = self.taken;
        self.area.poke(memory, CLAN_EVENTS_TAKEN.into(), &self.taken.to_le_bytes());
        Ok(())
    }
}

/// The FIFO.
#[derive(Debug, Default)]
struct Fifo {
    area: Option<Area>,
    records: u32,
    written: u32,
    untaken: VecDeque<u32>,
    owed: BTreeSet<u32>,
    /// Entries that have happened again since their record, which is not taken.
    again: BTreeSet<u32>,
    may: BTreeSet<u32>,
    /// The vector was raised since the driver last took records.
    raised: bool,
}

/// The event queues and the FIFO of a card.
#[derive(Debug, Default)]
pub(super) struct Events {
    queues: BTreeMap<u32, Queue>,
    fifo: Fifo,
}

impl Events {
    pub(super) fn queues(&self) -> impl Iterator<Item = u32> {
        self.queues.keys().copied()
    }

    pub(super) fn queues_of(&self, owner: u32) -> Vec<u32> {
        let own = self.queues.iter().filter(|(_, queue)| queue.owner == owner);
        own.map(|(number, _)| *number).collect()
    }

    pub(super) fn free_queue(&self, limit: u32) -> Option<u32> {
        (0..limit).find(|number| !self.queues.contains_key(number))
    }

    pub(super) fn open_queue(&mut self, number: u32, queue: Queue) {
        self.queues.insert(number, queue);
    }

    pub(super) fn close_queue(&mut self, number: u32) -> Option<Queue> {
        self.fifo.owed.remove(&(CLAN_FIFO_EVENTS | number));
        self.queues.remove(&number)
    }

    pub(super) fn open_fifo(&mut self, area: Area, records: u32) {
        self.fifo = Fifo { area: Some(area), records, ..Fifo::default() };
    }

    pub(super) fn close_fifo(&mut self) -> Option<Area> {
        std::mem::take(&mut self.fifo).area
    }

    /// Notes that a record is due, unless its source has one that is not taken.
    pub(super) fn owe(&mut self, number: u32, source: Source) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        queue.look();
        if !queue.untaken().contains(&source) {
            queue.owed.insert(source);
        }
    }

    /// Notes that a record of the FIFO is due, unless there is one that is not taken.
    pub(super) fn owe_fifo(&mut self, what: u32) {
        let fifo = &mut self.fifo;
        if fifo.area.is_none() {
            return;
        }
        if fifo.untaken.contains(&what) {
            fifo.again.insert(what);
        } else if !fifo.owed.insert(what) {
            // Several at once may be reported once or several times.
            fifo.may.insert(what);
        }
    }

    /// Checks a record of an event queue. Its source must have an event that is due, and no record
    /// there.
    pub(super) fn note_record(&mut self, memory: &Memory, number: u32, at: u64, bytes: &[u8]) -> bool {
        let Some(queue) = self.queues.get_mut(&number) else { return false };
        let next = queue.place(queue.count());
        if at != next + 12 {
            return at >= next && at + bytes.len() as u64 <= next + 12;
        }
        let said = queue.area.peek(memory, next, 12);
        let source = source([0, 4, 8].map(|at| word(&said[at..at + 4]).unwrap_or(0)));
        queue.written.push(source);
        let count = queue.count();
        if word(bytes) != Some(count) || !queue.owed.remove(&source) {
            return false;
        }
        let has_room = queue.untaken().len() <= queue.records as usize;
        if queue.armed.take_if(|taken| *taken != count).is_some() {
            self.owe_fifo(CLAN_FIFO_EVENTS | number);
        }
        has_room
    }

    pub(super) fn note_fifo(&mut self, memory: &Memory, at: u64, bytes: &[u8]) -> bool {
        let fifo = &mut self.fifo;
        let next = u64::from(fifo.written & (fifo.records - 1)) * u64::from(CLAN_FIFO_SIZE);
        if at != next + 4 {
            return at == next && bytes.len() == 4;
        }
        let Some(area) = &fifo.area else { return false };
        let what = word(&area.peek(memory, next, 4)).unwrap_or(0);
        fifo.written = fifo.written.wrapping_add(1);
        fifo.untaken.push_back(what);
        word(bytes) == Some(fifo.written) && (fifo.owed.remove(&what) || fifo.may.remove(&what))
    }

    /// Takes the records of the FIFO as the driver, if a vector came. Returns the number of records
    /// taken so far.
    pub(super) fn take_fifo(&mut self) -> Option<u32> {
        let fifo = &mut self.fifo;
        let is_due = fifo.raised && !fifo.untaken.is_empty();
        is_due.then(|| {
            fifo.untaken.clear();
            fifo.owed = std::mem::take(&mut fifo.again);
            fifo.raised = false;
            fifo.written
        })
    }

    /// Takes up to `most` records of a queue as its owner.
    pub(super) fn take(
        &mut self,
        memory: &Memory,
        (host, number): (u16, u32),
        most: u32,
    ) -> Result<(), Violation> {
        let Some(queue) = self.queues.get_mut(&number) else { return Ok(()) };
        let wrong = |what| Violation::new(format!("host {host}: the next record of queue {number} {what}"));
        queue.take(memory, most, wrong)
    }

    /// Arms a queue for a sleeper. Returns the number of records taken so far.
    pub(super) fn arm(&mut self, number: u32) -> Option<u32> {
        let queue = self.queues.get_mut(&number)?;
        let (taken, written) = (queue.taken, queue.count());
        queue.armed = (taken == written).then_some(taken);
        if taken != written {
            self.owe_fifo(CLAN_FIFO_EVENTS | number);
        }
        Some(taken)
    }

    /// Returns the status with which a queue refuses events, if it has no room for them. `members`
    /// are the endpoints that it then has, with the number of their Tripwires.
    pub(super) fn crowd(&mut self, number: u32, members: &BTreeMap<u32, u32>) -> Option<u32> {
        let queue = self.queues.get_mut(&number)?;
        queue.look();
        // Requests, messages and faults are sources, too.
        let sources: u32 = members.values().map(|tripwires| tripwires + 3).sum();
        let is_left = |source: &&Source| {
            members
                .get(&source.0)
                .is_none_or(|tripwires| source.1 == CLAN_EVENT_TRIPWIRE && source.2 >= *tripwires)
        };
        let left: BTreeSet<&Source> = queue.untaken().iter().filter(is_left).collect();
        if sources > queue.records {
            Some(ULN_STATUS_BAD_LENGTH)
        } else {
            (sources + left.len() as u32 > queue.records).then_some(ULN_STATUS_IN_USE)
        }
    }

    /// Returns the records of the FIFO that are not taken, and those that are due.
    pub(super) fn fifo(&self) -> (&VecDeque<u32>, &BTreeSet<u32>) {
        (&self.fifo.untaken, &self.fifo.owed)
    }

    /// Checks that no record is due, and that the driver was told of those in the FIFO. `raised`
    /// tells whether the card has raised the FIFO's vector.
    pub(super) fn check(&mut self, host: u16, raised: bool) -> Result<(), Violation> {
        let fifo = &mut self.fifo;
        fifo.raised |= raised;
        ensure(fifo.owed.is_empty(), || {
            format!("host {host}: no record of the FIFO comes for {:x?}", fifo.owed)
        })?;
        ensure(fifo.untaken.is_empty() || fifo.raised, || format!("host {host}: no vector came"))?;
        self.queues.iter().try_for_each(|(number, queue)| {
            ensure(queue.owed.is_empty(), || {
                format!("host {host}: no record of event queue {number} comes for {:?}", queue.owed)
            })
        })
    }
}
