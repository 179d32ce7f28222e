//! Routing and arbitration.
//!
//! **Arbitration.** Inputs with packets are in one queue and are served in turn, one packet per
//! visit. So the discipline is round-robin, and an input with nothing to send costs nothing. A
//! packet whose output is full is [held][held], in a queue of its input and output alone, and the
//! input continues. There is no head-of-line blocking. When the output has room again its queues
//! are served in turn, so no input starves at a contended output either. A large packet that can be
//! [cut][bursts] delays others for no longer than a small one.
//!
//! **Stops.** If many of a card's packets wait for a host, the switch stops the card: it must send
//! no more to that host. See the [bounds][held] for how many can wait. A card that ignores the stop
//! fills its own ring and waits there.
//!
//! **Stalls.** A host that accepts nothing for a while although others wait for it is detached
//! ([`Crossbar::look`]).
//!
//! **Paths.** With one path, a packet is copied from ring to ring and nothing overtakes anything.
//! With several, it is copied onto one of the output's [paths](crate::paths), and from there into
//! the ring. An output has no room when neither its paths nor its ring have any. Packets that can
//! be cut keep their order there.
//!
//! **Mesh.** With a mesh, packets pass through [routers and links](crate::mesh) instead, and
//! nothing is held. A host that accepts nothing blocks packets that share links with its own.
//!
//! **Groups.** A packet to a group is copied to its members' outputs. A member for which no more of
//! the source's packets can be held loses its copy ([`Crossbar::multicast`]).
//!
//! **Loss.** The crossbar drops packets to an absent host, packets without a valid header, packets
//! in or held for the rings of a dead card, and copies to group members without room. It drops no
//! others. Each is counted.
//!
//! **Trust.** A card's ring may hold anything. The source host id is the input port's number,
//! whatever the packet contains. A corrupt ring affects only its own port.
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

/// The largest number of ports of a switch. Each port can be stopped.
pub const MAX_PORTS: u16 = DESTINATIONS as u16;
/// Packets that one output gets before it is another output's turn.
const SHARE: usize = 64;

/// State of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has set its sleep flag: its bell will ring.
    Asleep,
    /// Found empty, and its sleep flag is not set yet. It is in the queue of such inputs.
    Empty,
    /// In the queue of inputs that may have packets.
    Ready,
    /// No more of its packets can be held until a held one has left.
    Blocked,
    /// Its link into the mesh is not free.
    AtTheMesh,
}

#[derive(Debug)]
struct Input {
    ring: Consumer,
    state: State,
    /// Bytes of the longest packet received.
    largest: usize,
}

/// A non-blocking crossbar over any number of links. It uses no sockets, descriptors, threads or
/// clocks.
///
/// [`Crossbar::forward`] moves packets. When it finds none, [`Crossbar::sleep`] asks the links to
/// ring. After that there is no work until one rings, which the caller reports with
/// [`Crossbar::wake`].
#[derive(Debug)]
pub struct Crossbar {
    geometry: Geometry,
    paths: u16,
    seed: u64,
    inputs: Vec<Option<Input>>,
    outputs: Vec<Option<Output>>,
    counters: Vec<PortCounters>,
    bounds: Bounds,
    /// Bytes held for each source.
    held: Vec<usize>,
    /// Bytes held for all sources.
    all_held: usize,
    patience: Option<Patience>,
    cutter: Option<Cutter>,
    /// Protocols whose packets stay in order on several paths.
    ordered: Vec<Protocol>,
    mesh: Option<Mesh>,
    ready: VecDeque<usize>,
    empty: Vec<usize>,
    /// Outputs with packets that may leave.
    loaded: VecDeque<usize>,
    lost: Vec<(HostId, Lost)>,
    /// How often an input was visited.
    looks: u64,
}

impl Crossbar {
    /// Creates a crossbar with `ports` free ports, for links of one geometry.
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

    /// Gives each output `paths` paths, on which packets can overtake each other. The seed
    /// determines which packets do.
    pub fn with_paths(self, paths: u16, seed: u64) -> Crossbar {
        Crossbar { paths: paths.clamp(1, MAX_PATHS), seed, ..self }
    }

