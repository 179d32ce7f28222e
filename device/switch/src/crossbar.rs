//! Routing and arbitration.
//!
//! **Arbitration.** Inputs with packets stand in one queue and are served in turn, one packet per
//! visit, so the discipline is round-robin and an input with nothing to send costs nothing. A
//! packet whose output is full is [held][held], in a queue of its input and output alone, and the
//! input goes on: nobody waits for a third party. When the output has room again its queues are
//! served in turn, so no input starves at a contended output either, and a large packet that can be
//! [cut][bursts] holds up nobody for longer than a small one.
//!
//! **Stops.** A card is told to send no more to a host for which much of its own waits; see the
//! [bounds][held] for how much that can be. A card that does not mind waits at its own ring.
//!
//! **Stalls.** A host that takes nothing for a while although others wait for it is detached
//! ([`Crossbar::look`]).
//!
//! **Paths.** With one path, a packet is copied from ring to ring and nothing overtakes anything.
//! With several, it is copied onto one of the output's [paths](crate::paths), and from there into
//! the ring. An output has no room when neither its paths nor its ring have. Packets that can be
//! cut keep their order there.
//!
//! **Mesh.** With one, packets come through [routers and links](crate::mesh) instead, and nothing
//! is held: who takes nothing holds up those whose way is the same.
//!
//! **Groups.** A packet to a group is copied to its members' outputs. A member that can hold no
//! more of its source loses its copy ([`Crossbar::multicast`]).
//!
//! **Loss.** None, but for packets to an absent host, packets without a sound header, and what lies
//! in the rings of a card that dies or waits for it. Each is counted.
//!
//! **Trust.** A card's ring may hold anything. The source host id is the input port's number,
//! whatever the packet says; a ring that is corrupt costs its own port only.
//!
//! [held]: crate::held
//! [bursts]: crate::bursts

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use hamlyn_fabric::stop::DESTINATIONS;
use hamlyn_fabric::{Consumer, Geometry, HostId, Protocol};

use crate::bursts::{Bursts, Cutter, Policy};
use crate::counters::{PortCounters, SwitchCounters};
use crate::held::Bounds;
use crate::mesh::{Mesh, Shape};
use crate::output::{Output, Standing, Step};
use crate::paths::{MAX_PATHS, TURNS};
pub use crate::refusal::{Lost, Refusal};

use self::forwarding::Forwarded;
use self::stalls::Patience;

/// The most ports that a switch can have. Each can be stopped.
pub const MAX_PORTS: u16 = DESTINATIONS as u16;
/// Packets that one output is given before it is another's turn.
const SHARE: usize = 64;

/// Where an input stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has declared that it sleeps: its bell will ring.
    Asleep,
    /// Found empty, and not declared asleep yet: in the queue of such inputs.
    Empty,
    /// In the queue of inputs that may have packets.
    Ready,
    /// No more of its packets can be held, until one that is held has gone.
    Blocked,
    /// Its way into the mesh is not free.
    AtTheMesh,
}

#[derive(Debug)]
struct Input {
    ring: Consumer,
    state: State,
    /// Bytes of the longest packet that has come.
    largest: usize,
}

/// A non-blocking crossbar over any number of links. It knows no socket, descriptor, thread or
/// time.
///
/// [`Crossbar::forward`] moves packets. When it finds none, [`Crossbar::sleep`] asks the links to
/// ring; afterwards nothing needs doing until one does, and [`Crossbar::wake`] is told which.
#[derive(Debug)]
pub struct Crossbar {
    geometry: Geometry,
    paths: u16,
    seed: u64,
    inputs: Vec<Option<Input>>,
    outputs: Vec<Option<Output>>,
    counters: Vec<PortCounters>,
    bounds: Bounds,
    /// Bytes that are held of each source.
    held: Vec<usize>,
    /// Bytes that are held of all.
    all_held: usize,
    patience: Option<Patience>,
    cutter: Option<Cutter>,
    /// Protocols whose packets keep their order on several paths.
    ordered: Vec<Protocol>,
    mesh: Option<Mesh>,
    ready: VecDeque<usize>,
    empty: Vec<usize>,
    /// Outputs with packets that may go.
    loaded: VecDeque<usize>,
    lost: Vec<(HostId, Lost)>,
    /// How often an input was looked at.
    looks: u64,
}

