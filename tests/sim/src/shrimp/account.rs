//! The account of a card: all that processors, drivers and other hosts do with it, and what it then
//! must do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::memory::*;
use hamlyn_abi::shrimp::registers::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;

use crate::engine::memory::{PAGE, Right, Write};
use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::checks::Checks;
use super::incoming::{Incoming, hand_over, in_order};
use super::machine::Machine;
use super::mapping::Table;
use super::outgoing::{Kind, Outgoing};
use super::packet::{Letter, place};
use super::reports::Reports;
use super::transfers::{Transfer, Transfers};

/// Counters for the report.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) stores_sent: u64,
    pub(super) deposited: u64,
    pub(super) reported: u64,
    pub(super) commands: u64,
    pub(super) waits: u64,
    pub(super) queues_full: u64,
}

/// The account of a card.
#[derive(Debug)]
pub(super) struct Account {
    machine: Arc<Machine>,
    /// The card sees the stores on its bus.
    snoops: bool,
    table: Table,
    /// For each host, the page that its operating system stores to.
    system: BTreeMap<u16, u64>,
    outgoing: Outgoing,
    merge_us: u64,
    transfers: Transfers,
    incoming: Incoming,
    reports: Reports,
    checks: Checks,
    tally: Tally,
}

impl Account {
    pub(super) fn new(machine: Arc<Machine>, snoops: bool) -> Self {
        let options = machine.options;
        Self {
            machine,
            snoops,
            table: Table::default(),
            system: BTreeMap::new(),
            outgoing: Outgoing::new(options.fifo.into()),
            merge_us: options.merge_us.into(),
            transfers: Transfers::default(),
            incoming: Incoming::new(options.fifo.into()),
            reports: Reports::default(),
            checks: Checks::default(),
            tally: Tally::default(),
        }
    }

    pub(super) fn id(&self) -> u16 {
        self.machine.id
    }

