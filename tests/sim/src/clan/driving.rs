//! Actions of drivers: opening and closing apertures, windows, endpoints, event queues and the
//! FIFO, and resetting cards.

use std::collections::{BTreeMap, BTreeSet};

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::CLAN_REQUEST_SIZE;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::{CLAN_EVENT_SIZE, CLAN_EVENT_TRIPWIRE, CLAN_EVENTS_HEAD, CLAN_EVENTS_TAKEN};
use hamlyn_abi::clan::fifo::CLAN_FIFO_SIZE;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_abi::family::command::{ULN_STATUS_BAD_LENGTH, ULN_STATUS_IN_USE};
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use zerocopy::{Immutable, IntoBytes};

use crate::engine::area::Area;
use crate::engine::memory::{Memory, Right};
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Aperture, Endpoint, Fifo, Ghost, Ledger, Part, Queue, Source, Window};
use super::model::Clan;
use super::packet::WRITE;

/// Offset in a request of the result that the card writes.
pub(super) const RESULT: u64 = 28;

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

fn permit_queue(memory: &Memory, queue: &Queue, allowed: bool) {
    let records = u64::from(queue.records * CLAN_EVENT_SIZE);
    queue.area.permit(memory, Right::Read, CLAN_EVENTS_TAKEN.into(), 4, allowed);
    queue.area.permit(memory, Right::Write, CLAN_EVENTS_HEAD.into(), records, allowed);
}

/// Allows or forbids all reads and writes of an aperture. Its owner's DMA may do both, whatever
/// rights other hosts have. The ledger checks the actual accesses.
fn permit_aperture(memory: &Memory, area: &Area, allowed: bool) {
    for right in [Right::Read, Right::Write] {
        area.permit(memory, right, 0, area.length, allowed);
    }
}

impl World<Clan> {
    /// Runs a command that must succeed.
    pub(super) fn run_command(
        &mut self,
        host: usize,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Violation> {
        let done = self.hosts[host].machine.command(opcode, index, body)?;
        ensure(done.is_ok(), || format!("host {host}: command {opcode} on {index} was refused: {done:?}"))?;
        self.model.ledgers[host].count(Counter::Commands, 1);
        Ok(())
    }

    /// Opens an aperture of new memory. Returns its number.
    pub(super) fn open_aperture(
        &mut self,
        host: usize,
        owner: u32,
        flags: u32,
        group: Option<u32>,
    ) -> Result<Option<u32>, Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let first = 8 * self.rng.below(512);
        let length = match self.rng.below(4) {
            _ if flags & CLAN_APERTURE_PARTS != 0 => {
                u64::from(CLAN_PART) * self.rng.below(self.hosts.len() as u64 + 1) + 1 + self.rng.below(4096)
            }
            0 => self.rng.range(1, 64).into(),
            1 => 4096,
            _ => u64::from(self.rng.range(65, 9000)),
        };
        let apertures = &self.model.ledgers[host].apertures;
        let Some(number) = Ledger::free(apertures, machine.options.apertures) else { return Ok(None) };
        if group.is_some_and(|group| apertures.values().any(|one| one.is_member() && one.group == group)) {
            return Ok(None);
        }
        let Some(area) = machine.allocate(first, length) else { return Ok(None) };
        let content = self.rng.bytes(length as usize);
        area.poke(&machine.memory, 0, &content);
        let mut rest = &content[..];
        for (address, length) in area.pieces(0, length) {
            let (here, behind) = rest.split_at(length as usize);
            self.remember(host, address, here);
            rest = behind;
        }
        permit_aperture(&machine.memory, &area, true);
        let key = group.map_or_else(|| self.rng.next(), |group| self.model.group_keys[group as usize]);
        let group = group.unwrap_or(0);
        let body = ClanOpenAperture { area: area.abi(), key, owner, flags, group, reserved: 0 };
        self.run_command(host, CLAN_COMMAND_OPEN_APERTURE, number, &body)?;
        let ledger = &mut self.model.ledgers[host];
        ledger.note_pages(&area, Part::Aperture(number), true);
        ledger.apertures.insert(number, Aperture { area, key, owner, flags, group });
        self.check_card(host)?;
        Ok(Some(number))
    }

    /// Closes an aperture. Any later access of the card to its memory is detected.
    pub(super) fn close_aperture(&mut self, host: usize, number: u32) -> Result<(), Violation> {
        self.settle(host)?;
        self.run_command(host, CLAN_COMMAND_CLOSE_APERTURE, number, &[0_u8; 0])?;
        // The card must write the data that it has already taken before it answers.
        self.settle(host)?;
        ensure(self.model.ledgers[host].landings.is_empty(), || {
            format!(
                "host {host}: a command is answered before this is in memory: {:x?}",
                self.model.ledgers[host].landings
            )
        })?;
        self.forget_aperture(host, number);
        self.check_card(host)
    }

