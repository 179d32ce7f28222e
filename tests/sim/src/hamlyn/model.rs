//! Implements the engine's interface for fabrics of Hamlyn cards.

use std::sync::Arc;

use hamlyn_card_hamlyn::HamlynOptions;

use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::Violation;
use crate::engine::world::Model;
use crate::hamlyn::express::Express;
use crate::hamlyn::faults::Healing;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::process::Process;
use crate::hamlyn::system::{System, WellKnown};
use crate::hamlyn::world::{Hamlyn, World};

/// Channels for which a card has memory.
const CHANNELS: u32 = 8;

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
        world.populate(host)
    }

    fn before_unplug(world: &mut World, host: usize) -> Result<(), Violation> {
        world.model.ledger.excuse(|other, _| other == host);
        world.model.fetches.excuse(|other| other == host);
        world.excuse_streams(host);
        world.sever(host);
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
            world.compose()?;
        }
        if world.rng.below(1000) < world.model.scenario.fetches {
            world.compose_fetch()?;
        }
        if world.model.scenario.faults > 0 && world.rng.below(500) == 0 {
            world.fill_memory()?;
        }
        Ok(())
    }

    fn misfortune(world: &mut World) -> Result<(), Violation> {
        world.misfortune()
    }

    fn heal(world: &mut World, healing: Healing) -> Result<(), Violation> {
        world.heal_own(healing)
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
            1 => world.sleep(host, process)?,
            2 | 3 => world.collect(host, process)?,
            4..=6 => {
                let burst = world.rng.range(1, 8);
                let busy = (0..burst).try_fold(false, |busy, _| Ok(world.post_next(host, process)? || busy));
                world.doze(host, process)?;
                busy?
            }
            _ => world.read_queue(host, process)?,
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
        world.take(host, packet)
    }

    fn check_round(world: &mut World) -> Result<(), Violation> {
        world.check_connections()
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
        world.break_streams()
    }

    fn check_rest(world: &mut World) -> Result<(), Violation> {
        world.check_rest()?;
        world.check_baseline()
    }
}

impl World {
    /// Does all that a process can do now. Returns whether it did anything.
    fn everything_of(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let mut busy = self.finish_streams(host, process)?;
        busy |= self.finish_channels(host, process)?;
        busy |= self.finish_connections(host, process)?;
        busy |= self.collect(host, process)?;
        busy |= self.post_next(host, process)?;
        self.doze(host, process)?;
        while self.read_queue(host, process)? {
            busy = true;
        }
        if self.rng.percent(30) {
            busy |= self.sleep(host, process)?;
        }
        Ok(busy)
    }

    /// Handles the interrupts of a host's card as its driver. Returns whether there was any work
    /// for it.
    fn interrupts(&mut self, host: usize) -> Result<bool, Violation> {
        let handled = self.hosts[host].handle_interrupts()?;
        self.check_severed(host)?;
        Ok(handled)
    }
}