    pub(super) fn machine(&self) -> Arc<Machine> {
        self.machine.clone()
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns whether the driver has records to look for.
    pub(super) fn is_called(&self) -> bool {
        self.reports.is_called()
    }

    fn now(&self) -> u64 {
        self.machine.clock.milliseconds()
    }

    fn count(&mut self, counter: Counter, more: u64) {
        self.checks.count(counter, more);
    }

    pub(super) fn counted(&self, counter: Counter) -> u64 {
        self.checks.counted(counter)
    }

    /// Returns when the card closes a blocked-write packet, if it has one.
    pub(super) fn deadline(&self) -> Option<u64> {
        let alarm = self.machine.alarm().filter(|_| !self.outgoing.is_empty())?;
        u64::try_from(alarm).ok().map(|alarm| alarm + 1)
    }

    /// Brings the account up to date with the engine's reads since the last call. Memory has not
    /// changed since then.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        loop {
            let counters = self.machine.counters();
            let base = self.transfers.front().map_or(0, |transfer| transfer.base);
            let said = self.machine.load_memory(base, 4)? as u32;
            let [done, cut] = [Counter::TransfersDone, Counter::TransfersCut];
            let is = (said, counters[usize::from(done)], counters[usize::from(cut)]);
            let known = (self.transfers.says(base), self.counted(done), self.counted(cut));
            if is == known {
                return Ok(());
            }
            ensure(!self.transfers.is_empty(), || {
                format!("host {}: the engine says {is:x?}, and the last is {known:x?}", self.id())
            })?;
            self.step()?;
        }
    }

    /// Accounts for one step of the engine's current transfer.
    fn step(&mut self) -> Result<(), Violation> {
        ensure(self.outgoing.has_room(), || {
            format!("host {}: the engine goes on while the FIFO is at its threshold", self.id())
        })?;
        let Some(&Transfer { next, left, .. }) = self.transfers.front() else { return Ok(()) };
        let length = left.min(self.machine.options.packet_size.into());
        let way = self.table.way(next).filter(|way| way.mode == SHRIMP_MODE_DELIBERATE);
        match way.filter(|_| self.table.is_one_part(next, length)) {
            None => {
                self.transfers.cut_front();
                self.count(Counter::TransfersCut, 1);
            }
            Some(way) => {
                let is_done = self.transfers.advance(length);
                self.count(Counter::TransfersDone, is_done.into());
                let data = self.machine.memory.peek(next, length as usize);
                self.outgoing.add(way.node, Kind::Update, way.address, data);
            }
        }
        self.note_full();
        Ok(())
    }

    /// Counts a notification of the processor if the Outgoing FIFO has reached its threshold.
    fn note_full(&mut self) {
        let is_full = self.outgoing.overruns();
        self.count(Counter::OutgoingFull, is_full.into());
    }

    /// Checks the raised vectors: each has a reason, and none is missing.
    pub(super) fn check_vectors(&mut self) -> Result<(), Violation> {
        let (id, vectors) = (self.id(), self.machine.vectors.take());
        let raised = |wanted: u32| vectors.iter().filter(|vector| u32::from(**vector) == wanted).count();
        self.checks.check_full(id, raised(SHRIMP_VECTOR_OUTGOING) as u64)?;
        self.reports.check(id, raised(SHRIMP_VECTOR_ARRIVAL) > 0)
    }

    /// Checks the invariants of the card between operations.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        self.settle()?;
        self.check_vectors()?;
        self.incoming.note_held(self.now());
        self.checks.check(&self.machine, &self.table, (&self.outgoing, &self.incoming))
    }

    /// Checks that nothing waits, and that the memory has the values stored there.
    pub(super) fn check_at_rest(&self) -> Result<(), Violation> {
        let host = self.id();
        let is_empty = self.outgoing.is_empty() && self.transfers.is_empty() && self.incoming.is_empty();
        ensure(is_empty, || {
            format!("host {host}: the card keeps {:?}, {:?}", self.outgoing, self.transfers)
        })?;
        let owed = self.reports.owed();
        ensure(owed.is_empty(), || {
            format!("host {host}: the driver sleeps, and was not notified of {owed:?}")
        })?;
        self.checks.check_memory(&self.machine)
    }

    /// Stores on the host's bus as a processor. Returns `false` if the processor has to wait
    /// because the card has no room.
    pub(super) fn store_on_bus(&mut self, address: u64, bytes: &[u8]) -> Result<bool, Violation> {
        self.settle()?;
        let machine = self.machine.clone();
        let is_seen = self.snoops && self.checks.is_watched(address);
        if is_seen && !machine.takes_stores()? {
            self.tally.waits += 1;
            return Ok(false);
        }
        machine.memory.poke(address, bytes);
        self.checks.remember(address, bytes);
        if is_seen {
            machine.seen(address, bytes)?;
            self.count(Counter::StoresSeen, 1);
            self.propagated(address, bytes)?;
        }
        self.check()?;
        Ok(true)
    }

    /// Stores to a window page as a processor.
    pub(super) fn store_to_window(&mut self, address: u64, width: u8, value: u64) -> Result<(), Violation> {
        self.settle()?;
        let (id, machine) = (self.id(), self.machine.clone());
        let bytes = &value.to_le_bytes()[..width.into()];
        let is_mapped = (address..address + u64::from(width)).all(|at| self.table.way(at).is_some());
        let fits = self.outgoing.fits(width) || !self.table.watched().contains(&(address / PAGE));
        let refused = |machine: &Machine| machine.counters()[usize::from(Counter::StoresRefused)];
        let before = refused(&machine);
        let permit = |allowed| machine.memory.permit(Right::Write, address, width.into(), allowed);
        if is_mapped {
            permit(true);
        }
        machine.store_memory(Machine::window(address), width, value)?;
        let was_refused = refused(&machine) > before;
        if is_mapped {
            permit(false);
        }
        ensure(was_refused != (is_mapped && fits), || {
            format!(
                "host {id}: a store to the window at {address:#x}, mapped: {is_mapped}, fits: {fits}, refused: {was_refused}"
            )
        })?;
        if was_refused {
            self.count(Counter::StoresRefused, 1);
        } else {
            let writes = machine.memory.take_writes();
            let is_it = writes.iter().map(|write| (write.address, &write.bytes[..])).eq([(address, bytes)]);
            ensure(is_it, || format!("host {id}: a store to the window wrote {writes:x?}"))?;
            self.checks.remember(address, bytes);
            self.count(Counter::StoresToWindow, 1);
            self.propagated(address, bytes)?;
        }
        self.check()
    }

    /// Loads from a window page as a processor.
    pub(super) fn load_from_window(&mut self, address: u64, width: u8) -> Result<(), Violation> {
        self.settle()?;
        let (id, machine) = (self.id(), self.machine.clone());
        let is_mapped = (address..address + u64::from(width)).all(|at| self.table.way(at).is_some());
        let loaded = machine.load_memory(Machine::window(address), width)?;
        let there =
            if is_mapped { machine.memory.peek(address, width.into()) } else { vec![0; width.into()] };
        ensure(loaded.to_le_bytes()[..width.into()] == there, || {
            format!(
                "host {id}: a load of {width} bytes from {address:#x} says {loaded:#x}, and not {there:x?}"
            )
        })?;
        self.check()
    }

    /// Adds stored bytes to the data to be sent, byte by byte, according to their mapping.
    fn propagated(&mut self, address: u64, bytes: &[u8]) -> Result<(), Violation> {
        let (id, now) = (self.id(), self.now() * 1000);
        let is_up = self.machine.is_linked();
        let merged = self.machine.counters()[usize::from(Counter::StoresMerged)];
        let (mut at, mut rest, mut joinable) = (address, bytes, 0);
        while !rest.is_empty() {
            let length = (1..=rest.len() as u64).take_while(|length| self.table.is_one_part(at, *length));
            let (here, behind) = rest.split_at(length.count());
            let way = self.table.way(at).filter(|_| is_up);
            let kind = way.and_then(|way| match way.mode {
                SHRIMP_MODE_SINGLE => Some(Kind::Single),
                SHRIMP_MODE_BLOCKED => Some(Kind::Blocked { at: now, within: self.merge_us }),
                _ => None,
            });
            if let Some((way, kind)) = way.zip(kind) {
                joinable += u64::from(kind != Kind::Single);
                self.outgoing.add(way.node, kind, way.address, here.to_vec());
            }
            (at, rest) = (at + here.len() as u64, behind);
        }
        let more = merged.saturating_sub(self.counted(Counter::StoresMerged));
        ensure(more <= joinable, || format!("host {id}: {more} of {joinable} stores were merged"))?;
        self.count(Counter::StoresMerged, more);
        self.outgoing.merged(more);
        self.note_full();
        Ok(())
    }

    /// Loads from a command page: the first half of a compare-and-exchange.
    pub(super) fn load_command(&mut self, address: u64) -> Result<u32, Violation> {
        self.settle()?;
        let (id, said) = (self.id(), self.machine.load_memory(address, 4)? as u32);
        let must = self.transfers.says(address);
        ensure(said == must, || {
            format!("host {id}: the command page of {address:#x} says {said:#x}, and not {must:#x}")
        })?;
        Ok(said)
    }

    /// Stores any value to a command page.
    pub(super) fn store_command(&mut self, address: u64, width: u8, value: u64) -> Result<(), Violation> {
        self.settle()?;
        let word = value as u32;
        let counter = if width != 4 {
            Counter::CommandsMappedRefused
        } else if word == 0 || word & SHRIMP_BUSY != 0 {
            Counter::WritesBack
        } else if word >= SHRIMP_SET_MODE {
            self.operate(address, word)
        } else if self.transfers.start(&self.table, address, word) {
            Counter::TransfersStarted
        } else {
            Counter::TransfersRefused
        };
        self.count(counter, 1);
        self.machine.store_memory(address, width, value)?;
        self.tally.commands += 1;
        self.check()
    }

    fn operate(&mut self, address: u64, word: u32) -> Counter {
        let page = (address / PAGE) as u32;
        let mode = word.wrapping_sub(SHRIMP_SET_MODE);
        if (1..=SHRIMP_MODE_DELIBERATE).contains(&mode) && self.table.way(address).is_some() {
            self.table.set_mode(address, mode);
            return Counter::CommandsMapped;
        }
        if word != SHRIMP_REPORT_NEXT || !self.table.is_mapped_in(page) {
            return Counter::CommandsMappedRefused;
        }
        self.reports.ask(page);
        Counter::CommandsMapped
    }

    /// Checks a packet that has left the card.
    pub(super) fn note_sent(&mut self, node: u16, bytes: &[u8], columns: u16) -> Result<(), Violation> {
        self.settle()?;
        let host = self.id();
        let wrong = |what: &str| Violation::new(format!("host {host}: a packet to {node} {what}"));
        let (letter, is_sound) = Letter::read(bytes).ok_or_else(|| wrong("is not a packet"))?;
        ensure(is_sound && letter.is_whole(), || wrong("has a wrong checksum or length, or crosses a page"))?;
        let places = (place(node, columns), place(host, columns));
        ensure(places == (Some(letter.to), Some(letter.from)), || {
            wrong("names another source or destination")
        })?;
        let stores = self.outgoing.take(node, &letter);
        self.tally.stores_sent += stores.ok_or_else(|| wrong("is not what was to be sent next"))?;
        self.count(Counter::PacketsSent, 1);
        self.count(Counter::BytesSent, letter.data.len() as u64);
        Ok(())
    }

    /// Hands a packet to the card.
    pub(super) fn take(&mut self, source: u16, bytes: Vec<u8>, columns: u16) -> Result<(), Violation> {
        if let Some(letter) = hand_over(&self.machine, (source, columns), bytes)? {
            self.incoming.add(source, letter);
            self.drained()?;
        }
        self.check()
    }

    /// Accounts for the card's check of its Incoming FIFO: it deposits the packets there unless
    /// they are held.
    fn drained(&mut self) -> Result<(), Violation> {
        let host = self.id();
        let mut writes = VecDeque::from(self.machine.memory.take_writes());
        self.note_records(&mut writes)?;
        while let Some((source, letter)) = self.incoming.next() {
            let length = letter.data.len() as u64;
            let Some((address, is_reported)) = self.lets_in(source, &letter) else {
                self.count(Counter::NotMappedIn, 1);
                continue;
            };
            let expected = Write { address, bytes: letter.data };
            let is = in_order(&mut writes, length as usize);
            ensure(is.as_ref() == Some(&expected), || {
                format!("host {host}: from {source} comes {expected:x?}, and it wrote {is:x?}")
            })?;
            self.count(Counter::PacketsDeposited, 1);
            self.count(Counter::BytesDeposited, length);
            self.reports.arrived((address / PAGE) as u32, is_reported);
            self.tally.deposited += 1;
            self.checks.remember(address, &expected.bytes);
            self.note_records(&mut writes)?;
        }
        ensure(writes.is_empty(), || format!("host {host}: it wrote more than arrived: {writes:x?}"))
    }

    /// Takes the next records of the arrival queue from the card's writes.
    fn note_records(&mut self, writes: &mut VecDeque<Write>) -> Result<(), Violation> {
        let (arrivals, full) = self.reports.note(&self.machine, writes)?;
        self.tally.queues_full += full;
        self.count(Counter::Arrivals, arrivals);
        Ok(())
    }

    /// Returns the address at which the page table now lets in a packet, and whether that is to be
    /// reported.
    fn lets_in(&self, source: u16, letter: &Letter) -> Option<(u64, bool)> {
        let Letter { address, data, .. } = letter;
        if address / PAGE == SHRIMP_SYSTEM_PAGE {
            return Some((self.system.get(&source)? * PAGE + address % PAGE, true));
        }
        Some((*address, self.table.takes(*address, data.len() as u64, source)?))
    }

    /// Lets the card's process tick the card. Packets that were held for too long are let in, and
    /// no others.
    pub(super) fn tick(&mut self) -> Result<bool, Violation> {
        if !self.machine.tick()? {
            return Ok(false);
        }
        let must = self.incoming.let_in(self.now());
        let (host, is) = (self.id(), self.machine.load(SHRIMP_REG_HOLD)? != 0);
        ensure(is == must, || format!("host {host}: it holds what arrives: {is}, and must: {must}"))?;
        self.drained()?;
        Ok(true)
    }

    /// Makes the card hold arriving packets in the Incoming FIFO, or deposit them.
    pub(super) fn hold(&mut self, hold: bool) -> Result<(), Violation> {
        self.settle()?;
        self.incoming.hold(hold, self.now());
        self.machine.set(SHRIMP_REG_HOLD, hold.into())?;
        self.drained()?;
        self.check()
    }

    /// Sets a threshold or the time for merging. Returns the value that the register must show.
    pub(super) fn limit(&mut self, register: u32, value: u32) -> u64 {
        let in_range = u64::from(value).clamp(1, self.machine.options.fifo.into());
        match register {
            SHRIMP_REG_OUT_THRESHOLD => self.outgoing.set_threshold(in_range),
            SHRIMP_REG_IN_THRESHOLD => self.incoming.set_threshold(in_range),
            _ => {
                self.merge_us = u64::from(value.min(SHRIMP_MAX_MERGE_TIME));
                return self.merge_us;
            }
        }
        in_range
    }

    /// Takes up to `most` records as the driver, if a vector has come since it last found none.
    /// Returns whether there were any.
    pub(super) fn take_reports(&mut self, most: usize) -> Result<bool, Violation> {
        if !self.is_called() {
            return Ok(false);
        }
        self.settle()?;
        let taken = self.reports.take(&self.machine, most)?;
        if taken > 0 {
            self.tally.reported += taken;
            self.drained()?;
            self.check()?;
        }
        Ok(taken > 0)
    }

    /// Acknowledges records that do not exist, as a faulty driver.
    pub(super) fn take_too_many(&mut self, rng: &mut Rng) -> Result<(), Violation> {
        self.settle()?;
        self.reports.take_too_many(&self.machine, rng)?;
        self.drained()?;
        self.check()
    }

    /// Opens a queue of records, or closes it if there are 0.
    pub(super) fn open_queue(&mut self, records: u32) -> Result<(), Violation> {
        self.reports.open(records);
        self.check()
    }

    /// Notes that an entry is replaced. Returns the one before it and the new one.
    pub(super) fn replace(&mut self, page: u32, entry: ShrimpEntry) -> (ShrimpEntry, ShrimpEntry) {
        let (before, now) = self.entries(page, entry);
        self.table.set(page, now);
        let cut = self.transfers.cut(|transfer| transfer.ends(page, &before, &now));
        self.count(Counter::TransfersCut, cut);
        if !self.table.is_mapped_in(page) {
            self.reports.forget(page);
        }
        (before, now)
    }

    fn entries(&self, page: u32, entry: ShrimpEntry) -> (ShrimpEntry, ShrimpEntry) {
        (self.table.entry(page), self.table.prepared(page, entry))
    }

    /// Returns whether an entry would end a transfer.
    pub(super) fn would_end(&self, page: u32, entry: ShrimpEntry) -> bool {
        let (before, now) = self.entries(page, entry);
        self.transfers.any(|transfer| transfer.ends(page, &before, &now))
    }

    /// Sets or removes the page that another host's operating system stores to. Returns the one
    /// before.
    pub(super) fn set_system_page(&mut self, other: u16, page: Option<u64>) -> Option<u64> {
        match page {
            Some(page) => self.system.insert(other, page),
            None => self.system.remove(&other),
        }
    }

    /// Notes that the card was reset: its unsent data is lost, and nothing is mapped.
    pub(super) fn reset(&mut self) -> Result<(), Violation> {
        let now = self.now();
        for (page, entry) in self.table.entries() {
            self.machine.permit_entry(page, entry, false);
        }
        for page in self.system.values() {
            self.machine.permit_system(*page, false);
        }
        self.machine.forget_queue();
        self.incoming.reset(now);
        let old = std::mem::replace(self, Self::new(self.machine.clone(), self.snoops));
        (self.incoming, self.checks, self.tally) = (old.incoming, old.checks, old.tally);
        self.checks.reset();
        self.check()
    }
}
