//! Implements the engine's interface for fabrics of Hamlyn cards.

use std::sync::Arc;

use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_driver_host::System;

use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{self, Model};
use crate::hamlyn::around::Around;
use crate::hamlyn::blunders::blunder;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::conversing::Connector;
use crate::hamlyn::delivery::Deliverer;
use crate::hamlyn::dozing::doze;
use crate::hamlyn::endings::Watcher;
use crate::hamlyn::express::Express;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::fetching::Fetcher;
use crate::hamlyn::filling::fill_memory;
use crate::hamlyn::forgery::Forger;
use crate::hamlyn::invariants::{check_baseline, check_cards, check_work};
use crate::hamlyn::kernel::WellKnown;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::lives::Lives;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::numbers::Numbers;
use crate::hamlyn::outlet::Again;
use crate::hamlyn::process::{Kind, Process};
use crate::hamlyn::receiving::Reader;
use crate::hamlyn::sending::Poster;
use crate::hamlyn::standstill::check_bystanders;
use crate::hamlyn::streaming::Streamer;
use crate::hamlyn::streams::Streams;
use crate::hamlyn::talking::Talker;
use crate::hamlyn::tally::Tally;
use crate::hamlyn::traffic::Composer;
use crate::hamlyn::world::{Hamlyn, World};

/// Channels for which a card has memory.
const CHANNELS: u32 = 8;
/// Rounds in which messages are made, to all hosts, while a card is stalled.
const ROUNDS_WITH_TRAFFIC: u32 = 60;
/// Maximum number of such rounds. If the others are busy after that, they never come to rest.
const MOST_ROUNDS: u32 = 10_000;

/// The end of a fault of a card or a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Healing {
    /// The card is enabled, and the host's processes are started again.
    Card(usize),
    /// Another process takes over the memory of the one that died.
    Process(usize, usize),
}

impl Model for Hamlyn {
    type Machine = Machine;
    type Process = Process;
    type Healing = Healing;

    fn largest_packet(&self) -> usize {
        let largest = self.scenario.packet_sizes.iter().copied().max().unwrap_or(256);
        HamlynOptions { packet_size: largest, ..HamlynOptions::default() }.largest_packet()
    }

    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Arc<Machine>, Violation> {
        let scenario = &self.scenario;
        // A program has a terminus for its channels with each host, and two queues and slots for
        // each channel.
        let hosts = if scenario.express { scenario.packet_sizes.len() as u32 } else { 0 };
        let channels = if scenario.express { CHANNELS } else { 0 };
        let system = u32::from(scenario.connections);
        let options = HamlynOptions {
            packet_size: scenario.packet_sizes[usize::from(host)],
            sram_size: 6144 + 1024 * system + 512 * hosts + 512 * channels,
            termini: 4 + system + hosts,
            queues: 6 + system + 2 * channels,
            vectors: 4,
            handshake_ms: scenario.handshake_steps * scenario.step_ms as u32,
            ..HamlynOptions::DEFAULT
        };
        let well_known = scenario.connections.then(|| {
            let system = System::new(rng.next() as u32, scenario.peer_timeout_ms as u32);
            WellKnown::new(system, scenario.packet_sizes.len() as u32)
        });
        let express = self.matrix()?.map(|matrix| Express::new(matrix, host.into()));
        Machine::new(host, options, rng, well_known, express).map(Arc::new)
    }

    fn begin(world: &mut World, host: usize) -> Result<(), Violation> {
        world.hosts[host].handle_interrupts()?;
        world.hosts[host].machine.tables().note_baseline();
        world.lives().populate(host)
    }

    fn before_unplug(world: &mut World, host: usize) -> Result<(), Violation> {
        world.lives().excuse(host);
        world.connector().sever(host);
        Ok(())
    }

    fn beat(machine: &Machine) -> Result<(), Violation> {
        machine.beat()
    }

    fn run_timers(machine: &Machine) -> Result<bool, Violation> {
        machine.tick_system()
    }

    fn tick(world: &mut World, host: usize) -> Result<bool, Violation> {
        let machine = &world.hosts[host].machine;
        let ticked = machine.tick()?;
        if ticked {
            world.model.fetches.give_up(host, machine.clock.milliseconds());
        }
        Ok(ticked)
    }