    fn forget_aperture(&mut self, host: usize, number: u32) {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let Some(aperture) = ledger.apertures.remove(&number) else { return };
        if aperture.is_member() {
            ledger.forget_copies(host as u16, |group| group == aperture.group);
        }
        permit_aperture(&machine.memory, &aperture.area, false);
        ledger.note_pages(&aperture.area, Part::Command, false);
        machine.give_back(&aperture.area);
        let pending = ledger.endpoints.values_mut().flat_map(|endpoint| &mut endpoint.pending);
        for pending in pending.filter(|pending| pending.request.local_aperture == number) {
            pending.is_cut = true;
        }
        for tripwire in ledger.endpoints.values_mut().flat_map(|endpoint| &mut endpoint.tripwires) {
            let is_remote = |flags: u32| flags & hamlyn_abi::clan::tripwire::CLAN_TRIPWIRE_REMOTE != 0;
            if tripwire
                .watch
                .is_some_and(|watch| !is_remote(watch.flags) && watch.target == u64::from(number))
            {
                tripwire.watch = None;
            }
        }
    }

    /// Opens an endpoint. Returns its number.
    pub(super) fn open_endpoint(
        &mut self,
        host: usize,
        owner: u32,
        flags: u32,
        events: Option<u32>,
    ) -> Result<Option<u32>, Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let options = machine.options;
        let ledger = &self.model.ledgers[host];
        let used: usize = ledger.endpoints.values().map(|endpoint| endpoint.tripwires.len()).sum();
        let left = options.tripwires - used as u32;
        let Some(number) = Ledger::free(&ledger.endpoints, options.endpoints) else { return Ok(None) };
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
        self.model.opened[host] += 1;
        let tag = self.model.opened[host] << 14 | number;
        if !self.run_if_room(host, CLAN_COMMAND_OPEN_ENDPOINT, (number, tripwires), events, &body)? {
            permit_endpoint(&machine.memory, &area, requests, false);
            machine.give_back(&area);
            return Ok(None);
        }
        let ledger = &mut self.model.ledgers[host];
        ledger.note_pages(&area, Part::Endpoint(number), true);
        let endpoint = Endpoint::new(area, owner, tripwires, requests);
        let changes_requests = self.rng.percent(30);
        ledger.endpoints.insert(number, Endpoint { events, flags, tag, changes_requests, ..endpoint });
        self.check_card(host)?;
        Ok(Some(number))
    }

    /// Runs a command that directs an endpoint's events to a queue. The card must refuse it if the
    /// queue has no room for them.
    fn run_if_room(
        &mut self,
        host: usize,
        opcode: u32,
        (number, tripwires): (u32, u32),
        events: Option<u32>,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<bool, Violation> {
        let Some(refusal) =
            events.and_then(|events| self.model.ledgers[host].crowd(events, number, tripwires))
        else {
            return self.run_command(host, opcode, number, body).map(|()| true);
        };
        let done = self.hosts[host].machine.command(opcode, number, body)?;
        ensure(done.is_err_and(|done| done.status == refusal), || {
            format!(
                "host {host}: command {opcode} on {number} must be refused with {refusal}, and was not: {done:?}"
            )
        })?;
        self.model.ledgers[host].count(Counter::CommandsRefused, 1);
        Ok(false)
    }

    /// Closes an endpoint, after its windows.
    pub(super) fn close_endpoint(&mut self, host: usize, number: u32) -> Result<(), Violation> {
        let ledger = &self.model.ledgers[host];
        let windows: Vec<u32> = ledger
            .windows
            .iter()
            .filter(|(_, window)| window.endpoint == number)
            .map(|(first, _)| *first)
            .collect();
        if !windows.is_empty() && self.rng.percent(20) {
            let done = self.hosts[host].machine.command(CLAN_COMMAND_CLOSE_ENDPOINT, number, &[0_u8; 0])?;
            ensure(done.is_err(), || {
                format!("host {host}: endpoint {number} is closed though it has windows")
            })?;
            self.model.ledgers[host].count(Counter::CommandsRefused, 1);
        }
        windows.into_iter().try_for_each(|window| self.close_window(host, window))?;
        self.settle(host)?;
        self.run_command(host, CLAN_COMMAND_CLOSE_ENDPOINT, number, &[0_u8; 0])?;
        self.settle(host)?;
        self.forget_endpoint(host, number);
        self.check_card(host)
    }

    fn forget_endpoint(&mut self, host: usize, number: u32) {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let Some(mut endpoint) = ledger.endpoints.remove(&number) else { return };
        permit_endpoint(&machine.memory, &endpoint.area, endpoint.requests, false);
        endpoint.area.pages().iter().for_each(|page| machine.memory.keep(*page));
        ledger.note_pages(&endpoint.area, Part::Command, false);
        machine.give_back(&endpoint.area);
        let Endpoint { tag, owner, flags, .. } = endpoint;
        self.model.refused.retain(|told| (told.1, told.2) != (host as u16, tag));
        self.model.writers.retain(|(own, _, writer)| (*own, *writer) != (host as u16, tag));
        if let Some(pending) = endpoint.pending.pop_front() {
            let ghost = Ghost::new((tag, owner, flags), pending, None);
            let is_detached = ghost.pending.is_detached(flags);
            if is_detached { ledger.detached.push(ghost) } else { ledger.ghosts.push(ghost) }
        }
        for made in ledger.program.values_mut().flatten().filter(|made| made.letter.tag == tag) {
            made.excused |= made.letter.kind == WRITE;
        }
    }

    /// Opens a window. Returns its first page.
    pub(super) fn open_window(&mut self, host: usize, window: Window) -> Result<Option<u32>, Violation> {
        self.settle(host)?;
        let pages = self.hosts[host].machine.options.window_pages;
        let needed = window.length.div_ceil(4096) as u32;
        let windows = &self.model.ledgers[host].windows;
        let is_free = |first: u32| {
            let ends = |other: &u32| other + windows[other].length.div_ceil(4096) as u32;
            windows.range(..first + needed).next_back().is_none_or(|(other, _)| ends(other) <= first)
        };
        let start = self.rng.below(pages.into()) as u32;
        let Some(first) = (start..=pages.saturating_sub(needed)).find(|first| is_free(*first)) else {
            return Ok(None);
        };
        let Window { key, offset, length, host: peer, aperture, endpoint, flags } = window;
        let body = ClanOpenWindow { key, offset, length, host: peer, aperture, endpoint, flags };
        self.run_command(host, CLAN_COMMAND_OPEN_WINDOW, first, &body)?;
        self.model.ledgers[host].windows.insert(first, window);
        self.check_card(host)?;
        Ok(Some(first))
    }

    /// Closes a window. Loads that wait for it read as ones.
    pub(super) fn close_window(&mut self, host: usize, first: u32) -> Result<(), Violation> {
        self.settle(host)?;
        let Some(window) = self.model.ledgers[host].windows.remove(&first) else { return Ok(()) };
        for (_, load) in self.model.ledgers[host].loads.iter_mut().filter(|(_, load)| load.first == first) {
            load.is_cut = true;
        }
        self.run_command(host, CLAN_COMMAND_CLOSE_WINDOW, first, &[0_u8; 0])?;
        self.hear_loads(host)?;
        let waits = self.model.ledgers[host].loads.values().find(|load| load.first == first);
        ensure(waits.is_none(), || {
            format!("host {host}: a load waits for a window that is closed: {window:?}")
        })?;
        self.check_card(host)
    }

    /// Opens an event queue. Returns its number.
    pub(super) fn open_queue(&mut self, host: usize, owner: u32) -> Result<Option<u32>, Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let queues = &self.model.ledgers[host].queues;
        let Some(number) = Ledger::free(queues, machine.options.event_queues) else { return Ok(None) };
        let records = self.rng.pick(&[16, 32, 64]).unwrap_or(64);
        let length = u64::from(CLAN_EVENTS_HEAD + records * CLAN_EVENT_SIZE);
        let Some(area) = machine.allocate(0, length) else { return Ok(None) };
        let queue = Queue::new(area, owner, records);
        permit_queue(&machine.memory, &queue, true);
        let body = ClanOpenEvents { memory: queue.area.abi(), owner, records };
        self.run_command(host, CLAN_COMMAND_OPEN_EVENTS, number, &body)?;
        let ledger = &mut self.model.ledgers[host];
        ledger.note_pages(&queue.area, Part::Queue(number), true);
        ledger.queues.insert(number, queue);
        self.check_card(host)?;
        Ok(Some(number))
    }

    /// Closes an event queue. Endpoints whose events went there then have no queue.
    pub(super) fn close_queue(&mut self, host: usize, number: u32) -> Result<(), Violation> {
        self.settle(host)?;
        self.run_command(host, CLAN_COMMAND_CLOSE_EVENTS, number, &[0_u8; 0])?;
        self.settle(host)?;
        self.forget_queue(host, number);
        self.check_card(host)
    }

    fn forget_queue(&mut self, host: usize, number: u32) {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let Some(queue) = ledger.queues.remove(&number) else { return };
        permit_queue(&machine.memory, &queue, false);
        ledger.note_pages(&queue.area, Part::Command, false);
        machine.give_back(&queue.area);
        for endpoint in ledger.endpoints.values_mut().filter(|endpoint| endpoint.events == Some(number)) {
            endpoint.events = None;
        }
        ledger.fifo.owed.remove(&(hamlyn_abi::clan::fifo::CLAN_FIFO_EVENTS | number));
    }

    /// Opens the FIFO.
    pub(super) fn open_fifo(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let options = machine.options;
        let most = options.endpoints + options.event_queues + options.tripwires;
        let records = most.next_power_of_two();
        let length = u64::from(records * CLAN_FIFO_SIZE);
        let Some(area) = machine.allocate(0, length) else { return Ok(()) };
        area.permit(&machine.memory, Right::Write, 0, length, true);
        let body = ClanOpenFifo { area: area.abi(), records, reserved: 0 };
        self.run_command(host, CLAN_COMMAND_OPEN_FIFO, 0, &body)?;
        let ledger = &mut self.model.ledgers[host];
        ledger.note_pages(&area, Part::Fifo, true);
        ledger.fifo = Fifo { area: Some(area), records, ..Fifo::default() };
        Ok(())
    }

    fn forget_fifo(&mut self, host: usize) {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let Fifo { area, .. } = std::mem::take(&mut ledger.fifo);
        if let Some(area) = area {
            area.permit(&machine.memory, Right::Write, 0, area.length, false);
            ledger.note_pages(&area, Part::Command, false);
            machine.give_back(&area);
        }
    }

    /// Sets the event queue of an endpoint.
    pub(super) fn set_events(
        &mut self,
        host: usize,
        number: u32,
        events: Option<u32>,
    ) -> Result<(), Violation> {
        self.settle(host)?;
        let Some(endpoint) = self.model.ledgers[host].endpoints.get(&number) else { return Ok(()) };
        let tripwires = endpoint.tripwires.len() as u32;
        let to = events.filter(|_| endpoint.events != events);
        let body = ClanSetEvents { events: events.unwrap_or(CLAN_NO_EVENTS), reserved: 0 };
        let is_done = self.run_if_room(host, CLAN_COMMAND_SET_EVENTS, (number, tripwires), to, &body)?;
        self.settle(host)?;
        if let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number).filter(|_| is_done) {
            endpoint.events = events;
        }
        self.check_card(host)
    }

    /// Resets the card. All objects are closed, and its unsent data is lost.
    pub(super) fn reset(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        self.note(|| format!("host {host} resets its card"));
        let machine = self.hosts[host].machine.clone();
        machine.set(ULN_REG_CONTROL, ULN_CONTROL_RESET)?;
        self.settle_after_reset(host)?;
        let all = |keys: Vec<u32>| keys.into_iter();
        let ledger = &self.model.ledgers[host];
        let apertures = all(ledger.apertures.keys().copied().collect());
        let endpoints = all(ledger.endpoints.keys().copied().collect());
        let queues = all(ledger.queues.keys().copied().collect());
        apertures.for_each(|number| self.forget_aperture(host, number));
        endpoints.for_each(|number| self.forget_endpoint(host, number));
        queues.for_each(|number| self.forget_queue(host, number));
        self.forget_fifo(host);
        self.model.ledgers[host] = Ledger::default();
        self.model.card_was_reset(host as u16);
        self.forget_counts(host as u16);
        for processor in &mut self.hosts[host].processes {
            processor.stands_still = None;
        }
        self.forget_all_deeds(host);
        machine.enable()?;
        self.set_up(host)
    }
}

