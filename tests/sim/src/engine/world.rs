//! The whole fabric: hosts with their cards, the switch between them, faults, and recent events.
//! Also the interface of a model.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use hamlyn_card::card::Progress;
use hamlyn_fabric::{Geometry, Header, HostId, Protocol, Request, Traffic};
use hamlyn_switch::bursts::{Bursts, Policy};
use hamlyn_switch::mesh::Shape;
use hamlyn_switch::{Options, Switch};

use crate::engine::events::Events;
use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::uplink::{Arrived, Uplink};
use crate::engine::violation::{Violation, ensure};

/// Bytes of the smallest ring: it is often full.
const SMALL_RING: usize = 4096;

/// A card's station, or a machine that has one.
pub(crate) trait HasStation {
    fn station(&self) -> &Station;
}

impl<T: Deref<Target = Station>> HasStation for T {
    fn station(&self) -> &Station {
        self
    }
}

/// The simulation of a card model: its own state of a fabric, its actions and its checks during a
/// run.
///
/// All random decisions must use the world's `rng`.
pub(crate) trait Model: Sized + Debug {
    /// A machine: a card's station, with the driver's and the programs' state.
    type Machine: HasStation + Debug;
    /// A process of a host.
    type Process: Debug;
    /// End of a fault that only this model has.
    type Healing: Debug + Clone + Copy;

    /// Returns the size of the longest packet that a card of this fabric sends, in bytes.
    fn largest_packet(&self) -> usize;

    /// Returns how the switch cuts and joins packets, if it does. `seed` seeds its random
    /// decisions.
    fn bursts(&self, seed: u64) -> (Vec<Bursts>, Policy) {
        let _ = seed;
        (Vec::new(), Policy::Quantum(0))
    }

    /// Creates the machine of a host, powered on.
    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Arc<Self::Machine>, Violation>;

    /// Called when a host's card has its link for the first time. Starts the host's processes.
    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation>;

    /// Called before a card's port goes down, with the packets in its rings.
    fn before_unplug(_: &mut World<Self>, _: usize) -> Result<(), Violation> {
        Ok(())
    }

    /// Called after the card has learned that its port is down.
    fn after_unplug(_: &mut World<Self>, _: usize) -> Result<(), Violation> {
        Ok(())
    }

    /// Tells the driver of a running host that time has passed.
    fn beat(_: &Self::Machine) -> Result<(), Violation> {
        Ok(())
    }

    /// Runs the timers of a running host's operating system. Returns whether one was due.
    fn run_timers(_: &Self::Machine) -> Result<bool, Violation> {
        Ok(false)
    }

    /// Lets a card's process tick the card. Returns whether a tick was due.
    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation>;

    /// Returns the next time at which something happens while all parts are idle, in milliseconds.
    /// `None` means that nothing ever will.
    fn deadline(world: &World<Self>) -> Option<u64>;

    /// May create new work, in a random step.
    fn compose(world: &mut World<Self>) -> Result<(), Violation>;

    /// Injects a fault: one of `faults`, or one of the model's own.
    fn misfortune(world: &mut World<Self>) -> Result<(), Violation>;

    /// Ends a fault of the model's own.
    fn heal(_: &mut World<Self>, _: Self::Healing) -> Result<(), Violation> {
        Ok(())
    }

    /// Lets a part of a running host do one thing or nothing.
    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation>;

    /// Lets all parts of a host do everything that is possible now. Returns whether they did
    /// anything.
    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation>;

    /// Called when a packet has left a card.
    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]) -> Result<(), Violation>;

    /// Hands an arriving packet to its card, and checks the effects.
    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation>;

    /// Checks the invariants that hold after each round in which every part had a turn.
    fn check_round(_: &mut World<Self>) -> Result<(), Violation> {
        Ok(())
    }

    /// Ends new work of [`Model::compose`] and new faults.
    fn calm(_: &mut World<Self>) {}

    /// Called when all faults are over, before all parts finish their work.
    fn finish(_: &mut World<Self>) -> Result<(), Violation> {
        Ok(())
    }

    /// Called when all parts are idle. Returns whether the simulation has created more work.
    fn prod(_: &mut World<Self>) -> bool {
        false
    }

    /// Checks the invariants of the fabric at rest. Then ends everything, and checks the invariants
    /// that hold after that.
    fn check_rest(world: &mut World<Self>) -> Result<(), Violation>;
}

/// Parameters of a run that do not depend on the card model.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Number of cards.
    pub(crate) cards: u16,
    /// Number of random steps. After them, new work and faults end and the fabric must come to
    /// rest.
    pub(crate) steps: u64,
    /// Faults per thousand steps.
    pub(crate) faults: u64,
    /// Percentage of steps that are the switch's turn. The lower, the fuller the rings.
    pub(crate) switch_share: u64,
    /// Percentage of packets that go directly from card to card, where that is allowed.
    pub(crate) by_hand: u64,
    /// Whether packets are reordered between switch and card.
    pub(crate) reorder: bool,
    /// Number of paths through the switch to each host. Packets on different paths overtake each
    /// other.
    pub(crate) paths: u16,
    /// The mesh that packets cross, if any.
    pub(crate) mesh: Option<Shape>,
    /// Milliseconds per step.
    pub(crate) step_ms: u64,
    /// Milliseconds that may pass at once when all parts are idle.
    pub(crate) leap_ms: u64,
}

