//! Implements the engine's interface for fabrics of CLAN cards.

use std::collections::{BTreeMap, BTreeSet};

use hamlyn_abi::clan::identity::CLAN_MODEL;
use hamlyn_card_clan::{Options, cut, join};
use hamlyn_fabric::Protocol;
use hamlyn_switch::bursts::{Bursts, Policy};

use crate::engine::area::Area;
use crate::engine::flight::Flight;
use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Model, World};

use super::counts::{Come, Spent};
use super::deeds::Processor;
use super::ledger::Ledger;
use super::machine::Machine;
use super::packet::{HEAD, Letter};

/// The origin of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A load, by the card's number.
    Load(u64),
    /// A DMA request: its endpoint and serial number.
    Dma(u32, u64),
    /// The origin no longer exists.
    Nobody,
}

/// A remote read in flight.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) asker: u16,
    pub(super) server: u16,
    pub(super) origin: Origin,
    pub(super) tag: u32,
    pub(super) key: u64,
    pub(super) aperture: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// It has reached its host.
    pub(super) arrived: bool,
    /// It may have the data that it asks for.
    pub(super) is_allowed: bool,
    /// It might, until the aperture was closed.
    pub(super) is_revoked: bool,
    /// Its host has refused it.
    pub(super) is_refused: bool,
    /// The memory (`area`), the first byte in it (`place`), and the first moment of which the
    /// answer may show the contents (`start`).
    pub(super) area: Option<Area>,
    pub(super) place: u64,
    pub(super) start: u64,
    pub(super) data: Vec<u8>,
    /// Bytes that have left (`sent`), and come (`came`).
    pub(super) sent: u64,
    pub(super) came: u64,
    /// A port has gone down since, or a card was reset.
    pub(super) excused: bool,
    /// Number of pieces that came before it and are not in memory yet: it reads after them.
    pub(super) behind: usize,
}

impl Reading {
    pub(super) fn new(asker: u16, server: u16, letter: &Letter, origin: Origin) -> Self {
        Self {
            asker,
            server,
            origin,
            tag: letter.tag,
            key: letter.key,
            aperture: letter.aperture,
            offset: letter.offset,
            length: letter.asked(),
            arrived: false,
            is_allowed: false,
            is_revoked: false,
            is_refused: false,
            area: None,
            place: 0,
            start: 0,
            data: Vec::new(),
            sent: 0,
            came: 0,
            excused: false,
            behind: 0,
        }
    }

    /// Returns whether a packet has the next bytes that it asks for.
    pub(super) fn can_be_answered(&self, letter: &Letter) -> bool {
        self.arrived
            && self.is_allowed
            && !self.is_refused
            && (self.tag, self.aperture) == (letter.tag, letter.aperture)
            && self.offset + self.sent == letter.offset
            && !letter.data.is_empty()
            && self.sent + letter.data.len() as u64 <= self.length
    }
}

