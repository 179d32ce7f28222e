//! Remote procedure calls.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::programs::rpc::{Call, Client, Server};

use super::end::{clan_end, register};
use crate::call::{Failure, call, count, free, given, store};
use crate::clan::events::clan_events;
use crate::memory::{bytes, bytes_mut};

/// Who calls: a request, then its reply (section 4.1). One thread at a time may use it.
pub struct clan_client(Client);

/// Who is called. One thread at a time may use it.
pub struct clan_server(Server);

/// Makes a client on this end; the other end has a server.
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

/// Lets a client go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_destroy(client: Option<Box<clan_client>>) {
    free(client);
}

/// How many bytes a request may have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_capacity(client: Option<&clan_client>) -> c_int {
    call(|| Ok(count(given(client, "client")?.0.capacity())))
}

/// Has replies be events of the queue, with this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_client_register(
    client: Option<&mut clan_client>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(client, "client").map(|client| client.0.tripwire()), token)
}

/// Calls: sends a request, waits for the reply, copies it, and returns how many bytes it has.
/// -EINVAL for a reply that does not fit, which is lost. With -ETIMEDOUT the reply may still come,
/// and the next call waits for it first.
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

/// Sends a request, and does not wait. -EINVAL if there is one that is not answered.
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

/// Takes the reply, as many bytes of it as fit, and returns how many it has. -EAGAIN if it is not
/// there. No system call.
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

/// Makes a server on this end; the other end has a client.
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

/// Lets a server go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_destroy(server: Option<Box<clan_server>>) {
    free(server);
}

/// Has calls be events of the queue, with this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_server_register(
    server: Option<&mut clan_server>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(server, "server").map(|server| server.0.tripwire()), token)
}

/// Waits for the next call, copies as many bytes of the request as fit, and returns how many it
/// has. clan_server_reply answers it.
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

/// The same without waiting, and without a system call: -EAGAIN if there is none.
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

/// Answers the call that was taken last. -EINVAL if there is none.
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
