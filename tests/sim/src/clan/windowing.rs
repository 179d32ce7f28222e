//! Stores to windows, and loads from windows, for which a processor waits.

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_card::card::Reading;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Ledger, Load, Made, Window};
use super::model::Clan;
use super::packet::{FROM_SYSTEM, Letter, READ, TO_GROUP, WRITE};
use super::processor::group_of;

/// Number of stores that may wait before one is lost.
const MANY: usize = 32;

impl Window {
    /// Returns the packet of an access.
    fn letter(&self, kind: u8, tag: u32, at: u64, data: Vec<u8>) -> Letter {
        let (group, aperture) = group_of(self.host).map_or((0, self.aperture), |group| (TO_GROUP, group));
        let flags = group | if self.flags != 0 { FROM_SYSTEM } else { 0 };
        let key = self.key;
        Letter { kind, flags, epoch: 0, tag, key, aperture, offset: self.offset + at, data }
    }
}

impl World<Clan> {
    /// Returns whether traffic between two hosts may have been lost.
    pub(super) fn is_in_trouble(&self, host: usize, peer: u32) -> bool {
        let is_lost = |host: usize| {
            let at = self.hosts.get(host);
            at.is_none_or(|at| at.was_unplugged || !at.uplink.is_up())
                || self.model.was_reset[host]
                || self.model.was_stopped[host]
        };
        self.model.is_hasty()
            || is_lost(host)
            || is_lost(peer as usize)
            || self.model.is_tainted(host as u16, peer as u16)
    }

    fn refused_stores(&self, host: usize) -> u64 {
        self.hosts[host].machine.counters()[usize::from(Counter::StoresRefused)]
    }

