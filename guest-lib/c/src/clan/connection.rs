//! Connections of endpoints.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::{Connection, PeerEnd, Request};

use super::endpoint::{clan_address, clan_endpoint};
use crate::call::{at_once, call, count, free, given, store, timeout};
use crate::memory::bytes;

/// Number of bytes that each side can pass with a request, its answer, a message of the connection,
/// and the close. A descriptor fits.
pub const CLAN_TOLD_SIZE: usize = 32;

/// The peer closed the connection.
pub const CLAN_END_CLOSED: u32 = 1;
/// The peer is gone, or its host is lost.
pub const CLAN_END_GONE: u32 = 2;

/// A request for a connection. One thread at a time may use it.
pub struct clan_request(pub(crate) Request);

/// A connection of two endpoints (section 3.1). Each side is notified when the other ends. The
/// connection takes its endpoint's messages. Any number of threads may use it at once.
pub struct clan_connection(Connection);

/// The peer, and the data that it passed with its request or answer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_peer {
    /// The peer's address.
    pub address: clan_address,
    /// The data that it passed, followed by zeros.
    pub told: [u8; CLAN_TOLD_SIZE],
    /// Reserved for future use: zeros.
    pub reserved: [u32; 6],
}

/// How the peer ended.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_peer_end {
    /// CLAN_END_CLOSED or CLAN_END_GONE.
    pub reason: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 7],
    /// The data that the peer passed when it closed, followed by zeros.
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

/// Requests a connection, passes up to CLAN_TOLD_SIZE bytes, and waits for the answer. The endpoint
/// cannot have another connection meanwhile. Fails with -ECONNREFUSED if the request was refused or
/// the port is not in use, and with -EHOSTDOWN if there is no such host.
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

/// Stores the next request for a connection. Skips other messages: this endpoint is for requests.
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

/// Stores the requester's address and the data that it passed.
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

/// Accepts a request, and passes up to CLAN_TOLD_SIZE bytes. The connection uses `endpoint`, which
/// must not have another one. The request is destroyed, even if this fails.
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

/// Refuses a request, and passes up to CLAN_TOLD_SIZE bytes as the reason. The request is
/// destroyed, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_refuse(
    request: Option<Box<clan_request>>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| Ok(given(request, "request")?.0.refuse(bytes(data, length, "data")?).map(|()| 0)?))
}

/// Destroys a request without an answer. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_request_destroy(request: Option<Box<clan_request>>) {
    free(request);
}

/// Stores the peer's address and the data that it passed when the connection began.
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

/// Sends the peer up to CLAN_TOLD_SIZE bytes, out of band. Fails with -EAGAIN if there is no room
/// now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_send(
    connection: Option<&clan_connection>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.send(bytes(data, length, "data")?).map(|()| 0)?))
}

/// Takes the peer's next message: its bytes, followed by zeros. After the last message, fails with
/// -ECONNRESET if the peer has ended.
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

/// Returns the number of clan_connection_send messages that the peer had no room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_undelivered(connection: Option<&clan_connection>) -> c_int {
    call(|| Ok(count(given(connection, "connection")?.0.undelivered() as usize)))
}

/// Waits until the peer has ended, and stores how.
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

/// Closes a connection, and passes up to CLAN_TOLD_SIZE bytes to the peer, ordered after all stores
/// through the endpoint's windows. The endpoint may have another connection afterwards. The
/// connection is destroyed, even if this fails.
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

/// Releases a connection without closing it: the peer is notified when the endpoint is closed. NULL
/// is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_connection_destroy(connection: Option<Box<clan_connection>>) {
    free(connection);
}
