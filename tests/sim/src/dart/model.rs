//! Implements the engine's interface for fabrics of DART cards.

use std::collections::VecDeque;
use std::sync::Arc;

use hamlyn_abi::dart::connection::DART_BROKEN_LINK;
use hamlyn_card_dart::{Options, Policy};

use crate::engine::area::Area;
use crate::engine::flight::Flights;
use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Model, World};

use super::explaining::Tally;
use super::ledger::{LEFT, Ledger, Page, Spaces};
use super::machine::Machine;
use super::packet::LARGEST;

/// First number of a process's connection.
pub(super) const PROCESSES: u32 = 8;
/// Maximum number of messages of a connection that wait to leave.
pub(super) const MOST_SENDS: usize = 64;
/// A small card, whose resources are often exhausted.
pub(super) const OPTIONS: Options = Options {
    connections: 32,
    endpoints: 4,
    registers: 24,
    program: 16,
    queues: 4,
    tlb: 4,
    policy: Policy::LeastRecentlyUsed,
    window: 48,
    handshake_ms: 0,
};

/// Two ends of a connection: hosts and numbers. A host may have both, and an end may be its own
/// other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair(pub(super) [(usize, u32); 2]);

impl Pair {
    /// Returns each of its ends, with the other.
    pub(super) fn sides(self) -> impl Iterator<Item = [(usize, u32); 2]> {
        let Self([one, other]) = self;
        let back = (one != other).then_some([other, one]);
        std::iter::once([one, other]).chain(back)
    }
}

/// A fabric of DART cards.
#[derive(Debug)]
pub(super) struct Dart {
    pub(super) options: Options,
    pub(super) ledgers: Vec<Ledger>,
    pub(super) spaces: Vec<Spaces>,
    /// For each host, the memory for messages of operating systems.
    pub(super) pinned: Vec<Option<Area>>,
    pub(super) pairs: Vec<Pair>,
    pub(super) flights: Flights,
    /// Recent packets and their destinations.
    pub(super) captured: VecDeque<(u16, Vec<u8>)>,
    /// Messages (`traffic`), and page operations of operating systems (`shifts`), per thousand
    /// steps.
    traffic: u64,
    shifts: u64,
    /// Percentage of opportunities at which drivers and processes look for work.
    diligence: u64,
    pub(super) executed: Tally,
    pub(super) packets: u64,
    pub(super) forged: u64,
    pub(super) fills: u64,
    pub(super) taken_back: u64,
    pub(super) records: u64,
    pub(super) told: u64,
    /// Packets that a host sent to itself.
    pub(super) looped: u64,
    /// A violation found where no error can be returned.
    found: Option<Violation>,
}

impl Dart {
    pub(super) fn new(rng: &mut Rng, cards: u16) -> Self {
        let policies = [Policy::LeastRecentlyUsed, Policy::InTurn, Policy::Random];
        let options = Options {
            tlb: rng.pick(&[1, 2, 4, 16]).unwrap_or(4),
            policy: rng.pick(&policies).unwrap_or(Policy::InTurn),
            window: rng.pick(&[48, 64, 256]).unwrap_or(48),
            ..OPTIONS
        };
        let hosts = usize::from(cards);
        let (mut pairs, mut next) = (Vec::new(), vec![PROCESSES; hosts]);
        for (one, other) in (0..hosts).flat_map(|one| (one + 1..hosts).map(move |other| (one, other))) {
            for _ in 0..rng.range(1, 2) {
                pairs.push(Pair([one, other].map(|host| {
                    next[host] += 1;
                    (host, next[host])
                })));
            }
        }
        for (host, last) in next.iter_mut().enumerate() {
            let other = match rng.below(10) {
                0..3 => 2,
                3 => 1,
                _ => continue,
            };
            pairs.push(Pair([(host, *last + 1), (host, *last + other)]));
            *last += 2;
        }
        Self {
            options,
            ledgers: (0..hosts).map(|_| Ledger::default()).collect(),
            spaces: (0..hosts).map(|_| Spaces::default()).collect(),
            pinned: (0..hosts).map(|_| None).collect(),
            pairs,
            flights: Flights::default(),
            captured: VecDeque::new(),
            traffic: u64::from(rng.range(50, 700)),
            shifts: rng.pick(&[0, 10, 60, 200]).unwrap_or(10),
            diligence: rng.pick(&[5, 30, 100]).unwrap_or(30),
            executed: Tally::default(),
            packets: 0,
            forged: 0,
            fills: 0,
            taken_back: 0,
            records: 0,
            told: 0,
            looped: 0,
            found: None,
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("executed", self.executed.all),
            ("fetched", self.executed.fetched),
            ("swapped", self.executed.swapped),
            ("gathered", self.executed.gathered),
            ("looped", self.looped),
            ("packets", self.packets),
            ("fills", self.fills),
            ("taken back", self.taken_back),
            ("records", self.records),
            ("forgeries", self.forged),
            ("told", self.told),
        ]
    }
}

