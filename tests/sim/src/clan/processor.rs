//! Actions of processes: stores, loads, DMA requests, Tripwires, and taking records.

use std::collections::{BTreeMap, VecDeque};

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::tripwire::*;
use zerocopy::IntoBytes;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::deeds::Deed;
use super::ledger::{Made, Pending, Watch};
use super::model::Clan;
use super::packet::Letter;

impl World<Clan> {
    /// Does the next action. Returns whether one could be done.
    pub(super) fn go_on(&mut self, host: usize, processor: usize) -> Result<bool, Violation> {
        let at = &mut self.hosts[host].processes[processor];
        if at.stands_still.is_some() {
            return Ok(false);
        }
        let Some(deed) = at.deeds.pop_front() else { return Ok(false) };
        self.settle(host)?;
        self.note(|| format!("host {host}: {deed:x?}"));
        let next = match deed {
            Deed::Stores { window, at, width, left } => {
                if !self.hosts[host].machine.takes_stores()? {
                    self.hosts[host].processes[processor].deeds.push_front(deed);
                    return Ok(false);
                }
                let value = self.some_value();
                self.store_to_window(host, window, at, width, value)?;
                let at = at + u64::from(width);
                (left > 1).then_some(Deed::Stores { window, at, width, left: left - 1 })
            }
            Deed::Load { window, at, width } => {
                self.load_from_window(host, processor, window, at, width)?;
                None
            }
            Deed::Put { endpoint, requests } => self.put(host, endpoint, requests)?,
            Deed::Set { endpoint, index, held, flags } => {
                self.set_tripwire(host, endpoint, index, held, flags)?;
                None
            }
            Deed::Take { queue, most } => {
                self.take_records(host, queue, most)?;
                None
            }
            Deed::Overstate { endpoint, beyond } => self.overstate(host, endpoint, beyond)?,
            Deed::Rewrite { endpoint } => {
                self.rewrite(host, endpoint);
                None
            }
            Deed::Restate { endpoint } => {
                self.say_put(host, endpoint)?;
                None
            }
            Deed::Clear { endpoint, bits } => {
                self.clear_bits(host, endpoint, bits);
                None
            }
            Deed::Poke { aperture, offset, length } => {
                self.poke(host, aperture, offset, length);
                None
            }
        };
        if let Some(next) = next {
            self.hosts[host].processes[processor].deeds.push_front(next);
        }
        self.check_card(host)?;
        Ok(true)
    }

    /// Returns a random value whose lowest bytes differ from those of earlier values.
    fn some_value(&mut self) -> u64 {
        self.model.values += 1;
        self.rng.next() << 16 | self.model.values & 0xffff
    }

    /// Puts requests into an endpoint's queue, up to its free space. Returns the rest as a new
    /// action.
    fn put(
        &mut self,
        host: usize,
        number: u32,
        mut requests: VecDeque<ClanRequest>,
    ) -> Result<Option<Deed>, Violation> {
        let machine = self.hosts[host].machine.clone();
        let (moment, now) = (self.model.moment, self.now());
        let ledger = &mut self.model.ledgers[host];
        let put_at = ledger.next_event();
        let mut owed: VecDeque<_> =
            requests.iter().map(|request| ledger.owed_by(host as u16, request)).collect();
        let Some(endpoint) = ledger.endpoints.get_mut(&number) else { return Ok(None) };
        let memory = &machine.memory;
        let room = endpoint.requests - endpoint.put.wrapping_sub(endpoint.done);
        let most = (self.rng.range(1, 4).min(room) as usize).min(requests.len());
        for (request, owed) in requests.drain(..most).zip(owed.drain(..most)) {
            let at = endpoint.request_at(endpoint.put);
            memory.poke(at, request.as_bytes());
            if endpoint.changes_requests {
                memory.change_once_read(at, decoy(&mut self.rng, request));
            }
            endpoint.put = endpoint.put.wrapping_add(1);
            self.model.lives += 1;
            endpoint.pending.push_back(Pending {
                serial: self.model.lives,
                request,
                done: 0,
                copied: BTreeMap::new(),
                owed: owed.into_iter().collect(),
                asked: 0,
                refused: 0,
                put_at,
                since: moment,
                since_ms: now,
                is_cut: false,
            });
        }
        endpoint.area.poke(memory, CLAN_STATE_PUT.into(), &endpoint.put.to_le_bytes());
        let is_idle = memory.peek_u32(endpoint.area.address(CLAN_STATE_IDLE.into())) == 1;
        if is_idle || self.rng.percent(10) {
            machine.store_page(number, CLAN_ENDPOINT_GO.into(), 4, 1)?;
        }
        let waits = room == 0;
        // A process that finds no room retries later, but not forever.
        if waits && self.rng.percent(50) {
            return Ok(None);
        }
        Ok((!requests.is_empty()).then_some(Deed::Put { endpoint: number, requests }))
    }

