//! Actions of drivers: opening and closing apertures, windows, endpoints, event queues and the
//! FIFO, and resetting cards.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::CLAN_REQUEST_SIZE;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::{CLAN_EVENT_SIZE, CLAN_EVENTS_HEAD};
use hamlyn_abi::clan::fifo::CLAN_FIFO_SIZE;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use zerocopy::{Immutable, IntoBytes};

use crate::engine::area::Area;
use crate::engine::memory::{Memory, Right};
use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::account::{Account, RESULT, Shared};
use super::events::Queue;
use super::faults::{Bits, Faults};
use super::ledger::Part;
use super::objects::{Aperture, Endpoint, Tripwire, Window};
use super::requests::Requests;

/// Allows or forbids the card to use its parts of an endpoint's memory.
fn permit_endpoint(memory: &Memory, area: &Area, requests: u32, allowed: bool) {
    let permit = |right, offset: u32, length| area.permit(memory, right, offset.into(), length, allowed);
    permit(Right::Write, CLAN_STATE_BITS, 8);
    permit(Right::Read, CLAN_STATE_BITS, 16);
    permit(Right::Read, CLAN_STATE_PUT, 4);
    permit(Right::Write, CLAN_STATE_DONE, 8);
    permit(Right::Write, CLAN_STATE_FAULTS, 32);
    permit(Right::Write, CLAN_STATE_TRIPWIRES, 8 * u64::from(CLAN_MAX_TRIPWIRES));
    for request in 0..requests {
        let at = CLAN_STATE_SIZE + request * CLAN_REQUEST_SIZE;
        permit(Right::Read, at, CLAN_REQUEST_SIZE.into());
        permit(Right::Write, at + RESULT as u32, 4);
    }
}

/// Allows or forbids all reads and writes of an aperture. Its owner's DMA may do both, whatever
/// rights other hosts have. The ledger checks the actual accesses.
fn permit_aperture(memory: &Memory, area: &Area, allowed: bool) {
    for right in [Right::Read, Right::Write] {
        area.permit(memory, right, 0, area.length, allowed);
    }
}

/// The driver of a card, and the card's account.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    pub(super) account: &'a mut Account,
    pub(super) shared: &'a mut Shared,
    pub(super) rng: &'a mut Rng,
    /// Keys by group.
    pub(super) keys: &'a [u64],
    /// Number of hosts.
    pub(super) hosts: usize,
}

