//! Streams by name.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::Error;
use hamlyn::protocol::stream::{StreamListener, StreamPair, StreamRequest};
use libc::EAGAIN;

use crate::call::{Failure, at_once, call, count, free, given, store, timeout};
use crate::manager::hamlyn_manager;
use crate::memory::text;
use crate::stream::{hamlyn_stream_options, hamlyn_stream_receiver, hamlyn_stream_sender, read_options};

/// A name under which other processes open streams to this one. Any number of threads may use it at
/// once.
pub struct hamlyn_stream_listener(StreamListener);

/// A request to open streams. One thread at a time may use it.
pub struct hamlyn_stream_request(StreamRequest);

/// Registers a name, of 1 to 64 bytes, under which processes of any host open streams to this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_listen(
    manager: Option<&hamlyn_manager>,
    name: *const c_char,
    listener: Option<&mut MaybeUninit<Box<hamlyn_stream_listener>>>,
) -> c_int {
    call(|| {
        let to = given(listener, "listener")?;
        let listener = StreamListener::bind(&given(manager, "manager")?.manager, text(name, "name")?)?;
        store(to, Box::new(hamlyn_stream_listener(listener)))
    })
}

/// Registers a name like hamlyn_stream_listen. The options, which may be NULL, apply to the streams
/// that this side receives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_listen_with(
    manager: Option<&hamlyn_manager>,
    name: *const c_char,
    options: Option<&hamlyn_stream_options>,
    listener: Option<&mut MaybeUninit<Box<hamlyn_stream_listener>>>,
) -> c_int {
    call(|| {
        let to = given(listener, "listener")?;
        let manager = &given(manager, "manager")?.manager;
        let listener = StreamListener::bind_with(manager, text(name, "name")?, read_options(options)?)?;
        store(to, Box::new(hamlyn_stream_listener(listener)))
    })
}

/// Releases the name. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_listener_destroy(listener: Option<Box<hamlyn_stream_listener>>) {
    free(listener);
}

/// Returns a file descriptor, owned by the library: readable while a request is pending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_listener_fd(listener: Option<&hamlyn_stream_listener>) -> c_int {
    call(|| Ok(given(listener, "listener")?.0.as_fd().as_raw_fd()))
}

/// Accepts the next request, and stores the streams to and from the peer. If the peer dies, calls
/// on them fail after all arrived data has been received: with -ECONNRESET (its process),
/// -EHOSTDOWN (its host) or -ENETDOWN (the network path).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_accept(
    listener: Option<&hamlyn_stream_listener>,
    sender: Option<&mut MaybeUninit<Box<hamlyn_stream_sender>>>,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_stream_receiver>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = (given(sender, "sender")?, given(receiver, "receiver")?);
        let pair = given(listener, "listener")?.0.accept(timeout(timeout_ms));
        store_pair(to, at_once(timeout_ms, pair)?)
    })
}

/// Stores the next request to open streams. The caller decides on it, with
/// hamlyn_stream_request_accept or hamlyn_stream_request_reject. The request may outlive its
/// listener.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_listener_request(
    listener: Option<&hamlyn_stream_listener>,
    request: Option<&mut MaybeUninit<Box<hamlyn_stream_request>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(request, "request")?;
        let request = at_once(timeout_ms, given(listener, "listener")?.0.request(timeout(timeout_ms)))?;
        store(to, Box::new(hamlyn_stream_request(request)))
    })
}

/// Returns the requester's host id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_request_host(request: Option<&hamlyn_stream_request>) -> c_int {
    call(|| Ok(given(request, "request")?.0.host() as c_int))
}

/// Accepts a request, and stores the streams like hamlyn_stream_accept. If they cannot be created,
/// the requester receives the reason. The request is destroyed, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_request_accept(
    request: Option<Box<hamlyn_stream_request>>,
    sender: Option<&mut MaybeUninit<Box<hamlyn_stream_sender>>>,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_stream_receiver>>>,
) -> c_int {
    call(|| {
        let request = given(request, "request")?;
        let to = (given(sender, "sender")?, given(receiver, "receiver")?);
        store_pair(to, request.0.accept()?)
    })
}

/// Rejects a request. The requester's error shows the reason, truncated to 256 bytes. The request
/// is destroyed, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_request_reject(
    request: Option<Box<hamlyn_stream_request>>,
    reason: *const c_char,
) -> c_int {
    call(|| Ok(given(request, "request")?.0.reject(text(reason, "reason")?).map(|()| 0)?))
}

/// Destroys a request, which rejects it. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_request_destroy(request: Option<Box<hamlyn_stream_request>>) {
    free(request);
}

/// Connects to a name on a host, and stores the streams to and from it, like hamlyn_stream_accept.
/// Fails with -ECONNREFUSED if the name has no listener there, and with -EHOSTUNREACH if there is
/// no such host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_connect(
    manager: Option<&hamlyn_manager>,
    host: u32,
    name: *const c_char,
    sender: Option<&mut MaybeUninit<Box<hamlyn_stream_sender>>>,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_stream_receiver>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = (given(sender, "sender")?, given(receiver, "receiver")?);
        let manager = &given(manager, "manager")?.manager;
        let pair = StreamPair::connect(manager, host, text(name, "name")?, timeout(timeout_ms));
        store_pair(to, at_once(timeout_ms, pair)?)
    })
}

/// Connects like hamlyn_stream_connect. The options, which may be NULL, apply to the stream that
/// this side receives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_connect_with(
    manager: Option<&hamlyn_manager>,
    host: u32,
    name: *const c_char,
    options: Option<&hamlyn_stream_options>,
    sender: Option<&mut MaybeUninit<Box<hamlyn_stream_sender>>>,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_stream_receiver>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = (given(sender, "sender")?, given(receiver, "receiver")?);
        let manager = &given(manager, "manager")?.manager;
        let options = read_options(options)?;
        let name = text(name, "name")?;
        let pair = StreamPair::connect_with(manager, host, name, options, timeout(timeout_ms));
        store_pair(to, at_once(timeout_ms, pair)?)
    })
}

/// Returns a file descriptor, owned by the library, for a receiver from hamlyn_stream_accept or
/// hamlyn_stream_connect. It is readable once the peer has ended; then call
/// hamlyn_stream_peer_ended. Fails with -ENOTCONN for any other receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_peer_fd(receiver: Option<&hamlyn_stream_receiver>) -> c_int {
    call(|| {
        let file = given(receiver, "receiver")?.0.peer_file().ok_or(Error::NotConnected)?;
        Ok(file.as_raw_fd())
    })
}

/// Returns the number of milliseconds after which, at the latest, hamlyn_stream_receive reports
/// that the peer has ended. Data that the peer has sent may arrive until then. Fails with -EAGAIN
/// if the peer has not ended. hamlyn_stream_send reports the end immediately.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_peer_ended(receiver: Option<&hamlyn_stream_receiver>) -> c_int {
    call(|| {
        let left = given(receiver, "receiver")?.0.peer_ended();
        let left = left.ok_or_else(|| Failure::new(EAGAIN, "the other side has not ended"))?;
        Ok(count(left.as_millis() as usize + 1))
    })
}

type Places<'a> =
    (&'a mut MaybeUninit<Box<hamlyn_stream_sender>>, &'a mut MaybeUninit<Box<hamlyn_stream_receiver>>);

fn store_pair((sender, receiver): Places<'_>, pair: StreamPair) -> Result<c_int, Failure> {
    sender.write(Box::new(hamlyn_stream_sender(pair.sender)));
    receiver.write(Box::new(hamlyn_stream_receiver(pair.receiver)));
    Ok(0)
}