    /// Stores to a window, or beside it, as a processor.
    pub(super) fn store_to_window(
        &mut self,
        host: usize,
        first: u32,
        at: u64,
        width: u8,
        value: u64,
    ) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let Some(window) = self.model.ledgers[host].windows.get(&first).copied() else { return Ok(()) };
        let is_inside = at + u64::from(width) <= window.length;
        let pages = window.length.div_ceil(4096) * 4096;
        let before = self.refused_stores(host);
        let data = value.to_le_bytes()[..width.into()].to_vec();
        let (tag, owner) = self.owner_of(host, &window);
        let letter = window.letter(WRITE, tag, at, data);
        let waits = self.model.ledgers[host].waiting(window.host);
        let cause = |reason| (reason, window.host, window.aperture, letter.offset);
        if let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&window.endpoint) {
            // The card reports which of the two it is.
            endpoint.causes.push(cause(if is_inside { CLAN_FAULT_LOST } else { CLAN_FAULT_WINDOW }));
        }
        let value = if width == 8 { value } else { value & ((1 << (8 * u32::from(width))) - 1) };
        machine.store_page(machine.options.endpoints + first, at, width, value)?;
        let refused = self.refused_stores(host) > before;
        let is_full = self.is_in_trouble(host, window.host) || waits > MANY;
        ensure(refused || is_inside, || format!("host {host}: a store beside a window is taken"))?;
        ensure(!refused || !is_inside || is_full, || {
            format!("host {host}: a store is lost though only {waits} wait: {letter:x?}")
        })?;
        let in_page = at < pages;
        if let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&window.endpoint) {
            if refused && in_page {
                endpoint.owed_faults += 1;
            } else {
                endpoint.causes.pop();
            }
        }
        if refused {
            return Ok(());
        }
        let Some(group) = group_of(window.host) else {
            self.note_made(host, window.host, letter, owner, false);
            return Ok(());
        };
        for member in self.model.ledgers[host].members_of(host as u16, group) {
            // The member may have been given up. Then the loss of this store is not reported.
            let excused = self.is_in_trouble(host, member.into());
            self.note_made(host, member.into(), letter.clone(), owner, excused);
        }
        Ok(())
    }

    /// Returns the sender in packets of a window's endpoint, and the endpoint's owner.
    fn owner_of(&self, host: usize, window: &Window) -> (u32, u32) {
        let endpoint = self.model.ledgers[host].endpoints.get(&window.endpoint);
        endpoint.map_or((0, 0), |endpoint| (endpoint.tag, endpoint.owner))
    }

    /// Loads from a window as a processor.
    pub(super) fn load_from_window(
        &mut self,
        host: usize,
        processor: usize,
        first: u32,
        at: u64,
        width: u8,
    ) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let Some(window) = self.model.ledgers[host].windows.get(&first).copied() else { return Ok(()) };
        let is_inside = at + u64::from(width) <= window.length && group_of(window.host).is_none();
        let letter = window.letter(READ, 0, at, u32::from(width).to_le_bytes().to_vec());
        let reading = machine.load_page(machine.options.endpoints + first, at, width)?;
        match reading {
            Reading::Now(value) => {
                let ones = u64::MAX >> (64 - 8 * u32::from(width));
                let late = self.model.ledgers[host].late_loads.get(&window.host).copied().unwrap_or(0);
                let takes = !self.is_in_trouble(host, window.host) && self.now() >= late;
                ensure(value & ones == ones && (!is_inside || !takes), || {
                    format!("host {host}: a load from {letter:x?} says {value:#x} at once")
                })?;
                let reason = if is_inside { CLAN_FAULT_TIMEOUT } else { CLAN_FAULT_WINDOW };
                let cause = (reason, window.host, window.aperture, letter.offset);
                if let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&window.endpoint) {
                    endpoint.causes.push(cause);
                    endpoint.owed_faults += 1;
                }
            }
            Reading::Later(number) => {
                ensure(is_inside, || format!("host {host}: a load from {letter:x?} has to wait"))?;
                let (_, owner) = self.owner_of(host, &window);
                let load = Load {
                    first,
                    window,
                    offset: letter.offset,
                    width,
                    since: self.now(),
                    owner,
                    value: None,
                    accesses: None,
                    refused: 0,
                    is_cut: false,
                    is_dropped: false,
                };
                // The read has the same number as the load.
                let letter = Letter { tag: number as u32, ..letter };
                self.note_made(host, window.host, letter, owner, false);
                self.model.ledgers[host].loads.insert(number, load);
                self.hosts[host].processes[processor].stands_still = Some(number);
            }
        }
        Ok(())
    }

    /// Completes loads that have got their values: the data that was there, or ones with a fault.
    pub(super) fn hear_loads(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        while let Some((number, value)) = machine.late_reading()? {
            let is_load = |made: &&Made| made.letter.kind == READ && u64::from(made.letter.tag) == number;
            let ledger = &self.model.ledgers[host];
            let is_dropped =
                ledger.is_ticking && ledger.program.values().flatten().any(|made| is_load(&made));
            let Some(mut load) = self.model.ledgers[host].loads.remove(&number) else {
                return Err(Violation::new(format!(
                    "host {host}: load {number} is answered, which nobody waits for"
                )));
            };
            self.model.loaded += 1;
            // It waited for a host that was given up.
            load.is_dropped = is_dropped;
            let ones = u64::MAX >> (64 - 8 * u32::from(load.width));
            match load.value {
                Some(known) => ensure(value & ones == known, || {
                    format!("host {host}: a load says {value:#x}, and {known:#x} came: {load:x?}")
                })?,
                None => self.load_failed(host, &load, value & ones == ones)?,
            }
            if let Some(accesses) = load.accesses {
                self.passed(host, accesses);
            }
            for made in self.model.ledgers[host].program.values_mut().flatten() {
                made.excused |= made.letter.kind == READ && u64::from(made.letter.tag) == number;
            }
            for processor in &mut self.hosts[host].processes {
                processor.stands_still.take_if(|waits| *waits == number);
            }
        }
        Ok(())
    }

    /// Checks a load that reads as ones: it was refused, or not answered in time, or there is no
    /// link.
    fn load_failed(&mut self, host: usize, load: &Load, is_ones: bool) -> Result<(), Violation> {
        let window = &load.window;
        let timeout = u64::from(self.hosts[host].machine.options.read_timeout_ms);
        let is_late = self.now() >= load.since + timeout;
        let tainted = self.model.is_tainted(host as u16, window.host as u16);
        let lost = self.is_in_trouble(host, window.host);
        ensure(is_ones, || format!("host {host}: a load that failed does not read as ones: {load:x?}"))?;
        ensure(load.refused != 0 || is_late || load.is_cut || load.is_dropped || lost || tainted, || {
            format!("host {host}: a load failed for no reason: {load:x?}")
        })?;
        if load.refused == 0 && is_late {
            // The next loads may fail at once, for 20 times as long.
            let until = self.now() + 20 * timeout;
            self.model.ledgers[host].late_loads.insert(window.host, until);
        }
        let reason = if load.refused == 0 { CLAN_FAULT_TIMEOUT } else { load.refused };
        let cause = (reason, window.host, window.aperture, load.offset);
        if let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&window.endpoint) {
            endpoint.causes.push(cause);
            endpoint.owed_faults += u32::from(!load.is_cut);
        }
        Ok(())
    }
}

impl Ledger {
    /// Returns the number of stores for a host that have not left.
    fn waiting(&self, to: u32) -> usize {
        self.program.get(&to).map_or(0, |queue| queue.iter().filter(|made| !made.excused).count())
    }

    /// Returns what waits to leave for existing hosts, or for an answer.
    pub(super) fn what_waits(&self, hosts: u32) -> Vec<(u32, String)> {
        let made = self.program.iter().flat_map(|(to, queue)| {
            queue.iter().filter(|made| !made.excused).map(|made| (*to, format!("{made:x?}")))
        });
        let pending = self.endpoints.iter().flat_map(|(number, endpoint)| {
            let of = move |pending: &super::ledger::Pending| {
                (pending.request.host, format!("endpoint {number}: {pending:?}"))
            };
            endpoint.pending.iter().map(of)
        });
        made.chain(pending).filter(|(to, _)| *to < hosts || group_of(*to).is_some()).collect()
    }

    /// Returns whether the card will do something after some time.
    pub(super) fn is_waiting(&self, hosts: u32) -> bool {
        !self.loads.is_empty() || !self.landings.is_empty() || !self.what_waits(hosts).is_empty()
    }
}
