//! Packets that leave a card, the reads of its transfer engine, and the fill levels of its FIFOs.

use std::collections::BTreeSet;

use hamlyn_abi::shrimp::entry::SHRIMP_MODE_DELIBERATE;
use hamlyn_abi::shrimp::memory::{SHRIMP_BASE, SHRIMP_BUSY};
use hamlyn_abi::shrimp::registers::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;

use crate::engine::memory::PAGE;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Item, Kind, Ledger};
use super::machine::Machine;
use super::model::Shrimp;
use super::packet::{LARGEST, Letter, place};

/// The counters that the ledger knows exactly.
const KNOWN: [Counter; 18] = [
    Counter::StoresSeen,
    Counter::StoresToWindow,
    Counter::StoresRefused,
    Counter::StoresMerged,
    Counter::PacketsSent,
    Counter::BytesSent,
    Counter::TransfersStarted,
    Counter::TransfersDone,
    Counter::TransfersCut,
    Counter::TransfersRefused,
    Counter::WritesBack,
    Counter::CommandsMapped,
    Counter::CommandsMappedRefused,
    Counter::PacketsDeposited,
    Counter::BytesDeposited,
    Counter::NotMappedIn,
    Counter::OutgoingFull,
    Counter::Arrivals,
];

impl World<Shrimp> {
    /// Brings the account of a card up to date with the engine's reads since the last call. Memory
    /// has not changed since then.
    pub(super) fn settle(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        loop {
            let ledger = &mut self.model.ledgers[host];
            let base = ledger.transfers.front().map_or(0, |transfer| transfer.base);
            let counters = machine.counters();
            let said = machine.load_memory(base, 4)? as u32;
            let count = |counter: Counter| counters[usize::from(counter)];
            let is = (said, count(Counter::TransfersDone), count(Counter::TransfersCut));
            let answer = ledger
                .transfers
                .front()
                .map_or(0, |transfer| SHRIMP_BUSY | SHRIMP_BASE | transfer.left.div_ceil(4) as u32);
            let known =
                (answer, ledger.counted(Counter::TransfersDone), ledger.counted(Counter::TransfersCut));
            if is == known {
                return Ok(());
            }
            ensure(!ledger.transfers.is_empty(), || {
                format!("host {host}: the engine says {is:x?}, and the last is {known:x?}")
            })?;
            step(ledger, &machine, host)?;
        }
    }

    /// Checks a packet that has left the card.
    pub(super) fn note_sent(&mut self, host: usize, node: u16, bytes: &[u8]) -> Result<(), Violation> {
        self.settle(host)?;
        let columns = self.model.columns;
        let ledger = &mut self.model.ledgers[host];
        let wrong = |what: &str| Violation::new(format!("host {host}: a packet to {node} {what}"));
        let (letter, is_sound) = Letter::read(bytes).ok_or_else(|| wrong("is no packet"))?;
        ensure(is_sound && letter.is_whole(), || wrong("has a wrong checksum or length, or crosses a page"))?;
        let places = (place(node, columns), place(host as u16, columns));
        ensure(places == (Some(letter.to), Some(letter.from)), || wrong("is not for whom it goes to"))?;
        let stores = take(ledger, node, &letter).ok_or_else(|| wrong("is not what was to be sent next"))?;
        ledger.outgoing.sent(letter.data.len() as u64);
        ledger.count(Counter::PacketsSent, 1);
        ledger.count(Counter::BytesSent, letter.data.len() as u64);
        self.model.stores_sent += stores;
        // The switch drops packets for a port without a card.
        let absent = self.hosts.get(usize::from(node)).is_some_and(|there| !there.uplink.is_up());
        self.model.flying.entry((host as u16, node)).or_default().sent(bytes.to_vec(), absent);
        Ok(())
    }

    /// Checks the invariants of a card between operations.
    pub(super) fn check_card(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        self.hear_vectors(host)?;
        let (machine, linked) = (self.hosts[host].machine.clone(), self.hosts[host].uplink.is_up());
        let ledger = &mut self.model.ledgers[host];
        ledger.note_held(machine.clock.milliseconds());
        check_fifos(ledger, &machine, host, linked)?;
        while let Some((page, seen)) = machine.with_card(|card, _| card.watch_change())? {
            if seen {
                ledger.watched.insert(page)
            } else {
                ledger.watched.remove(&page)
            };
        }
        let expected: BTreeSet<u64> = ledger.table.watched().into_iter().collect();
        ensure(ledger.watched == expected, || {
            format!("host {host}: the card sees stores to {:?}, and has to see {expected:?}", ledger.watched)
        })?;
        let counters = machine.counters();
        for counter in KNOWN {
            let (is, known) = (counters[usize::from(counter)], ledger.counted(counter));
            ensure(is == known, || format!("host {host}: {counter:?} is {is}, and must be {known}"))?;
        }
        let writes = machine.memory.take_writes();
        ensure(writes.is_empty(), || format!("host {host}: it wrote unasked: {writes:x?}"))
    }
}

