//! The inputs: the rings from the cards, and the queue of those that may have packets.

use std::collections::VecDeque;
use std::mem;

use hamlyn_fabric::{Consumer, Header, HostId, RingError};
use vm_memory::VolatileSlice;

/// What an input waits for before its oldest packet can be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// No more of its packets can be held until a held one has left.
    Bounds,
    /// Its link into the mesh is not free.
    Link,
}

/// State of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has set its sleep flag: its bell will ring.
    Asleep,
    /// Found empty, and its sleep flag is not set yet. It is in the list of such inputs.
    Empty,
    /// In the queue of inputs that may have packets.
    Ready,
    Waiting(Wait),
}

#[derive(Debug)]
struct Input {
    ring: Consumer,
    state: State,
    /// Bytes of the longest packet received.
    largest: usize,
}

/// The oldest packet of an input.
pub(super) struct Oldest<'a> {
    /// Its source is the input's number, whatever the packet contains. `None`: it is invalid.
    pub(super) header: Option<Header>,
    pub(super) payload: VolatileSlice<'a>,
    /// Bytes of the longest packet received from this input.
    pub(super) largest: usize,
}

/// The inputs by port.
#[derive(Debug)]
pub(super) struct Inputs {
    ports: Vec<Option<Input>>,
    ready: VecDeque<usize>,
    empty: Vec<usize>,
    /// How often an input was visited.
    looks: u64,
}

impl Inputs {
    /// Creates inputs without rings.
    pub(super) fn new(ports: usize) -> Inputs {
        let ports = (0..ports).map(|_| None).collect();
        Inputs { ports, ready: VecDeque::new(), empty: Vec::new(), looks: 0 }
    }

    /// Returns the number of ports.
    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    /// Returns whether a port has an input.
    pub(super) fn is_attached(&self, port: usize) -> bool {
        self.get(port).is_some()
    }

    fn get(&self, port: usize) -> Option<&Input> {
        self.ports.get(port).and_then(Option::as_ref)
    }

    fn get_mut(&mut self, port: usize) -> Option<&mut Input> {
        self.ports.get_mut(port).and_then(Option::as_mut)
    }

    /// Attaches a ring, which may have packets already.
    pub(super) fn attach(&mut self, port: usize, ring: Consumer) {
        self.ports[port] = Some(Input { ring, state: State::Ready, largest: 0 });
        self.ready.push_back(port);
    }

    /// Detaches a ring.
    pub(super) fn detach(&mut self, port: usize) {
        self.ports[port] = None;
        self.ready.retain(|&other| other != port);
        self.empty.retain(|&other| other != port);
    }

    /// Returns the number of inputs in the ready queue.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Removes the first input from the ready queue.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.ready.pop_front()
    }

    /// Puts an input into the ready queue.
    pub(super) fn make_ready(&mut self, port: usize) {
        if let Some(input) = self.get_mut(port).filter(|input| input.state != State::Ready) {
            input.state = State::Ready;
            self.ready.push_back(port);
        }
    }

    /// Counts a visit of an input that was removed from the ready queue. Returns `false` if it is
    /// detached.
    pub(super) fn visit(&mut self, port: usize) -> bool {
        let Some(input) = self.get_mut(port) else { return false };
        input.state = State::Empty;
        self.looks += 1;
        true
    }

    /// Returns how often an input was visited since the start.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// Lists a visited input as empty.
    pub(super) fn list_empty(&mut self, port: usize) {
        self.empty.push(port);
    }

    /// Lets a visited input wait.
    pub(super) fn wait(&mut self, port: usize, wait: Wait) {
        if let Some(input) = self.get_mut(port) {
            input.state = State::Waiting(wait);
        }
    }

    /// Returns the inputs that wait for this.
    pub(super) fn waiting(&self, wait: Wait) -> impl Iterator<Item = usize> + '_ {
        (0..self.ports.len()).filter(move |&port| self.waits(port, wait))
    }

    /// Makes an input ready if it waits for this.
    pub(super) fn end_wait(&mut self, port: usize, wait: Wait) {
        if self.waits(port, wait) {
            self.make_ready(port);
        }
    }

    fn waits(&self, port: usize, wait: Wait) -> bool {
        self.get(port).is_some_and(|input| input.state == State::Waiting(wait))
    }

    /// Makes an input ready whose bell has rung. Returns `false` if it is detached.
    pub(super) fn wake(&mut self, port: usize) -> bool {
        let Some(input) = self.get(port) else { return false };
        if matches!(input.state, State::Asleep | State::Empty) {
            self.make_ready(port);
        }
        true
    }

    /// Removes and returns the empty inputs that are not asleep.
    pub(super) fn take_empty(&mut self) -> Vec<usize> {
        mem::take(&mut self.empty)
    }

    /// Asks an empty input's link to ring. Makes the input ready if it has a packet by then.
    pub(super) fn sleep(&mut self, port: usize) -> Result<(), RingError> {
        let Some(input) = self.get_mut(port).filter(|input| input.state == State::Empty) else {
            return Ok(());
        };
        if input.ring.sleep_for_records()? {
            input.state = State::Asleep;
        } else {
            self.make_ready(port);
        }
        Ok(())
    }

    /// Returns an input's oldest packet. Returns the same packet until [`Inputs::consume`].
    pub(super) fn peek(&mut self, port: usize) -> Result<Option<Oldest<'_>>, RingError> {
        let Some(input) = self.get_mut(port) else { return Ok(None) };
        let Some(record) = input.ring.peek()? else { return Ok(None) };
        input.largest = input.largest.max(record.payload.len());
        let header = record.header().ok().map(|header| Header { source: HostId(port as u16), ..header });
        Ok(Some(Oldest { header, payload: record.payload, largest: input.largest }))
    }

    /// Removes an input's oldest packet.
    pub(super) fn consume(&mut self, port: usize) {
        if let Some(input) = self.get_mut(port) {
            input.ring.consume();
        }
    }

    /// Returns the bytes of the longest packet received from an input.
    pub(super) fn largest(&self, port: usize) -> usize {
        self.get(port).map_or(0, |input| input.largest)
    }

    /// Returns how many bytes of an input's ring were consumed since it was created.
    pub(super) fn released(&self, port: usize) -> Option<u64> {
        self.get(port).map(|input| input.ring.released())
    }

    /// Returns whether an attached input's ring has no packets.
    pub(super) fn is_empty(&mut self, port: usize) -> bool {
        // A corrupt ring is detected when it is used.
        self.get_mut(port).is_some_and(|input| input.ring.is_empty().unwrap_or(false))
    }

    /// Returns whether an input's card is a member of a group now.
    pub(super) fn is_member(&self, port: usize, group: u32) -> bool {
        self.get(port).is_some_and(|input| input.ring.groups() >> group & 1 == 1)
    }

    /// Stops an input's card: it must send no more to an output. Returns whether it was not stopped
    /// yet.
    pub(super) fn stop(&mut self, port: usize, output: usize) -> bool {
        self.get_mut(port).is_some_and(|input| input.ring.stop(HostId(output as u16)))
    }

    /// Lets an input's card send to an output again, if it was stopped.
    pub(super) fn resume(&mut self, port: usize, output: usize) {
        if let Some(input) = self.get_mut(port) {
            input.ring.resume(HostId(output as u16));
        }
    }
}