/// A host: its machine, its link to the switch, and its processes.
#[derive(Debug)]
pub(crate) struct Host<M: Model> {
    pub(crate) id: u16,
    pub(crate) machine: Arc<M::Machine>,
    pub(crate) uplink: Uplink,
    pub(crate) processes: Vec<M::Process>,
    /// The host has stopped: neither its processes nor its driver run.
    pub(crate) stopped: bool,
    /// Its card has stopped too.
    pub(crate) frozen: bool,
    /// Its link has been down.
    pub(crate) was_unplugged: bool,
}

/// The end of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Healing<H> {
    /// The port comes up again.
    Port(usize),
    /// The host runs again.
    Host(usize),
    /// See [`Model::heal`].
    Own(H),
}

/// A fabric.
#[derive(Debug)]
pub(crate) struct World<M: Model> {
    pub(crate) rng: Rng,
    pub(crate) course: Course,
    pub(crate) hosts: Vec<Host<M>>,
    pub(crate) switch: Switch,
    pub(crate) model: M,
    pub(crate) step: u64,
    /// Idle milliseconds that were skipped.
    pub(crate) skipped: u64,
    pub(crate) faults: u64,
    /// Faults in effect, each with the step at which it ends.
    pub(crate) healings: Vec<(u64, Healing<M::Healing>)>,
    /// The longest packet that a link takes.
    pub(crate) max_packet: usize,
    pub(crate) events: Events,
}

impl<M: Model> World<M> {
    /// Creates hosts and a switch, not linked yet.
    pub(crate) fn new(mut rng: Rng, course: Course, mut model: M) -> Result<Self, Violation> {
        let max_packet = model.largest_packet();
        let capacity = (4 * (max_packet + 16)).next_power_of_two().max(SMALL_RING);
        let geometry = Geometry { capacity, max_packet };
        let Course { cards: ports, paths, mesh, .. } = course;
        let seed = rng.next();
        // Wall-clock time must not affect a run, so the switch's stall timeout is off.
        let stall_timeout = Duration::ZERO;
        let (bursts, cutting) = model.bursts(seed);
        let options = Options {
            ports,
            geometry,
            paths,
            mesh,
            seed,
            stall_timeout,
            bursts,
            cutting,
            ..Options::default()
        };
        let switch = Switch::new(options).map_err(Violation::new)?;
        let hosts = (0..ports).map(|id| Host::new(id, model.machine(id, &mut rng)?));
        let hosts = hosts.collect::<Result<_, Violation>>()?;
        Ok(Self {
            rng,
            course,
            hosts,
            switch,
            model,
            step: 0,
            skipped: 0,
            faults: 0,
            healings: Vec::new(),
            max_packet,
            events: Events::default(),
        })
    }

