//! Implements the engine's interface for fabrics of DART cards.

use std::sync::Arc;

use hamlyn_card_dart::{Options, Policy};

use crate::engine::flight::Flights;
use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Model, World};

use super::account::{Account, Tally};
use super::acting::Process;
use super::driving::{Driver, PROCESSES};
use super::end::End;
use super::forgery::Captured;
use super::machine::{Machine, OPTIONS};
use super::packet::LARGEST;
use super::paging::Pager;

/// Two ends of a connection: hosts and numbers. A host may have both, and an end may be its own
/// other end.
#[derive(Debug, Clone, Copy)]
struct Pair([(usize, u32); 2]);

impl Pair {
    /// Returns each of its ends, with the other.
    fn sides(self) -> impl Iterator<Item = [(usize, u32); 2]> {
        let Self([one, other]) = self;
        let back = (one != other).then_some([other, one]);
        std::iter::once([one, other]).chain(back)
    }
}

/// A fabric of DART cards.
#[derive(Debug)]
pub(super) struct Dart {
    cards: u16,
    options: Options,
    accounts: Vec<Account>,
    pairs: Vec<Pair>,
    flights: Flights,
    captured: Captured,
    /// Messages (`traffic`), and page operations of operating systems (`shifts`), per thousand
    /// steps.
    traffic: u64,
    shifts: u64,
    /// Percentage of opportunities at which drivers and processes look for work.
    diligence: u64,
    forged: u64,
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
            cards,
            options,
            accounts: Vec::new(),
            pairs,
            flights: Flights::default(),
            captured: Captured::default(),
            traffic: u64::from(rng.range(50, 700)),
            shifts: rng.pick(&[0, 10, 60, 200]).unwrap_or(10),
            diligence: rng.pick(&[5, 30, 100]).unwrap_or(30),
            forged: 0,
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        let sum = |count: fn(&Tally) -> u64| self.accounts.iter().map(|account| count(&account.tally)).sum();
        vec![
            ("executed", sum(|tally| tally.executed)),
            ("fetched", sum(|tally| tally.fetched)),
            ("swapped", sum(|tally| tally.swapped)),
            ("gathered", sum(|tally| tally.gathered)),
            ("looped", sum(|tally| tally.looped)),
            ("packets", sum(|tally| tally.packets)),
            ("fills", sum(|tally| tally.fills)),
            ("taken back", sum(|tally| tally.taken_back)),
            ("records", sum(|tally| tally.records)),
            ("forgeries", self.forged),
            ("told", sum(|tally| tally.told)),
        ]
    }

    fn is_broken(&self, (host, index): (usize, u32)) -> bool {
        self.accounts[host].end(index).is_none_or(End::is_broken)
    }

    /// Returns whether the other end is broken by a packet that was still in flight when the
    /// drivers informed each other.
    fn is_half_broken(&self, end: (usize, u32)) -> bool {
        let pair = self.pairs.iter().find(|Pair(sides)| sides.contains(&end));
        let other = pair.and_then(|Pair(sides)| sides.iter().find(|side| **side != end));
        other.is_some_and(|other| self.is_broken(*other))
    }

    /// Tells one end the number and key of the other, unless it knows them.
    fn connect(&mut self, (host, index): (usize, u32), other: (usize, u32)) -> Result<(), Violation> {
        let Some(end) = self.accounts[other.0].end(other.1) else { return Ok(()) };
        let peer = (other.1, end.terms().key);
        self.accounts[host].connect(index, peer)
    }

    /// Breaks all half-broken connections, and connects all others.
    fn tidy_up(&mut self) -> Result<(), Violation> {
        for Pair([one, other]) in self.pairs.clone() {
            if self.is_broken(one) || self.is_broken(other) {
                self.accounts[one.0].give_up(one.1)?;
                self.accounts[other.0].give_up(other.1)?;
            } else {
                self.connect(one, other)?;
                self.connect(other, one)?;
            }
        }
        Ok(())
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
        let machine = Arc::new(Machine::new(host, self.options, rng)?);
        self.accounts.push(Account::new(machine.clone(), self.cards));
        Ok(machine)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.hosts[host].machine.memory.take_writes();
        world.driver(host).set_up()
    }

    fn before_unplug(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.model.flights.excuse(host as u16);
        world.model.accounts[host].unplug()
    }

    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        world.model.accounts[host].tick()
    }

    fn deadline(world: &World<Self>) -> Option<u64> {
        let alarms = world.hosts.iter().filter_map(|host| host.machine.alarm());
        alarms.min().and_then(|alarm| u64::try_from(alarm).ok()).map(|alarm| alarm + 1)
    }

    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
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
                world.process(host).send_some()?;
            }
        }
        if world.rng.below(1000) < world.model.shifts { world.pager(host).shift_pages() } else { Ok(()) }
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
            10 => {
                world.note(|| format!("host {host} resets its card"));
                world.driver(host).reset()
            }
            11 => world.driver(host).reopen_queue(),
            12 => {
                let Pair([(host, index), _]) = world.model.pairs[world.rng.index(world.model.pairs.len())];
                world.model.accounts[host].give_up(index)
            }
            13 => world.process(host).doze(),
            14 => world.driver(host).set_registers(),
            _ => world.pager(host).shift_pages(),
        }
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        if !world.rng.percent(world.model.diligence) {
            return Ok(());
        }
        match world.rng.below(6) {
            0 => world.model.accounts[host].serve_fifo().map(drop),
            1 | 2 => {
                let most = world.rng.range(1, 4).into();
                world.pager(host).serve_misses(most).map(drop)
            }
            3 => {
                world.model.accounts[host].take_records();
                Ok(())
            }
            4 => world.process(host).store_some(),
            _ => world.process(host).doze(),
        }
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        let mut busy = world.model.accounts[host].serve_fifo()?;
        while world.pager(host).serve_misses(40)? {
            busy = true;
        }
        Ok(busy | world.model.accounts[host].take_records())
    }

    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]) -> Result<(), Violation> {
        world.note_sent(host, destination, packet)
    }

    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation> {
        world.take(host, packet)
    }

    fn finish(world: &mut World<Self>) -> Result<(), Violation> {
        world.model.tidy_up()
    }

    fn check_rest(world: &mut World<Self>) -> Result<(), Violation> {
        let model = &mut world.model;
        for host in 0..model.accounts.len() {
            model.accounts[host].settle()?;
            model.accounts[host].check_at_rest(|index| model.is_half_broken((host, index)))?;
        }
        let lost = world.model.flights.lost(world.hosts.len());
        ensure(lost.is_none(), || format!("a packet is lost: {lost:?}"))
    }
}

