//! What a card must have around it, and measurements in one thread do without.

use std::time::Duration;

use hamlyn_card::ports::{Clock, Interrupt, Link, Pieces, VolatileSlice};

/// Nobody sleeps.
pub(crate) struct Silent;

impl Interrupt for Silent {
    fn raise(&self, _vector: u16) {}
}

/// Nothing has a time-out.
pub(crate) struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// A link that holds one packet.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) bytes: Vec<u8>,
}

impl Link for Wire {
    fn send(&mut self, _destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let mut bytes = Pieces::new(packet);
        self.bytes.resize(bytes.len(), 0);
        bytes.take_into(&mut self.bytes).is_some()
    }
    fn is_stopped(&self, _destination: u16) -> bool {
        false
    }

    fn resumptions(&self) -> u64 {
        0
    }
}