impl Model for Dart {
    type Machine = Machine;
    /// Processes have no state: their actions are random.
    type Process = ();
    type Healing = ();

    fn largest_packet(&self) -> usize {
        LARGEST
    }

    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Arc<Machine>, Violation> {
        Machine::new(host, self.options, rng).map(Arc::new)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.make_spaces(host);
        world.hosts[host].machine.memory.take_writes();
        world.set_up(host)
    }

    fn before_unplug(world: &mut World<Self>, host: usize) {
        world.model.flights.excuse(host as u16);
        if let Err(violation) = world.settle(host) {
            world.model.found.get_or_insert(violation);
        }
        for end in world.model.ledgers[host].ends.values_mut() {
            if end.is_system {
                let count = end.sends.len() as u32;
                end.dropped(count, hamlyn_abi::dart::connection::DART_DROPPED_BROKEN);
            }
            end.break_off(DART_BROKEN_LINK);
        }
    }

    fn beat(_: &Machine) -> Result<(), Violation> {
        Ok(())
    }

    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        if !world.hosts[host].machine.is_due() {
            return Ok(false);
        }
        world.settle(host)?;
        world.hosts[host].machine.with_card(|card, ports| card.tick(ports))?;
        // The card looks at each connection again.
        world.model.ledgers[host].ends.values_mut().for_each(|end| end.was_full = false);
        world.settle(host)?;
        Ok(true)
    }

    fn deadline(world: &World<Self>) -> Option<u64> {
        let alarms = world.hosts.iter().filter_map(|host| host.machine.alarm());
        alarms.min().and_then(|alarm| u64::try_from(alarm).ok()).map(|alarm| alarm + 1)
    }

    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
        world.check_found()?;
        if world.rng.percent(10) {
            let pair = world.rng.index(world.model.pairs.len());
            world.tend(world.model.pairs[pair])?;
        }
        let host = world.rng.index(world.hosts.len());
        if world.hosts[host].stopped {
            return Ok(());
        }
        if world.rng.below(1000) < world.model.traffic {
            for _ in 0..world.rng.range(1, 4) {
                world.send_some(host)?;
            }
        }
        if world.rng.below(1000) < world.model.shifts { world.shift_pages(host) } else { Ok(()) }
    }

    fn misfortune(world: &mut World<Self>) -> Result<(), Violation> {
        world.faults += 1;
        let host = world.rng.index(world.hosts.len());
        let end = world.step + u64::from(world.rng.range(1, 300));
        match world.rng.below(16) {
            0 => world.port_down(host, end),
            1 => world.port_flickers(host),
            2 => {
                let frozen = world.rng.percent(50);
                world.host_stops(host, end, frozen);
                Ok(())
            }
            3..10 => world.forge(host),
            _ if world.hosts[host].stopped => Ok(()),
            10 => world.reset(host),
            11 => world.reopen_queue(host),
            12 => {
                let Pair(sides) = world.model.pairs[world.rng.index(world.model.pairs.len())];
                world.give_up(sides[0])
            }
            13 => world.doze(host),
            14 => world.set_registers(host),
            _ => world.shift_pages(host),
        }
    }

    fn heal(_: &mut World<Self>, (): ()) -> Result<(), Violation> {
        Ok(())
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.check_found()?;
        if !world.rng.percent(world.model.diligence) {
            return Ok(());
        }
        match world.rng.below(6) {
            0 => world.serve_fifo(host).map(drop),
            1 | 2 => {
                let most = world.rng.range(1, 4).into();
                world.serve_misses(host, most).map(drop)
            }
            3 => world.take_records(host).map(drop),
            4 => world.store_some(host),
            _ => world.doze(host),
        }
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        world.check_found()?;
        let mut busy = world.serve_fifo(host)?;
        while world.serve_misses(host, 40)? {
            busy = true;
        }
        Ok(busy | world.take_records(host)?)
    }

    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]) {
        if let Err(violation) = world.note_sent(host, destination, packet) {
            world.model.found.get_or_insert(violation);
        }
    }

    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation> {
        world.check_found()?;
        world.take(host, packet)
    }

    fn check_round(world: &mut World<Self>) -> Result<(), Violation> {
        world.check_found()
    }

    fn calm(_: &mut World<Self>) {}

    fn finish(world: &mut World<Self>) -> Result<(), Violation> {
        world.tidy_up()
    }

    fn prod(_: &mut World<Self>) -> bool {
        false
    }

    fn check_rest(world: &mut World<Self>) -> Result<(), Violation> {
        world.check_found()?;
        (0..world.hosts.len()).try_for_each(|host| world.check_host_at_rest(host))?;
        let lost = world.model.flights.lost(world.hosts.len());
        ensure(lost.is_none(), || format!("a packet is lost: {lost:?}"))
    }
}

