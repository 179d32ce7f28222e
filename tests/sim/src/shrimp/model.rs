//! Implements the engine's interface for fabrics of SHRIMP cards.

use std::sync::Arc;

use hamlyn_card_shrimp::Options;

use crate::engine::flight::Flights;
use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Healing, Model, World};

use super::account::{Account, Tally};
use super::forgery::Forgery;
use super::machine::Machine;
use super::mapping::{DATA_PAGES, Taste};
use super::operating::Driver;
use super::packet::LARGEST;
use super::processor::Processor;

/// A fabric of SHRIMP cards.
#[derive(Debug)]
pub(super) struct Shrimp {
    pub(super) columns: u16,
    /// Parameters of random entries.
    taste: Taste,
    options: Options,
    /// For each host, whether its card sees the stores on its bus.
    snoops: Vec<bool>,
    accounts: Vec<Account>,
    flights: Flights,
    /// New actions (`traffic`) and new mappings (`remaps`) per thousand steps.
    traffic: u64,
    remaps: u64,
    /// Percentage of opportunities at which the driver looks at the records.
    diligence: u64,
    forged: u64,
}

impl Shrimp {
    pub(super) fn new(rng: &mut Rng, cards: u16) -> Self {
        let columns = rng.range(1, 4);
        let options = Options {
            pages: super::mapping::PAGES,
            columns,
            fifo: rng.pick(&[12_348, 16_384, 20_000]).unwrap_or(16_384),
            packet_size: rng.pick(&[64, 256, 1000, 4096]).unwrap_or(256),
            merge_us: rng.pick(&[0, 1000, 5000, 50_000]).unwrap_or(1000),
            handshake_ms: rng.pick(&[0, 0, 100, 400]).unwrap_or(0),
        };
        let taste = Taste {
            cards,
            pages: rng.pick(&[3, 6, 6, DATA_PAGES, DATA_PAGES]).unwrap_or(6),
            reported: rng.pick(&[10, 30, 95]).unwrap_or(30),
        };
        Self {
            columns: columns as u16,
            taste,
            options,
            snoops: (0..cards).map(|_| rng.percent(70)).collect(),
            accounts: Vec::new(),
            flights: Flights::default(),
            traffic: u64::from(rng.range(50, 700)),
            remaps: u64::from(rng.range(0, 40)),
            diligence: rng.pick(&[0, 5, 30, 100]).unwrap_or(30),
            forged: 0,
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        let sum = |count: fn(&Tally) -> u64| self.accounts.iter().map(|account| count(account.tally())).sum();
        vec![
            ("stores and pieces", sum(|tally| tally.stores_sent)),
            ("deposits", sum(|tally| tally.deposited)),
            ("arrivals", sum(|tally| tally.reported)),
            ("commands", sum(|tally| tally.commands)),
            ("forgeries", self.forged),
            ("waits", sum(|tally| tally.waits)),
            ("full queues", sum(|tally| tally.queues_full)),
        ]
    }
}

impl Model for Shrimp {
    type Machine = Machine;
    type Process = Processor;
    /// The host whose Incoming FIFO is held.
    type Healing = usize;

    fn largest_packet(&self) -> usize {
        LARGEST
    }

    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Arc<Machine>, Violation> {
        let snoops = self.snoops[usize::from(host)];
        let machine = Arc::new(Machine::new(host, self.options, snoops, rng)?);
        self.accounts.push(Account::new(machine.clone(), snoops));
        Ok(machine)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        for _ in 0..world.rng.range(1, 3) {
            world.hosts[host].processes.push(Processor::default());
        }
        world.driver(host).set_up()
    }

    fn before_unplug(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.model.flights.excuse(host as u16);
        Ok(())
    }

    fn beat(machine: &Machine) -> Result<(), Violation> {
        machine.beat()
    }

    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        world.model.accounts[host].tick()
    }

