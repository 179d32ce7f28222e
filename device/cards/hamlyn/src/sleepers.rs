//! Sleepers: receivers that wait for a notification (section 2.6), and senders that wait until
//! their requests are finished (section 2.3).

use hamlyn_abi::family::command::ULN_STATUS_BAD_VALUE;
use hamlyn_abi::family::interrupts::ULN_VECTOR_LINK;
use hamlyn_abi::family::sleep::{ULN_ARMED_STRIDE, ULN_PENDING_STRIDE};
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::Region;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::sleeper::{Sleeper, Wake};
use hamlyn_card::ports::Ports;

use super::WINDOWS;
use super::options::HamlynOptions;

/// Offsets in the window of the words about sleepers that driver and card share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    /// Offset of the queue control area.
    queues: u64,
    /// Offset of the terminus control area.
    termini: u64,
    /// Number of interrupt vectors.
    vectors: u32,
}

impl Control {
    /// Places the words behind the termini's windows, the queues' words first.
    pub(super) fn new(options: &HamlynOptions) -> Self {
        let queues = u64::from(options.termini) * u64::from(HAMLYN_WINDOW_SIZE);
        let areas = u64::from(options.queues.div_ceil(512));
        Self {
            queues,
            termini: queues + areas * u64::from(HAMLYN_QUEUE_CONTROL_SIZE),
            vectors: options.vectors,
        }
    }

    /// Returns the two areas, for traces.
    pub(super) fn regions(self) -> [Region; 2] {
        let size = u64::from(HAMLYN_QUEUE_CONTROL_SIZE);
        let count = (self.termini - self.queues) / size;
        let queues = Region { bar: WINDOWS, name: "HAMLYN_QUEUE_CONTROL", start: self.queues, size, count };
        let size = u64::from(HAMLYN_TERMINUS_CONTROL_STRIDE);
        let count = u64::from(HAMLYN_TERMINUS_CONTROL_SIZE) / size;
        [queues, Region { bar: WINDOWS, name: "HAMLYN_TERMINUS", start: self.termini, size, count }]
    }

    /// Returns the end of the window.
    pub(super) fn end(self) -> u64 {
        self.termini + u64::from(HAMLYN_TERMINUS_CONTROL_SIZE)
    }

    /// Returns the sleeper on a notification queue, which `vector` wakes. Fails if the vector
    /// cannot be used.
    pub(super) fn of_queue(self, queue: u32, vector: u32) -> Result<Sleeper, Refusal> {
        let armed = u64::from(HAMLYN_QUEUE_CONTROL_ARMED) + u64::from(queue) * u64::from(ULN_ARMED_STRIDE);
        self.sleeper(self.queues + armed, vector)
    }

    /// Returns the sleeper on a terminus, which `vector` wakes. Fails if the vector cannot be used.
    pub(super) fn of_terminus(self, terminus: u32, vector: u32) -> Result<Sender, Refusal> {
        let part = self.termini + u64::from(terminus) * u64::from(HAMLYN_TERMINUS_CONTROL_STRIDE);
        let sleeper = self.sleeper(part + u64::from(HAMLYN_TERMINUS_ARMED), vector)?;
        Ok(Sender { sleeper, wanted: part + u64::from(HAMLYN_TERMINUS_WANTED) })
    }

    fn sleeper(self, armed: u64, vector: u32) -> Result<Sleeper, Refusal> {
        // The first vector belongs to the link and wakes no sleeper.
        if vector == ULN_VECTOR_LINK || vector >= self.vectors {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, vector, self.vectors - 1));
        }
        let pending =
            u64::from(HAMLYN_QUEUE_CONTROL_PENDING) + u64::from(vector) * u64::from(ULN_PENDING_STRIDE);
        Ok(Sleeper::new(armed, self.queues + pending, vector as u16))
    }
}

/// A sender that may sleep until requests are finished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender {
    sleeper: Sleeper,
    /// Offset of the word with the number of requests that it waits for.
    wanted: u64,
}

impl Sender {
    /// Marks the sender as not sleeping.
    pub(super) fn disarm(self, ports: &Ports<'_>) {
        self.sleeper.disarm(ports.window(WINDOWS));
    }

    /// Interrupts the sender if it sleeps and waits for a number of finished requests that
    /// `completed` has reached.
    pub(super) fn wake_at(self, completed: u32, ports: &Ports<'_>) -> Wake {
        let reached = || completed.wrapping_sub(ports.window(WINDOWS).load(self.wanted)) as i32 >= 0;
        self.sleeper.wake_if(ports.window(WINDOWS), ports.interrupt, reached)
    }
}
