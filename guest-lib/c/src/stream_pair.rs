//! Streams by name.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::protocol::stream::{StreamListener, StreamOptions, StreamPair, StreamRequest};
use hamlyn::{Error, Manager};
use libc::EAGAIN;

use crate::call::{Failure, at_once, timeout, waited};
use crate::exported::{Out, exported};
use crate::manager::hamlyn_manager;
use crate::stream::{hamlyn_stream_options, hamlyn_stream_receiver, hamlyn_stream_sender, read_options};

/// A name under which other processes open streams to this one. Any number of threads may use it at
/// once.
pub struct hamlyn_stream_listener(StreamListener);

/// A request to open streams. One thread at a time may use it.
pub struct hamlyn_stream_request(StreamRequest);

exported! {
/// Registers a name, of 1 to 64 bytes, under which processes of any host open streams to this one.
fn hamlyn_stream_listen(manager: &hamlyn_manager, name: &str, listener: Out<Box<hamlyn_stream_listener>>) {
    listener.store(hamlyn_stream_listener(StreamListener::bind(&manager.manager, name)?))
}

/// Registers a name like hamlyn_stream_listen. The options, which may be NULL, apply to the streams
/// that this side receives.
fn hamlyn_stream_listen_with(
    manager: &hamlyn_manager,
    name: &str,
    options: Option<&hamlyn_stream_options>,
    listener: Out<Box<hamlyn_stream_listener>>,
) {
    let manager = &manager.manager;
    listener.store(hamlyn_stream_listener(StreamListener::bind_with(manager, name, read_options(options)?)?))
}

/// Releases the name. NULL is a no-op.
fn hamlyn_stream_listener_destroy(listener: Box<hamlyn_stream_listener>);

/// Returns a file descriptor, owned by the library: readable while a request is pending.
fn hamlyn_stream_listener_fd(listener: &hamlyn_stream_listener) {
    listener.0.as_fd().as_raw_fd()
}

/// Accepts the next request, and stores the streams to and from the peer. If the peer dies, calls
/// on them fail after all arrived data has been received: with -ECONNRESET (its process),
/// -EHOSTDOWN (its host), -ENETRESET (its host or card was restarted), -ENETDOWN (this host's link)
/// or -ECONNABORTED (this host's card was reset).
fn hamlyn_stream_accept(
    listener: &hamlyn_stream_listener,
    sender: Out<Box<hamlyn_stream_sender>>,
    receiver: Out<Box<hamlyn_stream_receiver>>,
    timeout_ms: c_int,
) {
    let pair = waited!(timeout_ms, listener.0 => accept / accept_timeout())?;
    store_pair((sender, receiver), pair)
}

/// Stores the next request to open streams. The caller decides on it, with
/// hamlyn_stream_request_accept or hamlyn_stream_request_reject. The request may outlive its
/// listener.
fn hamlyn_stream_listener_request(
    listener: &hamlyn_stream_listener,
    request: Out<Box<hamlyn_stream_request>>,
    timeout_ms: c_int,
) {
    request.store(hamlyn_stream_request(waited!(timeout_ms, listener.0 => request / request_timeout())?))
}

/// Returns the requester's host id.
fn hamlyn_stream_request_host(request: &hamlyn_stream_request) {
    request.0.host() as c_int
}

/// Accepts a request, and stores the streams like hamlyn_stream_accept. If they cannot be created,
/// the requester receives the reason. The request is destroyed, even if this fails.
fn hamlyn_stream_request_accept(
    request: Box<hamlyn_stream_request>,
    sender: Out<Box<hamlyn_stream_sender>>,
    receiver: Out<Box<hamlyn_stream_receiver>>,
) {
    store_pair((sender, receiver), request.0.accept()?)
}

/// Rejects a request. The requester's error shows the reason, truncated to 256 bytes. The request
/// is destroyed, even if this fails.
fn hamlyn_stream_request_reject(request: Box<hamlyn_stream_request>, reason: &str) {
    request.0.reject(reason)?
}

/// Destroys a request, which rejects it. NULL is a no-op.
fn hamlyn_stream_request_destroy(request: Box<hamlyn_stream_request>);

/// Connects to a name on a host, and stores the streams to and from it, like hamlyn_stream_accept.
/// Fails with -ECONNREFUSED if the name has no listener there, and with -EHOSTUNREACH if there is
/// no such host.
fn hamlyn_stream_connect(
    manager: &hamlyn_manager,
    host: u32,
    name: &str,
    sender: Out<Box<hamlyn_stream_sender>>,
    receiver: Out<Box<hamlyn_stream_receiver>>,
    timeout_ms: c_int,
) {
    let manager = &manager.manager;
    let options = StreamOptions::default();
    store_pair((sender, receiver), connect(manager, host, name, options, timeout_ms)?)
}

/// Connects like hamlyn_stream_connect. The options, which may be NULL, apply to the stream that
/// this side receives.
fn hamlyn_stream_connect_with(
    manager: &hamlyn_manager,
    host: u32,
    name: &str,
    options: Option<&hamlyn_stream_options>,
    sender: Out<Box<hamlyn_stream_sender>>,
    receiver: Out<Box<hamlyn_stream_receiver>>,
    timeout_ms: c_int,
) {
    let manager = &manager.manager;
    let options = read_options(options)?;
    store_pair((sender, receiver), connect(manager, host, name, options, timeout_ms)?)
}

/// Returns a file descriptor, owned by the library, for a receiver from hamlyn_stream_accept or
/// hamlyn_stream_connect. It is readable once the peer has ended; then call
/// hamlyn_stream_peer_ended. Fails with -ENOTCONN for any other receiver.
fn hamlyn_stream_peer_fd(receiver: &hamlyn_stream_receiver) {
    let file = receiver.0.peer_file().ok_or(Error::NotConnected)?;
    file.as_raw_fd()
}

/// Returns the number of milliseconds after which, at the latest, hamlyn_stream_receive reports
/// that the peer has ended. Data that the peer has sent may arrive until then. Fails with -EAGAIN
/// if the peer has not ended. hamlyn_stream_send reports the end immediately.
fn hamlyn_stream_peer_ended(receiver: &hamlyn_stream_receiver) {
    let left = receiver.0.peer_ended();
    let left = left.ok_or_else(|| Failure::new(EAGAIN, "the other side has not ended"))?;
    left.as_millis() as usize + 1
}
}

type Places<'a> = (Out<'a, Box<hamlyn_stream_sender>>, Out<'a, Box<hamlyn_stream_receiver>>);

fn store_pair((sender, receiver): Places<'_>, pair: StreamPair) {
    sender.store(hamlyn_stream_sender(pair.sender));
    receiver.store(hamlyn_stream_receiver(pair.receiver));
}

fn connect(
    manager: &Manager,
    host: u32,
    name: &str,
    options: StreamOptions,
    timeout_ms: c_int,
) -> Result<StreamPair, Failure> {
    let pair = match timeout(timeout_ms) {
        None => StreamPair::connect_with(manager, host, name, options),
        Some(limit) => StreamPair::connect_with_timeout(manager, host, name, options, limit),
    };
    at_once(timeout_ms, pair)
}