impl World<Dart> {
    pub(super) fn check_found(&mut self) -> Result<(), Violation> {
        self.model.found.take().map_or(Ok(()), Err)
    }

    /// Checks that nothing waits on a host, and that its memory has the values written there.
    fn check_host_at_rest(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let ledger = &self.model.ledgers[host];
        for (index, end) in &ledger.ends {
            // An end stays as it is if its other end is broken.
            let is_idle = end.sends.is_empty() && end.replies.is_empty() && end.waiting.is_empty();
            let misses = self.hosts[host].machine.misses(*index)?;
            ensure(is_idle || self.is_half_broken(host, *index), || {
                format!("host {host}: connection {index} waits for ever, for {misses:x?}: {end:?}")
            })?;
        }
        for (number, queue) in &ledger.queues {
            let sleeps = queue.asleep && !queue.woken && queue.taken != queue.written;
            ensure(!sleeps, || format!("host {host}: somebody sleeps on queue {number}, which has records"))?;
        }
        for (index, end) in &ledger.ends {
            let is_news = end.is_broken() || end.sleeper.is_some_and(|known| known != end.state[LEFT]);
            let sleeps = end.sleeper.is_some() && !end.woken && is_news;
            ensure(!sleeps && !end.has_news, || {
                format!("host {host}: nobody was told of what became of connection {index}: {end:?}")
            })?;
        }
        let (machine, spaces) = (&self.hosts[host].machine, &self.model.spaces[host]);
        for (page, contents) in &spaces.contents {
            let Some(Page::There { frame, .. }) = spaces.pages.get(page) else { continue };
            let is = machine.memory.peek(*frame, PAGE as usize);
            ensure(is == *contents, || format!("host {host}: page {page:x?} is not what was written there"))?;
        }
        Ok(())
    }

    /// Returns whether the other end is broken by a packet that was still in flight when the
    /// drivers informed each other.
    fn is_half_broken(&self, host: usize, index: u32) -> bool {
        let pair = self.model.pairs.iter().find(|Pair(sides)| sides.contains(&(host, index)));
        let other = pair.and_then(|Pair(sides)| sides.iter().find(|side| **side != (host, index)));
        other.is_some_and(|(host, index)| {
            self.model.ledgers[*host].ends.get(index).is_none_or(|end| end.is_broken())
        })
    }
}
