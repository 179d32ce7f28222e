//! Checks of what a card shows: counters, vectors, the pages that it watches, and its FIFOs. Also
//! of its host's memory.

use std::collections::BTreeSet;

use hamlyn_abi::shrimp::registers::*;
use hamlyn_abi::shrimp::statistics::{SHRIMP_STATISTICS, ShrimpStatistic as Counter};

use crate::engine::memory::PAGE;
use crate::engine::violation::{Violation, ensure};

use super::incoming::Incoming;
use super::machine::Machine;
use super::mapping::{DATA_PAGES, Table};
use super::outgoing::Outgoing;

/// The counters that are known exactly.
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

/// What a card must show.
#[derive(Debug)]
pub(super) struct Checks {
    /// The expected contents of the host's memory.
    memory: Vec<u8>,
    /// Pages whose stores the card has asked to see.
    watched: BTreeSet<u64>,
    /// Number of times the vector for a full FIFO was raised.
    full_raised: u64,
    counts: [u64; SHRIMP_STATISTICS as usize],
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            memory: vec![0; ((DATA_PAGES + 1) as u64 * PAGE) as usize],
            watched: BTreeSet::new(),
            full_raised: 0,
            counts: [0; SHRIMP_STATISTICS as usize],
        }
    }
}

impl Checks {
    /// Notes that the card was reset. The memory stays as it is. The card reports by itself that it
    /// watches no page.
    pub(super) fn reset(&mut self) {
        self.full_raised = 0;
        self.counts.fill(0);
    }

    pub(super) fn count(&mut self, counter: Counter, more: u64) {
        self.counts[usize::from(counter)] += more;
    }

    pub(super) fn counted(&self, counter: Counter) -> u64 {
        self.counts[usize::from(counter)]
    }

    /// Notes bytes that were stored to memory.
    pub(super) fn remember(&mut self, address: u64, bytes: &[u8]) {
        let start = address as usize;
        self.memory[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns whether the card sees stores to an address.
    pub(super) fn is_watched(&self, address: u64) -> bool {
        self.watched.contains(&(address / PAGE))
    }

    /// Checks the raised vectors of the Outgoing FIFO: each has a reason, and none is missing.
    pub(super) fn check_full(&mut self, host: u16, raised: u64) -> Result<(), Violation> {
        self.full_raised += raised;
        let (full, came) = (self.counted(Counter::OutgoingFull), self.full_raised);
        ensure(came == full, || {
            format!("host {host}: the FIFO was full {full} times, and {came} vectors came")
        })
    }

    /// Checks the invariants of the card between operations.
    pub(super) fn check(
        &mut self,
        machine: &Machine,
        table: &Table,
        fifos: (&Outgoing, &Incoming),
    ) -> Result<(), Violation> {
        let host = machine.id;
        check_fifos(machine, fifos)?;
        while let Some((page, seen)) = machine.with_card(|card, _| card.watch_change())? {
            if seen {
                self.watched.insert(page)
            } else {
                self.watched.remove(&page)
            };
        }
        let expected: BTreeSet<u64> = table.watched().into_iter().collect();
        ensure(self.watched == expected, || {
            format!("host {host}: the card sees stores to {:?}, and has to see {expected:?}", self.watched)
        })?;
        let counters = machine.counters();
        for counter in KNOWN {
            let (is, known) = (counters[usize::from(counter)], self.counted(counter));
            ensure(is == known, || format!("host {host}: {counter:?} is {is}, and must be {known}"))?;
        }
        let writes = machine.memory.take_writes();
        ensure(writes.is_empty(), || format!("host {host}: it wrote unasked: {writes:x?}"))
    }

    /// Checks that the memory has the values stored there.
    pub(super) fn check_memory(&self, machine: &Machine) -> Result<(), Violation> {
        let memory = &self.memory[PAGE as usize..];
        let is = machine.memory.peek(PAGE, memory.len());
        let differs = is.iter().zip(memory).position(|(is, stored)| is != stored);
        ensure(differs.is_none(), || {
            let byte = differs.unwrap_or(0) + PAGE as usize;
            format!("host {}: byte {byte:#x} is not what was stored last", machine.id)
        })
    }
}

/// Checks that the FIFOs hold what the account expects, and no more than their capacity.
fn check_fifos(machine: &Machine, (outgoing, incoming): (&Outgoing, &Incoming)) -> Result<(), Violation> {
    let (host, capacity) = (machine.id, machine.options.fifo.into());
    for (what, register, fill) in [
        ("Outgoing", SHRIMP_REG_OUT_FILL, outgoing.fill()),
        ("Incoming", SHRIMP_REG_IN_FILL, incoming.fill()),
    ] {
        let is = u64::from(machine.load(register)?);
        ensure(is == fill, || format!("host {host}: the {what} FIFO says {is}, and has {fill}"))?;
        ensure(is <= capacity, || format!("host {host}: the {what} FIFO has {is} of {capacity}"))?;
    }
    let cut_off = machine.load(SHRIMP_REG_CUT_OFF)?;
    ensure(cut_off == 0, || {
        format!("host {host}: hosts {cut_off:#b} are cut off, and each took packets in time")
    })?;
    let takes = (machine.takes_stores()?, machine.takes_packets());
    // Without a link, stores need not wait, because they are not sent.
    let must = (outgoing.has_room() || !machine.is_linked(), incoming.takes_packets());
    ensure(takes == must, || format!("host {host}: it takes stores, packets: {takes:?}, and must: {must:?}"))
}