impl World<Dart> {
    fn driver(&mut self, host: usize) -> Driver<'_> {
        let Dart { cards, accounts, .. } = &mut self.model;
        Driver { account: &mut accounts[host], rng: &mut self.rng, hosts: *cards }
    }

    fn pager(&mut self, host: usize) -> Pager<'_> {
        Pager { account: &mut self.model.accounts[host], rng: &mut self.rng }
    }

    fn process(&mut self, host: usize) -> Process<'_> {
        Process { account: &mut self.model.accounts[host], rng: &mut self.rng }
    }

    /// Lets the drivers check a connection, and connect, break or reopen it.
    fn tend(&mut self, pair: Pair) -> Result<(), Violation> {
        let Pair(sides) = pair;
        if sides.iter().any(|(host, _)| self.hosts[*host].stopped) {
            return Ok(());
        }
        if !sides.iter().any(|side| self.model.is_broken(*side)) {
            let side = self.rng.index(2);
            return self.model.connect(sides[side], sides[1 - side]);
        }
        let accounts = &mut self.model.accounts;
        if self.rng.percent(30) {
            return sides.into_iter().try_for_each(|(host, index)| accounts[host].give_up(index));
        }
        sides.into_iter().try_for_each(|(host, index)| accounts[host].close_end(index))?;
        let mut sides = pair.sides();
        sides.try_for_each(|[(host, index), (other, _)]| self.driver(host).open_end(index, other as u16))
    }

    /// Checks a packet that has left a card.
    fn note_sent(&mut self, host: usize, to: u16, bytes: &[u8]) -> Result<(), Violation> {
        self.model.accounts[host].note_sent(to, bytes)?;
        self.model.captured.note(to, bytes);
        // The switch drops packets for a port without a card.
        let absent = self.hosts.get(usize::from(to)).is_some_and(|there| !there.uplink.is_up());
        self.model.flights.send((host as u16, to), [bytes.to_vec()], absent);
        Ok(())
    }

    /// Hands a packet to its card. It must be the next one that was sent from its source.
    fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        let Arrived { source, bytes } = arrived;
        let account = &mut self.model.accounts[host];
        account.settle()?;
        ensure(self.model.flights.take((source, host as u16), [&bytes]), || {
            format!("host {host}: a packet of {} bytes from {source} is not the next", bytes.len())
        })?;
        account.take(source, bytes)
    }

    /// Sends a packet that bypasses the host's card.
    fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let (victim, bytes) = self.model.captured.forge(&mut self.rng, &self.model.accounts);
        if let Some(excused) = self.inject(host, victim, &bytes)? {
            self.model.flights.send((host as u16, victim), [bytes], excused);
            self.model.forged += 1;
        }
        Ok(())
    }
}
