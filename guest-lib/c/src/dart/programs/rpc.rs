//! Remote procedure calls.

use std::ffi::{c_int, c_void};

use hamlyn::dart::programs::{Call, Client, Server};

use super::barrier::connections;
use crate::call::waited;
use crate::dart::connection::dart_connection;
use crate::dart::endpoint::dart_endpoint;
use crate::dart::queue::dart_queue;
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut};

/// The calling side. Arguments go to this client's area in the server's endpoint. One thread at a
/// time may use it.
pub struct dart_client(Client);

/// The called side, for any number of clients, with one call of each at a time. One thread at a
/// time may use it.
pub struct dart_server(Server);

/// A call that was taken and must be answered. One thread at a time may use it.
pub struct dart_call(Call);

exported! {
/// Creates a client with an area of `size` bytes at byte `place` of the server's endpoint.
/// `endpoint` is the connection's: its first `size` bytes are for results, and the next `size`
/// bytes for arguments. The connection's events must go to `results`. The client takes ownership of
/// that queue, and releases it when the client is destroyed or this fails.
fn dart_client_create(
    connection: &dart_connection,
    endpoint: &dart_endpoint,
    results: Box<dart_queue>,
    place: u64,
    size: u64,
    client: Out<Box<dart_client>>,
) {
    let connection = connection.0.clone();
    let endpoint = endpoint.0.clone();
    client.store(dart_client(Client::new(connection, endpoint, results.0, place, size)))
}

/// Releases a client and its queue. NULL is a no-op.
fn dart_client_destroy(client: Box<dart_client>);

/// Calls, and waits for the result. Copies as many bytes of it as fit, and returns its full length.
/// Fails with -EINVAL if the arguments are longer than the area. After -EAGAIN or -ETIMEDOUT the
/// client is unusable, because the result may still arrive: every further call fails with -EINVAL.
fn dart_client_call(
    client: &mut dart_client,
    arguments: *const c_void,
    length: usize,
    result: *mut c_void,
    size: usize,
    timeout_ms: c_int,
) {
    // Check `result` now but fill it last: it may be the same memory as the arguments.
    bytes(result, size, "result")?;
    let arguments = bytes(arguments, length, "arguments")?;
    let called = waited!(timeout_ms, client.0 => call / call_timeout(arguments))?;
    copied(&called, bytes_mut(result, size, "result")?)
}

/// Creates a server. The first bytes of the endpoint, which all these connections share, hold an
/// area of `size` bytes for each client, in the order of the connections. The same number of areas
/// for results follows. The connections' events must go to `calls`. The server takes ownership of
/// that queue, and releases it when the server is destroyed or this fails.
fn dart_server_create(
    endpoint: &dart_endpoint,
    clients: *const *const dart_connection,
    count: usize,
    calls: Box<dart_queue>,
    size: u64,
    server: Out<Box<dart_server>>,
) {
    let endpoint = endpoint.0.clone();
    let clients = connections(clients, count, "clients")?;
    server.store(dart_server(Server::new(endpoint, clients, calls.0, size)))
}

/// Releases a server and its queue. NULL is a no-op.
fn dart_server_destroy(server: Box<dart_server>);

/// Takes the next call. Copies as many bytes of its arguments as fit, and returns their full
/// length. Ignores messages of a client that are outside its area.
fn dart_server_next(
    server: &mut dart_server,
    arguments: *mut c_void,
    size: usize,
    taken: Out<Box<dart_call>>,
    timeout_ms: c_int,
) {
    let to = bytes_mut(arguments, size, "arguments")?;
    let next = waited!(timeout_ms, server.0 => recv / recv_timeout())?;
    let length = copied(&next.arguments, to);
    taken.store(dart_call(next));
    length
}

/// Answers a call, which is destroyed even if this fails. Fails with -EINVAL if the result is
/// longer than an area.
fn dart_server_answer(server: &dart_server, taken: Box<dart_call>, result: *const c_void, length: usize) {
    server.0.answer(&taken.0, bytes(result, length, "result")?)?
}

/// Destroys a call without an answer: its client keeps waiting. NULL is a no-op.
fn dart_call_destroy(taken: Box<dart_call>);
}

/// Copies as many bytes as fit, and returns the full length.
fn copied(from: &[u8], to: &mut [u8]) -> usize {
    let fits = from.len().min(to.len());
    to[..fits].copy_from_slice(&from[..fits]);
    from.len()
}
