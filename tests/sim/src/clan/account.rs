//! The account of a card. All that the card does is settled with it: each write to its host's
//! memory has a reason, and none is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::registers::CLAN_VECTOR_FIFO;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use zerocopy::{Immutable, IntoBytes};

use crate::engine::memory::Write;
use crate::engine::violation::{Violation, ensure};

use super::events::Events;
use super::faults::{Cause, word};
use super::landings::Landings;
use super::ledger::{Ledger, Part};
use super::loads::{Loaded, Loads};
use super::machine::Machine;
use super::memories::Memories;
use super::objects::Accesses;
use super::packet::group_of;
use super::program::Program;
use super::readings::{Origin, Readings};
use super::refusals::Refusals;
use super::requests::Leftover;
use super::standing::Standing;

/// Offset in a request of the result that the card writes.
pub(super) const RESULT: u64 = 28;

/// The counters that the account knows exactly.
const KNOWN: [Counter; 5] = [
    Counter::PacketsSent,
    Counter::BytesSent,
    Counter::TripwiresFired,
    Counter::Commands,
    Counter::CommandsRefused,
];

/// What all accounts share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) standing: Standing,
    pub(super) memories: Memories,
    pub(super) readings: Readings,
    pub(super) refusals: Refusals,
    /// Number of requests (`requests`) and of values that were stored (`values`) so far.
    pub(super) requests: u64,
    pub(super) values: u64,
}

/// Counters for the report.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) deposited: u64,
    pub(super) fired: u64,
    pub(super) loaded: u64,
    pub(super) requests: u64,
    pub(super) refusals: u64,
}

/// The account of a card.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) id: u16,
    pub(super) machine: Arc<Machine>,
    pub(super) ledger: Ledger,
    pub(super) events: Events,
    pub(super) program: Program,
    pub(super) loads: Loads,
    pub(super) landings: Landings,
    pub(super) tally: Tally,
    counts: BTreeMap<usize, u64>,
    /// Number of endpoints that were opened.
    opened: u32,
    /// Writes that are not accounted for yet.
    unsettled: Vec<Write>,
    /// Hosts that the card has given up in the current tick.
    given_up: BTreeSet<u32>,
    is_ticking: bool,
    /// The packet that the card handles says that another card begins anew.
    pub(super) hears_beginning: bool,
}

