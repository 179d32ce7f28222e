//! A cache of endpoints.

use hamlyn::clan::{EndpointCache, Kit};

use super::aperture::clan_aperture;
use super::card::clan_card;
use super::endpoint::{builder, clan_endpoint, clan_endpoint_options};
use super::rights::rights_of;
use crate::exported::{Out, exported};

/// A cache of endpoints and their memory (section 3.1): opening them takes system calls and pins
/// pages. One thread at a time may use it.
pub struct clan_cache(EndpointCache);

/// Statistics of a cache.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_cache_info {
    /// Number of clan_cache_take calls that found an endpoint with memory of the same peer.
    pub hits: u64,
    /// Number of calls that did not.
    pub misses: u64,
    /// Number of cached endpoints.
    pub kept: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 3],
}

exported! {
/// Creates a cache of at most `most` endpoints with these options, each with an aperture of
/// `length` bytes.
fn clan_cache_create(
    card: &clan_card,
    options: Option<&clan_endpoint_options>,
    length: usize,
    rights: u32,
    most: u32,
    cache: Out<Box<clan_cache>>,
) {
    let (builder, rights) = (builder(card, options)?, rights_of(rights)?);
    cache.store(clan_cache(EndpointCache::new(&card.0, builder, length, rights, most as usize)))
}

/// Releases a cache and its contents. NULL is a no-op.
fn clan_cache_destroy(cache: Box<clan_cache>);

/// Stores an endpoint and an aperture for this peer. The caller chooses the meaning of `peer`: the
/// host number is enough if all processes of a host are trusted alike. The aperture may be one that
/// was returned for the same peer, with its old contents. It is never another peer's, because that
/// peer may still have its descriptor.
fn clan_cache_take(
    cache: &mut clan_cache,
    peer: u64,
    endpoint: Out<Box<clan_endpoint>>,
    aperture: Out<Box<clan_aperture>>,
) {
    let kit = cache.0.take(peer)?;
    endpoint.store(clan_endpoint(kit.endpoint));
    aperture.store(clan_aperture(kit.aperture))
}

/// Keeps an endpoint and its aperture for the next connection with this peer. Closes them instead
/// if a window, Tripwire, connection or DMA request still uses them. Neither may be used
/// afterwards, even if this fails.
fn clan_cache_give(
    cache: &mut clan_cache,
    peer: u64,
    endpoint: Box<clan_endpoint>,
    aperture: Box<clan_aperture>,
) {
    cache.0.give(peer, Kit::new(endpoint.0, aperture.0));
}

/// Stores the statistics of a cache.
fn clan_cache_get_info(cache: &clan_cache, info: Out<clan_cache_info>) {
    let (hits, misses) = cache.0.counts();
    info.store(clan_cache_info { hits, misses, kept: cache.0.len() as u32, reserved: [0; 3] })
}
}
