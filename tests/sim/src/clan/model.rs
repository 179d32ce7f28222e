//! Implements the engine's interface for fabrics of CLAN cards.

use std::sync::Arc;

use hamlyn_abi::clan::identity::CLAN_MODEL;
use hamlyn_card_clan::{Options, cut, join};
use hamlyn_fabric::Protocol;
use hamlyn_switch::bursts::{Bursts, Policy};

use crate::engine::flight::Flights;
use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Model, World};

use super::account::{Account, Shared, Tally};
use super::actions::Processor;
use super::credits::Credits;
use super::machine::Machine;
use super::memories::Memories;
use super::packet::{HEAD, WRITE};
use super::readings::Readings;
use super::refusals::Refusals;
use super::standing::Standing;

/// A fabric of CLAN cards.
#[derive(Debug)]
pub(super) struct Clan {
    options: Options,
    pub(super) group_keys: Vec<u64>,
    /// The accounts of the cards (`accounts`), what all of them share (`shared`), and what is
    /// between the cards.
    pub(super) accounts: Vec<Account>,
    pub(super) shared: Shared,
    pub(super) credits: Credits,
    pub(super) flights: Flights,
    /// Whether the switch cuts and joins at random places.
    cuts_by_chance: bool,
    /// New actions of processes (`traffic`) and of drivers (`changes`), per thousand steps.
    traffic: u64,
    changes: u64,
    pub(super) forged: u64,
}

impl Clan {
    pub(super) fn new(rng: &mut Rng, cards: u16) -> Self {
        let options = Options {
            apertures: 16,
            window_pages: 64,
            endpoints: 8,
            tripwires: 32,
            event_queues: 8,
            burst: rng.pick(&[64, 256, 1024]).unwrap_or(256),
            credits: rng.pick(&[256, 1024, 8192]).unwrap_or(256),
            join: rng.range(0, 3),
            read_timeout_ms: rng.pick(&[20, 5000, 10_000]).unwrap_or(5000),
            handshake_ms: rng.pick(&[0, 0, 100, 400]).unwrap_or(0),
        };
        let standing = Standing::new(rng, cards, options.read_timeout_ms < 5000);
        let grants_nothing = (0..cards).map(|host| standing.is_hostile(host) && rng.percent(40)).collect();
        Self {
            options,
            group_keys: (0..64).map(|_| rng.next()).collect(),
            accounts: Vec::new(),
            shared: Shared {
                standing,
                memories: Memories::new(cards),
                readings: Readings::default(),
                refusals: Refusals::default(),
                requests: 0,
                values: 0,
            },
            credits: Credits::new(options.credits, grants_nothing),
            flights: Flights::default(),
            cuts_by_chance: rng.percent(70),
            traffic: u64::from(rng.range(50, 700)),
            changes: u64::from(rng.range(0, 40)),
            forged: 0,
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        let sum = |count: fn(&Tally) -> u64| self.accounts.iter().map(|account| count(&account.tally)).sum();
        vec![
            ("deposits", sum(|tally| tally.deposited)),
            ("Tripwires fired", sum(|tally| tally.fired)),
            ("loads", sum(|tally| tally.loaded)),
            ("requests", sum(|tally| tally.requests)),
            ("refusals", sum(|tally| tally.refusals)),
            ("forgeries", self.forged),
        ]
    }

    /// Excuses everything from or to a host whose port has gone down, or whose card was reset. Its
    /// next link starts with its own counts.
    pub(super) fn cut_off(&mut self, host: usize) {
        self.flights.excuse(host as u16);
        self.shared.refusals.excuse(host as u16);
        self.credits.forget(host as u16);
    }

    /// Checks that no more words are in flight than allowed. A hostile receiver may have confirmed
    /// more words than have come: [`Credits::spend`] checks against its claims.
    pub(super) fn check_credits(&self, (host, to): (u16, u16), epoch: u16) -> Result<(), Violation> {
        // Words of an earlier epoch were given up.
        let is_word =
            |atom: &[u8]| atom.len() > HEAD && atom[0] == WRITE && atom[2..4] == epoch.to_le_bytes();
        let words = self.flights.count((host, to), is_word);
        let most = self.options.credits as usize;
        ensure(words <= most || self.shared.standing.is_tainted(host, to), || {
            format!("host {host}: {words} words are under way to {to}, and {most} may be")
        })
    }
}

impl Model for Clan {
    type Machine = Machine;
    type Process = Processor;
    type Healing = ();