    /// Returns the time in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.step * self.course.step_ms + self.skipped
    }

    /// Records an event for the report.
    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        self.events.note(self.step, what);
    }

    /// Links a card to its port.
    pub(crate) fn plug_in(&mut self, host: usize) -> Result<(), Violation> {
        let request = Request {
            host: Some(HostId(host as u16)),
            traffic: self.hosts[host].uplink.traffic,
            express: false,
        };
        let (_, link) = self.switch.open_port(request).map_err(Violation::new)?;
        self.hosts[host].uplink.set_link(Some(link));
        self.hosts[host].station().set_link_state(true)
    }

    /// Returns the hosts to which a card may hand over a packet directly. The packet must not
    /// overtake another one on its way to the same host.
    fn neighbours(&mut self, host: usize) -> Vec<u16> {
        if self.course.by_hand == 0 || !self.rng.percent(self.course.by_hand) {
            return Vec::new();
        }
        let takes = |world: &mut Self, other: usize| {
            let there = &world.hosts[other];
            other != host
                && !there.frozen
                && there.uplink.stage.is_empty()
                && there.station().takes_packets()
                && world.switch.crossbar().is_clear(HostId(host as u16), HostId(other as u16))
        };
        (0..self.hosts.len()).filter(|other| takes(self, *other)).map(|other| other as u16).collect()
    }

    /// Brings a packet directly from one card to another, bypassing the rings.
    fn hand_over(&mut self, source: usize, destination: u16, bytes: Vec<u8>) -> Result<(), Violation> {
        let (source, host) = (source as u16, usize::from(destination));
        let passes = self.switch.crossbar().pass(HostId(source), HostId(destination), bytes.len());
        ensure(passes, || format!("host {source} may no longer hand a packet to {destination}"))?;
        self.note(|| format!("host {source} hands a packet to {destination}"));
        self.hosts[host].uplink.taken += 1;
        M::arrived(self, host, Arrived { source, bytes })?;
        // The packet may be an answer that the card waits for: wake it.
        self.hosts[host].station().set_asleep(false);
        Ok(())
    }

    /// Lets a card send a packet.
    pub(crate) fn transmit(&mut self, host: usize) -> Result<Progress, Violation> {
        let neighbours = self.neighbours(host);
        let at = &mut self.hosts[host];
        at.uplink.neighbours = neighbours;
        let sent = at.uplink.sent;
        let progress = at.machine.station().with_card(|card, ports| card.transmit(ports, &mut at.uplink))?;
        at.uplink.check()?;
        let packets = at.uplink.sent - sent;
        ensure(packets <= 1, || format!("host {host}: {packets} packets went in one turn"))?;
        if packets == 1 {
            self.note(|| format!("host {host} sends a packet"));
        }
        for (destination, packet) in std::mem::take(&mut self.hosts[host].uplink.departed) {
            M::sent(self, host, destination, &packet)?;
        }
        if let Some((destination, packet)) = self.hosts[host].uplink.handed.take() {
            self.hand_over(host, destination, packet)?;
        }
        Ok(progress)
    }

    /// Hands a packet of the stage to its card.
    pub(crate) fn deliver(&mut self, host: usize, index: usize) -> Result<(), Violation> {
        let arrived = self.hosts[host].uplink.stage.remove(index);
        M::arrived(self, host, arrived)
    }

    /// Sends a packet of a hostile host, bypassing its card. Returns `None` if the ring is full, or
    /// whether the switch may drop the packet, because the destination's port is down.
    pub(crate) fn inject(&mut self, host: usize, to: u16, bytes: &[u8]) -> Result<Option<bool>, Violation> {
        let uplink = &mut self.hosts[host].uplink;
        // The switch overwrites the source.
        let (destination, source) = (HostId(to), HostId(to));
        let header = Header { destination, source, protocol: uplink.traffic.protocol };
        let sent = uplink.inject(header.to_bytes(), bytes)?;
        Ok(sent.then(|| !self.hosts[usize::from(to)].uplink.is_up()))
    }

    /// Takes a port down, together with the packets in its rings. Returns whether the port was up.
    fn unplug(&mut self, host: usize) -> Result<bool, Violation> {
        if !self.hosts[host].uplink.is_up() {
            return Ok(false);
        }
        self.note(|| format!("port {host} goes down"));
        self.hosts[host].was_unplugged = true;
        M::before_unplug(self, host)?;
        self.switch.remove_port(HostId(host as u16));
        self.hosts[host].uplink.set_link(None);
        self.hosts[host].station().set_link_state(false)?;
        M::after_unplug(self, host)?;
        Ok(true)
    }

    /// Takes the port down until step `end`.
    pub(crate) fn port_down(&mut self, host: usize, end: u64) -> Result<(), Violation> {
        if self.unplug(host)? {
            self.healings.push((end, Healing::Port(host)));
        }
        Ok(())
    }

    /// Takes the port down and up again within one step.
    pub(crate) fn port_flickers(&mut self, host: usize) -> Result<(), Violation> {
        if self.unplug(host)? { self.plug_in(host) } else { Ok(()) }
    }

    /// Stops the host and its driver until step `end`. If `frozen`, its card stops too.
    pub(crate) fn host_stops(&mut self, host: usize, end: u64, frozen: bool) {
        if !self.hosts[host].stopped {
            self.note(|| format!("host {host} stops (its card, too: {frozen})"));
            self.hosts[host].stopped = true;
            self.hosts[host].frozen = frozen;
            self.healings.push((end, Healing::Host(host)));
        }
    }

    /// Ends the faults that are due, or all of them if `now`.
    pub(crate) fn heal(&mut self, now: bool) -> Result<(), Violation> {
        let step = self.step;
        let (due, later) =
            std::mem::take(&mut self.healings).into_iter().partition(|(end, _)| now || *end <= step);
        self.healings = later;
        for (_, healing) in due {
            self.note(|| format!("over: {healing:?}"));
            match healing {
                Healing::Port(host) => self.plug_in(host)?,
                Healing::Host(host) => {
                    self.hosts[host].stopped = false;
                    self.hosts[host].frozen = false;
                }
                Healing::Own(own) => M::heal(self, own)?,
            }
        }
        Ok(())
    }
}

impl<M: Model> Host<M> {
    pub(crate) fn station(&self) -> &Station {
        self.machine.station()
    }

    fn new(id: u16, machine: Arc<M::Machine>) -> Result<Self, Violation> {
        let identity = machine.station().with_card(|card, _| card.identity())?;
        let protocol = Protocol::parse(identity.protocol).map_err(Violation::new)?;
        let traffic = Traffic { protocol, ordered: identity.ordered };
        Ok(Self {
            id,
            machine,
            uplink: Uplink::new(id, traffic),
            processes: Vec::new(),
            stopped: false,
            frozen: false,
            was_unplugged: false,
        })
    }
}
