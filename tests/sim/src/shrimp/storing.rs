//! Stores, by bus and by window, and loads from the window.

use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_BLOCKED, SHRIMP_MODE_SINGLE};
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;

use crate::engine::memory::{PAGE, Right};
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::Kind;
use super::machine::Machine;
use super::mapping::PAGES;
use super::model::Shrimp;
use super::packet::OVERHEAD;

impl World<Shrimp> {
    /// Stores on the host's bus as a processor. Returns `false` if the processor has to wait
    /// because the card has no room.
    pub(super) fn store_on_bus(
        &mut self,
        host: usize,
        address: u64,
        bytes: &[u8],
    ) -> Result<bool, Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let is_seen = self.model.snoops[host] && self.model.ledgers[host].watched.contains(&(address / PAGE));
        if is_seen && !machine.takes_stores()? {
            self.model.waits += 1;
            return Ok(false);
        }
        machine.memory.poke(address, bytes);
        self.model.remember(host, address, bytes);
        if is_seen {
            machine.seen(address, bytes)?;
            self.model.ledgers[host].count(Counter::StoresSeen, 1);
            self.propagated(host, address, bytes)?;
        }
        self.check_card(host)?;
        Ok(true)
    }

    /// Stores to a window page as a processor.
    pub(super) fn store_to_window(
        &mut self,
        host: usize,
        address: u64,
        width: u8,
        value: u64,
    ) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let bytes = &value.to_le_bytes()[..width.into()];
        let ledger = &self.model.ledgers[host];
        let is_mapped = (address..address + u64::from(width)).all(|at| ledger.table.way(at).is_some());
        // A store across two parts makes two packets, which may still not fit.
        let fits = |fill: u64| fill + 2 * OVERHEAD + u64::from(width) <= ledger.outgoing.capacity();
        let fits = fits(ledger.outgoing.fill()) || !ledger.table.watched().contains(&(address / PAGE));
        let refused = |machine: &Machine| machine.counters()[usize::from(Counter::StoresRefused)];
        let before = refused(&machine);
        let permit = |allowed| machine.memory.permit(Right::Write, address, width.into(), allowed);
        if is_mapped {
            permit(true);
        }
        machine.store_memory(Machine::window(address), width, value)?;
        let was_refused = refused(&machine) > before;
        if is_mapped {
            permit(false);
        }
        ensure(was_refused != (is_mapped && fits), || {
            format!(
                "host {host}: a store to the window at {address:#x}, mapped: {is_mapped}, fits: {fits}, refused: {was_refused}"
            )
        })?;
        if was_refused {
            self.model.ledgers[host].count(Counter::StoresRefused, 1);
        } else {
            let writes = machine.memory.take_writes();
            let is_it = writes.iter().map(|write| (write.address, &write.bytes[..])).eq([(address, bytes)]);
            ensure(is_it, || format!("host {host}: a store to the window wrote {writes:x?}"))?;
            self.model.remember(host, address, bytes);
            self.model.ledgers[host].count(Counter::StoresToWindow, 1);
            self.propagated(host, address, bytes)?;
        }
        self.check_card(host)
    }

    /// Stores to a window page repeatedly, as a processor that ignores whether the card has room.
    pub(super) fn flood_window(&mut self, host: usize) -> Result<(), Violation> {
        let (address, width) = self.some_window_place();
        let refused = |world: &Self| world.model.ledgers[host].counted(Counter::StoresRefused);
        let before = refused(self);
        for _ in 0..1000 {
            let value = self.rng.next();
            self.store_to_window(host, address, width, value)?;
            if refused(self) > before {
                break;
            }
        }
        Ok(())
    }

    /// Loads from a window page as a processor.
    pub(super) fn load_from_window(&mut self, host: usize, address: u64, width: u8) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let table = &self.model.ledgers[host].table;
        let is_mapped = (address..address + u64::from(width)).all(|at| table.way(at).is_some());
        let loaded = machine.load_memory(Machine::window(address), width)?;
        let there =
            if is_mapped { machine.memory.peek(address, width.into()) } else { vec![0; width.into()] };
        ensure(loaded.to_le_bytes()[..width.into()] == there, || {
            format!(
                "host {host}: a load of {width} bytes from {address:#x} says {loaded:#x}, and not {there:x?}"
            )
        })?;
        self.check_card(host)
    }

    /// Adds stored bytes to the data to be sent, byte by byte, according to their mapping.
    fn propagated(&mut self, host: usize, address: u64, bytes: &[u8]) -> Result<(), Violation> {
        let now = self.hosts[host].machine.clock.milliseconds() * 1000;
        let is_up = self.hosts[host].uplink.is_up();
        let merged = self.hosts[host].machine.counters()[usize::from(Counter::StoresMerged)];
        let ledger = &mut self.model.ledgers[host];
        let (mut at, mut rest, mut joinable) = (address, bytes, 0);
        while !rest.is_empty() {
            let length = (1..=rest.len() as u64).take_while(|length| ledger.table.is_one_part(at, *length));
            let (here, behind) = rest.split_at(length.count());
            let way = ledger.table.way(at).filter(|_| is_up);
            let kind = way.and_then(|way| match way.mode {
                SHRIMP_MODE_SINGLE => Some(Kind::Single),
                SHRIMP_MODE_BLOCKED => Some(Kind::Blocked { at: now, within: ledger.merge_us }),
                _ => None,
            });
            if let Some((way, kind)) = way.zip(kind) {
                joinable += u64::from(kind != Kind::Single);
                ledger.outgoing.add(way.node, kind, way.address, here.to_vec());
            }
            (at, rest) = (at + here.len() as u64, behind);
        }
        let more = merged.saturating_sub(ledger.counted(Counter::StoresMerged));
        ensure(more <= joinable, || format!("host {host}: {more} of {joinable} stores were merged"))?;
        ledger.count(Counter::StoresMerged, more);
        ledger.outgoing.merged(more);
        ledger.note_full();
        Ok(())
    }

    /// Returns a random address and width for an access to a window page. The access is aligned,
    /// with a valid width.
    pub(super) fn some_window_place(&mut self) -> (u64, u8) {
        let width = self.rng.pick(&[1, 2, 4, 8]).unwrap_or(4);
        // Occasionally a page that no process uses, or one behind the end of the page table.
        let page = if self.rng.percent(3) { self.rng.range(0, PAGES + 3) } else { self.some_page() };
        let offset = self.some_offset() / u64::from(width) * u64::from(width);
        (u64::from(page) * PAGE + offset, width)
    }

    pub(super) fn some_page(&mut self) -> u32 {
        self.rng.range(1, self.model.taste.pages)
    }

    /// Returns a random offset in a page, often near its ends and near common splits.
    pub(super) fn some_offset(&mut self) -> u64 {
        u64::from(match self.rng.below(4) {
            0 => self.rng.range(0, 64),
            1 => self.rng.range(2030, 2070),
            2 => self.rng.range(4040, 4095),
            _ => self.rng.range(0, 4095),
        })
    }
}