    fn largest_packet(&self) -> usize {
        HEAD + self.options.burst as usize
    }

    fn bursts(&self, seed: u64) -> (Vec<Bursts>, Policy) {
        let bursts = Protocol::parse(CLAN_MODEL as u8).map(|protocol| Bursts { protocol, cut, join });
        (
            bursts.into_iter().collect(),
            if self.cuts_by_chance { Policy::Random(seed) } else { Policy::Quantum(64) },
        )
    }

    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Arc<Machine>, Violation> {
        let machine = Arc::new(Machine::new(host, self.options, rng)?);
        self.accounts.push(Account::new(host, machine.clone()));
        Ok(machine)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.model.shared.standing.begin(host);
        for processor in 0..world.rng.range(2, 4) {
            world.hosts[host].processes.push(Processor::new(1 + processor % 2));
        }
        world.changing(host).set_up()
    }

    fn before_unplug(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.model.shared.standing.lose(host);
        Ok(())
    }

    /// Drops everything that has not left: it never will.
    fn after_unplug(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        let (account, shared) = world.account(host);
        account.settle(shared)?;
        account.program.clear();
        world.model.cut_off(host);
        Ok(())
    }

    fn beat(machine: &Machine) -> Result<(), Violation> {
        machine.beat()
    }

    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        let (account, shared) = world.account(host);
        account.tick(shared)
    }

    /// Reads end in time, and a card that waits for credits asks for them.
    fn deadline(world: &World<Self>) -> Option<u64> {
        let Clan { accounts, shared, .. } = &world.model;
        let waiting = accounts.iter().filter(|account| account.is_waiting(shared, accounts.len()));
        let alarms = waiting.filter_map(|account| u64::try_from(account.machine.alarm()?).ok());
        alarms.map(|alarm| alarm + 1).min()
    }

    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
        let host = world.rng.index(world.hosts.len());
        if world.rng.below(1000) < world.model.traffic {
            world.plan(host);
        }
        let is_time = world.rng.below(1000) < world.model.changes;
        if is_time && !world.hosts[host].stopped { world.change(host) } else { Ok(()) }
    }

    fn misfortune(world: &mut World<Self>) -> Result<(), Violation> {
        world.faults += 1;
        let host = world.rng.index(world.hosts.len());
        let end = world.step + u64::from(world.rng.range(1, 300));
        match world.rng.below(12) {
            0 => world.port_down(host, end),
            1 => world.port_flickers(host),
            2 => {
                let frozen = world.rng.percent(50);
                world.model.shared.standing.lose(host);
                world.host_stops(host, end, frozen);
                Ok(())
            }
            3..8 => world.forge(host),
            _ if world.hosts[host].stopped => Ok(()),
            8 if world.rng.percent(40) => world.reset(host),
            9 | 10 => world.changing(host).command_nonsense(),
            _ => world.changing(host).store_nonsense(),
        }
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        if world.rng.percent(15) {
            world.acting(host).take_fifo()?;
        }
        if world.rng.percent(5) {
            world.acting(host).arm_something()?;
        }
        for _ in 0..world.rng.range(1, 6) {
            let processor = world.rng.index(world.hosts[host].processes.len());
            world.go_on(host, processor)?;
        }
        Ok(())
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        let mut busy = world.acting(host).take_fifo()?;
        for processor in 0..world.hosts[host].processes.len() {
            for _ in 0..20 {
                if !world.go_on(host, processor)? {
                    break;
                }
                busy = true;
            }
        }
        Ok(busy)
    }

    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]) -> Result<(), Violation> {
        world.note_sent(host, destination, packet)
    }

    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation> {
        world.take(host, packet)
    }

    fn check_rest(world: &mut World<Self>) -> Result<(), Violation> {
        let Clan { accounts, shared, credits, flights, .. } = &mut world.model;
        let hosts = accounts.len();
        for (account, host) in accounts.iter_mut().zip(&world.hosts) {
            account.check_at_rest(shared, hosts)?;
            let idle = host.processes.iter().all(|processor| processor.actions().is_empty());
            ensure(idle, || format!("host {}: a processor waits for ever", host.id))?;
        }
        credits.check_at_rest(&shared.standing)?;
        let lost = flights.lost(hosts);
        ensure(lost.is_none(), || format!("a packet is lost: {lost:?}"))?;
        let untold = shared.refusals.untold(&shared.standing);
        ensure(untold.is_none(), || format!("a refused write was not reported: {untold:?}"))
    }
}
