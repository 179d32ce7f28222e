//! Checks what a card has written to its host's memory: each write has a reason, and none is
//! missing.

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_EVENTS, CLAN_FIFO_SIZE};
use hamlyn_abi::clan::registers::CLAN_VECTOR_FIFO;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;

use crate::engine::memory::Write;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::driving::RESULT;
use super::ledger::{Accesses, Cause, Endpoint, FAULT_PARTS, Ghost, Ledger, Made, Part, Pending};
use super::model::{Clan, Old, Reading};
use super::packet::WRITE;
use super::processor::group_of;

/// The counters that the ledger knows exactly.
const KNOWN: [Counter; 5] = [
    Counter::PacketsSent,
    Counter::BytesSent,
    Counter::TripwiresFired,
    Counter::Commands,
    Counter::CommandsRefused,
];

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

impl World<Clan> {
    /// Brings the account of a card up to date with all that it has done since the last call.
    pub(super) fn settle(&mut self, host: usize) -> Result<(), Violation> {
        self.hear_loads(host)?;
        let machine = self.hosts[host].machine.clone();
        let mut writes = std::mem::take(&mut self.model.ledgers[host].unsettled);
        writes.extend(machine.memory.take_writes());
        for write in writes {
            self.model.moment += 1;
            let known = self.note_write(host, &write)?;
            ensure(known, || {
                let fifo = (&self.model.ledgers[host].fifo.untaken, &self.model.ledgers[host].fifo.owed);
                let place = self.model.ledgers[host].place(write.address);
                let next = self.model.ledgers[host].landings.front();
                format!("host {host}: it wrote {write:x?} to {place:x?}, and next is {next:x?}, {fifo:x?}")
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
    pub(super) fn settle_ended(&mut self, host: usize) -> Result<(), Violation> {
        for write in self.hosts[host].machine.memory.take_writes() {
            let ledger = &mut self.model.ledgers[host];
            if let Some((number, at)) = ledger.fault_place(&write) {
                let known = self.note_state(host, number, at, &write.bytes);
                ensure(known, || format!("host {host}: a fault of endpoint {number} cannot be: {write:x?}"))?;
                continue;
            }
            let ended = match ledger.place(write.address) {
                Some((Part::Endpoint(number), at)) => result_at(at, &write.bytes).map(|it| (number, it)),
                _ => None,
            };
            let ended = ended.filter(|(number, (index, result))| {
                *result != CLAN_DMA_DONE
                    || ledger.endpoints.get(number).is_some_and(|one| one.is_detached(*index))
            });
            match ended {
                Some((number, (index, result))) => {
                    let fits = self.note_result(host, number, index, result);
                    ensure(fits, || {
                        format!("host {host}: a request of endpoint {number} cannot end by {result}")
                    })?;
                }
                None => ledger.unsettled.push(write),
            }
        }
        Ok(())
    }

    /// Settles a card after a reset: no write is expected, and no load waits.
    pub(super) fn settle_after_reset(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        while machine.late_reading()?.is_some() {}
        // The card may write data that had arrived until the driver has taken its memory back.
        machine.memory.take_writes();
        Ok(())
    }

    fn note_write(&mut self, host: usize, write: &Write) -> Result<bool, Violation> {
        let command = self.hosts[host].machine.command_page;
        if (command..command + 4096).contains(&write.address) {
            return Ok(true);
        }
        let Some((part, at)) = self.model.ledgers[host].place(write.address) else { return Ok(false) };
        match part {
            Part::Command => Ok(false),
            Part::Aperture(_) => self.land(host, write),
            Part::Endpoint(number) if at < u64::from(CLAN_STATE_SIZE) => {
                Ok(self.note_state(host, number, at as u32, &write.bytes))
            }
            Part::Endpoint(number) => {
                let Some((index, result)) = result_at(at, &write.bytes) else { return Ok(false) };
                let before = self.model.ledgers[host].endpoints.get(&number);
                let before = before.and_then(|endpoint| endpoint.pending.front().cloned());
                let fits = self.note_result(host, number, index, result);
                ensure(fits, || {
                    format!("host {host}: request {index} of endpoint {number} ends by {result}: {before:x?}")
                })?;
                Ok(true)
            }
            Part::Queue(number) => Ok(self.note_record(host, number, at, &write.bytes)),
            Part::Fifo => Ok(self.note_fifo(host, at, &write.bytes)),
        }
    }

    /// Checks that arrived data is written in order of arrival.
    fn land(&mut self, host: usize, write: &Write) -> Result<bool, Violation> {
        let (mut address, mut rest) = (write.address, &write.bytes[..]);
        while !rest.is_empty() {
            let ledger = &mut self.model.ledgers[host];
            let landed = ledger.landed;
            let Some(front) = ledger.landings.front() else { return Ok(false) };
            let left = &front.bytes[landed..];
            let here = left.len().min(rest.len());
            if front.address + landed as u64 != address || left[..here] != rest[..here] {
                return Ok(false);
            }
            ledger.landed += here;
            let then = front_accesses(ledger);
            self.remember(host, address, &rest[..here]);
            // A Tripwire on words that other hosts write fires for each, before the next is
            // written.
            if let Some(accesses) = then.filter(|accesses| !accesses.is_remote) {
                self.passed_by(host, accesses, (landed as u64, (landed + here) as u64));
            }
            self.model.deposited += here as u64;
            (address, rest) = (address + here as u64, &rest[here..]);
            let ledger = &mut self.model.ledgers[host];
            if here == left_of(ledger, landed) {
                ledger.landed = 0;
                let then = ledger.landings.pop_front().and_then(|landing| landing.then);
                self.landed(host);
                if let Some(accesses) = then.filter(|accesses| accesses.is_remote) {
                    self.passed(host, accesses);
                }
            }
        }
        Ok(true)
    }

    /// Notes that a piece of arrived data is in memory. Reads that came after it find it there.
    fn landed(&mut self, host: usize) {
        let moment = self.model.moment;
        let behind = |reading: &&mut Reading| usize::from(reading.server) == host && reading.behind > 0;
        for reading in self.model.readings.iter_mut().filter(behind) {
            reading.behind -= 1;
            reading.start = moment;
        }
    }

    /// Notes a change of memory.
    pub(super) fn remember(&mut self, host: usize, address: u64, bytes: &[u8]) {
        let range = address as usize..address as usize + bytes.len();
        let old = self.model.memories[host][range.clone()].to_vec();
        self.model.memories[host][range].copy_from_slice(bytes);
        self.model.moment += 1;
        let moment = self.model.moment;
        let history = &mut self.model.history[host];
        history.push(Old { moment, address, bytes: old });
        if history.len() > 40_000 {
            history.drain(..20_000);
        }
    }

    /// Returns whether bytes of memory may have had these values at some moment since `since`.
    pub(super) fn might_be(&self, host: usize, pieces: &[(u64, u64)], since: u64, bytes: &[u8]) -> bool {
        let memory = &self.hosts[host].machine.memory;
        let addresses = pieces.iter().flat_map(|(address, length)| *address..address + length);
        let is = pieces.iter().flat_map(|(address, length)| memory.peek(*address, *length as usize));
        let history = &self.model.history[host];
        let before = |address: u64, byte: u8| {
            self.model.memories[host][address as usize] == byte
                || history.iter().rev().take_while(|old| old.moment >= since).any(|old| {
                    let at = address.checked_sub(old.address);
                    at.and_then(|at| old.bytes.get(at as usize)) == Some(&byte)
                })
        };
        bytes.iter().zip(addresses).zip(is).all(|((byte, at), is)| is == *byte || before(at, *byte))
    }

    fn note_state(&mut self, host: usize, number: u32, at: u32, bytes: &[u8]) -> bool {
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return false };
        match at {
            CLAN_STATE_DONE => {
                let done = word(bytes);
                endpoint.done = done.unwrap_or(0);
                done.is_some_and(|done| endpoint.ended.wrapping_sub(done) < endpoint.requests)
            }
            CLAN_STATE_IDLE => bytes.len() == 4,
            CLAN_STATE_FAULTS if bytes.len() == 4 => self.note_fault(host, number, bytes),
            CLAN_STATE_FAULTS_BEGUN => {
                let is_next = word(bytes) == Some(endpoint.faults.wrapping_add(1));
                is_next && endpoint.note_fault_part(at)
            }
            CLAN_STATE_FAULT_USE => endpoint.note_fault_part(at) && bytes.len() == 4,
            CLAN_STATE_FAULT_REASON..0xd8 => {
                let start = (at - CLAN_STATE_FAULTS) as usize;
                let Some(words) = endpoint.fault_words.get_mut(start..start + bytes.len()) else {
                    return false;
                };
                words.copy_from_slice(bytes);
                endpoint.note_fault_part(at)
            }
            // `check_card` checks their values later.
            CLAN_STATE_TRIPWIRES..0x300 => bytes.len() == 4 && at % 4 == 0,
            CLAN_STATE_BITS..0x308 => word(bytes).is_some_and(|word| endpoint.note_bits(at, word)),
            _ => false,
        }
    }

    fn note_fault(&mut self, host: usize, number: u32, bytes: &[u8]) -> bool {
        let is_ticking = self.model.ledgers[host].is_ticking;
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return false };
        let words = &endpoint.fault_words;
        let [reason, peer, aperture] = [4, 8, 12].map(|at| word(&words[at..at + 4]).unwrap_or(0));
        let offset = words[16..24].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let cause: Cause = (reason, peer, aperture, offset);
        let next = endpoint.faults.wrapping_add(1);
        // A tick reports the loss of data that waited for a silent host. In a tick, this reason has
        // no other cause.
        let is_dropped = reason == CLAN_FAULT_LOST && is_ticking;
        let known = endpoint.causes.iter().position(|known| *known == cause && !is_dropped);
        if word(bytes) != Some(next) || std::mem::take(&mut endpoint.fault_parts) != FAULT_PARTS {
            return false;
        }
        let tag = endpoint.tag;
        let is_lost = reason == CLAN_FAULT_LOST || reason == CLAN_FAULT_TIMEOUT;
        let is_new = known.is_none();
        match known {
            Some(known) => drop(endpoint.causes.remove(known)),
            None if !is_lost || !self.may_be_lost(host, number, cause) => return false,
            None => {}
        }
        if reason == CLAN_FAULT_LOST && is_new && !is_ticking && !self.is_in_trouble(host, peer) {
            let burst = self.model.options.burst.into();
            self.model.ledgers[host].copy_lost(number, peer as u16, (aperture, offset), burst);
        }
        let ledger = &mut self.model.ledgers[host];
        if let Some(endpoint) = ledger.endpoints.get_mut(&number) {
            endpoint.faults = next;
        }
        if is_lost && is_new && is_ticking {
            ledger.given_up.insert(peer);
            let pair = (host as u16, peer as u16);
            let epoch = self.model.epochs.get(&pair);
            self.model.over.extend(epoch.map(|epoch| (pair.0, pair.1, *epoch)));
        }
        // It need not be told of writes that were refused there.
        if is_lost {
            self.model.refused.remove(&(peer as u16, host as u16, tag));
        }
        self.happened(host, number, CLAN_EVENT_FAULT, 0, Some(CLAN_BIT_FAULT));
        true
    }

    /// Returns whether an endpoint can have lost what a fault names. That is a store or copy that
    /// has not left, or writes that the peer has not acknowledged.
    fn may_be_lost(&self, host: usize, number: u32, (reason, peer, aperture, offset): Cause) -> bool {
        let ledger = &self.model.ledgers[host];
        let Some(endpoint) = ledger.endpoints.get(&number) else { return false };
        let tag = endpoint.tag;
        let has_written = || self.model.can_refuse(host as u16, peer as u16, tag);
        if (aperture, offset) == (0, 0) && has_written() {
            return true;
        }
        let is_store = |made: &Made| {
            let letter = &made.letter;
            letter.kind == WRITE && (letter.tag, letter.aperture, letter.offset) == (tag, aperture, offset)
        };
        let is_copy = |pending: &Pending| {
            let request = &pending.request;
            let target = group_of(request.host).map_or((request.host, request.aperture), |it| (peer, it));
            let at = offset.checked_sub(request.offset);
            target == (peer, aperture) && at.is_some_and(|at| at < request.length)
        };
        let ended = ledger.detached.iter().filter(|ghost| ghost.tag == tag).map(|ghost| &ghost.pending);
        reason == CLAN_FAULT_LOST
            && (ledger.program.get(&peer).is_some_and(|queue| queue.iter().any(is_store))
                || ended.chain(&endpoint.pending).any(is_copy))
    }

    /// Checks that a request ends: it must be the next in order, with a possible result.
    fn note_result(&mut self, host: usize, number: u32, index: u32, result: u32) -> bool {
        let now = self.now();
        let timeout = u64::from(self.hosts[host].machine.options.read_timeout_ms);
        let Some(endpoint) = self.model.ledgers[host].endpoints.get(&number) else { return false };
        let Some(pending) = endpoint.pending.front() else { return false };
        let is_next = endpoint.ended & (endpoint.requests - 1) == index;
        let Pending { request, done, refused, .. } = pending;
        let aperture = self.model.ledgers[host].apertures.get(&request.local_aperture);
        let local = aperture.filter(|aperture| {
            let end = request.local_offset.checked_add(request.length);
            aperture.owner == endpoint.owner && end.is_some_and(|end| end <= aperture.area.length)
        });
        let tainted = self.model.is_tainted(host as u16, request.host as u16);
        let (means, skipped) = (means_something(request), endpoint.chain_failed);
        let goes = means && !skipped;
        let waited = now >= pending.since_ms + timeout || self.is_in_trouble(host, request.host)
            // It waited for a host that was given up.
            || self.model.ledgers[host].is_ticking;
        let is_detached = pending.is_detached(endpoint.flags);
        // A request of an operating system, even a read, fails at once if many others wait for its
        // host.
        let may_find_no_room = endpoint.flags != 0;
        let fits = match result {
            CLAN_DMA_DONE => goes && (is_detached || *done == request.length),
            CLAN_DMA_BAD_REQUEST => !means && !skipped,
            CLAN_DMA_BAD_LOCAL => (local.is_none() || pending.is_cut) && !skipped,
            CLAN_DMA_REFUSED => goes && (*refused != 0 || tainted),
            CLAN_DMA_TIMEOUT => goes && (waited || is_detached || may_find_no_room),
            CLAN_DMA_MEMORY => goes && (*refused == CLAN_FAULT_MEMORY || tainted),
            CLAN_DMA_SKIPPED => skipped,
            _ => false,
        };
        if !(fits && is_next) {
            return false;
        }
        let flags = request.flags;
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return false };
        let ended = endpoint.pending.pop_front();
        endpoint.passed_over = 0;
        let Endpoint { tag, owner, flags: of, .. } = *endpoint;
        endpoint.ended = endpoint.ended.wrapping_add(1);
        endpoint.chain_failed = flags & CLAN_DMA_CHAIN != 0 && result != CLAN_DMA_DONE;
        let ledger = &mut self.model.ledgers[host];
        let ended_at = (result == CLAN_DMA_DONE).then(|| ledger.next_event());
        let ghost = ended.map(|pending| Ghost::new((tag, owner, of), pending, ended_at));
        if is_detached {
            // All of its packets may be about to leave.
            ledger.detached.extend(ghost.filter(|_| goes));
        } else {
            // One of its packets may be about to leave.
            ledger.ghosts.extend(ghost.filter(|_| result != CLAN_DMA_DONE));
        }
        self.model.requests += 1;
        if flags & CLAN_DMA_NOTIFY != 0 {
            self.happened(host, number, CLAN_EVENT_DMA, 0, Some(CLAN_BIT_DMA));
        }
        true
    }

    /// Checks a record of an event queue. Its source must have an event that is due, and no record
    /// there.
    fn note_record(&mut self, host: usize, number: u32, at: u64, bytes: &[u8]) -> bool {
        let memory = &self.hosts[host].machine.memory;
        let Some(queue) = self.model.ledgers[host].queues.get_mut(&number) else { return false };
        let next = u64::from(queue.count() & (queue.records - 1)) * u64::from(CLAN_EVENT_SIZE);
        let next = u64::from(CLAN_EVENTS_HEAD) + next;
        if at != next + 12 {
            return at >= next && at + bytes.len() as u64 <= next + 12;
        }
        let said = queue.area.peek(memory, next, 12);
        let [kind, endpoint, detail] = [0, 4, 8].map(|at| word(&said[at..at + 4]).unwrap_or(0));
        let source = (endpoint, kind, if kind == CLAN_EVENT_TRIPWIRE { detail } else { 0 });
        queue.written.push(source);
        let count = queue.count();
        if word(bytes) != Some(count) || !queue.owed.remove(&source) {
            return false;
        }
        let has_room = queue.untaken().len() <= queue.records as usize;
        if queue.armed.take_if(|taken| *taken != count).is_some() {
            self.owe_fifo(host, CLAN_FIFO_EVENTS | number);
        }
        has_room
    }

    fn note_fifo(&mut self, host: usize, at: u64, bytes: &[u8]) -> bool {
        let memory = &self.hosts[host].machine.memory;
        let fifo = &mut self.model.ledgers[host].fifo;
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

    /// Checks the invariants of a card between operations.
    pub(super) fn check_card(&mut self, host: usize) -> Result<(), Violation> {
        // An earlier violation would also make the account differ.
        self.check_found()?;
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        if machine.vectors.take().contains(&(CLAN_VECTOR_FIFO as u16)) {
            ledger.fifo.raised = true;
        }
        let fifo = &ledger.fifo;
        ensure(fifo.owed.is_empty(), || {
            format!("host {host}: no record of the FIFO comes for {:x?}", fifo.owed)
        })?;
        ensure(fifo.untaken.is_empty() || fifo.raised, || format!("host {host}: no vector came"))?;
        for (number, queue) in &ledger.queues {
            ensure(queue.owed.is_empty(), || {
                format!("host {host}: no record of event queue {number} comes for {:?}", queue.owed)
            })?;
        }
        let counters = machine.counters();
        for counter in KNOWN {
            let (is, must) = (counters[usize::from(counter)], ledger.counted(counter));
            ensure(is == must, || format!("host {host}: {counter:?} is {is}, and must be {must}"))?;
        }
        for (number, endpoint) in &ledger.endpoints {
            let word = |at: u32| machine.memory.peek_u32(endpoint.area.address(at.into()));
            let half = |at: u32| machine.memory.peek_u64(endpoint.area.address(at.into()));
            let (bits, must) = (half(CLAN_STATE_BITS) ^ half(CLAN_STATE_CLEARED), endpoint.bits);
            ensure(bits == must, || {
                format!("host {host}: the bits of endpoint {number} are {bits:#x}, and must be {must:#x}")
            })?;
            let (done, ended) = (word(CLAN_STATE_DONE), endpoint.ended);
            ensure(done == ended, || {
                format!("host {host}: endpoint {number} says {done} requests have ended, and {ended} have")
            })?;
            let (faults, owed) = (endpoint.faults, endpoint.owed_faults);
            ensure(faults >= owed, || {
                format!("host {host}: endpoint {number} heard of {faults} faults of {owed}")
            })?;
            for (index, tripwire) in endpoint.tripwires.iter().enumerate() {
                let at = CLAN_STATE_TRIPWIRES + 8 * index as u32;
                let (is, must) = ([word(at), word(at + 4)], [tripwire.count, tripwire.answer]);
                ensure(is == must, || {
                    format!(
                        "host {host}: Tripwire {index} of endpoint {number} says {is:x?}, and must say {must:x?}"
                    )
                })?;
            }
        }
        Ok(())
    }
}

impl Ledger {
    /// Returns where in an endpoint's memory a write is, if it reports a fault.
    fn fault_place(&self, write: &Write) -> Option<(u32, u32)> {
        match self.place(write.address)? {
            (Part::Endpoint(number), at) => {
                let at = u32::try_from(at).ok()?;
                (CLAN_STATE_FAULTS..=CLAN_STATE_FAULT_USE).contains(&at).then_some((number, at))
            }
            _ => None,
        }
    }
}

fn front_accesses(ledger: &Ledger) -> Option<Accesses> {
    ledger.landings.front().and_then(|front| front.then)
}

fn left_of(ledger: &Ledger, landed: usize) -> usize {
    ledger.landings.front().map_or(0, |front| front.bytes.len() - landed)
}

/// Returns the request whose result is at a place of an endpoint's memory, and the result.
pub(super) fn result_at(at: u64, bytes: &[u8]) -> Option<(u32, u32)> {
    let (at, size) = (at.checked_sub(CLAN_STATE_SIZE.into())?, u64::from(CLAN_REQUEST_SIZE));
    (at % size == RESULT).then_some(((at / size) as u32, word(bytes)?))
}

/// Returns whether a request is valid.
pub(super) fn means_something(request: &ClanRequest) -> bool {
    let is_group = group_of(request.host).is_some();
    let is_host = request.host < CLAN_GROUP_HOST || is_group && request.aperture == 0;
    let opcode = request.opcode == CLAN_DMA_WRITE || request.opcode == CLAN_DMA_READ && !is_group;
    let length = (1..=CLAN_MAX_TRANSFER).contains(&request.length);
    let flags = request.flags & !(CLAN_DMA_CHAIN | CLAN_DMA_NOTIFY) == 0;
    let end = request.offset.checked_add(request.length).is_some();
    opcode && length && flags && end && request.reserved == 0 && is_host
}
