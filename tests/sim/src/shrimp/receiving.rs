//! Packets that reach a card: their expected effects, and the checks of the actual ones.

use std::collections::VecDeque;

use hamlyn_abi::shrimp::entry::SHRIMP_SYSTEM_PAGE;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::memory::{PAGE, Write};
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::Ledger;
use super::model::Shrimp;
use super::packet::{Letter, place};

/// Reasons for which a packet may not be accepted.
const FAULTS: [Counter; 4] =
    [Counter::Malformed, Counter::BadChecksum, Counter::WrongNode, Counter::Discarded];

impl World<Shrimp> {
    /// Hands a packet to its card. It must be the next one that was sent from its source.
    pub(super) fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        self.settle(host)?;
        let Arrived { source, mut bytes } = arrived;
        self.expect_next(source, host, &bytes)?;
        let machine = self.hosts[host].machine.clone();
        ensure(machine.takes_packets(), || format!("host {host}: a packet comes though it takes none"))?;
        let (letter, faults) = self.judge(host, source, &bytes)?;
        let before = machine.counters();
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        let after = machine.counters();
        let more = |counter: Counter| after[usize::from(counter)] - before[usize::from(counter)];
        let counted: Vec<Counter> = FAULTS.into_iter().filter(|counter| more(*counter) > 0).collect();
        match letter.filter(|_| faults.is_empty()) {
            Some(letter) => {
                ensure(counted.is_empty(), || {
                    format!("host {host}: a packet from {source} was refused: {counted:?}")
                })?;
                self.model.ledgers[host].incoming.push_back((source, letter));
                self.drained(host)?;
            }
            None => ensure(counted.len() == 1 && faults.contains(&counted[0]), || {
                format!("host {host}: a packet from {source} has {faults:?}, and was counted as {counted:?}")
            })?,
        }
        self.check_card(host)
    }

    /// Checks that a host's packets come in the order in which they were sent. Only those that a
    /// port took down with it may be missing.
    fn expect_next(&mut self, source: u16, host: usize, bytes: &[u8]) -> Result<(), Violation> {
        let flight = self.model.flying.entry((source, host as u16)).or_default();
        ensure(flight.takes(bytes), || {
            format!(
                "host {host}: a packet of {} bytes from {source} is not the next that was sent",
                bytes.len()
            )
        })
    }

    /// Returns the contents of a packet, and all its defects.
    fn judge(
        &self,
        host: usize,
        source: u16,
        bytes: &[u8],
    ) -> Result<(Option<Letter>, Vec<Counter>), Violation> {
        let at = &self.hosts[host];
        let mut faults = Vec::new();
        if !at.machine.is_enabled()? {
            faults.push(Counter::Discarded);
        }
        let columns = self.model.columns;
        let places = (place(host as u16, columns), place(source, columns));
        let read = Letter::read(bytes);
        match &read {
            Some((letter, is_sound)) => {
                if !is_sound {
                    faults.push(Counter::BadChecksum);
                }
                if !letter.is_whole() {
                    faults.push(Counter::Malformed);
                }
                if places != (Some(letter.to), Some(letter.from)) {
                    faults.push(Counter::WrongNode);
                }
            }
            None => faults.push(Counter::Malformed),
        }
        if !at.uplink.is_up() {
            // The card does not know its own place.
            faults.push(Counter::WrongNode);
        }
        Ok((read.map(|(letter, _)| letter), faults))
    }

    /// Accounts for the card's check of its Incoming FIFO: it deposits the packets there unless
    /// they are held.
    pub(super) fn drained(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let mut writes = VecDeque::from(machine.memory.take_writes());
        self.take_records(host, &mut writes)?;
        while !self.model.ledgers[host].hold {
            let Some((source, letter)) = self.model.ledgers[host].incoming.pop_front() else { break };
            let ledger = &mut self.model.ledgers[host];
            let length = letter.data.len() as u64;
            let Some((address, is_reported)) = ledger.lets_in(source, &letter) else {
                ledger.count(Counter::NotMappedIn, 1);
                continue;
            };
            let expected = Write { address, bytes: letter.data };
            let is = in_order(&mut writes, length as usize);
            ensure(is.as_ref() == Some(&expected), || {
                format!("host {host}: from {source} comes {expected:x?}, and it wrote {is:x?}")
            })?;
            let page = (address / PAGE) as u32;
            ledger.count(Counter::PacketsDeposited, 1);
            ledger.count(Counter::BytesDeposited, length);
            if ledger.reports.asked.remove(&page) | is_reported && ledger.reports.records > 0 {
                ledger.reports.owed.insert(page);
            }
            self.model.deposited += 1;
            self.model.remember(host, address, &expected.bytes);
            self.take_records(host, &mut writes)?;
        }
        ensure(writes.is_empty(), || format!("host {host}: it wrote more than arrived: {writes:x?}"))
    }
}

/// Merges the next writes into one of up to `length` bytes. Each must be a word or less, directly
/// behind the previous one.
fn in_order(writes: &mut VecDeque<Write>, length: usize) -> Option<Write> {
    let mut whole = writes.front().map(|first| Write { address: first.address, bytes: Vec::new() })?;
    let follows = |whole: &Write, next: &Write| {
        let end = whole.address + whole.bytes.len() as u64;
        next.address == end && next.bytes.len() <= 8 && whole.bytes.len() + next.bytes.len() <= length
    };
    while writes.front().is_some_and(|next| follows(&whole, next)) {
        whole.bytes.extend(writes.pop_front()?.bytes);
    }
    Some(whole)
}

impl Ledger {
    /// Returns the address at which the page table now lets in a packet, and whether that is to be
    /// reported.
    fn lets_in(&self, source: u16, letter: &Letter) -> Option<(u64, bool)> {
        let Letter { address, data, .. } = letter;
        if address / PAGE == SHRIMP_SYSTEM_PAGE {
            return Some((self.system.get(&source)? * PAGE + address % PAGE, true));
        }
        Some((*address, self.table.takes(*address, data.len() as u64, source)?))
    }
}
