//! Implements the engine's interface for fabrics of SHRIMP cards.

use std::collections::BTreeMap;
use std::sync::Arc;

use hamlyn_card_shrimp::Options;

use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Healing, Model, World};

use super::deeds::Processor;
use super::ledger::Ledger;
use super::machine::Machine;
use super::mapping::{DATA_PAGES, Taste};
use super::packet::LARGEST;
use crate::engine::flight::Flight;

/// A fabric of SHRIMP cards.
#[derive(Debug)]
pub(super) struct Shrimp {
    pub(super) columns: u16,
    /// Parameters of random entries.
    pub(super) taste: Taste,
    options: Options,
    /// For each host, whether its card sees the stores on its bus.
    pub(super) snoops: Vec<bool>,
    pub(super) ledgers: Vec<Ledger>,
    /// For each host, the expected contents of its memory.
    memories: Vec<Vec<u8>>,
    /// For each host, whether the driver has records to look for.
    pub(super) drivers: Vec<bool>,
    /// Packets in flight from one host to another, in order.
    pub(super) flying: BTreeMap<(u16, u16), Flight>,
    /// New deeds (`traffic`) and new mappings (`remaps`) per thousand steps.
    traffic: u64,
    remaps: u64,
    /// Percentage of opportunities at which the driver looks at the records.
    diligence: u64,
    pub(super) stores_sent: u64,
    pub(super) deposited: u64,
    pub(super) reported: u64,
    pub(super) commands: u64,
    pub(super) forged: u64,
    pub(super) waits: u64,
    pub(super) queues_full: u64,
    /// A violation found where no error can be returned.
    found: Option<Violation>,
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
        let ledger = |_| Ledger::new(options.fifo.into(), options.merge_us.into());
        Self {
            columns: columns as u16,
            taste,
            options,
            snoops: (0..cards).map(|_| rng.percent(70)).collect(),
            ledgers: (0..cards).map(ledger).collect(),
            memories: vec![vec![0; ((DATA_PAGES + 1) as u64 * PAGE) as usize]; cards.into()],
            drivers: vec![false; cards.into()],
            flying: BTreeMap::new(),
            traffic: u64::from(rng.range(50, 700)),
            remaps: u64::from(rng.range(0, 40)),
            diligence: rng.pick(&[0, 5, 30, 100]).unwrap_or(30),
            stores_sent: 0,
            deposited: 0,
            reported: 0,
            commands: 0,
            forged: 0,
            waits: 0,
            queues_full: 0,
            found: None,
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("stores and pieces", self.stores_sent),
            ("deposits", self.deposited),
            ("arrivals", self.reported),
            ("commands", self.commands),
            ("forgeries", self.forged),
            ("waits", self.waits),
            ("full queues", self.queues_full),
        ]
    }

    /// Notes a change of memory.
    pub(super) fn remember(&mut self, host: usize, address: u64, bytes: &[u8]) {
        let start = address as usize;
        self.memories[host][start..start + bytes.len()].copy_from_slice(bytes);
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
        Machine::new(host, self.options, snoops, rng).map(Arc::new)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        for _ in 0..world.rng.range(1, 3) {
            world.hosts[host].processes.push(Processor::default());
        }
        world.set_up(host)
    }

    fn before_unplug(world: &mut World<Self>, host: usize) {
        for ((source, destination), flight) in &mut world.model.flying {
            if [*source, *destination].map(usize::from).contains(&host) {
                flight.excuse();
            }
        }
    }

    fn beat(machine: &Machine) -> Result<(), Violation> {
        machine.beat()
    }

    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        let ticked = world.hosts[host].machine.tick()?;
        if ticked {
            world.let_in(host)?;
        }
        Ok(ticked)
    }

    /// A blocked-write packet is closed when its time is over.
    fn deadline(world: &World<Self>) -> Option<u64> {
        let waits = |(host, ledger): (usize, &Ledger)| {
            let alarm = world.hosts[host].machine.alarm().filter(|_| !ledger.outgoing.is_empty())?;
            u64::try_from(alarm).ok().map(|alarm| alarm + 1)
        };
        world.model.ledgers.iter().enumerate().filter_map(waits).min()
    }

    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
        world.check_found()?;
        let host = world.rng.index(world.hosts.len());
        if world.rng.below(1000) < world.model.traffic {
            let processor = world.rng.index(world.hosts[host].processes.len());
            if world.hosts[host].processes[processor].deeds.len() < 20 {
                world.plan(host, processor);
            }
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
                world.hold(host, true)
            }
            11 | 12 => world.set_limits(host),
            13 => world.reopen_queue(host),
            14 => {
                let other = world.rng.index(world.hosts.len()) as u16;
                world.set_system_page(host, other)
            }
            _ if world.rng.percent(30) => world.take_too_many(host),
            _ if world.rng.percent(20) => world.flood_window(host),
            _ => world.command_nonsense(host),
        }
    }

    fn heal(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.hold(host, false)
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.check_found()?;
        if world.rng.percent(15) && world.rng.percent(world.model.diligence) {
            let most = world.rng.range(1, 20) as usize;
            world.take_reports(host, most)?;
            return Ok(());
        }
        for _ in 0..world.rng.range(1, 6) {
            let processor = world.rng.index(world.hosts[host].processes.len());
            world.access(host, processor)?;
        }
        Ok(())
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        world.check_found()?;
        let is_time = world.rng.percent(world.model.diligence.max(2));
        let mut busy =
            if is_time { world.take_reports(host, usize::MAX)? } else { world.model.drivers[host] };
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

    fn finish(_: &mut World<Self>) -> Result<(), Violation> {
        Ok(())
    }

    fn prod(_: &mut World<Self>) -> bool {
        false
    }

    fn check_rest(world: &mut World<Self>) -> Result<(), Violation> {
        world.check_found()?;
        (0..world.hosts.len()).try_for_each(|host| world.check_host_at_rest(host))?;
        let hosts = world.hosts.len();
        let reaches = |(_, destination): &(u16, u16)| usize::from(*destination) < hosts;
        let lost = world.model.flying.iter().filter(|(pair, flight)| reaches(pair) && !flight.is_over());
        let lost = lost.map(|(pair, _)| pair).next();
        ensure(lost.is_none(), || format!("a packet is lost: {lost:?}"))
    }
}

