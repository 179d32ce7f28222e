//! Endpoints that are used again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::aperture::{Aperture, Rights};
use super::card::Card;
use super::endpoint::{Endpoint, EndpointBuilder};
use crate::error::Result;

/// An endpoint and the memory that belongs to it: what a connection takes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kit {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its memory, with whatever its last user left there.
    pub aperture: Aperture,
}

impl Kit {
    /// Of what a connection has left ([`super::programs::End::close`]).
    #[must_use]
    pub fn new(endpoint: Endpoint, aperture: Aperture) -> Self {
        Self { endpoint, aperture }
    }
}

/// Endpoints and their memory, kept to be used again (section 3.1): to open them takes system calls
/// and has pages pinned, a connection itself takes messages only.
///
/// Whoever once had an aperture's descriptor can reach it for as long as it is open. So a kit is
/// given out again only for the peer that it was given back for, by whatever number the caller
/// tells peers apart: the host's, if he trusts all of a host alike. For another peer the endpoint
/// is used again, and the aperture is new.
#[derive(Debug)]
pub struct EndpointCache {
    card: Card,
    builder: EndpointBuilder,
    length: usize,
    rights: Rights,
    most: usize,
    /// The one that was given back first is the first.
    kept: VecDeque<(u64, Kit)>,
    hits: u64,
    misses: u64,
}

impl EndpointCache {
    /// Keeps at most so many kits, each with an aperture of `length` bytes.
    #[must_use]
    pub fn new(card: &Card, builder: EndpointBuilder, length: usize, rights: Rights, most: usize) -> Self {
        let (kept, card) = (VecDeque::new(), card.clone());
        Self { card, builder, length, rights, most, kept, hits: 0, misses: 0 }
    }

    /// A kit for this peer: one that was given back for it, else one with a new aperture, else a
    /// new one.
    ///
    /// # Errors
    /// Those of [`EndpointBuilder::open`] and [`Card::aperture`].
    pub fn take(&mut self, peer: u64) -> Result<Kit> {
        let own = self.kept.iter().rposition(|(known, _)| *known == peer);
        if let Some((_, kit)) = own.and_then(|at| self.kept.remove(at)) {
            self.hits += 1;
            return Ok(kit);
        }
        self.misses += 1;
        // Its memory was for another: that goes first, for it is what there may be too little of.
        let endpoint = match self.kept.pop_front() {
            Some((_, Kit { endpoint, aperture })) => {
                drop(aperture);
                endpoint
            }
            None => self.builder.open()?,
        };
        let aperture = self.card.aperture(self.length, self.rights)?;
        Ok(Kit { endpoint, aperture })
    }

    /// Keeps a kit for the next connection with this peer. It is closed instead if somebody still
    /// uses it (a window, a Tripwire, a connection, a DMA request), or as many are kept as may be:
    /// then the one goes that was given back first.
    pub fn give(&mut self, peer: u64, kit: Kit) {
        if !is_idle(&kit) || self.most == 0 {
            return;
        }
        while self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back((peer, kit));
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How often [`EndpointCache::take`] found a kit for the peer, and how often it did not.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}

/// Whether nobody uses it any more. Then all that was for its last user is thrown away, and faults
/// of what that sent are not told to the next.
fn is_idle(kit: &Kit) -> bool {
    let core = kit.endpoint.core();
    if Arc::strong_count(core) != 1 || !core.places().are_free() || kit.endpoint.dma().in_flight() != 0 {
        return false;
    }
    while core.try_message().is_some() {}
    core.begin_use();
    core.set_peer(None).is_ok()
}