    /// Counts requests that cannot exist, as a hostile owner. The card looks for no requests until
    /// the owner stores the true count.
    fn overstate(&mut self, host: usize, number: u32, beyond: u32) -> Result<Option<Deed>, Violation> {
        let machine = self.hosts[host].machine.clone();
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return Ok(None) };
        endpoint.overstates = true;
        // A count up to the size of the queue becomes possible when the last of the present
        // requests has ended. The claimed count exceeds it.
        let most = u32::MAX - 2 * endpoint.requests;
        let said = endpoint.put.wrapping_add(endpoint.requests + 1 + beyond % most);
        endpoint.area.poke(&machine.memory, CLAN_STATE_PUT.into(), &said.to_le_bytes());
        machine.store_page(number, CLAN_ENDPOINT_GO.into(), 4, 1)?;
        Ok(Some(Deed::Restate { endpoint: number }))
    }

    /// Changes requests as a hostile owner. A request that the card has not read takes the new
    /// value, and changes of the others have no effect.
    fn rewrite(&mut self, host: usize, number: u32) {
        let machine = self.hosts[host].machine.clone();
        let (moment, now) = (self.model.moment, self.now());
        let Some(endpoint) = self.model.ledgers[host].endpoints.get(&number) else { return };
        let (owner, ended) = (endpoint.owner, endpoint.ended);
        let count = if endpoint.changes_requests { endpoint.pending.len() } else { 0 };
        for index in 0..count {
            let Some(endpoint) = self.model.ledgers[host].endpoints.get(&number) else { return };
            let at = endpoint.request_at(ended.wrapping_add(index as u32));
            let request = self.some_request(host, owner, &VecDeque::new());
            let Some(request) = request.filter(|_| self.rng.percent(50)) else { continue };
            machine.memory.poke(at, request.as_bytes());
            if !machine.memory.is_to_change(at) {
                continue;
            }
            let ledger = &mut self.model.ledgers[host];
            let (put_at, owed) = (ledger.next_event(), ledger.owed_by(host as u16, &request));
            let Some(endpoint) = ledger.endpoints.get_mut(&number) else { return };
            let pending = &mut endpoint.pending[index];
            (pending.put_at, pending.owed) = (put_at, owed.into_iter().collect());
            (pending.request, pending.since, pending.since_ms) = (request, moment, now);
            pending.is_cut = false;
        }
    }

    /// Stores the number of requests put as an owner, and rings.
    fn say_put(&mut self, host: usize, number: u32) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return Ok(()) };
        endpoint.overstates = false;
        endpoint.passed_over = 0;
        endpoint.area.poke(&machine.memory, CLAN_STATE_PUT.into(), &endpoint.put.to_le_bytes());
        machine.store_page(number, CLAN_ENDPOINT_GO.into(), 4, 1)
    }

    /// Stores to a Tripwire's words. The last store sets it.
    fn set_tripwire(
        &mut self,
        host: usize,
        number: u32,
        index: u32,
        held: [u64; 3],
        flags: u32,
    ) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return Ok(()) };
        let base = u64::from(index * CLAN_TRIPWIRE_STRIDE);
        let offsets = [CLAN_TRIPWIRE_OFFSET, CLAN_TRIPWIRE_LENGTH, CLAN_TRIPWIRE_TARGET];
        let Some(tripwire) = endpoint.tripwires.get_mut(index as usize) else {
            // This Tripwire does not exist.
            return machine.store_page(number, base + u64::from(CLAN_TRIPWIRE_CONTROL), 4, flags.into());
        };
        tripwire.held = held;
        tripwire.serial = tripwire.serial.wrapping_add(1);
        let control = u32::from(tripwire.serial) << 16 | flags;
        for (at, value) in offsets.into_iter().zip(held) {
            machine.store_page(number, base + u64::from(at), 8, value)?;
        }
        // Data that had come before is in memory, and has fired the previous setting.
        self.settle(host)?;
        let answers = self.judge_tripwire(host, number, held, control);
        machine.store_page(number, base + u64::from(CLAN_TRIPWIRE_CONTROL), 4, control.into())?;
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return Ok(()) };
        let place = endpoint.area.address(u64::from(CLAN_STATE_TRIPWIRES + 8 * index + 4));
        let answer = machine.memory.peek_u32(place);
        let said = answer & 0xffff;
        ensure(answer >> 16 == control >> 16 && answers.contains(&said), || {
            format!(
                "host {host}: a Tripwire {held:x?} {control:#x} is answered {answer:#x}, and may be {answers:?}"
            )
        })?;
        let [offset, length, target] = held;
        let is_enabled = said == CLAN_TRIPWIRE_OK && flags & CLAN_TRIPWIRE_ENABLE != 0;
        let tripwire = &mut endpoint.tripwires[index as usize];
        tripwire.answer = answer;
        tripwire.watch = is_enabled.then_some(Watch { offset, length, target, flags });
        Ok(())
    }

    /// Takes records of an event queue as its owner, and stores the new count.
    fn take_records(&mut self, host: usize, number: u32, most: u32) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let Some(queue) = self.model.ledgers[host].queues.get_mut(&number) else { return Ok(()) };
        for _ in 0..most {
            let slot = u64::from(queue.taken & (queue.records - 1)) * u64::from(CLAN_EVENT_SIZE);
            let at = queue.area.address(u64::from(CLAN_EVENTS_HEAD) + slot);
            let found = (machine.memory.peek_u32(at + 12) == queue.taken.wrapping_add(1))
                .then(|| [4, 0, 8].map(|word| machine.memory.peek_u32(at + word)));
            let expected = queue.written.get(queue.taken as usize).copied();
            let known = found.map(|[endpoint, kind, detail]| {
                (endpoint, kind, if kind == CLAN_EVENT_TRIPWIRE { detail } else { 0 })
            });
            ensure(known == expected, || {
                format!(
                    "host {host}: the next record of queue {number} is {known:?}, and must be {expected:?}"
                )
            })?;
            if expected.is_none() {
                break;
            }
            queue.taken = queue.taken.wrapping_add(1);
        }
        let taken = queue.taken;
        queue.say(&machine.memory, taken);
        Ok(())
    }

    fn clear_bits(&mut self, host: usize, number: u32, bits: u64) {
        let machine = self.hosts[host].machine.clone();
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return };
        endpoint.bits &= !bits;
        endpoint.cleared = endpoint.cleared & !bits | endpoint.bitmap & bits;
        endpoint.area.poke(&machine.memory, CLAN_STATE_CLEARED.into(), &endpoint.cleared.to_le_bytes());
    }

    fn poke(&mut self, host: usize, number: u32, offset: u64, length: u64) {
        let machine = self.hosts[host].machine.clone();
        let Some(aperture) = self.model.ledgers[host].apertures.get(&number).cloned() else { return };
        let pieces = aperture.area.pieces(offset, length);
        for (address, length) in pieces {
            let bytes = self.rng.bytes(length as usize);
            machine.memory.poke(address, &bytes);
            self.remember(host, address, &bytes);
        }
    }

    /// Takes the records of the FIFO as the driver, if a vector came.
    pub(super) fn driver_looks(&mut self, host: usize) -> Result<bool, Violation> {
        self.flush(host)?;
        let machine = self.hosts[host].machine.clone();
        let fifo = &mut self.model.ledgers[host].fifo;
        let busy = fifo.raised && !fifo.untaken.is_empty();
        if busy {
            fifo.taken = fifo.written;
            fifo.untaken.clear();
            fifo.owed = std::mem::take(&mut fifo.again);
            fifo.raised = false;
            let taken = fifo.taken;
            machine.set(CLAN_REG_FIFO_TAKEN, taken)?;
        }
        self.check_card(host)?;
        Ok(busy)
    }

    /// Loads a register. Once the card has answered it, all data that it has taken is in memory.
    fn flush(&mut self, host: usize) -> Result<(), Violation> {
        self.hosts[host].machine.load(CLAN_REG_APERTURES)?;
        self.check_card(host)
    }

    /// Arms an endpoint or an event queue for a sleeper, or posts a message, as the driver.
    pub(super) fn arm_something(&mut self, host: usize) -> Result<(), Violation> {
        self.flush(host)?;
        let machine = self.hosts[host].machine.clone();
        let endpoints: Vec<u32> = self.model.ledgers[host].endpoints.keys().copied().collect();
        let queues: Vec<u32> = self.model.ledgers[host].queues.keys().copied().collect();
        match (self.rng.below(3), self.rng.pick(&endpoints), self.rng.pick(&queues)) {
            (0, Some(number), _) => {
                let bits = self.rng.next() & 0x7_ffff_ffff;
                let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else {
                    return Ok(());
                };
                if endpoint.armed != 0 {
                    return Ok(());
                }
                let is_set = endpoint.bits & bits != 0;
                endpoint.armed = if is_set { 0 } else { bits };
                if is_set {
                    self.owe_fifo(host, number);
                }
                machine.set_long(CLAN_REG_ARM, bits << 16 | u64::from(number))?;
            }
            (1, Some(number), _) => {
                self.happened(host, number, CLAN_EVENT_MESSAGE, 0, Some(CLAN_BIT_MESSAGE));
                machine.set(CLAN_REG_POST, number)?;
            }
            (_, _, Some(number)) => {
                let Some(queue) = self.model.ledgers[host].queues.get_mut(&number) else { return Ok(()) };
                let (taken, written) = (queue.taken, queue.count());
                queue.armed = (taken == written).then_some(taken);
                if taken != written {
                    self.owe_fifo(host, hamlyn_abi::clan::fifo::CLAN_FIFO_EVENTS | number);
                }
                machine.set_long(CLAN_REG_ARM_EVENTS, u64::from(taken) << 32 | u64::from(number))?;
            }
            _ => {}
        }
        self.check_card(host)
    }

    /// Notes a store or load, until it leaves.
    pub(super) fn note_made(&mut self, host: usize, to: u32, letter: Letter, owner: u32, excused: bool) {
        let ledger = &mut self.model.ledgers[host];
        let made_at = ledger.next_event();
        ledger.program.entry(to).or_default().push_back(Made { letter, owner, made_at, excused });
    }
}

/// Returns a changed version of a request, for a hostile owner. It would access other memory, or
/// none.
fn decoy(rng: &mut Rng, request: ClanRequest) -> Vec<u8> {
    let other = match rng.below(8) {
        0 => return rng.bytes(CLAN_REQUEST_SIZE as usize),
        1 => ClanRequest { opcode: CLAN_DMA_WRITE + CLAN_DMA_READ - request.opcode.clamp(1, 2), ..request },
        2 => ClanRequest { local_offset: request.local_offset ^ 8 << rng.below(16), ..request },
        3 => ClanRequest { offset: request.offset ^ 8 << rng.below(16), ..request },
        4 => ClanRequest { length: rng.next() >> rng.below(64), ..request },
        5 => ClanRequest { host: request.host ^ 1, aperture: request.aperture ^ 1, ..request },
        6 => ClanRequest { flags: request.flags ^ 3, ..request },
        _ => ClanRequest { local_aperture: rng.below(16) as u32, ..request },
    };
    other.as_bytes().to_vec()
}

/// Returns the group that a host of a descriptor stands for, if any.
pub(super) fn group_of(host: u32) -> Option<u32> {
    host.checked_sub(CLAN_GROUP_HOST).filter(|group| *group < CLAN_GROUPS)
}
