//! The whole fabric: hosts with their cards, the switch between them, the ledger, and what has happened lately.

use std::collections::VecDeque;
use std::time::Duration;

use hamlyn_card::card::{Card, Progress};
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_fabric::{Geometry, HostId};
use hamlyn_switch::{Options, Switch};

use crate::connections::Connections;
use crate::faults::Healing;
use crate::fetches::Fetches;
use crate::host::Host;
use crate::ledger::Ledger;
use crate::process::Kind;
use crate::program::Errand;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::streams::Stream;
use crate::system::{System, WellKnown};
use crate::uplink::Arrived;
use crate::violation::{Violation, ensure};

/// How many events a report shows.
const EVENTS: usize = 40;
/// Bytes of the smallest ring there is: it is often full.
const SMALL_RING: usize = 4096;

/// A fabric.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) scenario: Scenario,
    pub(crate) hosts: Vec<Host>,
    pub(crate) switch: Switch,
    pub(crate) ledger: Ledger,
    pub(crate) fetches: Fetches,
    pub(crate) streams: Vec<Stream>,
    pub(crate) connections: Connections,
    pub(crate) step: u64,
    /// Milliseconds in which there was nothing to do.
    pub(crate) skipped: u64,
    pub(crate) faults: u64,
    /// Messages that found their sender's work queue full.
    pub(crate) blocked: u64,
    /// Times that a program slept until its requests were finished.
    pub(crate) dozed: u64,
    /// Messages that were delivered while a card stood still, and others waited for it.
    pub(crate) bystanders: u64,
    /// Messages for places that take one: host and process that may send them again.
    pub(crate) sent_once: Vec<(usize, u64, Errand)>,
    pub(crate) healings: Vec<(u64, Healing)>,
    /// The longest packet that a link takes.
    pub(crate) max_packet: usize,
    events: VecDeque<String>,
    next_pid: u64,
    next_word: u32,
}

impl World {
    pub(crate) fn new(mut rng: Rng, scenario: Scenario) -> Result<Self, Violation> {
        let largest = scenario.packet_sizes.iter().copied().max().unwrap_or(256);
        let max_packet = HamlynOptions { packet_size: largest, ..HamlynOptions::default() }.largest_packet();
        let capacity = (4 * (max_packet + 16)).next_power_of_two().max(SMALL_RING);
        let ports = scenario.packet_sizes.len() as u16;
        let geometry = Geometry { capacity, max_packet };
        let (paths, seed) = (scenario.paths, rng.next());
        // Time is the seed's, not the switch's.
        let stall_timeout = Duration::ZERO;
        let options = Options { ports, geometry, paths, seed, stall_timeout, ..Options::default() };
        let switch = Switch::new(options).map_err(Violation::new)?;
        let mut hosts = Vec::new();
        for (id, packet_size) in scenario.packet_sizes.iter().enumerate() {
            let options = HamlynOptions {
                packet_size: *packet_size,
                sram_size: if scenario.connections { 6144 + 1024 } else { 6144 },
                termini: 4 + u32::from(scenario.connections),
                queues: 6 + u32::from(scenario.connections),
                vectors: 4,
                handshake_ms: scenario.handshake_steps * scenario.step_ms as u32,
            };
            let well_known = scenario.connections.then(|| {
                let system = System::new(rng.next() as u32, scenario.peer_timeout_ms);
                WellKnown::new(system, ports.into())
            });
            hosts.push(Host::new(id as u16, options, &mut rng, well_known)?);
        }
        let mut world = Self {
            rng,
            scenario,
            hosts,
            switch,
            ledger: Ledger::default(),
            fetches: Fetches::default(),
            streams: Vec::new(),
            connections: Connections::default(),
            step: 0,
            skipped: 0,
            faults: 0,
            blocked: 0,
            dozed: 0,
            bystanders: 0,
            sent_once: Vec::new(),
            healings: Vec::new(),
            max_packet,
            events: VecDeque::new(),
            next_pid: 1,
            next_word: 1,
        };
        for host in 0..world.hosts.len() {
            world.plug_in(host)?;
            world.hosts[host].handle_interrupts()?;
            let free = world.hosts[host].machine.tables().free();
            world.hosts[host].baseline = free;
            world.populate(host)?;
        }
        Ok(world)
    }

