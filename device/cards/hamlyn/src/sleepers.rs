//! Who sleeps: receivers until a notification is there (section 2.6), senders until their requests
//! are finished (section 2.3).

use hamlyn_abi::family::command::HAMLYN_STATUS_BAD_VALUE;
use hamlyn_abi::family::interrupts::HAMLYN_VECTOR_LINK;
use hamlyn_abi::family::sleep::{HAMLYN_ARMED_STRIDE, HAMLYN_PENDING_STRIDE};
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::sleeper::{Sleeper, Wake};
use hamlyn_card::ports::Ports;

use super::WINDOWS;
use super::options::HamlynOptions;

/// Where the words that driver and card share about sleepers are in the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    /// Offset of the queue control area.
    queues: u64,
    /// Offset of the terminus control area.
    termini: u64,
    /// How many interrupt vectors there are.
    vectors: u32,
}

impl Control {
    /// Behind the termini's windows, the queues' words first.
    pub(super) fn new(options: &HamlynOptions) -> Self {
        let queues = u64::from(options.termini) * u64::from(HAMLYN_WINDOW_SIZE);
        let areas = u64::from(options.queues.div_ceil(512));
        Self {
            queues,
            termini: queues + areas * u64::from(HAMLYN_QUEUE_CONTROL_SIZE),
            vectors: options.vectors,
        }
    }

    /// Where the window ends.
    pub(super) fn end(self) -> u64 {
        self.termini + u64::from(HAMLYN_TERMINUS_CONTROL_SIZE)
    }

    /// The sleeper on a notification queue, whom this vector is to wake.
    pub(super) fn of_queue(self, queue: u32, vector: u32) -> Result<Sleeper, Refusal> {
        let armed = u64::from(HAMLYN_QUEUE_CONTROL_ARMED) + u64::from(queue) * u64::from(HAMLYN_ARMED_STRIDE);
        self.sleeper(self.queues + armed, vector)
    }

    /// The sleeper on a terminus, whom this vector is to wake.
    pub(super) fn of_terminus(self, terminus: u32, vector: u32) -> Result<Sender, Refusal> {
        let part = self.termini + u64::from(terminus) * u64::from(HAMLYN_TERMINUS_CONTROL_STRIDE);
        let sleeper = self.sleeper(part + u64::from(HAMLYN_TERMINUS_ARMED), vector)?;
        Ok(Sender { sleeper, wanted: part + u64::from(HAMLYN_TERMINUS_WANTED) })
    }

    fn sleeper(self, armed: u64, vector: u32) -> Result<Sleeper, Refusal> {
        // The first vector is the link's: it wakes nobody.
        if vector == HAMLYN_VECTOR_LINK || vector >= self.vectors {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, vector, self.vectors - 1));
        }
        let pending =
            u64::from(HAMLYN_QUEUE_CONTROL_PENDING) + u64::from(vector) * u64::from(HAMLYN_PENDING_STRIDE);
        Ok(Sleeper::new(armed, self.queues + pending, vector as u16))
    }
}

/// Who may sleep until requests are finished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender {
    sleeper: Sleeper,
    /// Where it says how many.
    wanted: u64,
}

impl Sender {
    /// Nobody sleeps yet.
    pub(super) fn disarm(self, ports: &Ports<'_>) {
        self.sleeper.disarm(ports.window(WINDOWS));
    }

    /// So many requests are finished: interrupts who sleeps until then.
    pub(super) fn wake_at(self, completed: u32, ports: &Ports<'_>) -> Wake {
        let reached = || completed.wrapping_sub(ports.window(WINDOWS).load(self.wanted)) as i32 >= 0;
        self.sleeper.wake_if(ports.window(WINDOWS), ports.interrupt, reached)
    }
}
