//! Routing and arbitration.
//!
//! **Arbitration.** Inputs with packets stand in one queue and are served in turn, one packet per visit, so the
//! discipline is round-robin and an input with nothing to send costs nothing. An input whose packet finds its output
//! full leaves that queue and joins the output's own; no other input waits for it. When the output has room again its
//! queue is served in turn, so no input starves at a contended output either.
//!
//! **Paths.** With one path, a packet is copied from ring to ring and nothing overtakes anything. With several, it is
//! copied onto one of the output's [paths](crate::paths), and from there into the ring. An output has no room when
//! neither its paths nor its ring have.
//!
//! **Loss.** None, but for packets to an absent host, packets without a sound header, and what lies in the rings of a
//! card that dies. Each is counted.
//!
//! **Trust.** A card's ring may hold anything. The source host id is the input port's number, whatever the packet says;
//! a ring that is corrupt costs its own port only.

use std::collections::VecDeque;
use std::mem;

use hamlyn_fabric::{Consumer, Geometry, Header, HostId, Producer, Record, RingError};
use thiserror::Error;

use crate::counters::{PortCounters, SwitchCounters};
use crate::paths::{MAX_PATHS, Paths, TURNS};

/// The most ports that a switch can have.
pub const MAX_PORTS: u16 = 1024;

/// Why a card is not attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Somebody else has the port.
    #[error("port {0} is taken")]
    Taken(HostId),
    /// The switch has no such port.
    #[error("port {host} is out of range (limit {limit})")]
    OutOfRange {
        /// The port wanted.
        host: HostId,
        /// The switch's number of ports.
        limit: usize,
    },
    /// All ports are taken.
    #[error("the switch is full (limit {0} ports)")]
    Full(usize),
    /// Its packets would not fit everybody's rings.
    #[error("link has rings of {} bytes for packets of {} (must be {} and {})",
        link.capacity, link.max_packet, switch.capacity, switch.max_packet)]
    Geometry {
        /// The link's sizes.
        link: Geometry,
        /// The switch's.
        switch: Geometry,
    },
}

/// Where an input stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has declared that it sleeps: its bell will ring.
    Asleep,
    /// In the queue of those found empty, which have not been declared asleep yet.
    Empty,
    /// In the queue of those that may have packets.
    Ready,
    /// In the queue of the output that its oldest packet wants.
    Waiting,
}

#[derive(Debug)]
struct Input {
    ring: Consumer,
    state: State,
}

#[derive(Debug)]
struct Output {
    ring: Producer,
    /// None to choose from if there is but one.
    paths: Option<Paths>,
    /// Whether it is in the list of those with packets on their paths that may go.
    loaded: bool,
    /// Inputs whose oldest packet found no room here.
    waiting: VecDeque<usize>,
}

impl Output {
    fn has_packets(&self) -> bool {
        self.paths.as_ref().is_some_and(|paths| !paths.is_empty())
    }

    /// Takes a packet in: onto a path, or else into the ring. False: there is no room.
    fn accept(
        &mut self,
        header: Header,
        record: &Record<'_>,
        counters: &mut PortCounters,
    ) -> Result<bool, RingError> {
        if self.paths.as_ref().is_some_and(Paths::is_full) && !self.put_out(counters)? {
            return Ok(false);
        }
        if let Some(paths) = &mut self.paths {
            return Ok(paths.push(header, record));
        }
        if !self.ring.send(header, &[record.payload])? {
            return Ok(false);
        }
        counters.packets_out += 1;
        counters.bytes_out += record.payload.len() as u64;
        Ok(true)
    }

    /// Moves a packet from a path into the ring. False: there is none, or no room.
    fn put_out(&mut self, counters: &mut PortCounters) -> Result<bool, RingError> {
        let Some(paths) = &mut self.paths else { return Ok(false) };
        let Some(gone) = paths.send(&mut self.ring)? else { return Ok(false) };
        counters.packets_out += 1;
        counters.bytes_out += gone.length as u64;
        counters.overtaken += u64::from(gone.overtaken);
        Ok(true)
    }
}

/// What came of an attempt to forward an input's oldest packet.
enum Forwarded {
    /// It is gone: forwarded, or dropped and counted.
    Gone,
    /// There is none.
    Nothing,
    /// This output has no room for it.
    Full(usize),
    /// A ring is corrupt: this port must go.
    Broken(usize, RingError),
}

