//! Ends: the base of the programs.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

use hamlyn::clan::programs::End;
use hamlyn::clan::{EventQueue, Tripwire};

use crate::call::{Failure, at_once, call, free, given, store, timeout};
use crate::clan::aperture::clan_aperture;
use crate::clan::connection::{clan_peer, clan_peer_end, clan_request};
use crate::clan::endpoint::{clan_address, clan_endpoint};
use crate::clan::events::clan_events;

/// Memory of this process that the peer stores to, a window to the peer's memory, and a connection.
/// Each side is notified when the other ends. An end has one program for each direction (see
/// below). Any number of threads may use it at once.
pub struct clan_end(Arc<End>);

impl clan_end {
    pub(crate) fn shared(&self) -> &Arc<End> {
        &self.0
    }
}

/// Requests a connection, passes the descriptor of `own` to the peer, and maps the peer's memory.
/// `own` must allow the peer to write. A wait for the peer that exceeds timeout_ms, in this call or
/// in any program on the end, fails with -ETIMEDOUT; a negative value waits forever. The end takes
/// ownership of the aperture, which is destroyed if this fails. Fails like clan_connect, and with
/// -EBADMSG or -EINVAL if the peer passes invalid data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_end_connect(
    endpoint: Option<&clan_endpoint>,
    own: Option<Box<clan_aperture>>,
    address: Option<&clan_address>,
    timeout_ms: c_int,
    end: Option<&mut MaybeUninit<Box<clan_end>>>,
) -> c_int {
    call(|| {
        let own = given(own, "own")?.0;
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(end, "end")?);
        let address = given(address, "address")?.into();
        let end = End::connect(endpoint, own, address, timeout(timeout_ms))?;
        store(to, Box::new(clan_end(Arc::new(end))))
    })
}

/// Accepts a connection that clan_end_connect requested; the end uses `endpoint`. The request is
/// destroyed, even if this fails; the requester is then refused. The end takes ownership of the
/// aperture, which is destroyed if this fails. Fails with -EINVAL or -EBADMSG if the peer passes
/// invalid data. Fails with -EDOM if the peer's memory is larger than both `own` and 64 KiB:
/// clan_end_accept_up_to allows more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_end_accept(
    request: Option<Box<clan_request>>,
    endpoint: Option<&clan_endpoint>,
    own: Option<Box<clan_aperture>>,
    timeout_ms: c_int,
    end: Option<&mut MaybeUninit<Box<clan_end>>>,
) -> c_int {
    call(|| {
        let (request, own) = (given(request, "request")?.0, given(own, "own")?.0);
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(end, "end")?);
        let end = End::accept(request, endpoint, own, timeout(timeout_ms))?;
        store(to, Box::new(clan_end(Arc::new(end))))
    })
}

/// Like clan_end_accept, but allows memory of at most `most` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_end_accept_up_to(
    request: Option<Box<clan_request>>,
    endpoint: Option<&clan_endpoint>,
    own: Option<Box<clan_aperture>>,
    most: usize,
    timeout_ms: c_int,
    end: Option<&mut MaybeUninit<Box<clan_end>>>,
) -> c_int {
    call(|| {
        let (request, own) = (given(request, "request")?.0, given(own, "own")?.0);
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(end, "end")?);
        let end = End::accept_up_to(request, endpoint, own, most, timeout(timeout_ms))?;
        store(to, Box::new(clan_end(Arc::new(end))))
    })
}

/// Stores the peer's address and the data that it passed: the descriptor of its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_end_peer(
    end: Option<&clan_end>,
    peer: Option<&mut MaybeUninit<clan_peer>>,
) -> c_int {
    call(|| {
        let (connection, to) = (given(end, "end")?.0.connection(), given(peer, "peer")?);
        let (address, told) = (connection.peer().into(), *connection.told());
        store(to, clan_peer { address, told, reserved: [0; 6] })
    })
}

/// Waits until the peer has ended, and stores how.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_end_wait(
    end: Option<&clan_end>,
    peer_end: Option<&mut MaybeUninit<clan_peer_end>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (connection, to) = (given(end, "end")?.0.connection(), given(peer_end, "peer_end")?);
        store(to, at_once(timeout_ms, connection.wait_end(timeout(timeout_ms)))?.into())
    })
}

/// Closes the connection, ordered after all stores, and stores the aperture, which another
/// connection may use (clan_cache_give). If `own` is NULL, the aperture is closed. The end is
/// destroyed, even if this fails. Fails with -EINVAL if a program on it was not destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_end_close(
    end: Option<Box<clan_end>>,
    own: Option<&mut MaybeUninit<Box<clan_aperture>>>,
) -> c_int {
    call(|| {
        let (_, aperture) = given(end, "end")?.0.close()?;
        match own {
            Some(to) => store(to, Box::new(clan_aperture(aperture))),
            None => Ok(0),
        }
    })
}

/// Releases an end without closing it: the peer is notified when the endpoint is closed. NULL is a
/// no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_end_destroy(end: Option<Box<clan_end>>) {
    free(end);
}

/// Registers a program's Tripwire.
pub(crate) fn register(
    events: Option<&mut clan_events>,
    tripwire: Result<&mut Tripwire, Failure>,
    token: u64,
) -> c_int {
    call(|| {
        let events: &mut EventQueue = &mut given(events, "events")?.0;
        Ok(events.register_tripwire(tripwire?, token).map(|()| 0)?)
    })
}
