//! Connections.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::{Connecting, Connection, End, EndReason, Listener, Request};
use libc::ENODATA;

use crate::call::{Failure, waited};
use crate::exported::{Out, exported};
use crate::memory::bytes;

/// Maximum number of bytes that one side of a connection can pass to the other at a time.
pub const ULN_MAX_PRIVATE: usize = 256;

/// The peer closed the connection.
pub const ULN_END_CLOSED: u32 = 1;
/// The peer's process died, or released the connection without closing it.
pub const ULN_END_DIED: u32 = 2;
/// The peer's host does not respond: it crashed, was paused, or is unreachable.
pub const ULN_END_HOST_LOST: u32 = 3;
/// The peer's host or its card has restarted.
pub const ULN_END_HOST_RESET: u32 = 4;
/// This host's link went down.
pub const ULN_END_LINK_LOST: u32 = 5;
/// This host stalled, and its card discarded what arrived meanwhile.
pub const ULN_END_LAPSED: u32 = 6;
/// This host's card was reset or removed, or has failed.
pub const ULN_END_CARD_RESET: u32 = 7;

/// A name that other processes can connect to. Any number of threads may use it at once.
pub struct uln_name_listener(pub(crate) Listener);

/// A request to connect. One thread at a time may use it.
pub struct uln_request(pub(crate) Request);

/// A connection, which the operating systems set up and monitor. It carries no data except what
/// both sides pass when it begins and ends, for example tickets and seeds. It reports the end of
/// the peer. Any number of threads may use it at once.
pub struct uln_connection(pub(crate) Connection);

/// A connection that was requested. One thread at a time may use it.
pub struct uln_connecting(pub(crate) Connecting);

/// Data that the peer has passed. Valid until the request or connection is destroyed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct uln_passed {
    /// The bytes.
    pub data: *const c_void,
    /// Number of bytes, at most ULN_MAX_PRIVATE.
    pub length: usize,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 4],
}

/// How a connection ended.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct uln_end {
    /// One of the ULN_END_ constants.
    pub reason: u32,
    /// Number of bytes that the peer passed when it closed the connection.
    pub length: u32,
    /// Those bytes, followed by zeros.
    pub data: [u8; ULN_MAX_PRIVATE],
    /// Reserved for future use: zeros.
    pub reserved: [u32; 6],
}

