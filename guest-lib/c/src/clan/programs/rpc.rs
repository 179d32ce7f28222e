//! Remote procedure calls.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::programs::rpc::{Call, Client, Server};

use super::end::{clan_end, register};
use crate::call::{Failure, call, count, free, given, store};
use crate::clan::events::clan_events;
use crate::memory::{bytes, bytes_mut};

/// The calling side: sends a request, then receives its reply (section 4.1). One thread at a time
/// may use it.
pub struct clan_client(Client);

/// The called side. One thread at a time may use it.
pub struct clan_server(Server);

/// Creates a client on this end. The other end needs a server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_create(
    end: Option<&clan_end>,
    client: Option<&mut MaybeUninit<Box<clan_client>>>,
) -> c_int {
    call(|| {
        let to = given(client, "client")?;
        store(to, Box::new(clan_client(Client::new(given(end, "end")?.shared())?)))
    })
}

/// Releases a client. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_destroy(client: Option<Box<clan_client>>) {
    free(client);
}

/// Returns the maximum length of a request in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_capacity(client: Option<&clan_client>) -> c_int {
    call(|| Ok(count(given(client, "client")?.0.capacity())))
}

/// Registers a client with an event queue: arriving replies become events with this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_register(
    client: Option<&mut clan_client>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(client, "client").map(|client| client.0.tripwire()), token)
}

/// Sends a request, waits for the reply, copies it, and returns its length. Fails with -EINVAL if
/// the reply does not fit; the reply is then lost. After -ETIMEDOUT the reply may still arrive, and
/// the next call waits for it first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_call(
    client: Option<&mut clan_client>,
    request: *const c_void,
    length: usize,
    reply: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        let client = &mut given(client, "client")?.0;
        let (request, reply) = (bytes(request, length, "request")?, bytes_mut(reply, size, "reply")?);
        Ok(count(client.call(request, reply)?))
    })
}

/// Sends a request without waiting. Fails with -EINVAL if an earlier request is not answered yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_begin(
    client: Option<&mut clan_client>,
    request: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let client = &mut given(client, "client")?.0;
        Ok(client.begin(bytes(request, length, "request")?).map(|()| 0)?)
    })
}

/// Takes the reply. Copies as many of its bytes as fit, and returns its full length. Fails with
/// -EAGAIN if it has not arrived. Makes no system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_try_reply(
    client: Option<&mut clan_client>,
    reply: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        let client = &mut given(client, "client")?.0;
        let length = client.try_reply(bytes_mut(reply, size, "reply")?)?;
        length.map(count).ok_or_else(|| Failure::nothing_yet("reply"))
    })
}

/// Creates a server on this end. The other end needs a client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_create(
    end: Option<&clan_end>,
    server: Option<&mut MaybeUninit<Box<clan_server>>>,
) -> c_int {
    call(|| {
        let to = given(server, "server")?;
        store(to, Box::new(clan_server(Server::new(given(end, "end")?.shared())?)))
    })
}

/// Releases a server. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_destroy(server: Option<Box<clan_server>>) {
    free(server);
}

/// Registers a server with an event queue: arriving calls become events with this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_register(
    server: Option<&mut clan_server>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(server, "server").map(|server| server.0.tripwire()), token)
}

/// Waits for the next call. Copies as many bytes of the request as fit, and returns its full
/// length. Answer it with clan_server_reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_wait(
    server: Option<&mut clan_server>,
    request: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        let (server, to) = (&mut given(server, "server")?.0, bytes_mut(request, size, "request")?);
        copied(&server.wait()?, to)
    })
}

/// Like clan_server_wait, but does not wait and makes no system call: fails with -EAGAIN if no call
/// has arrived.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_try_wait(
    server: Option<&mut clan_server>,
    request: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        let (server, to) = (&mut given(server, "server")?.0, bytes_mut(request, size, "request")?);
        copied(&server.try_wait()?.ok_or_else(|| Failure::nothing_yet("call"))?, to)
    })
}

/// Answers the call that was taken last. Fails with -EINVAL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_reply(
    server: Option<&mut clan_server>,
    reply: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let server = &mut given(server, "server")?.0;
        Ok(server.reply(bytes(reply, length, "reply")?).map(|()| 0)?)
    })
}

fn copied(call: &Call<'_>, to: &mut [u8]) -> Result<c_int, Failure> {
    let fits = call.len().min(to.len());
    call.read(0, &mut to[..fits])?;
    Ok(count(call.len()))
}