impl Driver<'_> {
    fn settle(&mut self) -> Result<(), Violation> {
        self.account.settle(self.shared)
    }

    fn check(&mut self) -> Result<(), Violation> {
        self.account.check(self.shared)
    }

    /// Opens an aperture of new memory. Returns its number.
    pub(super) fn open_aperture(
        &mut self,
        owner: u32,
        flags: u32,
        group: Option<u32>,
    ) -> Result<Option<u32>, Violation> {
        self.settle()?;
        let machine = self.account.machine.clone();
        let first = 8 * self.rng.below(512);
        let length = match self.rng.below(4) {
            _ if flags & CLAN_APERTURE_PARTS != 0 => {
                u64::from(CLAN_PART) * self.rng.below(self.hosts as u64 + 1) + 1 + self.rng.below(4096)
            }
            0 => self.rng.range(1, 64).into(),
            1 => 4096,
            _ => u64::from(self.rng.range(65, 9000)),
        };
        let Account { id, ledger, .. } = &mut *self.account;
        let is_free = |number: &u32| !ledger.apertures().contains_key(number);
        let Some(number) = (0..machine.options.apertures).find(is_free) else { return Ok(None) };
        if group.is_some_and(|group| ledger.has_member(group)) {
            return Ok(None);
        }
        let Some(area) = machine.allocate(first, length) else { return Ok(None) };
        let content = self.rng.bytes(length as usize);
        area.poke(&machine.memory, 0, &content);
        let mut rest = &content[..];
        for (address, length) in area.pieces(0, length) {
            let (here, behind) = rest.split_at(length as usize);
            self.shared.memories.remember((*id).into(), address, here);
            rest = behind;
        }
        permit_aperture(&machine.memory, &area, true);
        let key = group.map_or_else(|| self.rng.next(), |group| self.keys[group as usize]);
        let group = group.unwrap_or(0);
        let body = ClanOpenAperture { area: area.abi(), key, owner, flags, group, reserved: 0 };
        self.account.run(CLAN_COMMAND_OPEN_APERTURE, number, &body)?;
        self.account.ledger.open_aperture(number, Aperture { area, key, owner, flags, group });
        self.check()?;
        Ok(Some(number))
    }

    /// Closes an aperture. Any later access of the card to its memory is detected.
    pub(super) fn close_aperture(&mut self, number: u32) -> Result<(), Violation> {
        self.settle()?;
        self.account.run(CLAN_COMMAND_CLOSE_APERTURE, number, &[0_u8; 0])?;
        // The card must write the data that it has already taken before it answers.
        self.settle()?;
        let (id, waiting) = (self.account.id, self.account.landings.waiting());
        ensure(waiting.is_empty(), || {
            format!("host {id}: a command is answered before this is in memory: {waiting:x?}")
        })?;
        self.forget_aperture(number);
        self.check()
    }

    fn forget_aperture(&mut self, number: u32) {
        let Account { id, machine, ledger, program, .. } = &mut *self.account;
        let Some(aperture) = ledger.close_aperture(number) else { return };
        if aperture.is_member() {
            program.forget_copies(ledger, *id, |group| group == aperture.group);
        }
        permit_aperture(&machine.memory, &aperture.area, false);
        machine.give_back(&aperture.area);
    }

    /// Opens an endpoint. Returns its number.
    pub(super) fn open_endpoint(
        &mut self,
        owner: u32,
        flags: u32,
        events: Option<u32>,
    ) -> Result<Option<u32>, Violation> {
        self.settle()?;
        let machine = self.account.machine.clone();
        let options = machine.options;
        let endpoints = self.account.ledger.endpoints();
        let used: usize = endpoints.values().map(|endpoint| endpoint.tripwires.len()).sum();
        let left = options.tripwires - used as u32;
        let is_free = |number: &u32| !endpoints.contains_key(number);
        let Some(number) = (0..options.endpoints).find(is_free) else { return Ok(None) };
        let tripwires = self.rng.range(0, left.min(8));
        let requests = self.rng.pick(&[16, 16, 32]).unwrap_or(16);
        let length = u64::from(CLAN_STATE_SIZE + requests * CLAN_REQUEST_SIZE);
        let Some(area) = machine.allocate(0, length) else { return Ok(None) };
        permit_endpoint(&machine.memory, &area, requests, true);
        let body = ClanOpenEndpoint {
            memory: area.abi(),
            owner,
            tripwires,
            requests,
            events: events.unwrap_or(CLAN_NO_EVENTS),
            flags,
            faults_to: 0,
        };
        let tag = self.account.next_tag(number);
        if !self.run_if_room(CLAN_COMMAND_OPEN_ENDPOINT, (number, tripwires), events, &body)? {
            permit_endpoint(&machine.memory, &area, requests, false);
            machine.give_back(&area);
            return Ok(None);
        }
        debug_assert!(tripwires <= CLAN_MAX_TRIPWIRES, "more Tripwires than there can be");
        let endpoint = Endpoint {
            area,
            tag,
            owner,
            flags,
            events,
            changes_requests: self.rng.percent(30),
            tripwires: (0..tripwires).map(|_| Tripwire::default()).collect(),
            requests: Requests::new(requests),
            bits: Bits::default(),
            faults: Faults::default(),
        };
        self.account.ledger.open_endpoint(number, endpoint);
        self.check()?;
        Ok(Some(number))
    }

    /// Runs a command that directs an endpoint's events to a queue. The card must refuse it if the
    /// queue has no room for them.
    fn run_if_room(
        &mut self,
        opcode: u32,
        (number, tripwires): (u32, u32),
        events: Option<u32>,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<bool, Violation> {
        let Account { id, machine, ledger, events: queues, .. } = &mut *self.account;
        let refusal = events.and_then(|events| {
            let mut members = ledger.members_of(events);
            members.insert(number, tripwires);
            queues.crowd(events, &members)
        });
        let Some(refusal) = refusal else {
            return self.account.run(opcode, number, body).map(|()| true);
        };
        let done = machine.command(opcode, number, body)?;
        ensure(done.is_err_and(|done| done.status == refusal), || {
            format!(
                "host {id}: command {opcode} on {number} must be refused with {refusal}, and was not: {done:?}"
            )
        })?;
        self.account.count(Counter::CommandsRefused, 1);
        Ok(false)
    }

    /// Closes an endpoint, after its windows.
    pub(super) fn close_endpoint(&mut self, number: u32) -> Result<(), Violation> {
        let windows = self.account.ledger.windows_of(number);
        if !windows.is_empty() && self.rng.percent(20) {
            let done = self.account.machine.command(CLAN_COMMAND_CLOSE_ENDPOINT, number, &[0_u8; 0])?;
            let id = self.account.id;
            ensure(done.is_err(), || {
                format!("host {id}: endpoint {number} is closed though it has windows")
            })?;
            self.account.count(Counter::CommandsRefused, 1);
        }
        windows.into_iter().try_for_each(|window| self.close_window(window))?;
        self.settle()?;
        self.account.run(CLAN_COMMAND_CLOSE_ENDPOINT, number, &[0_u8; 0])?;
        self.settle()?;
        self.forget_endpoint(number);
        self.check()
    }

    fn forget_endpoint(&mut self, number: u32) {
        let Account { id, machine, ledger, program, .. } = &mut *self.account;
        let Some(endpoint) = ledger.close_endpoint(number) else { return };
        permit_endpoint(&machine.memory, &endpoint.area, endpoint.requests.size(), false);
        endpoint.area.pages().iter().for_each(|page| machine.memory.keep(*page));
        machine.give_back(&endpoint.area);
        self.shared.refusals.forget_endpoint(*id, endpoint.tag);
        program.close((endpoint.tag, endpoint.owner, endpoint.flags), endpoint.requests.close());
    }

    /// Opens a window. Returns its first page.
    pub(super) fn open_window(&mut self, window: Window) -> Result<Option<u32>, Violation> {
        self.settle()?;
        let pages = self.account.machine.options.window_pages;
        let needed = window.length.div_ceil(4096) as u32;
        let windows = self.account.ledger.windows();
        let is_free = |first: u32| {
            let ends = |other: &u32| other + windows[other].length.div_ceil(4096) as u32;
            windows.range(..first + needed).next_back().is_none_or(|(other, _)| ends(other) <= first)
        };
        let start = self.rng.below(pages.into()) as u32;
        let Some(first) = (start..=pages.saturating_sub(needed)).find(|first| is_free(*first)) else {
            return Ok(None);
        };
        let Window { key, offset, length, host, aperture, endpoint, flags } = window;
        let body = ClanOpenWindow { key, offset, length, host, aperture, endpoint, flags };
        self.account.run(CLAN_COMMAND_OPEN_WINDOW, first, &body)?;
        self.account.ledger.open_window(first, window);
        self.check()?;
        Ok(Some(first))
    }

    /// Closes a window. Loads that wait for it read as ones.
    pub(super) fn close_window(&mut self, first: u32) -> Result<(), Violation> {
        self.settle()?;
        let Some(window) = self.account.ledger.close_window(first) else { return Ok(()) };
        self.account.loads.cut(first);
        self.account.run(CLAN_COMMAND_CLOSE_WINDOW, first, &[0_u8; 0])?;
        self.account.end_loads(self.shared)?;
        let id = self.account.id;
        ensure(!self.account.loads.is_awaited(first), || {
            format!("host {id}: a load waits for a window that is closed: {window:?}")
        })?;
        self.check()
    }

    /// Opens an event queue. Returns its number.
    pub(super) fn open_queue(&mut self, owner: u32) -> Result<Option<u32>, Violation> {
        self.settle()?;
        let machine = self.account.machine.clone();
        let number = self.account.events.free_queue(machine.options.event_queues);
        let Some(number) = number else { return Ok(None) };
        let records = self.rng.pick(&[16, 32, 64]).unwrap_or(64);
        let length = u64::from(CLAN_EVENTS_HEAD + records * CLAN_EVENT_SIZE);
        let Some(memory) = machine.allocate(0, length) else { return Ok(None) };
        let body = ClanOpenEvents { memory: memory.abi(), owner, records };
        let queue = Queue::new(memory, owner, records);
        queue.permit(&machine.memory, true);
        self.account.run(CLAN_COMMAND_OPEN_EVENTS, number, &body)?;
        self.account.ledger.note_pages(queue.area(), Part::Queue(number));
        self.account.events.open_queue(number, queue);
        self.check()?;
        Ok(Some(number))
    }

    /// Closes an event queue. Endpoints whose events went there then have no queue.
    pub(super) fn close_queue(&mut self, number: u32) -> Result<(), Violation> {
        self.settle()?;
        self.account.run(CLAN_COMMAND_CLOSE_EVENTS, number, &[0_u8; 0])?;
        self.settle()?;
        self.forget_queue(number);
        self.check()
    }

    fn forget_queue(&mut self, number: u32) {
        let Account { machine, ledger, events, .. } = &mut *self.account;
        let Some(queue) = events.close_queue(number) else { return };
        queue.permit(&machine.memory, false);
        ledger.forget_pages(queue.area());
        ledger.forget_queue(number);
        machine.give_back(queue.area());
    }

    /// Opens the FIFO.
    pub(super) fn open_fifo(&mut self) -> Result<(), Violation> {
        let machine = self.account.machine.clone();
        let options = machine.options;
        let most = options.endpoints + options.event_queues + options.tripwires;
        let records = most.next_power_of_two();
        let length = u64::from(records * CLAN_FIFO_SIZE);
        let Some(area) = machine.allocate(0, length) else { return Ok(()) };
        area.permit(&machine.memory, Right::Write, 0, length, true);
        let body = ClanOpenFifo { area: area.abi(), records, reserved: 0 };
        self.account.run(CLAN_COMMAND_OPEN_FIFO, 0, &body)?;
        self.account.ledger.note_pages(&area, Part::Fifo);
        self.account.events.open_fifo(area, records);
        Ok(())
    }

    fn forget_fifo(&mut self) {
        let Account { machine, ledger, events, .. } = &mut *self.account;
        if let Some(area) = events.close_fifo() {
            area.permit(&machine.memory, Right::Write, 0, area.length, false);
            ledger.forget_pages(&area);
            machine.give_back(&area);
        }
    }

    /// Sets the event queue of an endpoint.
    pub(super) fn set_events(&mut self, number: u32, events: Option<u32>) -> Result<(), Violation> {
        self.settle()?;
        let Some(endpoint) = self.account.ledger.endpoint(number) else { return Ok(()) };
        let tripwires = endpoint.tripwires.len() as u32;
        let to = events.filter(|_| endpoint.events != events);
        let body = ClanSetEvents { events: events.unwrap_or(CLAN_NO_EVENTS), reserved: 0 };
        let is_done = self.run_if_room(CLAN_COMMAND_SET_EVENTS, (number, tripwires), to, &body)?;
        self.settle()?;
        if let Some(endpoint) = self.account.ledger.endpoint(number).filter(|_| is_done) {
            endpoint.events = events;
        }
        self.check()
    }

    /// Resets the card. All objects are closed, no write is expected, and no load waits.
    pub(super) fn reset(&mut self) -> Result<(), Violation> {
        let machine = self.account.machine.clone();
        machine.set(ULN_REG_CONTROL, ULN_CONTROL_RESET)?;
        while machine.late_reading()?.is_some() {}
        // The card may write data that had arrived until the driver has taken its memory back.
        machine.memory.take_writes();
        let Account { ledger, events, .. } = &self.account;
        let apertures: Vec<u32> = ledger.apertures().keys().copied().collect();
        let endpoints: Vec<u32> = ledger.endpoints().keys().copied().collect();
        let queues: Vec<u32> = events.queues().collect();
        apertures.into_iter().for_each(|number| self.forget_aperture(number));
        endpoints.into_iter().for_each(|number| self.forget_endpoint(number));
        queues.into_iter().for_each(|number| self.forget_queue(number));
        self.forget_fifo();
        self.account.clear();
        machine.enable()
    }
}
