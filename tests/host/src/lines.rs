//! Interrupt lines, a clock and the link to the switch.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hamlyn_card::ports::{Clock, Interrupt, Link, Pieces, VolatileSlice};

/// Interrupt lines: records the raised vectors in order.
#[derive(Debug, Default)]
pub struct Lines(pub RefCell<Vec<u16>>);

impl Interrupt for Lines {
    fn raise(&self, vector: u16) {
        self.0.borrow_mut().push(vector);
    }
}

/// A clock that returns the time it was set to.
#[derive(Debug, Default)]
pub struct SetClock(pub Cell<Duration>);

impl Clock for SetClock {
    fn now(&self) -> Duration {
        self.0.get()
    }
}

/// A link that records packets as `(destination, bytes)`.
#[derive(Debug, Default)]
pub struct Wire {
    /// Packets sent.
    pub sent: Vec<(u16, Vec<u8>)>,
    /// Number of packets it takes before it is full.
    pub room: Option<usize>,
    /// Hosts whose packets it rejects now.
    pub stopped: Vec<u16>,
    /// How many times the switch has resumed one of the stopped hosts.
    pub resumptions: u64,
    /// Buffers of dropped packets, for reuse.
    spare: Vec<Vec<u8>>,
}

impl Wire {
    /// Drops all recorded packets and keeps their buffers. A benchmark does not read them, and must
    /// not wait for fresh memory.
    pub fn forget(&mut self) {
        self.spare.extend(self.sent.drain(..).map(|(_, bytes)| bytes));
    }

    /// Returns the buffer of a packet that was taken out.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }
}

impl Link for Wire {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        if self.room.is_some_and(|room| self.sent.len() >= room) {
            return false;
        }
        let mut pieces = Pieces::new(packet);
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(pieces.len(), 0);
        let whole = pieces.take_into(&mut bytes).is_some();
        self.sent.push((destination, bytes));
        whole
    }

    fn is_stopped(&self, destination: u16) -> bool {
        self.stopped.contains(&destination)
    }

    fn resumptions(&self) -> u64 {
        self.resumptions
    }
}
