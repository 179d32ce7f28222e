//! The expected effects of each fetch-and-op, and its progress: the ledger's counterpart for this
//! extension.
//!
//! Honest programs share *words*. A fetch-and-op on one is *asked*, *sent*, carried out or refused
//! once at the word's host, and *answered*. Otherwise it is given up.

use std::collections::BTreeSet;

use hamlyn::{Error, RefusedError};
use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::judge::{HEADER, PacketHeader};

/// Time that a card waits for an answer, in milliseconds.
pub(super) const ANSWER_TIMEOUT: u64 = 10_000;

/// A word that honest programs may change.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) host: usize,
    pub(super) pid: u64,
    pub(super) slot: u32,
    /// The metadata entry that its tickets name.
    pub(super) entry: u32,
    /// Offset from the slot's start, in bytes.
    pub(super) offset: u32,
    /// Programs only add to it, so no value occurs twice.
    pub(super) counter: bool,
    /// The slot is closed.
    pub(super) gone: bool,
    found: BTreeSet<u64>,
}

impl Word {
    /// Creates a word of a slot. The program that opens it sets its owner.
    pub(super) fn new(slot: u32, entry: u32, offset: u32, counter: bool) -> Self {
        Self { host: 0, pid: 0, slot, entry, offset, counter, gone: false, found: BTreeSet::new() }
    }
}

/// The fields of a fetch-and-op that are in both its request and its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    /// The hosts that it goes from (`host`) and to (`destination`).
    pub(super) host: usize,
    pub(super) destination: usize,
    pub(super) slot: u32,
    pub(super) offset: u32,
    pub(super) operation: u32,
    /// Unique to each.
    pub(super) operand: u64,
}

/// A fetch-and-op of an honest program.
#[derive(Debug, Clone)]
struct Record {
    ask: Ask,
    word: Option<usize>,
    /// When it was posted.
    posted: u64,
    ticket: Option<u32>,
    /// Its result at the word's host: the value found, or a refusal.
    verdict: Option<Result<u64, ()>>,
    /// It or its answer may be lost.
    excused: bool,
    /// Its answer came after the wait had ended.
    late: bool,
    given_up: bool,
}

/// A fetch-and-op that a card waits for.
#[derive(Debug, Clone)]
struct Waiting {
    host: usize,
    pid: u64,
    terminus: u32,
    destination: usize,
    ticket: u32,
    deadline: u64,
    record: Option<usize>,
}

/// All fetch-and-ops of a simulation.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    pub(super) words: Vec<Word>,
    records: Vec<Record>,
    waiting: Vec<Waiting>,
}

impl Fetches {
    /// Enters a fetch-and-op that a program asks. Returns its number.
    pub(super) fn ask(&mut self, ask: Ask, word: Option<usize>, now: u64) -> usize {
        self.records.push(Record {
            ask,
            word,
            posted: now,
            ticket: None,
            verdict: None,
            excused: false,
            late: false,
            given_up: false,
        });
        self.records.len() - 1
    }

    /// Notes that a card has sent one. `owner` returns the process and terminus that it belongs to,
    /// of an honest or a hostile program.
    pub(super) fn sent(
        &mut self,
        host: usize,
        destination: usize,
        packet: &[u8],
        now: u64,
        owner: impl Fn(Option<usize>) -> Option<(u64, u32)>,
    ) {
        let Some(header) = PacketHeader::read(packet).filter(PacketHeader::is_fetch) else { return };
        let record = self.find(host, destination, &header, packet, |record| record.ticket.is_none());
        let Some((pid, terminus)) = owner(record) else { return };
        if let Some(record) = record {
            self.records[record].ticket = Some(header.delta);
        }
        let (ticket, deadline) = (header.delta, now + ANSWER_TIMEOUT);
        self.waiting.push(Waiting { host, pid, terminus, destination, ticket, deadline, record });
    }

    fn find(
        &self,
        host: usize,
        destination: usize,
        header: &PacketHeader,
        packet: &[u8],
        fits: impl Fn(&Record) -> bool,
    ) -> Option<usize> {
        let (operation, slot, offset) = (header.operation, header.slot, header.offset);
        let operand = u64_at(packet, HEADER)?;
        let ask = Ask { host, destination, slot, offset, operation, operand };
        self.records.iter().position(|record| record.ask == ask && fits(record))
    }

    /// Notes that one has arrived, and found a value or was refused. If `honest`, its slot is
    /// honest, so it must have been asked.
    pub(super) fn arrived(
        &mut self,
        host: usize,
        source: usize,
        packet: &[u8],
        verdict: Result<u64, ()>,
        honest: bool,
    ) -> Result<(), Violation> {
        let Some(header) = PacketHeader::read(packet) else { return Ok(()) };
        let unjudged = |record: &Record| record.ticket == Some(header.delta) && record.verdict.is_none();
        let Some(number) = self.find(source, host, &header, packet, unjudged) else {
            return ensure(verdict.is_err() || !honest, || {
                format!("host {host} carried out a fetch-and-op that was not requested, or twice: {header:?}")
            });
        };
        let record = &mut self.records[number];
        record.verdict = Some(verdict);
        let (Some(word), Ok(found)) = (record.word, verdict) else { return Ok(()) };
        let word = &mut self.words[word];
        ensure(!word.counter || word.found.insert(found), || {
            format!("host {host}: two additions to one counter found {found}")
        })
    }

