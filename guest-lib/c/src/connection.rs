//! Connections.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::{Connecting, Connection, End, EndReason, Listener, Request};
use libc::ENODATA;

use crate::call::{Failure, at_once, call, free, given, store, timeout};
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

/// Releases the name, and rejects pending requests. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_name_listener_destroy(listener: Option<Box<uln_name_listener>>) {
    free(listener);
}

/// Returns a file descriptor, owned by the library: readable while a request is pending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_name_listener_fd(listener: Option<&uln_name_listener>) -> c_int {
    call(|| Ok(given(listener, "listener")?.0.as_fd().as_raw_fd()))
}

/// Stores the next request to connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_name_listener_request(
    listener: Option<&uln_name_listener>,
    request: Option<&mut MaybeUninit<Box<uln_request>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(request, "request")?;
        let request = at_once(timeout_ms, given(listener, "listener")?.0.request(timeout(timeout_ms)))?;
        store(to, Box::new(uln_request(request)))
    })
}

/// Returns the requester's host id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_request_host(request: Option<&uln_request>) -> c_int {
    call(|| Ok(given(request, "request")?.0.host() as c_int))
}

/// Stores the user id of the requesting process, like uln_connection_user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_request_user(
    request: Option<&uln_request>,
    user: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    call(|| {
        let to = given(user, "user")?;
        store(to, told(given(request, "request")?.0.user())?)
    })
}

/// Stores the data that the requester has passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_request_passed(
    request: Option<&uln_request>,
    passed: Option<&mut MaybeUninit<uln_passed>>,
) -> c_int {
    call(|| {
        let to = given(passed, "passed")?;
        store(to, uln_passed::new(given(request, "request")?.0.private()))
    })
}

/// Accepts a request, and passes up to ULN_MAX_PRIVATE bytes. The request is destroyed, even if
/// this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_request_accept(
    request: Option<Box<uln_request>>,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
) -> c_int {
    call(|| {
        let request = given(request, "request")?;
        let to = given(connection, "connection")?;
        let connection = request.0.accept(bytes(data, length, "data")?)?;
        store(to, Box::new(uln_connection(connection)))
    })
}

/// Rejects a request, and passes up to ULN_MAX_PRIVATE bytes. The request is destroyed, even if
/// this fails. NULL is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_request_reject(
    request: Option<Box<uln_request>>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| Ok(given(request, "request")?.0.reject(bytes(data, length, "data")?).map(|()| 0)?))
}

/// Returns a file descriptor, owned by the library. It is writable once the connection is accepted,
/// and readable once it can no longer be accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connecting_fd(connecting: Option<&uln_connecting>) -> c_int {
    call(|| Ok(given(connecting, "connecting")?.0.as_fd().as_raw_fd()))
}

/// Waits for the answer, and fails like hamlyn_connect. `connecting` is destroyed, even if this
/// fails: if there is no answer in time, the request is cancelled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connecting_finish(
    connecting: Option<Box<uln_connecting>>,
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let connecting = given(connecting, "connecting")?;
        let to = given(connection, "connection")?;
        let connection = at_once(timeout_ms, connecting.0.finish(timeout(timeout_ms)))?;
        store(to, Box::new(uln_connection(connection)))
    })
}

/// Cancels a requested connection, and notifies the peer. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connecting_destroy(connecting: Option<Box<uln_connecting>>) {
    free(connecting);
}

/// Returns the peer's host id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connection_host(connection: Option<&uln_connection>) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.host() as c_int))
}

/// Stores the peer's user id, as reported by the operating system of its host. Fails with -ENODATA
/// if that host does not report it: the peer is a program at a card's socket, or its host's driver
/// is too old.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connection_user(
    connection: Option<&uln_connection>,
    user: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    call(|| {
        let to = given(user, "user")?;
        store(to, told(given(connection, "connection")?.0.user())?)
    })
}

/// Stores the data that the peer passed when the connection began.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connection_passed(
    connection: Option<&uln_connection>,
    passed: Option<&mut MaybeUninit<uln_passed>>,
) -> c_int {
    call(|| {
        let to = given(passed, "passed")?;
        store(to, uln_passed::new(given(connection, "connection")?.0.private()))
    })
}

/// Returns a file descriptor, owned by the library: readable once the connection has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connection_fd(connection: Option<&uln_connection>) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.as_fd().as_raw_fd()))
}

/// Waits until the connection has ended, and stores how.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connection_end(
    connection: Option<&uln_connection>,
    end: Option<&mut MaybeUninit<uln_end>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(end, "end")?;
        let connection = &given(connection, "connection")?.0;
        store(to, uln_end::new(&at_once(timeout_ms, connection.wait_end(timeout(timeout_ms)))?))
    })
}

/// Closes a connection, and passes up to ULN_MAX_PRIVATE bytes. Sent data may still be in
/// flight: hamlyn_manager_flush and hamlyn_stream_close wait for it. The connection is destroyed,
/// even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connection_close(
    connection: Option<Box<uln_connection>>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.close(bytes(data, length, "data")?).map(|()| 0)?))
}

/// Releases a connection without closing it: the peer is notified that this process has died. NULL
/// is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connection_destroy(connection: Option<Box<uln_connection>>) {
    free(connection);
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
