//! Connections of endpoints.

use std::ffi::{c_int, c_void};

use hamlyn::clan::{Connection, PeerEnd, Request};

use super::endpoint::{clan_address, clan_endpoint};
use crate::call::waited;
use crate::exported::{Out, exported};
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

exported! {
/// Requests a connection, passes up to CLAN_TOLD_SIZE bytes, and waits for the answer. The endpoint
/// cannot have another connection meanwhile. Fails with -ECONNREFUSED if the request was refused or
/// the port is not in use, and with -EHOSTDOWN if there is no such host.
fn clan_connect(
    endpoint: &clan_endpoint,
    address: &clan_address,
    data: *const c_void,
    length: usize,
    connection: Out<Box<clan_connection>>,
    timeout_ms: c_int,
) {
    let address = address.into();
    let told = bytes(data, length, "data")?;
    connection
        .store(clan_connection(waited!(timeout_ms, endpoint.0 => connect / connect_timeout(address, told))?))
}

/// Stores the next request for a connection. Skips other messages: this endpoint is for requests.
fn clan_receive_request(endpoint: &clan_endpoint, request: Out<Box<clan_request>>, timeout_ms: c_int) {
    request.store(clan_request(waited!(timeout_ms, endpoint.0 => accept / accept_timeout())?))
}

/// Stores the requester's address and the data that it passed.
fn clan_request_peer(request: &clan_request, peer: Out<clan_peer>) {
    let (address, told) = (request.0.from().into(), *request.0.told());
    peer.store(clan_peer { address, told, reserved: [0; 6] })
}

/// Accepts a request, and passes up to CLAN_TOLD_SIZE bytes. The connection uses `endpoint`, which
/// must not have another one. The request is destroyed, even if this fails.
fn clan_accept(
    request: Box<clan_request>,
    endpoint: &clan_endpoint,
    data: *const c_void,
    length: usize,
    connection: Out<Box<clan_connection>>,
) {
    connection.store(clan_connection(request.0.accept(&endpoint.0, bytes(data, length, "data")?)?))
}

/// Refuses a request, and passes up to CLAN_TOLD_SIZE bytes as the reason. The request is
/// destroyed, even if this fails.
fn clan_refuse(request: Box<clan_request>, data: *const c_void, length: usize) {
    request.0.refuse(bytes(data, length, "data")?)?
}

/// Destroys a request without an answer. NULL is a no-op.
fn clan_request_destroy(request: Box<clan_request>);

/// Stores the peer's address and the data that it passed when the connection began.
fn clan_connection_peer(connection: &clan_connection, peer: Out<clan_peer>) {
    let (address, told) = (connection.0.peer().into(), *connection.0.told());
    peer.store(clan_peer { address, told, reserved: [0; 6] })
}

/// Sends the peer up to CLAN_TOLD_SIZE bytes, out of band. Fails with -EAGAIN if there is no room
/// now.
fn clan_connection_send(connection: &clan_connection, data: *const c_void, length: usize) {
    connection.0.send(bytes(data, length, "data")?)?
}

/// Takes the peer's next message: its bytes, followed by zeros. After the last message, fails with
/// -ECONNRESET if the peer has ended.
fn clan_connection_receive(connection: &clan_connection, data: Out<[u8; CLAN_TOLD_SIZE]>, timeout_ms: c_int) {
    data.store(waited!(timeout_ms, connection.0 => recv / recv_timeout())?)
}

/// Returns the number of clan_connection_send messages that the peer had no room for.
fn clan_connection_undelivered(connection: &clan_connection) {
    connection.0.undelivered()
}

/// Waits until the peer has ended, and stores how.
fn clan_connection_end(connection: &clan_connection, end: Out<clan_peer_end>, timeout_ms: c_int) {
    end.store(waited!(timeout_ms, connection.0 => wait_end / wait_end_timeout())?)
}

/// Closes a connection, and passes up to CLAN_TOLD_SIZE bytes to the peer, ordered after all stores
/// through the endpoint's windows. The endpoint may have another connection afterwards. The
/// connection is destroyed, even if this fails.
fn clan_connection_close(connection: Box<clan_connection>, data: *const c_void, length: usize) {
    connection.0.close(bytes(data, length, "data")?)?;
}

/// Releases a connection without closing it: the peer is notified when the endpoint is closed. NULL
/// is a no-op.
fn clan_connection_destroy(connection: Box<clan_connection>);
}
