//! Connections of endpoints.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::{Connection, PeerEnd, Request};

use super::endpoint::{clan_address, clan_endpoint};
use crate::call::{at_once, call, count, free, given, store, timeout};
use crate::memory::bytes;

/// Bytes that each side tells the other with a request, its answer, a message of the connection's,
/// and the end: a descriptor fits.
pub const CLAN_TOLD_SIZE: usize = 32;

/// The peer closed the connection.
pub const CLAN_END_CLOSED: u32 = 1;
/// The peer is no more, or its host is lost.
pub const CLAN_END_GONE: u32 = 2;

/// Somebody who asks for a connection. One thread at a time may use it.
pub struct clan_request(pub(crate) Request);

/// A connection of two endpoints (section 3.1), each of which hears when the other ends. It takes
/// its endpoint's messages. Any number of threads may use it at once.
pub struct clan_connection(Connection);

/// Who is at the other side, and what he has told when the connection was asked for, or answered.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_peer {
    /// Where he is.
    pub address: clan_address,
    /// What he has told, and zeros.
    pub told: [u8; CLAN_TOLD_SIZE],
    /// For what may come: zeros.
    pub reserved: [u32; 6],
}

/// How the peer ended.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_peer_end {
    /// CLAN_END_CLOSED or CLAN_END_GONE.
    pub reason: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 7],
    /// What it told when it closed, and zeros.
    pub told: [u8; CLAN_TOLD_SIZE],
}

impl From<PeerEnd> for clan_peer_end {
    fn from(end: PeerEnd) -> Self {
        let (reason, told) = match end {
            PeerEnd::Closed(told) => (CLAN_END_CLOSED, told),
            PeerEnd::Gone => (CLAN_END_GONE, [0; CLAN_TOLD_SIZE]),
        };
        Self { reason, reserved: [0; 7], told }
    }
}

/// Asks for a connection, tells up to CLAN_TOLD_SIZE bytes, and waits for the answer. The endpoint
/// has no other connection meanwhile. -ECONNREFUSED if it was refused, or nobody has that port;
/// -EHOSTDOWN if there is no such host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connect(
    endpoint: Option<&clan_endpoint>,
    address: Option<&clan_address>,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<clan_connection>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(connection, "connection")?);
        let address = given(address, "address")?.into();
        let told = bytes(data, length, "data")?;
        let connection = at_once(timeout_ms, endpoint.connect(address, told, timeout(timeout_ms)))?;
        store(to, Box::new(clan_connection(connection)))
    })
}

/// Gives the next who asks for a connection. Other messages are passed over: this endpoint is for
/// requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receive_request(
    endpoint: Option<&clan_endpoint>,
    request: Option<&mut MaybeUninit<Box<clan_request>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(request, "request")?);
        let request = at_once(timeout_ms, endpoint.accept(timeout(timeout_ms)))?;
        store(to, Box::new(clan_request(request)))
    })
}

/// Who asks, and what he tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_request_peer(
    request: Option<&clan_request>,
    peer: Option<&mut MaybeUninit<clan_peer>>,
) -> c_int {
    call(|| {
        let (request, to) = (&given(request, "request")?.0, given(peer, "peer")?);
        let (address, told) = (request.from().into(), *request.told());
        store(to, clan_peer { address, told, reserved: [0; 6] })
    })
}

/// Accepts, and tells up to CLAN_TOLD_SIZE bytes. The connection is that of `endpoint`, which has
/// no other. The request is gone, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_accept(
    request: Option<Box<clan_request>>,
    endpoint: Option<&clan_endpoint>,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<clan_connection>>>,
) -> c_int {
    call(|| {
        let request = given(request, "request")?.0;
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(connection, "connection")?);
        let connection = request.accept(endpoint, bytes(data, length, "data")?)?;
        store(to, Box::new(clan_connection(connection)))
    })
}

/// Refuses, and tells why, in up to CLAN_TOLD_SIZE bytes. The request is gone, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_refuse(
    request: Option<Box<clan_request>>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| Ok(given(request, "request")?.0.refuse(bytes(data, length, "data")?).map(|()| 0)?))
}

/// Lets a request go without an answer. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_request_destroy(request: Option<Box<clan_request>>) {
    free(request);
}

/// The other side, and what it told when the connection began.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_peer(
    connection: Option<&clan_connection>,
    peer: Option<&mut MaybeUninit<clan_peer>>,
) -> c_int {
    call(|| {
        let (connection, to) = (&given(connection, "connection")?.0, given(peer, "peer")?);
        let (address, told) = (connection.peer().into(), *connection.told());
        store(to, clan_peer { address, told, reserved: [0; 6] })
    })
}

/// Sends the peer up to CLAN_TOLD_SIZE bytes, out of band. -EAGAIN if there is no room for them
/// now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_send(
    connection: Option<&clan_connection>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.send(bytes(data, length, "data")?).map(|()| 0)?))
}

/// Takes the next message of the peer's: its bytes, and zeros. Behind the last, -ECONNRESET if the
/// peer has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_receive(
    connection: Option<&clan_connection>,
    data: Option<&mut MaybeUninit<[u8; CLAN_TOLD_SIZE]>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (connection, to) = (&given(connection, "connection")?.0, given(data, "data")?);
        store(to, at_once(timeout_ms, connection.receive(timeout(timeout_ms)))?)
    })
}

/// How many messages of clan_connection_send the peer had no room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_undelivered(connection: Option<&clan_connection>) -> c_int {
    call(|| Ok(count(given(connection, "connection")?.0.undelivered() as usize)))
}

/// Waits until the peer has ended, and says how.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_end(
    connection: Option<&clan_connection>,
    end: Option<&mut MaybeUninit<clan_peer_end>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (connection, to) = (&given(connection, "connection")?.0, given(end, "end")?);
        store(to, at_once(timeout_ms, connection.wait_end(timeout(timeout_ms)))?.into())
    })
}

/// Closes a connection, and tells the peer up to CLAN_TOLD_SIZE bytes, behind all that was stored
/// by the endpoint's windows. The endpoint may have another connection then. The connection is
/// gone, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_close(
    connection: Option<Box<clan_connection>>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let connection = given(connection, "connection")?.0;
        connection.close(bytes(data, length, "data")?)?;
        Ok(0)
    })
}

/// Lets a connection go without closing: the peer hears of it when the endpoint is closed. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_destroy(connection: Option<Box<clan_connection>>) {
    free(connection);
}