    /// Sends packets through a mesh, or through none if `mesh` is `None`. The caller must ensure
    /// that the mesh has at least as many nodes as there are ports.
    pub fn with_mesh(self, mesh: Option<Shape>) -> Crossbar {
        Crossbar { mesh: mesh.map(Mesh::new), ..self }
    }

    /// Cuts and joins packets of these protocols, and keeps their order on several paths. Call this
    /// before a card is attached.
    pub fn with_bursts(self, bursts: &[Bursts], policy: Policy) -> Crossbar {
        let ordered = bursts.iter().map(|bursts| bursts.protocol).collect();
        Crossbar { cutter: Cutter::new(bursts, policy), ordered, ..self }
    }

    /// Detaches cards that accept nothing for `timeout` while others wait; 0: never.
    pub fn with_stall_timeout(self, timeout: Duration) -> Crossbar {
        Crossbar { patience: (!timeout.is_zero()).then(|| Patience::new(timeout)), ..self }
    }

    /// Returns the sizes that every link must have.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Moves at most about `budget` packets, and returns how many it moved or dropped. A step onto
    /// a path counts as a move, and so does holding a packet.
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

    /// Stops polling the inputs that were empty, until [`Crossbar::wake`] names them.
    ///
    /// For cards in one process, which knows which card ran last: use it instead of
    /// [`Crossbar::poll`] and [`Crossbar::sleep`].
    pub fn leave(&mut self) {
        self.empty.clear();
    }

    /// Returns how often an input was visited since the start, to check that unused inputs are not
    /// visited.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Checks again the inputs that were empty and are not asleep. Returns whether there may be
    /// work.
    pub fn poll(&mut self) -> bool {
        for port in mem::take(&mut self.empty) {
            self.make_ready(port);
        }
        self.has_work()
    }

    /// Asks the empty inputs' links to ring. `true`: there is no work until a bell rings. `false`:
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

    /// Handles a ring of a port's bell: the card has sent packets, or has room again. There may be
    /// work now.
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

    /// Returns the ports that were detached since the last call, because their rings were corrupt
    /// or their cards accepted nothing.
    pub fn take_lost(&mut self) -> Vec<(HostId, Lost)> {
        mem::take(&mut self.lost)
    }

    /// Returns a copy of all counters.
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

    /// Adds an output with packets that may leave to the list of loaded outputs, unless its bell
    /// will ring when they may.
    fn list_loaded(&mut self, port: usize) {
        let Some(output) = &mut self.outputs[port] else { return };
        if output.standing == Standing::Quiet && !output.asked && output.has_packets() {
            output.standing = Standing::Loaded;
            self.loaded.push_back(port);
        }
    }

    /// Serves an output that was removed from the list of loaded ones. Moves its share of packets
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

    /// Cuts or joins the next packet held for an output.
    fn prepare(&mut self, port: usize) {
        let (Some(cutter), Some(output)) = (&mut self.cutter, &mut self.outputs[port]) else { return };
        if let Some(source) = output.held.turn() {
            let largest = self.inputs[source].as_ref().map_or(0, |input| input.largest);
            cutter.prepare(&mut output.held, largest, &mut self.counters[port]);
        }
    }

    /// Records that `bytes` bytes of a source are no longer held.
    fn release(&mut self, source: usize, bytes: usize) {
        self.held[source] -= bytes;
        self.all_held -= bytes;
        if self.inputs[source].as_ref().is_some_and(|input| input.state == State::Blocked) {
            self.make_ready(source);
        }
    }

    /// Lets a source's card send to an output again, if it was stopped.
    fn resume(&mut self, source: usize, output: usize) {
        if let Some(input) = &mut self.inputs[source] {
            input.ring.resume(HostId(output as u16));
        }
    }

    /// Returns whether the switch holds any packet, according to the bounds' counters.
    #[cfg(test)]
    pub(crate) fn holds_anything(&self) -> bool {
        self.all_held > 0 || self.held.iter().any(|bytes| *bytes > 0)
    }

    /// Asks an output to ring when it has room. Returns `false` if it already has room.
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