    fn deadline(world: &World) -> Option<u64> {
        let ticks = world.hosts.iter().filter_map(|host| host.machine.next_tick());
        ticks.chain(world.model.fetches.deadline()).min()
    }

    fn compose(world: &mut World) -> Result<(), Violation> {
        if world.rng.below(1000) < world.model.scenario.traffic {
            world.composer().compose()?;
        }
        if world.rng.below(1000) < world.model.scenario.fetches {
            world.fetcher().fetch()?;
        }
        if world.model.scenario.faults > 0 && world.rng.below(500) == 0 {
            let (mut around, parts) = world.split();
            fill_memory(&mut around, parts.tally)?;
        }
        Ok(())
    }

    /// Injects one fault, of a kind and at a place that the seed chooses.
    fn misfortune(world: &mut World) -> Result<(), Violation> {
        let host = world.rng.index(world.hosts.len());
        let process = world.rng.index(world.hosts[host].processes.len());
        let end = world.step + u64::from(world.rng.range(1, 120));
        let forgers = world.model.scenario.forgers;
        let one = world.hosts[host].processes.get(process);
        let alive = one.is_some_and(Process::is_alive);
        let hostile = alive && one.is_some_and(|process| process.kind == Kind::Hostile);
        match world.rng.below(21) {
            // Does not use the generator, so that known seeds keep their meaning.
            0 if end % 3 == 0 => world.port_flickers(host)?,
            0 => world.port_down(host, end)?,
            1 | 2 => world.process_dies(host, process, end)?,
            3 => world.host_stops(host, end, false),
            4 => world.host_stops(host, end, true),
            5 if world.rng.percent(40) => world.card_resets(host, end)?,
            6 | 7 => world.receiver_slows(host, process, end),
            8..=10 if hostile => world.forger().forge_request(host, process)?,
            11..=13 if forgers => world.forger().forge_packets(host)?,
            14 | 15 if forgers => world.forger().scribble(),
            16 | 17 if alive && !hostile => blunder(&mut world.split().0, host, process)?,
            18 | 19 => world.composer().send_again(),
            20 => world.composer().shut()?,
            _ => return Ok(()),
        }
        world.faults += 1;
        Ok(())
    }

    fn heal(world: &mut World, healing: Healing) -> Result<(), Violation> {
        match healing {
            Healing::Card(host) => world.hosts[host].machine.enable(),
            Healing::Process(host, process) if world.hosts[host].machine.tables().running => {
                let kind = world.hosts[host].processes[process].kind;
                world.lives().start(host, kind, Some(process))
            }
            // The card was reset meanwhile, and is not enabled yet.
            Healing::Process(..) => {
                world.healings.push((world.step + 1, world::Healing::Own(healing)));
                Ok(())
            }
        }
    }

    /// Lets a process do something, or the driver handle an interrupt.
    fn act(world: &mut World, host: usize) -> Result<(), Violation> {
        if world.hosts[host].processes.is_empty() {
            return Ok(());
        }
        let process = world.rng.index(world.hosts[host].processes.len());
        if world.model.scenario.connections && world.rng.percent(30) && world.interrupts(host)? {
            return Ok(());
        }
        if world.correspond(host, process)? {
            return Ok(());
        }
        match world.rng.below(9) {
            0 => world.interrupts(host)?,
            1 => world.reader().sleep(host, process)?,
            2 | 3 => world.poster().collect(host, process)?,
            4..=6 => {
                let burst = world.rng.range(1, 8);
                let mut poster = world.poster();
                let busy = (0..burst).try_fold(false, |busy, _| Ok(poster.post_next(host, process)? || busy));
                world.doze(host, process)?;
                busy?
            }
            _ => world.reader().read_queue(host, process)?,
        };
        Ok(())
    }

    fn act_out(world: &mut World, host: usize) -> Result<bool, Violation> {
        let mut busy = world.interrupts(host)?;
        for process in 0..world.hosts[host].processes.len() {
            busy |= world.everything_of(host, process)?;
        }
        Ok(busy)
    }