    /// Returns the terminus that waits for an answer.
    pub(super) fn awaited(&self, host: usize, source: usize, ticket: u32) -> Option<u32> {
        self.place_of(host, source, ticket).map(|place| self.waiting[place].terminus)
    }

    fn place_of(&self, host: usize, source: usize, ticket: u32) -> Option<usize> {
        self.waiting.iter().position(|waiting| {
            waiting.host == host && waiting.destination == source && waiting.ticket == ticket
        })
    }

    /// Checks an answer that the waiting card has taken: it must be true.
    pub(super) fn answered(&mut self, host: usize, source: usize, packet: &[u8]) -> Result<(), Violation> {
        let Some(header) = PacketHeader::read(packet) else { return Ok(()) };
        let Some(place) = self.place_of(host, source, header.delta) else { return Ok(()) };
        let Some(record) = self.waiting.remove(place).record else { return Ok(()) };
        let Record { verdict, ask, .. } = &self.records[record];
        let said = if header.offset == 0 { u64_at(packet, HEADER).ok_or(()) } else { Err(()) };
        ensure(*verdict == Some(said), || {
            format!("host {host} was answered {said:?} (must be {verdict:?}): {ask:?}")
        })
    }

    /// Notes that the destination has discarded a fetch-and-op or an answer, or that an answer came
    /// too late.
    pub(super) fn missed(&mut self, host: usize, source: usize, packet: &[u8], late: bool) {
        let Some(header) = PacketHeader::read(packet) else { return };
        let (from, to) = if header.is_fetch() { (source, host) } else { (host, source) };
        if !header.is_fetch() && !header.is_answer() {
            return;
        }
        let own = |record: &&mut Record| {
            record.ask.host == from && record.ask.destination == to && record.ticket == Some(header.delta)
        };
        for record in self.records.iter_mut().filter(own) {
            record.late |= late;
            record.excused |= !late;
        }
    }

    /// Excuses all fetch-and-ops with an asker or a word on a host for which `hit` holds.
    pub(super) fn excuse(&mut self, hit: impl Fn(usize) -> bool) {
        let own = |record: &&mut Record| hit(record.ask.host) || hit(record.ask.destination);
        self.records.iter_mut().filter(own).for_each(|record| record.excused = true);
    }

    /// Excuses one fetch-and-op if its asker or its word is on a host for which `hit` holds.
    pub(super) fn excuse_number(&mut self, number: usize, hit: impl Fn(usize) -> bool) {
        let record = &mut self.records[number];
        record.excused |= hit(record.ask.host) || hit(record.ask.destination);
    }

    /// Notes that a process is gone: its words, and the answers that its terminus waited for.
    pub(super) fn bury(&mut self, host: usize, pid: u64) {
        self.waiting.retain(|waiting| waiting.host != host || waiting.pid != pid);
        let own = |word: &&mut Word| word.host == host && word.pid == pid;
        self.words.iter_mut().filter(own).for_each(|word| word.gone = true);
    }

    /// Notes a tick of a card: it no longer waits for answers that are too late.
    pub(super) fn give_up(&mut self, host: usize, now: u64) {
        self.waiting.retain(|waiting| waiting.host != host || waiting.deadline > now);
    }

    /// Returns when the next outstanding one is given up.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.deadline).min()
    }

    /// Checks the library's report on a fetch-and-op. `done` is whether the card has finished with
    /// it.
    pub(super) fn check(
        &mut self,
        number: usize,
        says: &Result<Option<u64>, Error>,
        done: bool,
        now: u64,
    ) -> Result<(), Violation> {
        let record = &mut self.records[number];
        let right = match says {
            Ok(None) => !done,
            Ok(Some(found)) => done && record.verdict == Some(Ok(*found)),
            Err(error) => match error.of::<RefusedError>().and_then(|refused| refused.reason) {
                Some(Statistic::RefusedByDestination) => done && record.verdict == Some(Err(())),
                Some(Statistic::RefusedUnanswered) => {
                    record.given_up = true;
                    done && now >= record.posted + ANSWER_TIMEOUT
                }
                _ => false,
            },
        };
        ensure(right, || format!("a fetch-and-op is said to have given {says:?} at {now} ms: {record:?}"))
    }

    /// Returns one that was given up without an excuse and whose answer never came.
    pub(super) fn lost(&self) -> Option<String> {
        let lost = self.records.iter().find(|record| record.given_up && !record.excused && !record.late);
        lost.map(|record| format!("{record:?}"))
    }

    /// Returns the tickets that a host waits for, except from `other`.
    pub(super) fn tickets_of(&self, host: usize, other: usize) -> Vec<u32> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.host == host);
        waiting.filter(|waiting| waiting.destination != other).map(|waiting| waiting.ticket).collect()
    }
}

fn u64_at(packet: &[u8], at: usize) -> Option<u64> {
    packet.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok()
}