/// Contents of memory before they were overwritten.
#[derive(Debug, Clone)]
pub(super) struct Old {
    pub(super) moment: u64,
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

/// A fabric of CLAN cards.
#[derive(Debug)]
pub(super) struct Clan {
    pub(super) options: Options,
    pub(super) group_keys: Vec<u64>,
    pub(super) ledgers: Vec<Ledger>,
    /// Whether the switch cuts and joins at random places.
    cuts_by_chance: bool,
    /// Hosts that send packets that bypass their cards.
    pub(super) is_hostile: Vec<bool>,
    /// For each host, whether it is a hostile one whose receivers answer, but grant no credits.
    pub(super) grants_nothing: Vec<bool>,
    /// For each host, the known contents of memory (`memories`), and the earlier ones (`history`).
    pub(super) memories: Vec<Vec<u8>>,
    pub(super) history: Vec<Vec<Old>>,
    /// Counts changes of memories.
    pub(super) moment: u64,
    /// Packets in flight from one host to another, in order.
    pub(super) flying: BTreeMap<(u16, u16), Flight>,
    pub(super) readings: Vec<Reading>,
    /// Endpoints that have to be told that writes were refused: the refusing host, the endpoint's
    /// host, the endpoint.
    pub(super) refused: BTreeSet<(u16, u16, u32)>,
    pub(super) refused_ever: BTreeSet<(u16, u16, u32)>,
    /// For each host, whether its card was reset.
    pub(super) was_reset: Vec<bool>,
    /// The last epoch of a host's packets to another (`epochs`), and the epochs that were given up
    /// (`over`). The endpoints that sent in those have been told.
    pub(super) epochs: BTreeMap<(u16, u16), u16>,
    pub(super) over: BTreeSet<(u16, u16, u16)>,
    /// Endpoints that have written to a host: their own host, that host, the endpoint.
    pub(super) writers: BTreeSet<(u16, u16, u32)>,
    /// Words that hosts have sent to others (`spent`), and that have come (`come`). The key is the
    /// counting host, then its peer.
    pub(super) spent: BTreeMap<(u16, u16), Spent>,
    pub(super) come: BTreeMap<(u16, u16), Come>,
    /// For each host, whether it has ever stopped: its peers may have given it up for that, until
    /// they get a packet from it.
    pub(super) was_stopped: Vec<bool>,
    /// Number of requests so far.
    pub(super) lives: u64,
    /// For each host, the number of endpoints that were opened.
    pub(super) opened: Vec<u32>,
    /// Counts values that were stored.
    pub(super) values: u64,
    /// New deeds (`traffic`), and actions of drivers (`changes`), per thousand steps.
    pub(super) traffic: u64,
    pub(super) changes: u64,
    pub(super) words_sent: u64,
    pub(super) deposited: u64,
    pub(super) fired: u64,
    pub(super) loaded: u64,
    pub(super) requests: u64,
    pub(super) refusals: u64,
    pub(super) forged: u64,
    pub(super) found: Option<Violation>,
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
        let is_hostile: Vec<bool> = (0..cards).map(|_| rng.percent(15)).collect();
        let grants_nothing = is_hostile.iter().map(|hostile| *hostile && rng.percent(40)).collect();
        Self {
            options,
            group_keys: (0..64).map(|_| rng.next()).collect(),
            ledgers: (0..cards).map(|_| Ledger::default()).collect(),
            cuts_by_chance: rng.percent(70),
            is_hostile,
            grants_nothing,
            memories: vec![vec![0; super::machine::FRAMES as usize * 4096]; cards.into()],
            history: vec![Vec::new(); cards.into()],
            moment: 0,
            flying: BTreeMap::new(),
            readings: Vec::new(),
            refused: BTreeSet::new(),
            refused_ever: BTreeSet::new(),
            was_reset: vec![false; cards.into()],
            lives: 0,
            epochs: BTreeMap::new(),
            over: BTreeSet::new(),
            writers: BTreeSet::new(),
            spent: BTreeMap::new(),
            come: BTreeMap::new(),
            was_stopped: vec![false; cards.into()],
            opened: vec![0; cards.into()],
            values: 0,
            traffic: u64::from(rng.range(50, 700)),
            changes: u64::from(rng.range(0, 40)),
            words_sent: 0,
            deposited: 0,
            fired: 0,
            loaded: 0,
            requests: 0,
            refusals: 0,
            forged: 0,
            found: None,
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("deposits", self.deposited),
            ("Tripwires fired", self.fired),
            ("loads", self.loaded),
            ("requests", self.requests),
            ("refusals", self.refusals),
            ("forgeries", self.forged),
        ]
    }

    /// Returns whether cards have timeouts so short that they give up peers that are only slow.
    pub(super) fn is_hasty(&self) -> bool {
        self.options.read_timeout_ms < 5000
    }

