//! A cache of endpoints.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::clan::{EndpointCache, Kit};

use super::aperture::clan_aperture;
use super::card::clan_card;
use super::endpoint::{builder, clan_endpoint, clan_endpoint_options};
use super::rights::rights_of;
use crate::call::{call, free, given, store};

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

/// Creates a cache of at most `most` endpoints with these options, each with an aperture of
/// `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_cache_create(
    card: Option<&clan_card>,
    options: Option<&clan_endpoint_options>,
    length: usize,
    rights: u32,
    most: u32,
    cache: Option<&mut MaybeUninit<Box<clan_cache>>>,
) -> c_int {
    call(|| {
        let (card, to) = (given(card, "card")?, given(cache, "cache")?);
        let (builder, rights) = (builder(card, options)?, rights_of(rights)?);
        let cache = EndpointCache::new(&card.0, builder, length, rights, most as usize);
        store(to, Box::new(clan_cache(cache)))
    })
}

/// Releases a cache and its contents. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_cache_destroy(cache: Option<Box<clan_cache>>) {
    free(cache);
}

/// Stores an endpoint and an aperture for this peer. The caller chooses the meaning of `peer`: the
/// host number is enough if all processes of a host are trusted alike. The aperture may be one that
/// was returned for the same peer, with its old contents. It is never another peer's, because that
/// peer may still have its descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_cache_take(
    cache: Option<&mut clan_cache>,
    peer: u64,
    endpoint: Option<&mut MaybeUninit<Box<clan_endpoint>>>,
    aperture: Option<&mut MaybeUninit<Box<clan_aperture>>>,
) -> c_int {
    call(|| {
        let (endpoint, aperture) = (given(endpoint, "endpoint")?, given(aperture, "aperture")?);
        let kit = given(cache, "cache")?.0.take(peer)?;
        endpoint.write(Box::new(clan_endpoint(kit.endpoint)));
        store(aperture, Box::new(clan_aperture(kit.aperture)))
    })
}

/// Keeps an endpoint and its aperture for the next connection with this peer. Closes them instead
/// if a window, Tripwire, connection or DMA request still uses them. Neither may be used
/// afterwards, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_cache_give(
    cache: Option<&mut clan_cache>,
    peer: u64,
    endpoint: Option<Box<clan_endpoint>>,
    aperture: Option<Box<clan_aperture>>,
) -> c_int {
    call(|| {
        let (endpoint, aperture) = (given(endpoint, "endpoint")?.0, given(aperture, "aperture")?.0);
        given(cache, "cache")?.0.give(peer, Kit::new(endpoint, aperture));
        Ok(0)
    })
}

/// Stores the statistics of a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_cache_get_info(
    cache: Option<&clan_cache>,
    info: Option<&mut MaybeUninit<clan_cache_info>>,
) -> c_int {
    call(|| {
        let (cache, to) = (&given(cache, "cache")?.0, given(info, "info")?);
        let (hits, misses) = cache.counts();
        store(to, clan_cache_info { hits, misses, kept: cache.len() as u32, reserved: [0; 3] })
    })
}