exported! {
/// Releases the name, and rejects pending requests. NULL is a no-op.
fn uln_name_listener_destroy(listener: Box<uln_name_listener>);

/// Returns a file descriptor, owned by the library: readable while a request is pending.
fn uln_name_listener_fd(listener: &uln_name_listener) {
    listener.0.as_fd().as_raw_fd()
}

/// Stores the next request to connect.
fn uln_name_listener_request(
    listener: &uln_name_listener,
    request: Out<Box<uln_request>>,
    timeout_ms: c_int,
) {
    request.store(uln_request(waited!(timeout_ms, listener.0 => request / request_timeout())?))
}

/// Returns the requester's host id.
fn uln_request_host(request: &uln_request) {
    request.0.host() as c_int
}

/// Stores the user id of the requesting process, like uln_connection_user.
fn uln_request_user(request: &uln_request, user: Out<u32>) {
    user.store(told(request.0.user())?)
}

/// Stores the data that the requester has passed.
fn uln_request_passed(request: &uln_request, passed: Out<uln_passed>) {
    passed.store(uln_passed::new(request.0.private()))
}

/// Accepts a request, and passes up to ULN_MAX_PRIVATE bytes. The request is destroyed, even if
/// this fails.
fn uln_request_accept(
    request: Box<uln_request>,
    data: *const c_void,
    length: usize,
    connection: Out<Box<uln_connection>>,
) {
    connection.store(uln_connection(request.0.accept(bytes(data, length, "data")?)?))
}

/// Rejects a request, and passes up to ULN_MAX_PRIVATE bytes. The request is destroyed, even if
/// this fails. NULL is an error.
fn uln_request_reject(request: Box<uln_request>, data: *const c_void, length: usize) {
    request.0.reject(bytes(data, length, "data")?)?
}

/// Returns a file descriptor, owned by the library. It is writable once the connection is accepted,
/// and readable once it can no longer be accepted.
fn uln_connecting_fd(connecting: &uln_connecting) {
    connecting.0.as_fd().as_raw_fd()
}

/// Waits for the answer, and fails like hamlyn_connect. `connecting` is destroyed, even if this
/// fails: if there is no answer in time, the request is cancelled.
fn uln_connecting_finish(
    connecting: Box<uln_connecting>,
    connection: Out<Box<uln_connection>>,
    timeout_ms: c_int,
) {
    connection.store(uln_connection(waited!(timeout_ms, connecting.0 => finish / finish_timeout())?))
}

/// Cancels a requested connection, and notifies the peer. NULL is a no-op.
fn uln_connecting_destroy(connecting: Box<uln_connecting>);

/// Returns the peer's host id.
fn uln_connection_host(connection: &uln_connection) {
    connection.0.host() as c_int
}

/// Stores the peer's user id, as reported by the operating system of its host. Fails with -ENODATA
/// if that host does not report it: the peer is a program at a card's socket, or its host's driver
/// is too old.
fn uln_connection_user(connection: &uln_connection, user: Out<u32>) {
    user.store(told(connection.0.user())?)
}

/// Stores the data that the peer passed when the connection began.
fn uln_connection_passed(connection: &uln_connection, passed: Out<uln_passed>) {
    passed.store(uln_passed::new(connection.0.private()))
}

/// Returns a file descriptor, owned by the library: readable once the connection has ended.
fn uln_connection_fd(connection: &uln_connection) {
    connection.0.as_fd().as_raw_fd()
}

/// Waits until the connection has ended, and stores how.
fn uln_connection_end(connection: &uln_connection, end: Out<uln_end>, timeout_ms: c_int) {
    end.store(uln_end::new(&waited!(timeout_ms, connection.0 => wait_end / wait_end_timeout())?))
}

/// Closes a connection, and passes up to ULN_MAX_PRIVATE bytes. Sent data may still be in
/// flight: hamlyn_manager_flush and hamlyn_stream_close wait for it. The connection is destroyed,
/// even if this fails.
fn uln_connection_close(connection: Box<uln_connection>, data: *const c_void, length: usize) {
    connection.0.close(bytes(data, length, "data")?)?
}

/// Releases a connection without closing it: the peer is notified that this process has died. NULL
/// is a no-op.
fn uln_connection_destroy(connection: Box<uln_connection>);
}

impl uln_passed {
    fn new(data: &[u8]) -> Self {
        Self { data: data.as_ptr().cast(), length: data.len(), reserved: [0; 4] }
    }
}

impl uln_end {
    fn new(end: &End) -> Self {
        let mut data = [0; ULN_MAX_PRIVATE];
        data[..end.private.len()].copy_from_slice(&end.private);
        Self { reason: reason(end.reason), length: end.private.len() as u32, data, reserved: [0; 6] }
    }
}

/// Returns the user, or fails if the peer's host has not reported it.
fn told(user: Option<u32>) -> Result<u32, Failure> {
    user.ok_or_else(|| Failure::new(ENODATA, "the peer's host does not say which user the peer has"))
}

fn reason(reason: EndReason) -> u32 {
    match reason {
        EndReason::Closed => ULN_END_CLOSED,
        EndReason::Died => ULN_END_DIED,
        EndReason::HostReset => ULN_END_HOST_RESET,
        EndReason::LinkLost => ULN_END_LINK_LOST,
        EndReason::Lapsed => ULN_END_LAPSED,
        EndReason::CardReset => ULN_END_CARD_RESET,
        _ => ULN_END_HOST_LOST,
    }
}

#[cfg(test)]
mod tests {
    use hamlyn::MAX_PRIVATE;

    use super::*;
    use crate::call::call;

    #[test]
    fn user_zero_is_a_user() {
        assert_eq!(told(Some(0)).ok(), Some(0));
        assert_eq!(call(|| told(None).map(|_| 0)), -ENODATA);
    }

    #[test]
    fn private_data_size_matches_the_library() {
        assert_eq!(ULN_MAX_PRIVATE, MAX_PRIVATE);
        let end = uln_end::new(&End { reason: EndReason::Lapsed, private: vec![9; MAX_PRIVATE] });
        assert_eq!((end.reason, end.length, end.data), (ULN_END_LAPSED, 256, [9; MAX_PRIVATE]));
    }
}
