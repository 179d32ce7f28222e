//! Who sleeps, and how the card wakes them: receivers until a notification is there (section 2.6), senders until their
//! requests are finished (section 2.3).
//!
//! Driver and card share a word, `armed`, for each queue and each terminus. What the card has to tell is written first, then
//! comes a full barrier, then the look at that word. The driver stores the word, then comes its barrier, then it looks once
//! more for what it wants: at least one of them sees the other.

use hamlyn_abi::hamlyn::window::*;

use super::options::HamlynOptions;
use super::statistics::Counters;
use crate::ports::{Ports, Window, barrier_before_last_look};
use hamlyn_abi::hamlyn::statistics::Statistic;

/// Where the words that driver and card share about sleepers are in the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    /// Offset of the queue control area.
    queues: u64,
    /// Offset of the terminus control area.
    termini: u64,
}

impl Control {
    /// Behind the termini's windows, the queues' words first.
    pub(super) fn new(options: &HamlynOptions) -> Self {
        let queues = u64::from(options.termini) * u64::from(HAMLYN_WINDOW_SIZE);
        let areas = u64::from(options.queues.div_ceil(512));
        Self { queues, termini: queues + areas * u64::from(HAMLYN_QUEUE_CONTROL_SIZE) }
    }

    /// Where the window ends.
    pub(super) fn end(self) -> u64 {
        self.termini + u64::from(HAMLYN_TERMINUS_CONTROL_SIZE)
    }

    /// The sleeper on a notification queue.
    pub(super) fn of_queue(self, queue: u32, vector: u32) -> Sleeper {
        let armed = u64::from(HAMLYN_QUEUE_CONTROL_ARMED) + u64::from(queue) * u64::from(HAMLYN_ARMED_STRIDE);
        self.sleeper(self.queues + armed, vector)
    }

    /// The sleeper on a terminus.
    pub(super) fn of_terminus(self, terminus: u32, vector: u32) -> Sleeper {
        let part = self.termini + u64::from(terminus) * u64::from(HAMLYN_TERMINUS_CONTROL_STRIDE);
        self.sleeper(part + u64::from(HAMLYN_TERMINUS_ARMED), vector)
    }

    fn sleeper(self, armed: u64, vector: u32) -> Sleeper {
        let pending =
            u64::from(HAMLYN_QUEUE_CONTROL_PENDING) + u64::from(vector) * u64::from(HAMLYN_PENDING_STRIDE);
        Sleeper { armed, pending: self.queues + pending, vector: vector as u16 }
    }
}

/// Where somebody says that they sleep, and what wakes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sleeper {
    armed: u64,
    pending: u64,
    vector: u16,
}

impl Sleeper {
    /// Nobody sleeps yet.
    pub(super) fn disarm(self, window: &dyn Window) {
        window.store(self.armed, HAMLYN_ARMED_NO);
    }

    /// A notification is there: interrupts who sleeps, if no interrupt is pending on the vector (section 2.6).
    pub(super) fn wake(self, ports: &Ports<'_>, counters: &mut Counters) {
        barrier_before_last_look();
        if ports.window.load(self.armed) == HAMLYN_ARMED_YES {
            self.fire(ports, counters);
        }
    }

    /// So many requests are finished: interrupts who sleeps until then.
    pub(super) fn wake_at(self, completed: u32, ports: &Ports<'_>, counters: &mut Counters) {
        barrier_before_last_look();
        if ports.window.load(self.armed) != HAMLYN_ARMED_YES {
            return;
        }
        let wanted =
            ports.window.load(self.armed + u64::from(HAMLYN_TERMINUS_WANTED - HAMLYN_TERMINUS_ARMED));
        if completed.wrapping_sub(wanted) as i32 >= 0 {
            self.fire(ports, counters);
        }
    }

    fn fire(self, ports: &Ports<'_>, counters: &mut Counters) {
        ports.window.store(self.armed, HAMLYN_ARMED_FIRED);
        barrier_before_last_look();
        if ports.window.load(self.pending) != 0 {
            // The vector's handler, which has not seen that interrupt yet, will find this as well.
            counters.add(Statistic::InterruptsCoalesced, 1);
            return;
        }
        ports.window.store(self.pending, 1);
        ports.interrupt.raise(self.vector);
        counters.add(Statistic::Interrupts, 1);
    }
}
