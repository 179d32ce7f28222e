//! Connections whose messages wait to be executed, and how much the card executes in a turn.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::waiters::Waiters;

/// Number of cells that a card executes in one turn. The rest has another turn at once.
pub const TURN: usize = 2048;
/// Time after which a message that waits for a place in a queue is looked at again.
const SOON: Duration = Duration::from_millis(1);

/// The connections with messages that wait.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Connections with messages for which this turn was too short, and what is left of the turn.
    busy: VecDeque<u32>,
    turn_left: usize,
    /// Connections with a message that waits for places in a queue or for answers to leave.
    stuck: BTreeSet<u32>,
    /// When they are tried again.
    look: Option<Duration>,
    waiters: Waiters,
}

impl Backlog {
    /// Begins a turn of the card.
    pub(crate) fn begin_turn(&mut self) {
        self.turn_left = TURN;
    }

    pub(crate) fn has_turn_left(&self) -> bool {
        self.turn_left > 0
    }

    /// Takes the cost of a message from the turn, in cells.
    pub(crate) fn spend(&mut self, cost: usize) {
        self.turn_left = self.turn_left.saturating_sub(cost);
    }

    /// Lists a connection for which this turn was too short.
    pub(crate) fn postpone(&mut self, index: u32) {
        if !self.busy.contains(&index) {
            self.busy.push_back(index);
        }
    }

    /// Lists a connection whose message waits for places in a queue or for answers to leave.
    pub(crate) fn stick(&mut self, index: u32) {
        self.stuck.insert(index);
    }

    /// Removes a connection from the stuck ones, because its message is tried now.
    pub(crate) fn try_now(&mut self, index: u32) {
        self.stuck.remove(&index);
    }

    /// Returns the next connection that has messages, as long as the turn lasts.
    pub(crate) fn next(&mut self) -> Option<u32> {
        if self.has_turn_left() { self.busy.pop_front() } else { None }
    }

    /// Lists the stuck connections as busy, so that they are tried again.
    pub(crate) fn retry(&mut self) {
        let stuck = std::mem::take(&mut self.stuck);
        self.busy.retain(|index| !stuck.contains(index));
        self.busy.extend(stuck);
    }

    /// Returns whether a queue may serve a connection now: no other one came earlier.
    pub(crate) fn is_first(&self, queue: u32, index: u32) -> bool {
        self.waiters.is_first(queue, index)
    }

    /// Appends a connection to the waiters of a queue.
    pub(crate) fn join_queue(&mut self, queue: u32, index: u32) {
        let next = self.waiters.join(queue, index);
        self.serve(next);
    }

    /// Removes a connection from the waiters of its queue, and wakes the next waiter.
    pub(crate) fn leave_queue(&mut self, index: u32) {
        let next = self.waiters.leave(index);
        self.serve(next);
    }

    /// Forgets the waiters of a queue that is closed.
    pub(crate) fn close_queue(&mut self, queue: u32) {
        self.waiters.close(queue);
    }

    /// Retries a waiter that became the first of its queue.
    fn serve(&mut self, next: Option<u32>) {
        if let Some(next) = next.filter(|next| self.stuck.remove(next)) {
            self.busy.push_back(next);
        }
    }

    /// Removes a connection that is closed.
    pub(crate) fn remove(&mut self, index: u32) {
        self.stuck.remove(&index);
        self.leave_queue(index);
        self.busy.retain(|other| *other != index);
    }

    /// Sets the time of the next look at stuck connections, as long as there are any.
    pub(crate) fn set_look(&mut self, now: impl FnOnce() -> Duration) {
        if self.stuck.is_empty() {
            self.look = None;
        } else {
            self.look.get_or_insert_with(|| now() + SOON);
        }
    }

    /// Returns whether the time of the next look has come, which is then over.
    pub(crate) fn take_look(&mut self, now: Duration) -> bool {
        self.look.take_if(|look| *look <= now).is_some()
    }

    /// Returns when the card must have a turn that nothing else causes.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        // Connections that had no turn left have another at once.
        let busy = (!self.busy.is_empty()).then_some(Duration::ZERO);
        busy.or(self.look)
    }
}