    /// Returns whether traffic between two hosts may have any contents, because one of them is
    /// hostile.
    pub(super) fn is_tainted(&self, one: u16, other: u16) -> bool {
        let is_hostile = |host: u16| self.is_hostile.get(usize::from(host)).copied().unwrap_or(true);
        is_hostile(one) || is_hostile(other)
    }

    /// Returns the endpoint of a host with this tag, if it is still open.
    pub(super) fn by_tag(&mut self, host: u16, tag: u32) -> Option<&mut super::ledger::Endpoint> {
        self.ledgers[usize::from(host)].endpoints.values_mut().find(|endpoint| endpoint.tag == tag)
    }

    /// Returns the read that an answer with this tag from a host is for, if it is still awaited.
    pub(super) fn awaited(&mut self, asker: u16, server: u16, tag: u32) -> Option<&mut Reading> {
        let ledger = &self.ledgers[usize::from(asker)];
        let waits = |origin| match origin {
            Origin::Load(number) => ledger.loads.contains_key(&number),
            Origin::Dma(number, serial) => {
                let front = ledger.endpoints.get(&number).and_then(|endpoint| endpoint.pending.front());
                front.is_some_and(|front| front.serial == serial)
            }
            Origin::Nobody => false,
        };
        let is_it = |reading: &&mut Reading| {
            (reading.asker, reading.server, reading.tag) == (asker, server, tag)
                && reading.came < reading.length
                && waits(reading.origin)
        };
        self.readings.iter_mut().find(is_it)
    }

    /// Excuses everything in flight from or to a host whose port has gone down.
    pub(super) fn excuse(&mut self, host: u16) {
        for ((source, destination), flight) in &mut self.flying {
            if [*source, *destination].contains(&host) {
                flight.excuse();
            }
        }
        for reading in &mut self.readings {
            reading.excused |= [reading.asker, reading.server].contains(&host);
        }
        self.refused.retain(|(refuser, sender, _)| ![*refuser, *sender].contains(&host));
        // Its endpoints have been told of a loss. They need not be told of refusals of the same
        // writes, if those still come.
        let own = self.epochs.iter().filter(|((sender, _), _)| *sender == host);
        self.over.extend(own.map(|((sender, to), epoch)| (*sender, *to, *epoch)));
    }

    /// Notes that a card was reset: its unsent data is lost, and no process there waits.
    pub(super) fn card_was_reset(&mut self, host: u16) {
        self.excuse(host);
        self.was_reset[usize::from(host)] = true;
        for reading in self.readings.iter_mut().filter(|reading| reading.asker == host) {
            reading.origin = Origin::Nobody;
        }
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

    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Machine, Violation> {
        Machine::new(host, self.options, rng)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        for processor in 0..world.rng.range(2, 4) {
            world.hosts[host].processes.push(Processor::new(1 + processor % 2));
        }
        world.set_up(host)
    }

    /// Drops everything that has not left: it never will.
    fn after_unplug(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.settle(host)?;
        world.model.excuse(host as u16);
        world.forget_counts(host as u16);
        let ledger = &mut world.model.ledgers[host];
        ledger.program.clear();
        ledger.ghosts.clear();
        ledger.detached.clear();
        ledger.members.clear();
        Ok(())
    }

    fn beat(machine: &Machine) -> Result<(), Violation> {
        machine.beat()
    }

    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        world.settle(host)?;
        if !world.hosts[host].machine.tick()? {
            return Ok(false);
        }
        world.model.ledgers[host].is_ticking = true;
        world.settle(host)?;
        let ledger = &mut world.model.ledgers[host];
        ledger.is_ticking = false;
        // Data that waited for them will never leave.
        for peer in std::mem::take(&mut ledger.given_up) {
            ledger.program.remove(&peer);
            ledger.forget_copies(peer as u16, |_| true);
            ledger.ghosts.retain(|ghost| ghost.pending.request.host != peer);
            ledger.detached.retain(|ghost| ghost.pending.request.host != peer);
        }
        world.check_card(host)?;
        Ok(true)
    }

