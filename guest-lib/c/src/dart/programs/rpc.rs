//! Remote procedure calls.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::dart::programs::{Call, Client, Server};

use super::barrier::connections;
use crate::call::{at_once, call, count, free, given, store, timeout};
use crate::dart::connection::dart_connection;
use crate::dart::endpoint::dart_endpoint;
use crate::dart::queue::dart_queue;
use crate::memory::{bytes, bytes_mut};

/// The calling side. Arguments go to this client's area in the server's endpoint. One thread at a
/// time may use it.
pub struct dart_client(Client);

/// The called side, for any number of clients, with one call of each at a time. One thread at a
/// time may use it.
pub struct dart_server(Server);

/// A call that was taken and must be answered. One thread at a time may use it.
pub struct dart_call(Call);

/// Creates a client with an area of `size` bytes at byte `place` of the server's endpoint.
/// `endpoint` is the connection's: its first `size` bytes are for results, and the next `size`
/// bytes for arguments. The connection's events must go to `results`. The client takes ownership of
/// that queue, and releases it when the client is destroyed or this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_client_create(
    connection: Option<&dart_connection>,
    endpoint: Option<&dart_endpoint>,
    results: Option<Box<dart_queue>>,
    place: u64,
    size: u64,
    client: Option<&mut MaybeUninit<Box<dart_client>>>,
) -> c_int {
    call(|| {
        let results = given(results, "results")?.0;
        let (connection, to) = (given(connection, "connection")?.0.clone(), given(client, "client")?);
        let endpoint = given(endpoint, "endpoint")?.0.clone();
        store(to, Box::new(dart_client(Client::new(connection, endpoint, results, place, size))))
    })
}

/// Releases a client and its queue. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_client_destroy(client: Option<Box<dart_client>>) {
    free(client);
}

/// Calls, and waits for the result. Copies as many bytes of it as fit, and returns its full length.
/// Fails with -EINVAL if the arguments are longer than the area. After -EAGAIN or -ETIMEDOUT the
/// client is unusable, because the result may still arrive: every further call fails with -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_client_call(
    client: Option<&mut dart_client>,
    arguments: *const c_void,
    length: usize,
    result: *mut c_void,
    size: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let client = &mut given(client, "client")?.0;
        // Check `result` now but fill it last: it may be the same memory as the arguments.
        bytes(result, size, "result")?;
        let called = client.call(bytes(arguments, length, "arguments")?, timeout(timeout_ms));
        Ok(copied(&at_once(timeout_ms, called)?, bytes_mut(result, size, "result")?))
    })
}

/// Creates a server. The first bytes of the endpoint, which all these connections share, hold an
/// area of `size` bytes for each client, in the order of the connections. The same number of areas
/// for results follows. The connections' events must go to `calls`. The server takes ownership of
/// that queue, and releases it when the server is destroyed or this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_server_create(
    endpoint: Option<&dart_endpoint>,
    clients: *const *const dart_connection,
    count: usize,
    calls: Option<Box<dart_queue>>,
    size: u64,
    server: Option<&mut MaybeUninit<Box<dart_server>>>,
) -> c_int {
    call(|| {
        let calls = given(calls, "calls")?.0;
        let (endpoint, to) = (given(endpoint, "endpoint")?.0.clone(), given(server, "server")?);
        let clients = connections(clients, count, "clients")?;
        store(to, Box::new(dart_server(Server::new(endpoint, clients, calls, size))))
    })
}

/// Releases a server and its queue. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_server_destroy(server: Option<Box<dart_server>>) {
    free(server);
}

/// Takes the next call. Copies as many bytes of its arguments as fit, and returns their full
/// length. Ignores messages of a client that are outside its area.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_server_next(
    server: Option<&mut dart_server>,
    arguments: *mut c_void,
    size: usize,
    taken: Option<&mut MaybeUninit<Box<dart_call>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (server, to) = (&mut given(server, "server")?.0, bytes_mut(arguments, size, "arguments")?);
        let place = given(taken, "taken")?;
        let next = at_once(timeout_ms, server.next(timeout(timeout_ms)))?;
        let length = copied(&next.arguments, to);
        store(place, Box::new(dart_call(next)))?;
        Ok(length)
    })
}

/// Answers a call, which is destroyed even if this fails. Fails with -EINVAL if the result is
/// longer than an area.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_server_answer(
    server: Option<&dart_server>,
    taken: Option<Box<dart_call>>,
    result: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (taken, server) = (given(taken, "taken")?.0, &given(server, "server")?.0);
        Ok(server.answer(&taken, bytes(result, length, "result")?).map(|()| 0)?)
    })
}

/// Destroys a call without an answer: its client keeps waiting. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_call_destroy(taken: Option<Box<dart_call>>) {
    free(taken);
}

/// Copies as many bytes as fit, and returns the full length.
fn copied(from: &[u8], to: &mut [u8]) -> c_int {
    let fits = from.len().min(to.len());
    to[..fits].copy_from_slice(&from[..fits]);
    count(from.len())
}