impl Ledger {
    /// Returns the status with which a queue refuses an endpoint's events, if it has no room for
    /// them.
    fn crowd(&mut self, number: u32, endpoint: u32, tripwires: u32) -> Option<u32> {
        let queue = self.queues.get_mut(&number)?;
        queue.look();
        let mut members: BTreeMap<u32, u32> = self
            .endpoints
            .iter()
            .filter(|(_, one)| one.events == Some(number))
            .map(|(of, one)| (*of, one.tripwires.len() as u32))
            .collect();
        members.insert(endpoint, tripwires);
        // Requests, messages and faults are sources, too.
        let sources: u32 = members.values().map(|tripwires| tripwires + 3).sum();
        let is_left = |source: &&Source| {
            members
                .get(&source.0)
                .is_none_or(|tripwires| source.1 == CLAN_EVENT_TRIPWIRE && source.2 >= *tripwires)
        };
        let left: BTreeSet<&Source> = queue.untaken().iter().filter(is_left).collect();
        if sources > queue.records {
            Some(ULN_STATUS_BAD_LENGTH)
        } else {
            (sources + left.len() as u32 > queue.records).then_some(ULN_STATUS_IN_USE)
        }
    }
}

/// Returns whether an aperture's flags allow an access of another host.
pub(super) fn allows(flags: u32, is_read: bool, is_privileged: bool) -> bool {
    let right = if is_read { CLAN_APERTURE_READ } else { CLAN_APERTURE_WRITE };
    flags & right != 0 && (is_privileged || flags & CLAN_APERTURE_PRIVILEGED == 0)
}
