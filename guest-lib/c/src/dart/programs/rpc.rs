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

/// Who calls. Arguments go to a place of the server's endpoint that is this client's. One thread at
/// a time may use it.
pub struct dart_client(Client);

/// Who is called, by any number of clients, one call of each at a time. One thread at a time may
/// use it.
pub struct dart_server(Server);

/// A call that was taken and is to be answered. One thread at a time may use it.
pub struct dart_call(Call);

/// Makes a client with a place of `size` bytes from byte `place` of the server's endpoint on.
/// `endpoint` is the connection's: its first `size` bytes are for results, and as many behind them
/// for arguments. The connection's events go to `results`, which is the client's from now on, even
/// if this fails, and goes with it.
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

/// Lets a client go, with its queue. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_client_destroy(client: Option<Box<dart_client>>) {
    free(client);
}

/// Calls, waits for the result, copies as many bytes of it as fit, and returns how many it has.
/// -EINVAL for more arguments than the place has bytes. After -EAGAIN or -ETIMEDOUT the client is
/// of no more use, as the result may still come: each call is -EINVAL then.
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
        // Checked first and filled last, as it may be where the arguments are.
        bytes(result, size, "result")?;
        let called = client.call(bytes(arguments, length, "arguments")?, timeout(timeout_ms));
        Ok(copied(&at_once(timeout_ms, called)?, bytes_mut(result, size, "result")?))
    })
}

/// Makes a server with a place of `size` bytes for each client, in the order of their connections,
/// in the first bytes of the endpoint that all of these have, and as many behind all of them for
/// results. Their events go to `calls`, which is the server's from now on, even if this fails, and
/// goes with it.
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

/// Lets a server go, with its queue. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_server_destroy(server: Option<Box<dart_server>>) {
    free(server);
}

/// Takes the next call, copies as many bytes of its arguments as fit, and returns how many it has.
/// What a client says that does not keep to its place is passed over.
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

/// Answers a call, which is gone, even if this fails: -EINVAL for more bytes than a place has.
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

/// Lets a call go without an answer: its client waits on. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_call_destroy(taken: Option<Box<dart_call>>) {
    free(taken);
}

/// Copies what fits, and says how much there is.
fn copied(from: &[u8], to: &mut [u8]) -> c_int {
    let fits = from.len().min(to.len());
    to[..fits].copy_from_slice(&from[..fits]);
    count(from.len())
}
