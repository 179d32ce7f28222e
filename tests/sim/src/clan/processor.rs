//! Actions of processes: stores, loads, DMA requests, Tripwires, and taking records.

use std::collections::VecDeque;

use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::tripwire::*;
use zerocopy::IntoBytes;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::account::Account;
use super::actions::Action;
use super::objects::Watch;
use super::requests::{Pending, Put};
use super::turn::Turn;
use super::windowing::Aim;

/// Carries out what a host's processes do, and what its driver does for them.
#[derive(Debug)]
pub(super) struct Acting<'a> {
    pub(super) turn: Turn<'a>,
}

impl Acting<'_> {
    /// Carries out an action of a processor. Returns `false` if it has to wait.
    pub(super) fn carry_out(&mut self, processor: usize, action: Action) -> Result<bool, Violation> {
        let next = match action {
            Action::Stores { window, at, width, left } => {
                if !self.turn.account().machine.takes_stores()? {
                    self.turn.processors[processor].go_on_with(Some(action));
                    return Ok(false);
                }
                let aim = Aim::new(self.turn.account(), window, at, width);
                let Turn { accounts, host, rng, shared, .. } = &mut self.turn;
                shared.values += 1;
                // Its lowest bytes differ from those of earlier values.
                let value = rng.next() << 16 | shared.values & 0xffff;
                aim.map_or(Ok(()), |aim| aim.store(&mut accounts[*host], &shared.standing, value))?;
                let at = at + u64::from(width);
                (left > 1).then_some(Action::Stores { window, at, width, left: left - 1 })
            }
            Action::Load { window, at, width } => {
                let aim = Aim::new(self.turn.account(), window, at, width);
                let Turn { accounts, host, shared, .. } = &mut self.turn;
                let load = aim.map_or(Ok(None), |aim| aim.load(&mut accounts[*host], &shared.standing))?;
                self.turn.processors[processor].wait_for(load);
                None
            }
            Action::Put { endpoint, requests } => self.put(endpoint, requests)?,
            Action::Set { endpoint, index, held, flags } => {
                self.set_tripwire(endpoint, index, held, flags)?;
                None
            }
            Action::Take { queue, most } => {
                let Account { id, machine, events, .. } = self.turn.account();
                events.take(&machine.memory, (*id, queue), most)?;
                None
            }
            Action::Overstate { endpoint, beyond } => self.overstate(endpoint, beyond)?,
            Action::Rewrite { endpoint } => {
                self.rewrite(endpoint);
                None
            }
            Action::Restate { endpoint } => {
                self.restate(endpoint)?;
                None
            }
            Action::Clear { endpoint, bits } => {
                self.clear_bits(endpoint, bits);
                None
            }
            Action::Poke { aperture, offset, length } => {
                self.poke(aperture, offset, length);
                None
            }
        };
        self.turn.processors[processor].go_on_with(next);
        self.turn.check()?;
        Ok(true)
    }

    /// Returns the time for a request that is put now.
    fn put_now(&mut self) -> Put {
        let (moment, account) = (self.turn.shared.memories.moment(), self.turn.account());
        Put { event: account.program.next_event(), moment, time: account.now() }
    }

    /// Puts requests into an endpoint's queue, up to its free space. Returns the rest as a new
    /// action.
    fn put(&mut self, number: u32, mut requests: VecDeque<ClanRequest>) -> Result<Option<Action>, Violation> {
        let put = self.put_now();
        let Turn { accounts, host, rng, shared, .. } = &mut self.turn;
        let Account { id, machine, ledger, program, .. } = &mut accounts[*host];
        let owed: Vec<_> = requests.iter().map(|request| program.owed_by(ledger, *id, request)).collect();
        let Some(endpoint) = ledger.endpoint(number) else { return Ok(None) };
        let memory = &machine.memory;
        let room = endpoint.requests.room();
        let most = (rng.range(1, 4).min(room) as usize).min(requests.len());
        for (request, owed) in requests.drain(..most).zip(owed) {
            let at = endpoint.request_at(endpoint.requests.count());
            memory.poke(at, request.as_bytes());
            if endpoint.changes_requests {
                memory.change_once_read(at, decoy(rng, request));
            }
            shared.requests += 1;
            endpoint.requests.push(Pending::new(shared.requests, request, put, owed));
        }
        endpoint.area.poke(memory, CLAN_STATE_PUT.into(), &endpoint.requests.count().to_le_bytes());
        let is_idle = memory.peek_u32(endpoint.area.address(CLAN_STATE_IDLE.into())) == 1;
        if is_idle || rng.percent(10) {
            machine.store_page(number, CLAN_ENDPOINT_GO.into(), 4, 1)?;
        }
        let waits = room == 0;
        // A process that finds no room retries later, but not forever.
        if waits && rng.percent(50) {
            return Ok(None);
        }
        Ok((!requests.is_empty()).then_some(Action::Put { endpoint: number, requests }))
    }

    /// Counts requests that cannot exist, as a hostile owner. The card looks for no requests until
    /// the owner stores the true count.
    fn overstate(&mut self, number: u32, beyond: u32) -> Result<Option<Action>, Violation> {
        let Account { machine, ledger, .. } = self.turn.account();
        let Some(endpoint) = ledger.endpoint(number) else { return Ok(None) };
        let said = endpoint.requests.overstate(beyond);
        endpoint.area.poke(&machine.memory, CLAN_STATE_PUT.into(), &said.to_le_bytes());
        machine.store_page(number, CLAN_ENDPOINT_GO.into(), 4, 1)?;
        Ok(Some(Action::Restate { endpoint: number }))
    }

    /// Stores the number of requests put as an owner, and rings.
    fn restate(&mut self, number: u32) -> Result<(), Violation> {
        let Account { machine, ledger, .. } = self.turn.account();
        let Some(endpoint) = ledger.endpoint(number) else { return Ok(()) };
        endpoint.requests.restate();
        let put = endpoint.requests.count();
        endpoint.area.poke(&machine.memory, CLAN_STATE_PUT.into(), &put.to_le_bytes());
        machine.store_page(number, CLAN_ENDPOINT_GO.into(), 4, 1)
    }

    /// Changes requests as a hostile owner. A request that the card has not read takes the new
    /// value, and changes of the others have no effect.
    fn rewrite(&mut self, number: u32) {
        let Some(endpoint) = self.turn.account().ledger.endpoint(number) else { return };
        let (owner, ended) = (endpoint.owner, endpoint.requests.ended());
        let count = if endpoint.changes_requests { endpoint.requests.all().len() } else { 0 };
        for index in 0..count {
            let request = self.turn.plan().some_request(owner, &VecDeque::new());
            let Some(request) = request.filter(|_| self.turn.rng.percent(50)) else { continue };
            let Account { machine, ledger, .. } = self.turn.account();
            let Some(endpoint) = ledger.endpoint(number) else { return };
            let at = endpoint.request_at(ended.wrapping_add(index as u32));
            machine.memory.poke(at, request.as_bytes());
            if !machine.memory.is_to_change(at) {
                continue;
            }
            let put = self.put_now();
            let Account { id, ledger, program, .. } = self.turn.account();
            let owed = program.owed_by(ledger, *id, &request);
            let pending = ledger.endpoint(number).and_then(|endpoint| endpoint.requests.all_mut().nth(index));
            if let Some(pending) = pending {
                pending.replace(request, put, owed);
            }
        }
    }

    /// Stores to a Tripwire's words. The last store sets it.
    fn set_tripwire(&mut self, number: u32, index: u32, held: [u64; 3], flags: u32) -> Result<(), Violation> {
        let machine = self.turn.account().machine.clone();
        let Some(endpoint) = self.turn.account().ledger.endpoint(number) else { return Ok(()) };
        let base = u64::from(index * CLAN_TRIPWIRE_STRIDE);
        let offsets = [CLAN_TRIPWIRE_OFFSET, CLAN_TRIPWIRE_LENGTH, CLAN_TRIPWIRE_TARGET];
        let Some(tripwire) = endpoint.tripwires.get_mut(index as usize) else {
            // This Tripwire does not exist.
            return machine.store_page(number, base + u64::from(CLAN_TRIPWIRE_CONTROL), 4, flags.into());
        };
        let control = tripwire.next_control(flags);
        for (at, value) in offsets.into_iter().zip(held) {
            machine.store_page(number, base + u64::from(at), 8, value)?;
        }
        // Data that had come before is in memory, and has fired the previous setting.
        let Turn { accounts, host, shared, .. } = &mut self.turn;
        accounts[*host].settle(shared)?;
        let Account { id, ledger, .. } = self.turn.account();
        let answers = ledger.judge_tripwire(number, held, flags);
        machine.store_page(number, base + u64::from(CLAN_TRIPWIRE_CONTROL), 4, control.into())?;
        let Some(endpoint) = ledger.endpoint(number) else { return Ok(()) };
        let place = endpoint.area.address(u64::from(CLAN_STATE_TRIPWIRES + 8 * index + 4));
        let answer = machine.memory.peek_u32(place);
        let said = answer & 0xffff;
        ensure(answer >> 16 == control >> 16 && answers.contains(&said), || {
            format!(
                "host {id}: a Tripwire {held:x?} {control:#x} is answered {answer:#x}, and may be {answers:?}"
            )
        })?;
        let [offset, length, target] = held;
        let is_enabled = said == CLAN_TRIPWIRE_OK && flags & CLAN_TRIPWIRE_ENABLE != 0;
        let watch = is_enabled.then_some(Watch { offset, length, target, flags });
        endpoint.tripwires[index as usize].set(answer, watch);
        Ok(())
    }

    fn clear_bits(&mut self, number: u32, bits: u64) {
        let Account { machine, ledger, .. } = self.turn.account();
        let Some(endpoint) = ledger.endpoint(number) else { return };
        let cleared = endpoint.bits.clear(bits);
        endpoint.area.poke(&machine.memory, CLAN_STATE_CLEARED.into(), &cleared.to_le_bytes());
    }

    fn poke(&mut self, number: u32, offset: u64, length: u64) {
        let Turn { accounts, host, rng, shared, .. } = &mut self.turn;
        let Account { machine, ledger, .. } = &accounts[*host];
        let Some(aperture) = ledger.apertures().get(&number) else { return };
        for (address, length) in aperture.area.pieces(offset, length) {
            let bytes = rng.bytes(length as usize);
            machine.memory.poke(address, &bytes);
            shared.memories.remember(*host, address, &bytes);
        }
    }

    /// Takes the records of the FIFO as the driver, if a vector came.
    pub(super) fn take_fifo(&mut self) -> Result<bool, Violation> {
        self.flush()?;
        let Account { machine, events, .. } = self.turn.account();
        let taken = events.take_fifo();
        taken.map_or(Ok(()), |taken| machine.set(CLAN_REG_FIFO_TAKEN, taken))?;
        self.turn.check()?;
        Ok(taken.is_some())
    }

    /// Loads a register. Once the card has answered it, all data that it has taken is in memory.
    fn flush(&mut self) -> Result<(), Violation> {
        self.turn.account().machine.load(CLAN_REG_APERTURES)?;
        self.turn.check()
    }

    /// Arms an endpoint or an event queue for a sleeper, or posts a message, as the driver.
    pub(super) fn arm_something(&mut self) -> Result<(), Violation> {
        self.flush()?;
        let Turn { accounts, host, rng, .. } = &mut self.turn;
        let account = &mut accounts[*host];
        let machine = account.machine.clone();
        let endpoints: Vec<u32> = account.ledger.endpoints().keys().copied().collect();
        let queues: Vec<u32> = account.events.queues().collect();
        match (rng.below(3), rng.pick(&endpoints), rng.pick(&queues)) {
            (0, Some(number), _) => {
                let bits = rng.next() & 0x7_ffff_ffff;
                let endpoint = account.ledger.endpoint(number);
                let Some(is_set) = endpoint.and_then(|endpoint| endpoint.bits.arm(bits)) else {
                    return Ok(());
                };
                if is_set {
                    account.events.owe_fifo(number);
                }
                machine.set_long(CLAN_REG_ARM, bits << 16 | u64::from(number))?;
            }
            (1, Some(number), _) => {
                account.happened(number, CLAN_EVENT_MESSAGE, CLAN_BIT_MESSAGE);
                machine.set(CLAN_REG_POST, number)?;
            }
            (_, _, Some(number)) => {
                let Some(taken) = account.events.arm(number) else { return Ok(()) };
                machine.set_long(CLAN_REG_ARM_EVENTS, u64::from(taken) << 32 | u64::from(number))?;
            }
            _ => {}
        }
        self.turn.check()
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