    fn sent(world: &mut World, host: usize, destination: u16, packet: &[u8]) -> Result<(), Violation> {
        let at = &world.hosts[host];
        let now = at.machine.clock.milliseconds();
        world.model.fetches.sent(host, destination.into(), packet, now, |record| at.asker(record));
        Ok(())
    }

    fn arrived(world: &mut World, host: usize, packet: Arrived) -> Result<(), Violation> {
        let faulty = world.model.scenario.faults > 0;
        let loose = faulty && world.forger().plan_mischief(host, &packet.bytes);
        world.faults += u64::from(loose);
        world.deliverer().take(host, packet, loose)
    }

    fn check_round(world: &mut World) -> Result<(), Violation> {
        world.watcher().check_connections()
    }

    fn calm(world: &mut World) {
        for process in world.hosts.iter_mut().flat_map(|host| &mut host.processes) {
            process.slow_until = 0;
        }
    }

    fn finish(world: &mut World) -> Result<(), Violation> {
        if world.model.scenario.stands_still {
            world.stand_still()?;
        }
        world.model.connections.healed = Some(world.now());
        Ok(())
    }

    fn prod(world: &mut World) -> bool {
        world.streamer().break_all()
    }

    fn check_rest(world: &mut World) -> Result<(), Violation> {
        check_work(&world.hosts, &world.model.ledger, &world.model.fetches)?;
        world.model.streams.check_rest()?;
        world.watcher().check_at_rest()?;
        check_cards(&world.hosts)?;
        check_baseline(&mut world.hosts)
    }
}

/// The parts of the model. An action is given those that it needs.
struct Parts<'a> {
    ledger: &'a mut Ledger,
    fetches: &'a mut Fetches,
    streams: &'a mut Streams,
    connections: &'a mut Connections,
    sent_once: &'a mut Vec<Again>,
    numbers: &'a mut Numbers,
    tally: &'a mut Tally,
}

/// The actions, each with its parts of the world.
impl World {
    fn split(&mut self) -> (Around<'_>, Parts<'_>) {
        let now = self.now();
        let Self { rng, hosts, model, events, step, .. } = self;
        let Hamlyn { scenario, ledger, fetches, streams, connections, sent_once, numbers, tally, .. } = model;
        let around = Around { rng, hosts, scenario, step: *step, now, events };
        (around, Parts { ledger, fetches, streams, connections, sent_once, numbers, tally })
    }