    /// Remembers an event for the report.
    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        let event = format!("{}: {}", self.step, what());
        self.events.push_back(event);
    }

    pub(crate) fn take_events(&mut self) -> Vec<String> {
        self.events.drain(..).collect()
    }

    /// A word of fast mode that nobody else has.
    pub(crate) fn next_word(&mut self) -> u32 {
        self.next_word += 1;
        self.next_word
    }

    /// Links a card to its port.
    pub(crate) fn plug_in(&mut self, host: usize) -> Result<(), Violation> {
        let (_, link) = self.switch.open_port(Some(HostId(host as u16))).map_err(Violation::new)?;
        self.hosts[host].uplink.set_link(Some(link));
        self.hosts[host].machine.set_link_state(true)
    }

    /// Starts the processes of a host.
    pub(crate) fn populate(&mut self, host: usize) -> Result<(), Violation> {
        for _ in 0..self.scenario.processes {
            self.start_process(host, Kind::Honest, None)?;
        }
        if self.scenario.streams || self.scenario.connections {
            self.start_process(host, Kind::Correspondent, None)?;
        }
        if self.scenario.forgers && self.rng.percent(60) {
            self.start_process(host, Kind::Hostile, None)?;
        }
        Ok(())
    }

    /// Starts a process, in the place of a dead one if one is given.
    pub(crate) fn start_process(
        &mut self,
        host: usize,
        kind: Kind,
        instead_of: Option<usize>,
    ) -> Result<(), Violation> {
        let pid = self.next_pid;
        self.next_pid += 1;
        let at = &mut self.hosts[host];
        let Some((process, offer)) = at.spawn(&mut self.rng, pid, kind)? else { return Ok(()) };
        match instead_of {
            Some(index) => at.processes[index] = process,
            None => at.processes.push(process),
        }
        self.ledger.places.extend(offer.places);
        self.fetches.words.extend(offer.words);
        Ok(())
    }

    /// The hosts to which a card may hand a packet over: none is on its way there that it would overtake.
    fn neighbours(&mut self, host: usize) -> Vec<u16> {
        if self.scenario.by_hand == 0 || !self.rng.percent(self.scenario.by_hand) {
            return Vec::new();
        }
        let takes = |world: &mut Self, other: usize| {
            let there = &world.hosts[other];
            other != host
                && !there.frozen
                && there.uplink.stage.is_empty()
                && world.switch.crossbar().is_clear(HostId(host as u16), HostId(other as u16))
        };
        (0..self.hosts.len()).filter(|other| takes(self, *other)).map(|other| other as u16).collect()
    }

    /// Brings a packet from one card to another, beside the rings.
    fn hand_over(&mut self, source: usize, destination: u16, bytes: Vec<u8>) -> Result<(), Violation> {
        let (source, host) = (source as u16, usize::from(destination));
        let passes = self.switch.crossbar().pass(HostId(source), HostId(destination), bytes.len());
        ensure(passes, || format!("host {source} may not hand a packet to {destination} any more"))?;
        self.note(|| format!("host {source} hands a packet to {destination}"));
        self.hosts[host].uplink.taken += 1;
        self.take(host, Arrived { source, bytes })?;
        // Whose answer this was goes on.
        self.hosts[host].machine.set_asleep(false);
        Ok(())
    }

    /// Lets a card send a packet.
    pub(crate) fn transmit(&mut self, host: usize) -> Result<Progress, Violation> {
        let neighbours = self.neighbours(host);
        let at = &mut self.hosts[host];
        at.uplink.neighbours = neighbours;
        let sent = at.uplink.sent;
        let progress = at.machine.with_card(|card, ports| card.transmit(ports, &mut at.uplink))?;
        at.uplink.check()?;
        let packets = at.uplink.sent - sent;
        ensure(packets <= 1, || format!("host {host}: {packets} packets went in one turn"))?;
        if packets == 1 {
            self.note(|| format!("host {host} sends a packet"));
        }
        let at = &mut self.hosts[host];
        for (destination, packet) in std::mem::take(&mut at.uplink.departed) {
            let now = at.machine.clock.milliseconds();
            self.fetches.sent(host, destination.into(), &packet, now, |record| at.asker(record));
        }
        if let Some((destination, packet)) = at.uplink.handed.take() {
            self.hand_over(host, destination, packet)?;
        }
        Ok(progress)
    }
}