/// A non-blocking crossbar over any number of links. It knows no socket, descriptor, thread or time.
///
/// [`Crossbar::forward`] moves packets. When it finds none, [`Crossbar::sleep`] asks the links to ring; afterwards
/// nothing needs doing until one does, and [`Crossbar::wake`] is told which.
#[derive(Debug)]
pub struct Crossbar {
    geometry: Geometry,
    paths: u16,
    seed: u64,
    inputs: Vec<Option<Input>>,
    outputs: Vec<Option<Output>>,
    counters: Vec<PortCounters>,
    ready: VecDeque<usize>,
    empty: Vec<usize>,
    /// Outputs with packets on their paths that may go.
    loaded: VecDeque<usize>,
    lost: Vec<(HostId, RingError)>,
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
            ready: VecDeque::new(),
            empty: Vec::new(),
            loaded: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    /// Gives each output so many paths, for packets to overtake each other on. The seed says which do.
    pub fn with_paths(self, paths: u16, seed: u64) -> Crossbar {
        Crossbar { paths: paths.clamp(1, MAX_PATHS), seed, ..self }
    }

    /// The sizes that every link must have.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The port that a card gets: the one it wants, or the first that is free.
    pub fn free_port(&self, wanted: Option<HostId>) -> Result<HostId, Refusal> {
        let limit = self.inputs.len();
        match wanted {
            Some(host) if host.index() >= limit => Err(Refusal::OutOfRange { host, limit }),
            Some(host) if self.inputs[host.index()].is_some() => Err(Refusal::Taken(host)),
            Some(host) => Ok(host),
            // A crossbar has no more than MAX_PORTS ports: the number fits.
            None => match self.inputs.iter().position(Option::is_none) {
                Some(port) => Ok(HostId(port as u16)),
                None => Err(Refusal::Full(limit)),
            },
        }
    }

    /// Attaches the switch's end of a link to a port.
    pub fn attach(
        &mut self,
        sender: Producer,
        receiver: Consumer,
        wanted: Option<HostId>,
    ) -> Result<HostId, Refusal> {
        let host = self.free_port(wanted)?;
        for link in [sender.geometry(), receiver.geometry()] {
            if link != self.geometry {
                return Err(Refusal::Geometry { link, switch: self.geometry });
            }
        }
        let port = host.index();
        self.inputs[port] = Some(Input { ring: receiver, state: State::Ready });
        let paths = (self.paths > 1).then(|| Paths::new(self.paths, self.seed.wrapping_add(port as u64)));
        self.outputs[port] = Some(Output { ring: sender, paths, loaded: false, waiting: VecDeque::new() });
        self.counters[port].attached = true;
        self.ready.push_back(port);
        Ok(host)
    }

    /// Detaches a port whose card is gone. What the card has sent still goes where there is room; what it has not taken
    /// is counted; what waits for it will find nobody.
    pub fn detach(&mut self, host: HostId) {
        let port = host.index();
        let Some(mut output) = self.outputs.get_mut(port).and_then(Option::take) else { return };
        for input in output.waiting.drain(..) {
            self.make_ready(input);
        }
        self.counters[port].undelivered += output.ring.unread().unwrap_or(0);
        for source in output.paths.iter().flat_map(Paths::sources) {
            self.counters[source.index()].dropped_absent += 1;
        }
        self.drain(port);
        self.inputs[port] = None;
        self.counters[port].attached = false;
        for queue in [&mut self.ready, &mut self.loaded] {
            queue.retain(|&other| other != port);
        }
        self.empty.retain(|&other| other != port);
        for output in self.outputs.iter_mut().flatten() {
            output.waiting.retain(|&other| other != port);
        }
    }

    /// Forwards what a dead card has left behind, where there is room, and counts the rest. Its memory may be in other
    /// hands still: no more than a ring's worth.
    fn drain(&mut self, port: usize) {
        let released = |inputs: &[Option<Input>]| inputs[port].as_ref().map(|input| input.ring.released());
        let end = released(&self.inputs).map(|start| start + self.geometry.capacity as u64);
        while released(&self.inputs) < end {
            match self.forward_one(port, false) {
                Forwarded::Gone => {}
                Forwarded::Nothing => return,
                Forwarded::Broken(other, _) if other == port => return,
                Forwarded::Full(_) | Forwarded::Broken(..) => {
                    let Some(input) = &mut self.inputs[port] else { return };
                    input.ring.consume();
                    self.counters[port].orphaned += 1;
                }
            }
        }
    }

