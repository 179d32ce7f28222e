//! Endpoints that are used again.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::clan::{EndpointCache, Kit};

use super::aperture::{clan_aperture, rights_of};
use super::card::clan_card;
use super::endpoint::{builder, clan_endpoint, clan_endpoint_options};
use crate::call::{call, free, given, store};

/// Endpoints and their memory, kept to be used again (section 3.1), as to open them takes system
/// calls and has pages pinned. One thread at a time may use it.
pub struct clan_cache(EndpointCache);

/// How a cache has done.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_cache_info {
    /// How often clan_cache_take found an endpoint with memory that was the same peer's.
    pub hits: u64,
    /// How often it did not.
    pub misses: u64,
    /// How many endpoints are kept.
    pub kept: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 3],
}

/// Makes a cache that keeps at most so many endpoints of these options, each with an aperture of
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

/// Lets a cache go, with what it keeps. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_cache_destroy(cache: Option<Box<clan_cache>>) {
    free(cache);
}

/// Gives an endpoint and an aperture for this peer, whatever the number says of it: its host, if
/// all of a host is trusted alike. The aperture may be one that was given back for the same peer,
/// with what that left there; never another's, who may still have its descriptor.
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

/// Keeps an endpoint and its aperture for the next connection with this peer, or closes them if a
/// window, Tripwire, connection or DMA request still uses them. Both are gone, even if this fails.
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

/// Says how a cache has done.
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
