//! The ends that programs stand on.

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

/// Memory of this process that the other stores to, a window to the other's, and the connection by
/// which each hears of the other's end. An end has one program for each direction, of those below.
/// Any number of threads may use it at once.
pub struct clan_end(Arc<End>);

impl clan_end {
    pub(crate) fn shared(&self) -> &Arc<End> {
        &self.0
    }
}

/// Asks for a connection, tells the other of `own`, which it must be allowed to write to, and maps
/// what it tells of. Who waits longer than timeout_ms for the other, now or in any program on the
/// end, gets -ETIMEDOUT; negative: nobody does. The aperture is the end's from now on, and gone
/// even if this fails; it fails as clan_connect does, and with -EBADMSG or -EINVAL if the other
/// tells nonsense.
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

/// Accepts a connection that was asked for by clan_end_connect; the end is that of `endpoint`.
/// Request and aperture are gone, even if this fails; whoever asked is refused then. It fails with
/// -EINVAL or -EBADMSG if the other tells nonsense, and with -EDOM if its memory is larger than
/// `own` and than 64 KiB: clan_end_accept_up_to allows more.
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

/// The same, of memory of at most `most` bytes.
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

/// The other side, and the descriptor of its memory, which is what it told.
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

/// Waits until the other has ended, and says how.
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

/// Closes the connection, behind all that was stored, and gives the memory back, which another
/// connection may use (clan_cache_give); with NULL it is closed. The end is gone, even if this
/// fails: -EINVAL if a program on it was not destroyed before.
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

/// Lets an end go without closing: the other hears of it when the endpoint is closed. NULL is
/// nothing.
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