impl Account {
    pub(super) fn new(id: u16, machine: Arc<Machine>) -> Self {
        Self {
            id,
            machine,
            ledger: Ledger::default(),
            events: Events::default(),
            program: Program::default(),
            loads: Loads::default(),
            landings: Landings::default(),
            tally: Tally::default(),
            counts: BTreeMap::new(),
            opened: 0,
            unsettled: Vec::new(),
            given_up: BTreeSet::new(),
            is_ticking: false,
            hears_beginning: false,
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self { tally: self.tally, opened: self.opened, ..Self::new(self.id, self.machine.clone()) };
    }

    /// Returns the sender in the packets of a new endpoint.
    pub(super) fn next_tag(&mut self, number: u32) -> u32 {
        self.opened += 1;
        self.opened << 14 | number
    }

    /// Returns the time in milliseconds.
    pub(super) fn now(&self) -> u64 {
        self.machine.clock.milliseconds()
    }

    pub(super) fn burst(&self) -> u64 {
        self.machine.options.burst.into()
    }

    pub(super) fn count(&mut self, counter: Counter, more: u64) {
        *self.counts.entry(usize::from(counter)).or_default() += more;
    }

    pub(super) fn run(
        &mut self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Violation> {
        let (id, done) = (self.id, self.machine.command(opcode, index, body)?);
        ensure(done.is_ok(), || format!("host {id}: command {opcode} on {index} was refused: {done:?}"))?;
        self.count(Counter::Commands, 1);
        Ok(())
    }

    /// Brings the account up to date with all that the card has done since the last call.
    pub(super) fn settle(&mut self, shared: &mut Shared) -> Result<(), Violation> {
        self.end_loads(shared)?;
        let mut writes = std::mem::take(&mut self.unsettled);
        writes.extend(self.machine.memory.take_writes());
        for write in writes {
            shared.memories.go_on();
            let known = self.note_write(shared, &write)?;
            ensure(known, || {
                let (id, fifo) = (self.id, self.events.fifo());
                let (place, next) = (self.ledger.place(write.address), self.landings.next());
                format!("host {id}: it wrote {write:x?} to {place:x?}, and next is {next:x?}, {fifo:x?}")
            })?;
        }
        Ok(())
    }

    /// Settles requests that ended before the packet that leaves now: those that failed, and those
    /// that do not wait for their packets.
    ///
    /// After that it is known which request the packet belongs to. A request that waits for its
    /// packets ends after its last packet. Faults are settled with them: a lost copy belongs to the
    /// request that had not ended at that time.
    pub(super) fn settle_ended(&mut self, shared: &mut Shared) -> Result<(), Violation> {
        let id = self.id;
        for write in self.machine.memory.take_writes() {
            let Some((Part::Endpoint(number), at)) = self.ledger.place(write.address) else {
                self.unsettled.push(write);
                continue;
            };
            if (CLAN_STATE_FAULTS.into()..=CLAN_STATE_FAULT_USE.into()).contains(&at) {
                let known = self.note_state(shared, number, at as u32, &write.bytes);
                ensure(known, || format!("host {id}: a fault of endpoint {number} cannot be: {write:x?}"))?;
                continue;
            }
            let is_over = |(index, result): &(u32, u32)| {
                let endpoint = self.ledger.endpoints().get(&number);
                *result != CLAN_DMA_DONE || endpoint.is_some_and(|one| one.is_detached(*index))
            };
            match result_at(at, &write.bytes).filter(is_over) {
                Some((index, result)) => {
                    let fits = self.note_result(shared, number, index, result);
                    ensure(fits, || {
                        format!("host {id}: a request of endpoint {number} cannot end by {result}")
                    })?;
                }
                None => self.unsettled.push(write),
            }
        }
        Ok(())
    }

    fn note_write(&mut self, shared: &mut Shared, write: &Write) -> Result<bool, Violation> {
        let (id, command) = (self.id, self.machine.command_page);
        if (command..command + 4096).contains(&write.address) {
            return Ok(true);
        }
        let Some((part, at)) = self.ledger.place(write.address) else { return Ok(false) };
        let memory = &self.machine.memory;
        match part {
            Part::Aperture(_) => Ok(self.land(shared, write)),
            Part::Endpoint(number) if at < u64::from(CLAN_STATE_SIZE) => {
                Ok(self.note_state(shared, number, at as u32, &write.bytes))
            }
            Part::Endpoint(number) => {
                let Some((index, result)) = result_at(at, &write.bytes) else { return Ok(false) };
                let before = self.ledger.endpoints().get(&number);
                let before = before.and_then(|endpoint| endpoint.requests.front().cloned());
                let fits = self.note_result(shared, number, index, result);
                ensure(fits, || {
                    format!("host {id}: request {index} of endpoint {number} ends by {result}: {before:x?}")
                })?;
                Ok(true)
            }
            Part::Queue(number) => Ok(self.events.note_record(memory, number, at, &write.bytes)),
            Part::Fifo => Ok(self.events.note_fifo(memory, at, &write.bytes)),
        }
    }

    /// Checks that arrived data is written in order of arrival.
    fn land(&mut self, shared: &mut Shared, write: &Write) -> bool {
        let (mut address, mut rest) = (write.address, &write.bytes[..]);
        while !rest.is_empty() {
            let Some(piece) = self.landings.take(address, rest) else { return false };
            let (here, behind) = rest.split_at(piece.length);
            shared.memories.remember(self.id.into(), address, here);
            // A Tripwire on words that other hosts write fires for each, before the next is
            // written.
            if let Some(accesses) = piece.accesses.filter(|accesses| !accesses.is_remote) {
                let before = piece.before as u64;
                self.passed_in(accesses, (before, before + piece.length as u64));
            }
            self.tally.deposited += piece.length as u64;
            (address, rest) = (address + piece.length as u64, behind);
            if piece.is_last {
                shared.readings.landed(self.id, &shared.memories);
                if let Some(accesses) = piece.accesses.filter(|accesses| accesses.is_remote) {
                    self.passed(accesses);
                }
            }
        }
        true
    }

    fn note_state(&mut self, shared: &mut Shared, number: u32, at: u32, bytes: &[u8]) -> bool {
        let Some(endpoint) = self.ledger.endpoint(number) else { return false };
        match at {
            CLAN_STATE_DONE => endpoint.requests.note_done(word(bytes)),
            CLAN_STATE_IDLE => bytes.len() == 4,
            CLAN_STATE_FAULTS if bytes.len() == 4 => self.note_fault(shared, number, bytes),
            CLAN_STATE_FAULTS_BEGUN | CLAN_STATE_FAULT_USE | CLAN_STATE_FAULT_REASON..0xd8 => {
                endpoint.faults.note(at, bytes)
            }
            // `check` checks their values later.
            CLAN_STATE_TRIPWIRES..0x300 => bytes.len() == 4 && at % 4 == 0,
            CLAN_STATE_BITS..0x308 => word(bytes).is_some_and(|word| endpoint.bits.note(at, word)),
            _ => false,
        }
    }

    fn note_fault(&mut self, shared: &mut Shared, number: u32, bytes: &[u8]) -> bool {
        let burst = self.burst();
        let Some(endpoint) = self.ledger.endpoint(number) else { return false };
        let (tag, cause) = (endpoint.tag, endpoint.faults.said());
        let (reason, peer, aperture, offset) = cause;
        // A tick reports the loss of data that waited for a silent host. In a tick, this reason has
        // no other cause.
        let is_dropped = reason == CLAN_FAULT_LOST && self.is_ticking;
        let Some(is_known) = endpoint.faults.end(bytes, is_dropped) else { return false };
        let is_lost = reason == CLAN_FAULT_LOST || reason == CLAN_FAULT_TIMEOUT;
        let is_right = is_known || is_lost && self.may_be_lost(shared, number, cause);
        if !is_right {
            return false;
        }
        let is_copy = reason == CLAN_FAULT_LOST && !is_known && !self.is_ticking && !self.hears_beginning;
        if is_copy && !shared.standing.is_in_trouble(self.id, peer) {
            // It is of the request that is carried out.
            let front = self.ledger.endpoint(number).and_then(|endpoint| endpoint.requests.front_mut());
            if let Some(front) = front.filter(|front| group_of(front.request.host) == Some(aperture)) {
                front.note_copy(peer as u16, offset, burst);
            }
        }
        let is_given_up = is_lost && !is_known && self.is_ticking;
        self.given_up.extend(is_given_up.then_some(peer));
        if is_lost {
            shared.refusals.lose(self.id, peer as u16, tag, is_given_up);
        }
        self.happened(number, CLAN_EVENT_FAULT, CLAN_BIT_FAULT);
        true
    }

    /// Returns whether an endpoint can have lost what a fault names. That is a store or copy that
    /// has not left, or writes that the peer has not acknowledged.
    fn may_be_lost(&self, shared: &Shared, number: u32, (reason, peer, aperture, offset): Cause) -> bool {
        let Some(endpoint) = self.ledger.endpoints().get(&number) else { return false };
        let (tag, place) = (endpoint.tag, (aperture, offset));
        place == (0, 0) && shared.refusals.can_refuse(self.id, peer as u16, tag)
            || reason == CLAN_FAULT_LOST && self.program.may_lose((tag, peer), place, endpoint.requests.all())
    }

    /// Checks that a request ends: it must be the next in order, with a possible result.
    fn note_result(&mut self, shared: &Shared, number: u32, index: u32, result: u32) -> bool {
        let standing = &shared.standing;
        let Some(endpoint) = self.ledger.endpoints().get(&number) else { return false };
        let Some(front) = endpoint.requests.front() else { return false };
        let request = front.request;
        let local = self.ledger.own_aperture(request.local_aperture, endpoint.owner);
        let end = request.local_offset.checked_add(request.length);
        let has_local = local.is_some_and(|local| end.is_some_and(|end| end <= local.area.length));
        let is_tainted = standing.is_tainted(self.id, request.host as u16);
        let is_late = self.now() >= front.put.time + u64::from(self.machine.options.read_timeout_ms)
            || standing.is_in_trouble(self.id, request.host)
            // It waited for a host that was given up.
            || self.is_ticking;
        let may_end = endpoint.requests.may_end(result, endpoint.flags, (has_local, is_tainted, is_late));
        if !may_end || endpoint.requests.next() != index {
            return false;
        }
        let Some(endpoint) = self.ledger.endpoint(number) else { return false };
        let of = (endpoint.tag, endpoint.owner, endpoint.flags);
        let Some((ended, goes)) = endpoint.requests.end(result) else { return false };
        self.program.end(of, ended, result, goes);
        self.tally.requests += 1;
        if request.flags & CLAN_DMA_NOTIFY != 0 {
            self.happened(number, CLAN_EVENT_DMA, CLAN_BIT_DMA);
        }
        true
    }

    /// Completes loads that have got their values.
    pub(super) fn end_loads(&mut self, shared: &Shared) -> Result<(), Violation> {
        let timeout = self.machine.options.read_timeout_ms.into();
        while let Some(load) = self.machine.late_reading()? {
            let is_dropped = self.is_ticking && self.program.has_load(load.0);
            let (host, time) = ((self.id, &shared.standing), (self.now(), timeout));
            let loaded = self.loads.end(load, host, time, is_dropped)?;
            self.tally.loaded += 1;
            match loaded {
                Loaded::Made(accesses) => accesses.into_iter().for_each(|accesses| self.passed(accesses)),
                Loaded::Failed(number, cause, is_owed) => self.ledger.note_fault(number, cause, is_owed),
            }
            self.program.excuse_load(load.0);
        }
        Ok(())
    }

    /// Returns whether a read from here is awaited.
    pub(super) fn awaits(&self, origin: Origin) -> bool {
        match origin {
            Origin::Load(number) => self.loads.is_waiting(number),
            Origin::Dma(number, serial) => {
                let endpoint = self.ledger.endpoints().get(&number);
                let front = endpoint.and_then(|endpoint| endpoint.requests.front());
                front.is_some_and(|front| front.serial == serial)
            }
            Origin::Gone => false,
        }
    }

    /// Fires the Tripwires that watch accesses which have passed the card, once for each word.
    pub(super) fn passed(&mut self, accesses: Accesses) {
        self.passed_in(accesses, (0, u64::MAX));
    }

    fn passed_in(&mut self, accesses: Accesses, range: (u64, u64)) {
        let fired = self.ledger.passed(&mut self.events, accesses, range);
        self.tally.fired += fired;
        self.count(Counter::TripwiresFired, fired);
    }

    pub(super) fn happened(&mut self, number: u32, kind: u32, bit: u32) {
        self.ledger.happened(&mut self.events, number, kind, bit);
    }

    /// Lets the card's process tick the card. Returns whether a tick was due.
    pub(super) fn tick(&mut self, shared: &mut Shared) -> Result<bool, Violation> {
        self.settle(shared)?;
        if !self.machine.tick()? {
            return Ok(false);
        }
        self.is_ticking = true;
        self.settle(shared)?;
        self.is_ticking = false;
        for peer in std::mem::take(&mut self.given_up) {
            self.program.give_up(&mut self.ledger, peer);
        }
        self.check(shared)?;
        Ok(true)
    }

    /// Returns packets that wait to leave for one of `hosts` hosts, or wait for an answer.
    fn unfinished(&self, hosts: usize) -> Vec<(u32, String)> {
        self.program.unfinished(&self.ledger, hosts as u32)
    }

    /// Returns a request that has ended and owes copies.
    fn owing(&self, standing: &Standing) -> Option<&Leftover> {
        self.program.owing(|member| standing.is_in_trouble(self.id, member))
    }

    /// Returns whether the card will do something after some time.
    pub(super) fn is_waiting(&self, shared: &Shared, hosts: usize) -> bool {
        !self.loads.is_empty()
            || self.landings.count() > 0
            || !self.unfinished(hosts).is_empty()
            || shared.refusals.is_owed(self.id.into(), &shared.standing)
            || self.owing(&shared.standing).is_some()
    }

    /// Checks the invariants of the card between operations.
    pub(super) fn check(&mut self, shared: &mut Shared) -> Result<(), Violation> {
        // An earlier violation would also make the account differ.
        self.settle(shared)?;
        let (host, machine) = (self.id, &self.machine);
        let raised = machine.vectors.take().contains(&(CLAN_VECTOR_FIFO as u16));
        self.events.check(host, raised)?;
        let counters = machine.counters();
        for counter in KNOWN {
            let is = counters[usize::from(counter)];
            let must = self.counts.get(&usize::from(counter)).copied().unwrap_or(0);
            ensure(is == must, || format!("host {host}: {counter:?} is {is}, and must be {must}"))?;
        }
        for (number, endpoint) in self.ledger.endpoints() {
            let word = |at: u32| machine.memory.peek_u32(endpoint.area.address(at.into()));
            let half = |at: u32| machine.memory.peek_u64(endpoint.area.address(at.into()));
            let (bits, must) = (half(CLAN_STATE_BITS) ^ half(CLAN_STATE_CLEARED), endpoint.bits.due());
            ensure(bits == must, || {
                format!("host {host}: the bits of endpoint {number} are {bits:#x}, and must be {must:#x}")
            })?;
            let (done, ended) = (word(CLAN_STATE_DONE), endpoint.requests.ended());
            ensure(done == ended, || {
                format!("host {host}: endpoint {number} says {done} requests have ended, and {ended} have")
            })?;
            endpoint.faults.check(host, *number)?;
            for (index, tripwire) in endpoint.tripwires.iter().enumerate() {
                let at = CLAN_STATE_TRIPWIRES + 8 * index as u32;
                let (is, must) = ([word(at), word(at + 4)], tripwire.words());
                ensure(is == must, || {
                    format!(
                        "host {host}: Tripwire {index} of endpoint {number} says {is:x?}, and must say {must:x?}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Checks that nothing waits at rest.
    pub(super) fn check_at_rest(&mut self, shared: &mut Shared, hosts: usize) -> Result<(), Violation> {
        self.check(shared)?;
        let host = self.id;
        ensure(self.landings.count() == 0, || format!("host {host}: it keeps what has arrived"))?;
        ensure(self.loads.is_empty(), || format!("host {host}: a load waits for ever: {:?}", self.loads))?;
        // Nothing waits for a hostile host either: one that grants nothing is given up.
        let waits = self.unfinished(hosts);
        ensure(waits.is_empty(), || format!("host {host}: something waits for ever: {waits:?}"))?;
        let owing = self.owing(&shared.standing);
        ensure(owing.is_none(), || format!("host {host}: copies never leave: {owing:x?}"))
    }

    /// Returns whether the card has reported, in writes that are not settled, that the next request
    /// of an endpoint is done.
    pub(super) fn ends_request(&self, tag: u32) -> bool {
        let mut endpoints = self.ledger.endpoints().iter();
        let Some((number, endpoint)) = endpoints.find(|(_, endpoint)| endpoint.tag == tag) else {
            return false;
        };
        let next = (endpoint.requests.next(), CLAN_DMA_DONE);
        let is_it = |write: &Write| match self.ledger.place(write.address) {
            Some((Part::Endpoint(of), at)) => of == *number && result_at(at, &write.bytes) == Some(next),
            _ => false,
        };
        self.unsettled.iter().any(is_it)
    }
}

/// Returns the request whose result is at a place of an endpoint's memory, and the result.
fn result_at(at: u64, bytes: &[u8]) -> Option<(u32, u32)> {
    let (at, size) = (at.checked_sub(CLAN_STATE_SIZE.into())?, u64::from(CLAN_REQUEST_SIZE));
    (at % size == RESULT).then_some(((at / size) as u32, word(bytes)?))
}