/// Accounts for one step of the engine's current transfer.
fn step(ledger: &mut Ledger, machine: &Machine, host: usize) -> Result<(), Violation> {
    ensure(ledger.has_room(), || {
        format!("host {host}: the engine goes on while the FIFO is at its threshold")
    })?;
    let Some(transfer) = ledger.transfers.front_mut() else { return Ok(()) };
    let length = transfer.left.min(machine.options.packet_size.into());
    let way = ledger.table.way(transfer.next).filter(|way| way.mode == SHRIMP_MODE_DELIBERATE);
    let (next, is_open) = (transfer.next, ledger.table.is_one_part(transfer.next, length));
    match way.filter(|_| is_open) {
        None => {
            ledger.transfers.pop_front();
            ledger.count(Counter::TransfersCut, 1);
        }
        Some(way) => {
            (transfer.next, transfer.left) = (next + length, transfer.left - length);
            if transfer.left == 0 {
                ledger.transfers.pop_front();
                ledger.count(Counter::TransfersDone, 1);
            }
            let data = machine.memory.peek(next, length as usize);
            ledger.outgoing.add(way.node, Kind::Update, way.address, data);
        }
    }
    ledger.note_full();
    Ok(())
}

/// Removes the data of a packet from the data to be sent to its host. Returns the number of stores
/// in it, or `None` if it does not match.
fn take(ledger: &mut Ledger, node: u16, letter: &Letter) -> Option<u64> {
    let queue = ledger.outgoing.pending.get_mut(&node)?;
    let mut before: Option<Item> = None;
    let (mut taken, mut stores) = (0, 0);
    while taken < letter.data.len() || before.is_none() {
        let item = queue.pop_front()?;
        let here = letter.data.get(taken..taken + item.data.len())?;
        let follows = before.as_ref().is_none_or(|before| joins(before, &item));
        if !follows || here != item.data || item.address != letter.address + taken as u64 {
            return None;
        }
        taken += item.data.len();
        stores += 1;
        before = Some(item);
    }
    Some(stores)
}

/// Returns whether a store may be in the packet of the previous one.
fn joins(before: &Item, item: &Item) -> bool {
    let (Kind::Blocked { at: last, .. }, Kind::Blocked { at, within }) = (before.kind, item.kind) else {
        return false;
    };
    at - last <= within && item.number == before.number + 1 && item.address / PAGE == before.address / PAGE
}

/// Checks that the FIFOs hold what the ledger expects, and no more than their capacity.
fn check_fifos(ledger: &Ledger, machine: &Machine, host: usize, linked: bool) -> Result<(), Violation> {
    let capacity = ledger.outgoing.capacity();
    for (what, register, fill) in [
        ("Outgoing", SHRIMP_REG_OUT_FILL, ledger.outgoing.fill()),
        ("Incoming", SHRIMP_REG_IN_FILL, ledger.in_fill()),
    ] {
        let is = u64::from(machine.load(register)?);
        ensure(is == fill, || format!("host {host}: the {what} FIFO says {is}, and has {fill}"))?;
        ensure(is <= capacity, || format!("host {host}: the {what} FIFO has {is} of {capacity}"))?;
    }
    let cut_off = machine.load(SHRIMP_REG_CUT_OFF)?;
    ensure(cut_off == 0, || {
        format!("host {host}: hosts {cut_off:#b} are cut off, and none took nothing for long")
    })?;
    let takes = (machine.takes_stores()?, machine.takes_packets());
    // Without a link, stores need not wait, because they are not sent.
    let must = (ledger.has_room() || !linked, ledger.takes_packets());
    ensure(takes == must, || format!("host {host}: it takes stores, packets: {takes:?}, and must: {must:?}"))
}

impl Ledger {
    /// Returns whether the Outgoing FIFO is below its threshold and any packet still fits.
    pub(super) fn has_room(&self) -> bool {
        let (fill, out) = (self.outgoing.fill(), &self.outgoing);
        fill < out.threshold && fill + LARGEST as u64 <= out.capacity()
    }

    /// Notes the time since which no packet is taken because of the hold.
    pub(super) fn note_held(&mut self, now: u64) {
        let is_full = self.hold && !self.takes_packets();
        match self.full_since {
            None if is_full => self.full_since = Some(now),
            Some(since) if !is_full => {
                self.full_since = None;
                self.stops.push((since, now));
            }
            _ => {}
        }
    }

    /// Returns whether the card has stopped the network for five seconds in total, so that it holds
    /// nothing. Only stops with less than five minutes between them and until now are added up.
    pub(super) fn is_held_too_long(&self, now: u64) -> bool {
        let going_on = self.full_since.map(|since| (since, now));
        let mut next = now;
        let mut sum = 0;
        for (from, to) in self.stops.iter().copied().chain(going_on).rev() {
            if next - to >= 300_000 {
                break;
            }
            (next, sum) = (from, sum + (to - from));
        }
        sum >= 5000
    }

    /// Returns whether the Incoming FIFO is below its threshold and any packet still fits.
    pub(super) fn takes_packets(&self) -> bool {
        let fill = self.in_fill();
        fill < self.in_threshold && fill + LARGEST as u64 <= self.outgoing.capacity()
    }

    /// Counts a notification of the processor if the FIFO has reached its threshold.
    pub(super) fn note_full(&mut self) {
        let has_room = self.has_room();
        if self.outgoing.overruns(has_room) {
            self.count(Counter::OutgoingFull, 1);
        }
    }
}
