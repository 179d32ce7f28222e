//! A cache of endpoints.

use std::collections::VecDeque;
use std::sync::Arc;

use super::aperture::Aperture;
use super::card::Card;
use super::endpoint::{Endpoint, EndpointBuilder};
use super::rights::Rights;
use crate::error::Result;

/// The resources of a connection: an endpoint and its memory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kit {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The endpoint's memory, with the contents that its last user left.
    pub aperture: Aperture,
}

impl Kit {
    /// Builds a kit from the resources of a closed connection ([`super::programs::End::close`]).
    #[must_use]
    pub fn new(endpoint: Endpoint, aperture: Aperture) -> Self {
        Self { endpoint, aperture }
    }
}

/// A cache of endpoints and their memory (section 3.1). Opening them takes system calls and pins
/// pages, while connection set-up takes only messages.
///
/// Every holder of an aperture's descriptor can access the aperture for as long as it is open. So a
/// kit is reused only for the peer for which it was returned. The caller chooses the numbers that
/// identify peers: the host number is enough if the caller trusts all processes of a host alike.
/// For another peer, the endpoint is reused with a new aperture.
#[derive(Debug)]
pub struct EndpointCache {
    card: Card,
    builder: EndpointBuilder,
    length: usize,
    rights: Rights,
    most: usize,
    /// Ordered by the time of their return, oldest first.
    kept: VecDeque<(u64, Kit)>,
    hits: u64,
    misses: u64,
}

impl EndpointCache {
    /// Creates a cache of at most `most` kits, each with an aperture of `length` bytes.
    #[must_use]
    pub fn new(card: &Card, builder: EndpointBuilder, length: usize, rights: Rights, most: usize) -> Self {
        let (kept, card) = (VecDeque::new(), card.clone());
        Self { card, builder, length, rights, most, kept, hits: 0, misses: 0 }
    }

    /// Returns a kit for this peer: one that was returned for it, else a cached endpoint with a new
    /// aperture, else a new kit.
    ///
    /// # Errors
    /// Same as [`EndpointBuilder::open`] and [`Card::aperture`].
    pub fn take(&mut self, peer: u64) -> Result<Kit> {
        let own = self.kept.iter().rposition(|(known, _)| *known == peer);
        if let Some((_, kit)) = own.and_then(|at| self.kept.remove(at)) {
            self.hits += 1;
            return Ok(kit);
        }
        self.misses += 1;
        // The old aperture belonged to another peer. Drop it before opening the new one: apertures
        // may be scarce.
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

    /// Keeps a kit for the next connection with this peer.
    ///
    /// The kit is closed instead if it is still in use (by a window, a Tripwire, a connection or a
    /// DMA request). If the cache is full, the kit that was returned first is closed.
    pub fn give(&mut self, peer: u64, kit: Kit) {
        if !is_idle(&kit) || self.most == 0 {
            return;
        }
        while self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back((peer, kit));
    }

    /// Returns the number of cached kits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns how often [`EndpointCache::take`] found a kit for the peer, and how often it did
    /// not.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}

/// Returns whether the kit is unused. If so, discards its pending messages, and excludes faults of
/// its last user's requests from those reported to the next user.
fn is_idle(kit: &Kit) -> bool {
    let core = kit.endpoint.core();
    if Arc::strong_count(core) != 1 || !core.places().are_free() || kit.endpoint.dma().in_flight() != 0 {
        return false;
    }
    while core.try_message().is_some() {}
    core.begin_use();
    core.set_peer(None).is_ok()
}
