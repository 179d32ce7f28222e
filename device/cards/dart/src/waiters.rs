//! Connections whose next message waits for places in a queue. A queue serves them in the order in
//! which they came, so that short records cannot take the places that a long one waits for.

use std::collections::{BTreeSet, HashMap};

/// The waiters of all queues.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Queue, ticket, connection.
    order: BTreeSet<(u32, u64, u32)>,
    /// The queue and ticket of each connection that waits.
    tickets: HashMap<u32, (u32, u64)>,
    next: u64,
}

impl Waiters {
    /// Returns whether the queue may serve this connection now: no other one came earlier.
    pub(crate) fn is_first(&self, queue: u32, connection: u32) -> bool {
        self.order.range((queue, 0, 0)..).next().is_none_or(|first| first.0 != queue || first.2 == connection)
    }

    /// Appends a connection to the waiters of a queue. A connection waits for one queue at a time.
    /// Returns the new first waiter of the queue that the connection left.
    pub(crate) fn join(&mut self, queue: u32, connection: u32) -> Option<u32> {
        if self.tickets.get(&connection).is_some_and(|ticket| ticket.0 == queue) {
            return None;
        }
        let next = self.leave(connection);
        self.order.insert((queue, self.next, connection));
        self.tickets.insert(connection, (queue, self.next));
        self.next += 1;
        next
    }

    /// Forgets a waiter. Returns the connection that its queue serves next, if another one waits
    /// there.
    pub(crate) fn leave(&mut self, connection: u32) -> Option<u32> {
        let (queue, ticket) = self.tickets.remove(&connection)?;
        self.order.remove(&(queue, ticket, connection));
        let first = self.order.range((queue, 0, 0)..).next()?;
        (first.0 == queue).then_some(first.2)
    }

    /// Forgets the waiters of a queue that is closed.
    pub(crate) fn close(&mut self, queue: u32) {
        self.tickets.retain(|_, ticket| ticket.0 != queue);
        self.order.retain(|waiter| waiter.0 != queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_serves_its_waiters_in_order() {
        let mut waiters = Waiters::default();
        for (queue, connection) in [(1, 9), (1, 3), (2, 5), (1, 9)] {
            assert_eq!(waiters.join(queue, connection), None);
        }
        let first = |waiters: &Waiters, queue| [9, 3, 5, 7].map(|index| waiters.is_first(queue, index));
        assert_eq!(first(&waiters, 1), [true, false, false, false]);
        assert_eq!(first(&waiters, 2), [false, false, true, false]);
        assert_eq!(first(&waiters, 0), [true; 4]);
        // A connection that waits for another queue gives up its place, and comes last if it
        // returns.
        assert_eq!(waiters.join(2, 9), Some(3));
        assert_eq!(waiters.join(1, 9), Some(5));
        assert_eq!(first(&waiters, 1), [false, true, false, false]);
        assert_eq!(waiters.leave(3), Some(9));
        assert_eq!(first(&waiters, 1), [true, false, false, false]);
        waiters.close(1);
        assert_eq!(waiters.leave(9), None);
        assert_eq!(first(&waiters, 1), [true; 4]);
        assert!(waiters.is_first(2, 5) && waiters.order.len() == waiters.tickets.len());
    }
}
