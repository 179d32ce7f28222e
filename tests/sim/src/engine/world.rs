//! The whole fabric: hosts with their cards, the switch between them, and what has happened lately.
//! And what a model brings.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use hamlyn_fabric::{Geometry, HostId, Protocol, Request, Traffic};
use hamlyn_switch::bursts::{Bursts, Policy};
use hamlyn_switch::mesh::Shape;
use hamlyn_switch::{Options, Switch};

use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::uplink::{Arrived, Uplink};
use crate::engine::violation::Violation;

/// How many events a report shows.
const EVENTS: usize = 40;
/// Bytes of the smallest ring there is: it is often full.
const SMALL_RING: usize = 4096;

/// What a card's simulation brings along: its own state of a fabric, and what it does and checks in
/// the course of it.
///
/// All that a seed decides, it decides through the world's `rng`.
pub(crate) trait Model: Sized + Debug {
    /// A machine: a card's station, and what driver and programs have of it.
    type Machine: Deref<Target = Station> + Debug;
    /// A process of a host.
    type Process: Debug;
    /// What ends a fault that only this model has.
    type Healing: Debug + Clone + Copy;

    /// The longest packet that a card of this fabric sends, in bytes.
    fn largest_packet(&self) -> usize;

    /// How the switch cuts and joins its packets, if it does; it may do so by chance, of which that
    /// is a seed.
    fn bursts(&self, seed: u64) -> (Vec<Bursts>, Policy) {
        let _ = seed;
        (Vec::new(), Policy::Quantum(0))
    }

    /// The machine of a host, switched on.
    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Self::Machine, Violation>;

    /// A host's card has its link for the first time: its processes start.
    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation>;

    /// Called before a card's port goes down, with what is in its rings.
    fn before_unplug(_: &mut World<Self>, _: usize) {}

    /// Called after the card has learned that its port is down.
    fn after_unplug(_: &mut World<Self>, _: usize) -> Result<(), Violation> {
        Ok(())
    }

    /// The driver of a host that runs notes that time has passed.
    fn beat(machine: &Self::Machine) -> Result<(), Violation>;

    /// Runs the timers of a running host's operating system. Returns whether one was due.
    fn run_timers(_: &Self::Machine) -> Result<bool, Violation> {
        Ok(false)
    }

    /// A card's process may give the card a tick. Returns whether it was time for one.
    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation>;

    /// Until when nothing happens if nobody has anything to do, in milliseconds; `None`: nothing
    /// ever will.
    fn deadline(world: &World<Self>) -> Option<u64>;

    /// New work comes up, or none, in a random step.
    fn compose(world: &mut World<Self>) -> Result<(), Violation>;

    /// A misfortune befalls somebody: one of `faults`, or one of the model's own.
    fn misfortune(world: &mut World<Self>) -> Result<(), Violation>;

    /// A fault of the model's own is over.
    fn heal(world: &mut World<Self>, healing: Self::Healing) -> Result<(), Violation>;

    /// Somebody on a host that runs does one thing, or nothing.
    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation>;

    /// Everybody on a host does all that can be done now. Returns whether that was anything.
    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation>;

    /// A packet left a card.
    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]);

    /// A packet reaches its card: hands it over, and checks what comes of it.
    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation>;

    /// What must be so after each round in which everybody had a turn.
    fn check_round(world: &mut World<Self>) -> Result<(), Violation>;

    /// There will be no more work of [`Model::compose`], and no more misfortune.
    fn calm(world: &mut World<Self>);

    /// All faults are over, and everybody is about to finish.
    fn finish(world: &mut World<Self>) -> Result<(), Violation>;

    /// Nobody has anything to do. Returns whether the simulation has found them something.
    fn prod(world: &mut World<Self>) -> bool;

    /// What must be so when all has come to rest; then everything is ended, and what must be so
    /// then.
    fn check_rest(world: &mut World<Self>) -> Result<(), Violation>;
}

/// How a fabric runs, whatever its cards are.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Cards.
    pub(crate) cards: u16,
    /// Steps until no more work comes up, no more faults happen, and all is to come to rest.
    pub(crate) steps: u64,
    /// Faults in a thousand steps.
    pub(crate) faults: u64,
    /// How often the switch has its turn, in a hundred steps: the fewer, the fuller the rings.
    pub(crate) switch_share: u64,
    /// How many of a hundred packets go from card to card by hand, as far as they may.
    pub(crate) by_hand: u64,
    /// Whether packets change places between switch and card.
    pub(crate) reorder: bool,
    /// Paths through the switch to each host, on which packets overtake each other.
    pub(crate) paths: u16,
    /// The mesh that they come through, if any.
    pub(crate) mesh: Option<Shape>,
    /// Milliseconds that pass in a step.
    pub(crate) step_ms: u64,
    /// Milliseconds that may pass at once when nobody has anything to do.
    pub(crate) leap_ms: u64,
}

/// A host: its machine, its way to the switch, and the processes on it.
#[derive(Debug)]
pub(crate) struct Host<M: Model> {
    pub(crate) id: u16,
    pub(crate) machine: Arc<M::Machine>,
    pub(crate) uplink: Uplink,
    pub(crate) processes: Vec<M::Process>,
    /// The host has stopped: no process of it runs, nor its driver.
    pub(crate) stopped: bool,
    /// Nor does its card.
    pub(crate) frozen: bool,
    /// Its link has been down.
    pub(crate) was_unplugged: bool,
}

/// What ends a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Healing<H> {
    /// The port is there again.
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
    /// Milliseconds in which there was nothing to do.
    pub(crate) skipped: u64,
    pub(crate) faults: u64,
    /// Faults that will be over, each with the step.
    pub(crate) healings: Vec<(u64, Healing<M::Healing>)>,
    /// The longest packet that a link takes.
    pub(crate) max_packet: usize,
    events: VecDeque<String>,
}

impl<M: Model> World<M> {
    /// Hosts and a switch, not linked yet.
    pub(crate) fn new(mut rng: Rng, course: Course, mut model: M) -> Result<Self, Violation> {
        let max_packet = model.largest_packet();
        let capacity = (4 * (max_packet + 16)).next_power_of_two().max(SMALL_RING);
        let geometry = Geometry { capacity, max_packet };
        let Course { cards: ports, paths, mesh, .. } = course;
        let seed = rng.next();
        // Time is the seed's, not the switch's.
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
            events: VecDeque::new(),
        })
    }

    /// The time, in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.step * self.course.step_ms + self.skipped
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

    /// Links a card to its port.
    pub(crate) fn plug_in(&mut self, host: usize) -> Result<(), Violation> {
        let request = Request {
            host: Some(HostId(host as u16)),
            traffic: self.hosts[host].uplink.traffic,
            express: false,
        };
        let (_, link) = self.switch.open_port(request).map_err(Violation::new)?;
        self.hosts[host].uplink.set_link(Some(link));
        self.hosts[host].machine.set_link_state(true)
    }
}

impl<M: Model> Host<M> {
    fn new(id: u16, machine: M::Machine) -> Result<Self, Violation> {
        let identity = machine.with_card(|card, _| card.identity())?;
        let protocol = Protocol::parse(identity.protocol).map_err(Violation::new)?;
        let traffic = Traffic { protocol, ordered: identity.ordered };
        Ok(Self {
            id,
            machine: Arc::new(machine),
            uplink: Uplink::new(id, traffic),
            processes: Vec::new(),
            stopped: false,
            frozen: false,
            was_unplugged: false,
        })
    }
}
