//! Refusals of writes that wait to be sent to one sender.
//!
//! At most one refusal waits for each endpoint of the sender, because an endpoint keeps only the
//! last fault. So the space is bounded by the number of endpoints that a card can have. The
//! refusals of one endpoint take no space from those of another.

use std::collections::{BTreeMap, VecDeque};

use crate::packet::{self, Header};
use crate::tags::endpoint_of_tag;

/// The refusals for one sender.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    packets: BTreeMap<u32, Vec<u8>>,
    /// Endpoints with a refusal, in the order of their first one.
    order: VecDeque<u32>,
}

impl Refusals {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds a refusal. It replaces the refusal of an earlier endpoint with the same number. A
    /// second refusal of the same endpoint is dropped.
    pub(crate) fn add(&mut self, header: Header, data: &[u8]) {
        let endpoint = endpoint_of_tag(header.tag.get());
        let tag = header.tag.to_bytes();
        match self.packets.get(&endpoint) {
            Some(known) if known[4..8] == tag => return,
            Some(_) => {}
            None => self.order.push_back(endpoint),
        }
        self.packets.insert(endpoint, packet::seal(header, data));
    }

    /// Returns the next refusal.
    pub(crate) fn first(&mut self) -> Option<&mut Vec<u8>> {
        self.packets.get_mut(self.order.front()?)
    }

    /// Removes the next refusal after it has left.
    pub(crate) fn pop(&mut self) {
        if let Some(endpoint) = self.order.pop_front() {
            self.packets.remove(&endpoint);
        }
    }
}
