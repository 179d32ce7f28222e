//! Ends: the base of the programs.

use std::ffi::c_int;
use std::sync::Arc;

use hamlyn::clan::programs::End;

use crate::call::{timeout, waited};
use crate::clan::aperture::clan_aperture;
use crate::clan::connection::{clan_peer, clan_peer_end, clan_request};
use crate::clan::endpoint::{clan_address, clan_endpoint};
use crate::exported::{Out, exported};

/// Memory of this process that the peer stores to, a window to the peer's memory, and a connection.
/// Each side is notified when the other ends. An end has one program for each direction (see
/// below). Any number of threads may use it at once.
pub struct clan_end(Arc<End>);

impl clan_end {
    pub(crate) fn shared(&self) -> &Arc<End> {
        &self.0
    }
}

exported! {
/// Requests a connection, passes the descriptor of `own` to the peer, and maps the peer's memory.
/// `own` must allow the peer to write. A wait for the peer that exceeds timeout_ms, in this call or
/// in any program on the end, fails with -ETIMEDOUT; a negative value waits forever. The end takes
/// ownership of the aperture, which is destroyed if this fails. Fails like clan_connect, and with
/// -EBADMSG or -EINVAL if the peer passes invalid data.
fn clan_end_connect(
    endpoint: &clan_endpoint,
    own: Box<clan_aperture>,
    address: &clan_address,
    timeout_ms: c_int,
    end: Out<Box<clan_end>>,
) {
    let address = address.into();
    let connected = match timeout(timeout_ms) {
        None => End::connect(&endpoint.0, own.0, address)?,
        Some(limit) => End::connect_timeout(&endpoint.0, own.0, address, limit)?,
    };
    end.store(limited(connected, timeout_ms))
}

/// Accepts a connection that clan_end_connect requested; the end uses `endpoint`. The request is
/// destroyed, even if this fails; the requester is then refused. The end takes ownership of the
/// aperture, which is destroyed if this fails. Fails with -EINVAL or -EBADMSG if the peer passes
/// invalid data. Fails with -EDOM if the peer's memory is larger than both `own` and 64 KiB:
/// clan_end_accept_up_to allows more.
fn clan_end_accept(
    request: Box<clan_request>,
    endpoint: &clan_endpoint,
    own: Box<clan_aperture>,
    timeout_ms: c_int,
    end: Out<Box<clan_end>>,
) {
    end.store(limited(End::accept(request.0, &endpoint.0, own.0)?, timeout_ms))
}

/// Like clan_end_accept, but allows memory of at most `most` bytes.
fn clan_end_accept_up_to(
    request: Box<clan_request>,
    endpoint: &clan_endpoint,
    own: Box<clan_aperture>,
    most: usize,
    timeout_ms: c_int,
    end: Out<Box<clan_end>>,
) {
    end.store(limited(End::accept_up_to(request.0, &endpoint.0, own.0, most)?, timeout_ms))
}

/// Stores the peer's address and the data that it passed: the descriptor of its memory.
fn clan_end_peer(end: &clan_end, peer: Out<clan_peer>) {
    let connection = end.0.connection();
    let (address, told) = (connection.peer().into(), *connection.told());
    peer.store(clan_peer { address, told, reserved: [0; 6] })
}

/// Waits until the peer has ended, and stores how.
fn clan_end_wait(end: &clan_end, peer_end: Out<clan_peer_end>, timeout_ms: c_int) {
    let connection = end.0.connection();
    peer_end.store(waited!(timeout_ms, connection => wait_end / wait_end_timeout())?)
}

/// Closes the connection, ordered after all stores, and stores the aperture, which another
/// connection may use (clan_cache_give). If `own` is NULL, the aperture is closed. The end is
/// destroyed, even if this fails. Fails with -EINVAL if a program on it was not destroyed before.
fn clan_end_close(end: Box<clan_end>, own: Option<Out<Box<clan_aperture>>>) {
    let (_, aperture) = end.0.close()?;
    if let Some(own) = own {
        own.store(clan_aperture(aperture));
    }
}

/// Releases an end without closing it: the peer is notified when the endpoint is closed. NULL is a
/// no-op.
fn clan_end_destroy(end: Box<clan_end>);
}

fn limited(end: End, timeout_ms: c_int) -> clan_end {
    clan_end(Arc::new(match timeout(timeout_ms) {
        None => end,
        Some(limit) => end.with_timeout(limit),
    }))
}