    /// Reads end in time, and a card that waits for credits asks for them.
    fn deadline(world: &World<Self>) -> Option<u64> {
        let hosts = world.hosts.len() as u32;
        let is_owed = |host: usize| {
            let mut refused = world.model.refused.iter();
            refused.any(|(refuser, sender, _)| {
                usize::from(*sender) == host && !world.model.is_tainted(*refuser, *sender)
            })
        };
        let waits = |(host, ledger): (usize, &Ledger)| {
            let is_waiting = ledger.is_waiting(hosts) || is_owed(host) || world.owing(host).is_some();
            let alarm = world.hosts[host].machine.alarm().filter(|_| is_waiting)?;
            u64::try_from(alarm).ok().map(|alarm| alarm + 1)
        };
        world.model.ledgers.iter().enumerate().filter_map(waits).min()
    }

    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
        world.check_found()?;
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
                world.model.was_stopped[host] = true;
                world.host_stops(host, end, frozen);
                Ok(())
            }
            3..8 => world.forge(host),
            _ if world.hosts[host].stopped => Ok(()),
            8 if world.rng.percent(40) => world.reset(host),
            9 | 10 => world.command_nonsense(host),
            _ => world.store_nonsense(host),
        }
    }

    fn heal(_: &mut World<Self>, (): ()) -> Result<(), Violation> {
        Ok(())
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.check_found()?;
        if world.rng.percent(15) {
            world.driver_looks(host)?;
        }
        if world.rng.percent(5) {
            world.arm_something(host)?;
        }
        for _ in 0..world.rng.range(1, 6) {
            let processor = world.rng.index(world.hosts[host].processes.len());
            world.go_on(host, processor)?;
        }
        Ok(())
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        world.check_found()?;
        let mut busy = world.driver_looks(host)?;
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

    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]) {
        let noted = world.note_sent(host, destination, packet).and_then(|()| world.check_card(host));
        if let Err(violation) = noted {
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
        world.check_credits_at_rest()?;
        let hosts = world.hosts.len();
        let reaches = |(_, destination): &(u16, u16)| usize::from(*destination) < hosts;
        let lost = world.model.flying.iter().filter(|(pair, flight)| reaches(pair) && !flight.is_over());
        let lost = lost.map(|(pair, _)| pair).next();
        ensure(lost.is_none(), || format!("a packet is lost: {lost:?}"))?;
        let model = &world.model;
        let untold = model.refused.iter().find(|(one, other, _)| !model.is_tainted(*one, *other));
        ensure(untold.is_none(), || format!("nobody was told of a refused write: {untold:?}"))
    }
}

impl World<Clan> {
    pub(super) fn check_found(&mut self) -> Result<(), Violation> {
        self.model.found.take().map_or(Ok(()), Err)
    }

    /// Checks that nothing waits on a host.
    fn check_host_at_rest(&mut self, host: usize) -> Result<(), Violation> {
        self.check_card(host)?;
        let hosts = self.hosts.len() as u32;
        let ledger = &self.model.ledgers[host];
        ensure(ledger.landings.is_empty(), || format!("host {host}: it keeps what has arrived"))?;
        ensure(ledger.loads.is_empty(), || {
            format!("host {host}: a load waits for ever: {:?}", ledger.loads)
        })?;
        // Nothing waits for a hostile host either: one that grants nothing is given up.
        let waits = ledger.what_waits(hosts);
        ensure(waits.is_empty(), || format!("host {host}: something waits for ever: {waits:?}"))?;
        let owing = self.owing(host);
        ensure(owing.is_none(), || format!("host {host}: copies never leave: {owing:x?}"))?;
        let idle = self.hosts[host].processes.iter().all(|processor| processor.deeds.is_empty());
        ensure(idle, || format!("host {host}: a processor waits for ever"))
    }
}
