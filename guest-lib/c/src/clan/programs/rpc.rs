//! Remote procedure calls.

use std::ffi::c_void;

use hamlyn::clan::programs::rpc::{Call, Client, Server};

use super::end::clan_end;
use crate::call::Failure;
use crate::clan::events::clan_events;
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut};

/// The calling side: sends a request, then receives its reply (section 4.1). One thread at a time
/// may use it.
pub struct clan_client(Client);

/// The called side. One thread at a time may use it.
pub struct clan_server(Server);

exported! {
/// Creates a client on this end. The other end needs a server.
fn clan_client_create(end: &clan_end, client: Out<Box<clan_client>>) {
    client.store(clan_client(Client::new(end.shared())?))
}

/// Releases a client. NULL is a no-op.
fn clan_client_destroy(client: Box<clan_client>);

/// Returns the maximum length of a request in bytes.
fn clan_client_capacity(client: &clan_client) {
    client.0.capacity()
}

/// Registers a client with an event queue: arriving replies become events with this token.
fn clan_client_register(client: &mut clan_client, events: &mut clan_events, token: u64) {
    events.0.register_tripwire(client.0.tripwire(), token)?
}

/// Sends a request, waits for the reply, copies it, and returns its length. Fails with -EINVAL if
/// the reply does not fit; the reply is then lost. After -ETIMEDOUT the reply may still arrive, and
/// the next call waits for it first.
fn clan_client_call(
    client: &mut clan_client,
    request: *const c_void,
    length: usize,
    reply: *mut c_void,
    size: usize,
) {
    let (request, reply) = (bytes(request, length, "request")?, bytes_mut(reply, size, "reply")?);
    client.0.call(request, reply)?
}

/// Sends a request without waiting. Fails with -EINVAL if an earlier request is not answered yet.
fn clan_client_begin(client: &mut clan_client, request: *const c_void, length: usize) {
    client.0.begin(bytes(request, length, "request")?)?
}

/// Takes the reply. Copies as many of its bytes as fit, and returns its full length. Fails with
/// -EAGAIN if it has not arrived. Makes no system call.
fn clan_client_try_reply(client: &mut clan_client, reply: *mut c_void, size: usize) {
    let length = client.0.try_reply(bytes_mut(reply, size, "reply")?)?;
    length.ok_or_else(|| Failure::nothing_yet("reply"))?
}

/// Creates a server on this end. The other end needs a client.
fn clan_server_create(end: &clan_end, server: Out<Box<clan_server>>) {
    server.store(clan_server(Server::new(end.shared())?))
}

/// Releases a server. NULL is a no-op.
fn clan_server_destroy(server: Box<clan_server>);

/// Registers a server with an event queue: arriving calls become events with this token.
fn clan_server_register(server: &mut clan_server, events: &mut clan_events, token: u64) {
    events.0.register_tripwire(server.0.tripwire(), token)?
}

/// Waits for the next call. Copies as many bytes of the request as fit, and returns its full
/// length. Answer it with clan_server_reply.
fn clan_server_wait(server: &mut clan_server, request: *mut c_void, size: usize) {
    let to = bytes_mut(request, size, "request")?;
    copied(&server.0.recv()?, to)?
}

/// Like clan_server_wait, but does not wait and makes no system call: fails with -EAGAIN if no call
/// has arrived.
fn clan_server_try_wait(server: &mut clan_server, request: *mut c_void, size: usize) {
    let to = bytes_mut(request, size, "request")?;
    copied(&server.0.try_recv()?.ok_or_else(|| Failure::nothing_yet("call"))?, to)?
}

/// Answers the call that was taken last. Fails with -EINVAL if there is none.
fn clan_server_reply(server: &mut clan_server, reply: *const c_void, length: usize) {
    server.0.reply(bytes(reply, length, "reply")?)?
}
}

fn copied(call: &Call<'_>, to: &mut [u8]) -> Result<usize, Failure> {
    let fits = call.len().min(to.len());
    call.read(0, &mut to[..fits])?;
    Ok(call.len())
}