impl Crossbar {
    /// A crossbar with `ports` free ports, for links of one geometry.
    pub fn new(ports: u16, geometry: Geometry) -> Crossbar {
        let ports = usize::from(ports.min(MAX_PORTS));
        Crossbar {
            geometry,
            paths: 1,
            seed: 0,
            inputs: (0..ports).map(|_| None).collect(),
            outputs: (0..ports).map(|_| None).collect(),
            counters: vec![PortCounters::default(); ports],
            bounds: Bounds::of(geometry),
            held: vec![0; ports],
            all_held: 0,
            patience: None,
            cutter: None,
            ordered: Vec::new(),
            mesh: None,
            ready: VecDeque::new(),
            empty: Vec::new(),
            loaded: VecDeque::new(),
            lost: Vec::new(),
            looks: 0,
        }
    }

    /// Gives each output so many paths, for packets to overtake each other on. The seed says which
    /// do.
    pub fn with_paths(self, paths: u16, seed: u64) -> Crossbar {
        Crossbar { paths: paths.clamp(1, MAX_PATHS), seed, ..self }
    }

    /// Has packets come through a mesh; `None`: they do not. A mesh with fewer nodes than ports has
    /// no place for the others, which is for the caller to see to.
    pub fn with_mesh(self, mesh: Option<Shape>) -> Crossbar {
        Crossbar { mesh: mesh.map(Mesh::new), ..self }
    }

    /// Cuts and joins packets of these protocols, and keeps their order on several paths. Call this
    /// before a card is attached.
    pub fn with_bursts(self, bursts: &[Bursts], policy: Policy) -> Crossbar {
        let ordered = bursts.iter().map(|bursts| bursts.protocol).collect();
        Crossbar { cutter: Cutter::new(bursts, policy), ordered, ..self }
    }

    /// Detaches cards that take nothing for so long while others wait; 0: none.
    pub fn with_stall_timeout(self, timeout: Duration) -> Crossbar {
        Crossbar { patience: (!timeout.is_zero()).then(|| Patience::new(timeout)), ..self }
    }

    /// The sizes that every link must have.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Moves packets, about `budget` at most, and returns how many it moved or dropped. A path
    /// counts as a move, and so does what is held.
    pub fn forward(&mut self, budget: usize) -> usize {
        let mut moved = 0;
        while moved < budget && self.has_work() {
            for _ in 0..(TURNS * self.ready.len()).min(budget - moved) {
                let Some(port) = self.ready.pop_front() else { break };
                moved += self.visit(port);
            }
            for _ in 0..self.loaded.len() {
                let Some(port) = self.loaded.pop_front() else { break };
                moved += self.put_out(port);
            }
            moved += self.run_mesh();
        }
        moved
    }

    fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.loaded.is_empty() || self.mesh.as_ref().is_some_and(Mesh::can_move)
    }

    /// Looks no more at the inputs that were empty, until [`Crossbar::wake`] names them.
    ///
    /// For cards in one process, which knows whose turn it was: instead of [`Crossbar::poll`] and
    /// [`Crossbar::sleep`].
    pub fn leave(&mut self) {
        self.empty.clear();
    }

    /// How often an input was looked at, since the start: what nobody uses shall not be.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Looks again at the inputs that were empty and are not asleep. Returns whether there may be
    /// work.
    pub fn poll(&mut self) -> bool {
        for port in mem::take(&mut self.empty) {
            self.make_ready(port);
        }
        self.has_work()
    }

    /// Asks the empty inputs' links to ring. True: nothing needs doing until a bell rings. False:
    /// there is work.
    pub fn sleep(&mut self) -> bool {
        if self.has_work() {
            return false;
        }
        for port in mem::take(&mut self.empty) {
            let Some(input) = self.inputs[port].as_mut().filter(|input| input.state == State::Empty) else {
                continue;
            };
            match input.ring.sleep_for_records() {
                Ok(true) => input.state = State::Asleep,
                Ok(false) => self.make_ready(port),
                Err(error) => self.lose(port, Lost::Corrupt(error)),
            }
        }
        !self.has_work() && self.lost.is_empty()
    }

    /// A port's bell rang: it has sent packets, or has room again. There may be work now.
    pub fn wake(&mut self, host: HostId) {
        let port = host.index();
        match self.inputs.get(port).and_then(Option::as_ref).map(|input| input.state) {
            None => return,
            Some(State::Asleep | State::Empty) => self.make_ready(port),
            Some(State::Ready | State::Blocked | State::AtTheMesh) => {}
        }
        self.stir_mesh();
        if let Some(output) = &mut self.outputs[port] {
            output.asked = false;
        }
        self.list_loaded(port);
    }

    /// The ports that were detached because their rings were corrupt or their cards took nothing,
    /// since the last call.
    pub fn take_lost(&mut self) -> Vec<(HostId, Lost)> {
        mem::take(&mut self.lost)
    }

    /// A copy of all counters.
    pub fn counters(&self) -> SwitchCounters {
        let mut ports = self.counters.clone();
        for (port, output) in ports.iter_mut().zip(&self.outputs) {
            port.waiting = output.as_ref().map_or(0, |output| output.held.packets());
        }
        let links = self.mesh.iter().flat_map(Mesh::links).collect();
        SwitchCounters { ports, links }
    }

    fn make_ready(&mut self, port: usize) {
        if let Some(input) = self.inputs[port].as_mut().filter(|input| input.state != State::Ready) {
            input.state = State::Ready;
            self.ready.push_back(port);
        }
    }

    /// Puts an output into the list of those with packets that may go, unless its bell will ring
    /// when they may.
    fn list_loaded(&mut self, port: usize) {
        let Some(output) = &mut self.outputs[port] else { return };
        if output.standing == Standing::Quiet && !output.asked && output.has_packets() {
            output.standing = Standing::Loaded;
            self.loaded.push_back(port);
        }
    }

    /// Serves an output that was taken from the list of loaded ones: moves its share of packets
    /// into its ring, and returns how many. If any are left, the output is in the list again, or
    /// its bell will ring.
    fn put_out(&mut self, port: usize) -> usize {
        if let Some(output) = &mut self.outputs[port] {
            output.standing = Standing::Quiet;
        }
        for moved in 0..SHARE {
            self.prepare(port);
            let Some(output) = &mut self.outputs[port] else { return moved };
            match output.step(&mut self.counters[port]) {
                Ok(Step::Left) => {}
                Ok(Step::Released(source, bytes)) => {
                    if !output.held.has(source) {
                        self.resume(source, port);
                    }
                    self.release(source, bytes);
                }
                Ok(Step::Nothing) => return moved,
                Ok(Step::NoRoom) => {
                    if !self.ask_for_room(port) {
                        self.list_loaded(port);
                    }
                    return moved;
                }
                Err(error) => {
                    self.lose(port, Lost::Corrupt(error));
                    return moved;
                }
            }
        }
        self.list_loaded(port);
        SHARE
    }

    /// Cuts or joins what goes next of that which waits for an output.
    fn prepare(&mut self, port: usize) {
        let (Some(cutter), Some(output)) = (&mut self.cutter, &mut self.outputs[port]) else { return };
        if let Some(source) = output.held.turn() {
            let largest = self.inputs[source].as_ref().map_or(0, |input| input.largest);
            cutter.prepare(&mut output.held, largest, &mut self.counters[port]);
        }
    }

    /// Notes that so many bytes of a source are no longer held.
    fn release(&mut self, source: usize, bytes: usize) {
        self.held[source] -= bytes;
        self.all_held -= bytes;
        if self.inputs[source].as_ref().is_some_and(|input| input.state == State::Blocked) {
            self.make_ready(source);
        }
    }

    /// A source's card may send to an output again, if it was told not to.
    fn resume(&mut self, source: usize, output: usize) {
        if let Some(input) = &mut self.inputs[source] {
            input.ring.resume(HostId(output as u16));
        }
    }

    /// Whether anything waits in the switch, by the bounds' count.
    #[cfg(test)]
    pub(crate) fn holds_anything(&self) -> bool {
        self.all_held > 0 || self.held.iter().any(|bytes| *bytes > 0)
    }

    /// Asks an output to ring when it has room. False: it has.
    fn ask_for_room(&mut self, port: usize) -> bool {
        let Some(output) = &mut self.outputs[port] else { return true };
        match output.ring.sleep_for_room() {
            Ok(asleep) => {
                output.asked = asleep;
                asleep
            }
            Err(error) => {
                self.lose(port, Lost::Corrupt(error));
                true
            }
        }
    }

    /// Detaches a port for a reason.
    fn lose(&mut self, port: usize, reason: Lost) {
        let host = HostId(port as u16);
        self.detach(host);
        self.lost.push((host, reason));
    }
}

#[path = "attaching.rs"]
mod attaching;
#[path = "beside.rs"]
mod beside;
#[path = "forwarding.rs"]
mod forwarding;
#[path = "groups.rs"]
mod groups;
#[path = "meshed.rs"]
mod meshed;
#[path = "stalls.rs"]
mod stalls;

#[cfg(test)]
#[path = "crossbar_tests.rs"]
pub(crate) mod tests;