    /// Moves packets, about `budget` at most, and returns how many it moved or dropped. A path counts as a move.
    pub fn forward(&mut self, budget: usize) -> usize {
        let mut moved = 0;
        while moved < budget && self.has_work() {
            for _ in 0..(TURNS * self.ready.len()).min(budget - moved) {
                let Some(port) = self.ready.pop_front() else { break };
                moved += self.visit(port);
            }
            while let Some(port) = self.loaded.pop_front() {
                moved += self.put_out(port);
            }
        }
        moved
    }

    fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.loaded.is_empty()
    }

    /// Whether a packet may pass from one card to another beside the rings: both are there, there is but one path, and
    /// nothing is on its way that the packet would overtake.
    ///
    /// For cards in one process, which can hand it over themselves.
    pub fn is_clear(&mut self, source: HostId, destination: HostId) -> bool {
        let input = self.inputs.get_mut(source.index()).and_then(Option::as_mut);
        let output = self.outputs.get_mut(destination.index()).and_then(Option::as_mut);
        let (Some(input), Some(output)) = (input, output) else { return false };
        // A ring that is corrupt is found out when it is used.
        output.paths.is_none()
            && output.waiting.is_empty()
            && input.ring.is_empty().unwrap_or(false)
            && output.ring.is_drained().unwrap_or(false)
    }

    /// Counts a packet of `length` bytes that passes beside the rings. `false`: it may not.
    pub fn pass(&mut self, source: HostId, destination: HostId, length: usize) -> bool {
        if !self.is_clear(source, destination) {
            return false;
        }
        self.counters[source.index()].packets_in += 1;
        self.counters[source.index()].bytes_in += length as u64;
        self.counters[destination.index()].packets_out += 1;
        self.counters[destination.index()].bytes_out += length as u64;
        true
    }

    /// Looks again at the inputs that were empty and are not asleep. Returns whether there may be work.
    pub fn poll(&mut self) -> bool {
        for port in mem::take(&mut self.empty) {
            self.make_ready(port);
        }
        self.has_work()
    }

    /// Asks the empty inputs' links to ring. True: nothing needs doing until a bell rings. False: there is work.
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
                Err(error) => self.lose(port, error),
            }
        }
        !self.has_work() && self.lost.is_empty()
    }

    /// A port's bell rang: it has sent packets, or has room again. Returns the packets that went.
    pub fn wake(&mut self, host: HostId) -> usize {
        let port = host.index();
        match self.inputs.get(port).and_then(Option::as_ref).map(|input| input.state) {
            None => return 0,
            Some(State::Asleep | State::Empty) => self.make_ready(port),
            Some(State::Ready | State::Waiting) => {}
        }
        self.list_loaded(port);
        self.serve(port)
    }

    /// The ports that were detached because their rings were corrupt, since the last call.
    pub fn take_lost(&mut self) -> Vec<(HostId, RingError)> {
        mem::take(&mut self.lost)
    }

    /// A copy of all counters.
    pub fn counters(&self) -> SwitchCounters {
        SwitchCounters { ports: self.counters.clone() }
    }

    fn make_ready(&mut self, port: usize) {
        if let Some(input) = self.inputs[port].as_mut().filter(|input| input.state != State::Ready) {
            input.state = State::Ready;
            self.ready.push_back(port);
        }
    }

    fn list_loaded(&mut self, port: usize) {
        let Some(output) = &mut self.outputs[port] else { return };
        if !output.loaded && output.has_packets() {
            output.loaded = true;
            self.loaded.push_back(port);
        }
    }

    /// Empties the paths of an output that has come out of the list of the loaded, and serves those who wait for it.
    /// Returns the packets that went. If any is left, the output's bell will ring.
    fn put_out(&mut self, port: usize) -> usize {
        let mut moved = 0;
        loop {
            let Some(output) = &mut self.outputs[port] else { return moved };
            output.loaded = false;
            match output.put_out(&mut self.counters[port]) {
                Ok(true) => moved += 1,
                Ok(false) if !output.has_packets() => return moved + self.serve(port),
                Ok(false) if self.ask_for_room(port) => return moved,
                Ok(false) => {}
                Err(error) => {
                    self.lose(port, error);
                    return moved;
                }
            }
        }
    }

    /// Serves an input that has come out of the ready queue. Returns the packets that went.
    fn visit(&mut self, port: usize) -> usize {
        let Some(input) = &mut self.inputs[port] else { return 0 };
        input.state = State::Empty;
        match self.forward_one(port, false) {
            Forwarded::Gone => {
                self.make_ready(port);
                1
            }
            Forwarded::Nothing => {
                self.empty.push(port);
                0
            }
            Forwarded::Full(output) => self.wait_for(port, output),
            Forwarded::Broken(other, error) => {
                self.lose(other, error);
                self.make_ready(port);
                0
            }
        }
    }

    /// Puts an input into the queue of an output that has no room. Returns the packets that went.
    fn wait_for(&mut self, port: usize, output: usize) -> usize {
        let (Some(input), Some(full)) = (&mut self.inputs[port], &mut self.outputs[output]) else { return 0 };
        input.state = State::Waiting;
        full.waiting.push_back(port);
        self.counters[port].stalls += 1;
        // If others wait, room has been asked for.
        if full.waiting.len() == 1 { self.serve(output) } else { 0 }
    }

    /// Serves the inputs that wait for an output, in turn and once each, while it has room. Returns the packets that
    /// went. If any still waits, the output's bell will ring.
    fn serve(&mut self, output: usize) -> usize {
        let mut moved = 0;
        loop {
            let waiting = self.outputs[output].as_ref().and_then(|output| output.waiting.front());
            let Some(&port) = waiting else { return moved };
            match self.forward_one(port, true) {
                Forwarded::Full(full) if full == output => {
                    if self.ask_for_room(output) {
                        return moved;
                    }
                    continue;
                }
                Forwarded::Broken(other, error) => self.lose(other, error),
                Forwarded::Gone => moved += 1,
                // The card has changed a packet that it had sent already: look at it afresh.
                Forwarded::Full(_) | Forwarded::Nothing => {}
            }
            self.leave_queue(port, output);
        }
    }

    fn leave_queue(&mut self, port: usize, output: usize) {
        if let Some(output) = &mut self.outputs[output] {
            output.waiting.retain(|&other| other != port);
        }
        self.make_ready(port);
    }

    /// Asks an output to ring when it has room. False: it has.
    fn ask_for_room(&mut self, port: usize) -> bool {
        let Some(output) = &mut self.outputs[port] else { return true };
        match output.ring.sleep_for_room() {
            Ok(asleep) => asleep,
            Err(error) => {
                self.lose(port, error);
                true
            }
        }
    }

    /// Detaches a port whose ring is corrupt.
    fn lose(&mut self, port: usize, error: RingError) {
        let host = HostId(port as u16);
        self.detach(host);
        self.lost.push((host, error));
    }

    /// Forwards an input's oldest packet, unless others wait for the same output and it is not this one's turn.
    fn forward_one(&mut self, port: usize, its_turn: bool) -> Forwarded {
        let Some(input) = &mut self.inputs[port] else { return Forwarded::Nothing };
        let record = match input.ring.peek() {
            Err(error) => return Forwarded::Broken(port, error),
            Ok(None) => return Forwarded::Nothing,
            Ok(Some(record)) => record,
        };
        let length = record.payload.len();
        let mut receiver = None;
        match record.header() {
            Err(_) => self.counters[port].dropped_malformed += 1,
            Ok(header) => {
                let destination = header.destination.index();
                match self.outputs.get_mut(destination).and_then(Option::as_mut) {
                    None => self.counters[port].dropped_absent += 1,
                    Some(output) if !its_turn && !output.waiting.is_empty() => {
                        return Forwarded::Full(destination);
                    }
                    Some(output) => {
                        let header = Header { source: HostId(port as u16), ..header };
                        match output.accept(header, &record, &mut self.counters[destination]) {
                            Err(error) => return Forwarded::Broken(destination, error),
                            Ok(false) => return Forwarded::Full(destination),
                            Ok(true) => receiver = Some(destination),
                        }
                    }
                }
            }
        }
        input.ring.consume();
        self.counters[port].packets_in += 1;
        self.counters[port].bytes_in += length as u64;
        if let Some(receiver) = receiver {
            self.list_loaded(receiver);
        }
        Forwarded::Gone
    }
}

#[cfg(test)]
#[path = "crossbar_tests.rs"]
mod tests;