impl World<Shrimp> {
    pub(super) fn check_found(&mut self) -> Result<(), Violation> {
        self.model.found.take().map_or(Ok(()), Err)
    }

    /// Checks that nothing waits on a host, and that its memory has the values stored there.
    fn check_host_at_rest(&mut self, host: usize) -> Result<(), Violation> {
        self.check_card(host)?;
        let idle = self.hosts[host].processes.iter().all(|processor| processor.deeds.is_empty());
        ensure(idle, || format!("host {host}: a processor waits for ever"))?;
        let ledger = &self.model.ledgers[host];
        let is_empty =
            ledger.outgoing.is_empty() && ledger.transfers.is_empty() && ledger.incoming.is_empty();
        ensure(is_empty, || {
            format!("host {host}: the card keeps {:?}, {:?}", ledger.outgoing, ledger.transfers)
        })?;
        let owed = &ledger.reports.owed;
        ensure(owed.is_empty(), || format!("host {host}: the driver sleeps, and never heard of {owed:?}"))?;
        let memory = &self.model.memories[host][PAGE as usize..];
        let is = self.hosts[host].machine.memory.peek(PAGE, memory.len());
        let differs = is.iter().zip(memory).position(|(is, stored)| is != stored);
        ensure(differs.is_none(), || {
            format!(
                "host {host}: byte {:#x} is not what was stored last",
                differs.unwrap_or(0) + PAGE as usize
            )
        })
    }
}
