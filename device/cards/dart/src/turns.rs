//! Connections that may have something to send, in the order of their turns.

use std::collections::{BTreeSet, HashSet, VecDeque};

/// The turns of the connections that send.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    order: VecDeque<u32>,
    /// The same connections for look-ups, and the one that has its turn.
    listed: HashSet<u32>,
    /// Connections whose host accepts no more for now, and the link's count of resumptions.
    stopped: BTreeSet<u32>,
    resumptions: u64,
}

impl Turns {
    /// Forgets all connections. The link stays.
    pub(crate) fn clear(&mut self) {
        *self = Self { resumptions: self.resumptions, ..Self::default() };
    }

    /// Gives a connection a turn, unless it already has one.
    pub(crate) fn add(&mut self, index: u32) {
        if self.listed.insert(index) {
            self.order.push_back(index);
        }
    }

    /// Returns the connection whose turn it is. [`Turns::end`] or [`Turns::put_back`] follows.
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.order.pop_front()
    }

    /// Ends a connection's turn.
    pub(crate) fn end(&mut self, index: u32) {
        self.listed.remove(&index);
    }

    /// Lets a connection begin its turn again, because the link has no room.
    pub(crate) fn put_back(&mut self, index: u32) {
        self.order.push_front(index);
    }

    /// Ends the turn of a connection whose host accepts no more for now.
    pub(crate) fn stop(&mut self, index: u32) {
        self.end(index);
        self.stopped.insert(index);
    }

    /// Returns the connections that were stopped, if hosts accept packets again. `resumptions` is
    /// the link's count.
    pub(crate) fn resumed(&mut self, resumptions: u64) -> BTreeSet<u32> {
        if std::mem::replace(&mut self.resumptions, resumptions) == resumptions {
            return BTreeSet::new();
        }
        std::mem::take(&mut self.stopped)
    }

    /// Removes a connection that is closed.
    pub(crate) fn remove(&mut self, index: u32) {
        self.stopped.remove(&index);
        if self.listed.remove(&index) {
            self.order.retain(|other| *other != index);
        }
    }
}