    fn lives(&mut self) -> Lives<'_> {
        let (around, Parts { ledger, fetches, streams, connections, numbers, .. }) = self.split();
        Lives { around, ledger, fetches, streams, connections, numbers }
    }

    fn composer(&mut self) -> Composer<'_> {
        let (around, Parts { ledger, sent_once, numbers, .. }) = self.split();
        Composer { around, ledger, sent_once, numbers }
    }

    fn poster(&mut self) -> Poster<'_> {
        let (around, Parts { ledger, fetches, tally, .. }) = self.split();
        Poster { around, ledger, fetches, tally }
    }

    fn reader(&mut self) -> Reader<'_> {
        let (around, Parts { ledger, .. }) = self.split();
        Reader { around, ledger }
    }

    fn fetcher(&mut self) -> Fetcher<'_> {
        let (around, Parts { fetches, numbers, .. }) = self.split();
        Fetcher { around, fetches, numbers }
    }

    fn forger(&mut self) -> Forger<'_> {
        let max_packet = self.max_packet;
        let (around, Parts { fetches, .. }) = self.split();
        Forger { around, fetches, max_packet }
    }

    fn deliverer(&mut self) -> Deliverer<'_> {
        let (around, Parts { ledger, fetches, streams, .. }) = self.split();
        Deliverer { around, ledger, fetches, streams }
    }

    fn streamer(&mut self) -> Streamer<'_> {
        let (around, Parts { streams, .. }) = self.split();
        Streamer { around, streams }
    }

    fn connector(&mut self) -> Connector<'_> {
        let (around, Parts { streams, connections, tally, .. }) = self.split();
        Connector { around, streams, connections, tally }
    }

    fn talker(&mut self) -> Talker<'_> {
        let (around, Parts { connections, tally, .. }) = self.split();
        Talker { around, connections, tally }
    }

    fn watcher(&mut self) -> Watcher<'_> {
        let (around, Parts { connections, .. }) = self.split();
        Watcher { around, connections }
    }

    /// Kills a process. Another takes its place at step `end`.
    fn process_dies(&mut self, host: usize, process: usize, end: u64) -> Result<(), Violation> {
        if self.lives().kill(host, process)? {
            self.healings.push((end, world::Healing::Own(Healing::Process(host, process))));
        }
        Ok(())
    }

    /// Resets the card. Its driver starts everything again at step `end`.
    fn card_resets(&mut self, host: usize, end: u64) -> Result<(), Violation> {
        let Some(victims) = self.lives().reset_card(host)? else { return Ok(()) };
        for process in victims {
            self.healings.push((end, world::Healing::Own(Healing::Process(host, process))));
        }
        // This fault comes first, so that it also ends first: a process needs a card.
        self.healings.insert(0, (end, world::Healing::Own(Healing::Card(host))));
        Ok(())
    }

    fn receiver_slows(&mut self, host: usize, process: usize, end: u64) {
        if let Some(receiver) = self.hosts[host].processes.get_mut(process) {
            receiver.slow_until = end;
        }
        self.note(|| format!("host {host} process {process} is slow"));
    }

    /// Does something with the streams, connections or channels of a program.
    fn correspond(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let late = self.hosts[host].processes[process].slow_until > self.step;
        if late || self.hosts[host].correspondent(process).is_none() {
            return Ok(false);
        }
        if self.model.scenario.express && self.rng.percent(50) && self.talker().talk(host, process)? {
            return Ok(true);
        }
        if self.model.scenario.connections && (!self.model.scenario.streams || self.rng.percent(60)) {
            return self.connector().converse(host, process);
        }
        self.streamer().correspond(host, process)
    }

    /// Does all that a process can do now. Returns whether it did anything.
    fn everything_of(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let mut busy = self.streamer().finish(host, process)?;
        busy |= self.talker().finish(host, process)?;
        busy |= self.connector().finish(host, process)?;
        busy |= self.poster().collect(host, process)?;
        busy |= self.poster().post_next(host, process)?;
        self.doze(host, process)?;
        while self.reader().read_queue(host, process)? {
            busy = true;
        }
        if self.rng.percent(30) {
            busy |= self.reader().sleep(host, process)?;
        }
        Ok(busy)
    }

    fn doze(&mut self, host: usize, process: usize) -> Result<(), Violation> {
        let (mut around, parts) = self.split();
        doze(&mut around, parts.tally, host, process)
    }

    /// Handles the interrupts of a host's card as its driver. Returns whether there was any work
    /// for it.
    fn interrupts(&mut self, host: usize) -> Result<bool, Violation> {
        let handled = self.hosts[host].handle_interrupts()?;
        self.connector().check_severed(host)?;
        Ok(handled)
    }

    /// Stalls one card while all hosts send to all.
    ///
    /// Programs that send nothing to it, and all traffic that is not for it, must come to rest
    /// meanwhile. The card goes on afterwards. Traffic that is owed to it is checked later with all
    /// other traffic.
    fn stand_still(&mut self) -> Result<(), Violation> {
        let still = self.rng.index(self.hosts.len());
        self.note(|| format!("card {still} stands still"));
        self.hosts[still].frozen = true;
        let before = self.model.ledger.delivered();
        let (mut round, mut idle) = (0, 0);
        while idle < 2 {
            ensure(round < MOST_ROUNDS, || format!("without card {still} the fabric never comes to rest"))?;
            let traffic = round < ROUNDS_WITH_TRAFFIC;
            if traffic {
                self.composer().compose()?;
                self.composer().compose()?;
            }
            idle = if self.round()? || traffic { 0 } else { idle + 1 };
            round += 1;
        }
        check_bystanders(&self.hosts, &self.model.ledger, still)?;
        if self.switch.counters().ports[still].waiting > 0 {
            self.model.tally.bystanders += self.model.ledger.delivered() - before;
        }
        self.note(|| format!("card {still} goes on"));
        self.hosts[still].frozen = false;
        Ok(())
    }
}