    /// A blocked-write packet is closed when its time is over.
    fn deadline(world: &World<Self>) -> Option<u64> {
        world.model.accounts.iter().filter_map(Account::deadline).min()
    }

    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
        let host = world.rng.index(world.hosts.len());
        if world.rng.below(1000) < world.model.traffic {
            let processor = world.rng.index(world.hosts[host].processes.len());
            let Shrimp { taste, accounts, .. } = &world.model;
            let processor = &mut world.hosts[host].processes[processor];
            processor.plan(&mut world.rng, taste, accounts[host].table());
        }
        let is_time = world.rng.below(1000) < world.model.remaps;
        if is_time && !world.hosts[host].stopped { world.map_anew(host) } else { Ok(()) }
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
            3..8 => world.forge(host),
            8 => world.sprinkle(host),
            _ if world.hosts[host].stopped => Ok(()),
            9 => world.reset(host),
            10 => {
                world.healings.push((end, Healing::Own(host)));
                world.model.accounts[host].hold(true)
            }
            11 | 12 => world.driver(host).set_limits(),
            13 => world.driver(host).reopen_queue(),
            14 => {
                let other = world.rng.index(world.hosts.len()) as u16;
                world.driver(host).set_system_page(other)
            }
            _ if world.rng.percent(30) => world.model.accounts[host].take_too_many(&mut world.rng),
            _ if world.rng.percent(20) => world.driver(host).flood_window(),
            _ => world.driver(host).command_nonsense(),
        }
    }

    fn heal(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.model.accounts[host].hold(false)
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        if world.rng.percent(15) && world.rng.percent(world.model.diligence) {
            let most = world.rng.range(1, 20) as usize;
            world.model.accounts[host].take_reports(most)?;
            return Ok(());
        }
        for _ in 0..world.rng.range(1, 6) {
            let processor = world.rng.index(world.hosts[host].processes.len());
            world.access(host, processor)?;
        }
        Ok(())
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        let is_time = world.rng.percent(world.model.diligence.max(2));
        let account = &mut world.model.accounts[host];
        let mut busy = if is_time { account.take_reports(usize::MAX)? } else { account.is_called() };
        for processor in 0..world.hosts[host].processes.len() {
            for _ in 0..20 {
                if !world.access(host, processor)? {
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
        let Shrimp { accounts, flights, .. } = &mut world.model;
        for (account, host) in accounts.iter_mut().zip(&world.hosts) {
            account.check()?;
            let idle = host.processes.iter().all(Processor::is_idle);
            ensure(idle, || format!("host {}: a processor waits for ever", host.id))?;
            account.check_at_rest()?;
        }
        let lost = flights.lost(world.hosts.len());
        ensure(lost.is_none(), || format!("a packet is lost: {lost:?}"))
    }
}

impl World<Shrimp> {
    fn driver(&mut self, host: usize) -> Driver<'_> {
        let Shrimp { accounts, taste, .. } = &mut self.model;
        Driver { account: &mut accounts[host], rng: &mut self.rng, taste: *taste }
    }

    /// Lets a processor make one access. Returns whether it made one.
    fn access(&mut self, host: usize, processor: usize) -> Result<bool, Violation> {
        let Shrimp { accounts, taste, .. } = &mut self.model;
        self.hosts[host].processes[processor].access(&mut self.rng, taste, &mut accounts[host])
    }

    /// Maps a random page to a new target.
    fn map_anew(&mut self, host: usize) -> Result<(), Violation> {
        let (page, entry) = self.driver(host).some_mapping();
        self.note(|| format!("host {host} maps page {page}: {entry:?}"));
        self.driver(host).set_entry(page, entry)
    }

    fn reset(&mut self, host: usize) -> Result<(), Violation> {
        self.model.accounts[host].settle()?;
        self.model.accounts[host].check_vectors()?;
        self.note(|| format!("host {host} resets its card"));
        self.driver(host).reset()
    }

    /// Checks a packet that has left a card.
    fn note_sent(&mut self, host: usize, node: u16, bytes: &[u8]) -> Result<(), Violation> {
        self.model.accounts[host].note_sent(node, bytes, self.model.columns)?;
        // The switch drops packets for a port without a card.
        let absent = self.hosts.get(usize::from(node)).is_some_and(|there| !there.uplink.is_up());
        self.model.flights.send((host as u16, node), [bytes.to_vec()], absent);
        Ok(())
    }

    /// Hands a packet to its card. It must be the next one that was sent from its source: only
    /// those that a port took down with it may be missing.
    fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        let Arrived { source, bytes } = arrived;
        let Shrimp { accounts, flights, columns, .. } = &mut self.model;
        accounts[host].settle()?;
        let length = bytes.len();
        ensure(flights.take((source, host as u16), [&bytes]), || {
            format!("host {host}: a packet of {length} bytes from {source} is not the next that was sent")
        })?;
        accounts[host].take(source, bytes, *columns)
    }

    fn forgery(&mut self, host: usize) -> (usize, Forgery) {
        let victim = self.rng.index(self.hosts.len());
        let Shrimp { columns, taste, .. } = self.model;
        (victim, Forgery::new((host as u16, victim as u16), columns, taste, self.max_packet))
    }

    /// Sends a packet that bypasses the host's card.
    fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let (victim, forgery) = self.forgery(host);
        let bytes = forgery.packet(&mut self.rng);
        self.send_forged(host, victim, bytes)
    }

    /// Stores a byte to each page of another host, to cause many reports.
    fn sprinkle(&mut self, host: usize) -> Result<(), Violation> {
        let (victim, forgery) = self.forgery(host);
        for page in 1..=self.model.taste.pages {
            let bytes = forgery.byte(&mut self.rng, page);
            self.send_forged(host, victim, bytes)?;
        }
        Ok(())
    }

    fn send_forged(&mut self, host: usize, victim: usize, bytes: Vec<u8>) -> Result<(), Violation> {
        if let Some(excused) = self.inject(host, victim as u16, &bytes)? {
            self.model.flights.send((host as u16, victim as u16), [bytes], excused);
            self.model.forged += 1;
        }
        Ok(())
    }
}
