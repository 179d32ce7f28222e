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

/// A name under which others open streams to this process. Any number of threads may use it at
/// once.
pub struct hamlyn_stream_listener(StreamListener);

/// Somebody who wants to open streams. One thread at a time may use it.
pub struct hamlyn_stream_request(StreamRequest);

/// Takes a name, of 1 to 64 bytes, under which processes of any host open streams to this one.
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

/// Takes a name as hamlyn_stream_listen does; the streams to this side are to be as the options
/// say, which may be NULL.
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

/// Gives the name back. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_listener_destroy(listener: Option<Box<hamlyn_stream_listener>>) {
    free(listener);
}

/// A file descriptor, which stays the library's: readable while somebody wants to connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_listener_fd(listener: Option<&hamlyn_stream_listener>) -> c_int {
    call(|| Ok(given(listener, "listener")?.0.as_fd().as_raw_fd()))
}

/// Gives streams to and from the next who connects. If the other side dies their calls fail, behind
/// all that had come: with -ECONNRESET (its process), -EHOSTDOWN (its host) or -ENETDOWN (the way
/// there).
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

/// Gives the next who wants to open streams, and leaves it to the caller whether to accept:
/// hamlyn_stream_request_accept or hamlyn_stream_request_reject. It may outlive its listener.
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

/// The host id of who wants to open streams.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_request_host(request: Option<&hamlyn_stream_request>) -> c_int {
    call(|| Ok(given(request, "request")?.0.host() as c_int))
}

/// Accepts, and gives the streams, as hamlyn_stream_accept does. If they cannot be made, the asker
/// is told why. The request is gone, even if this fails.
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

/// Rejects, for a reason that the asker's error shows: as much of it as 256 bytes hold. The request
/// is gone, even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_request_reject(
    request: Option<Box<hamlyn_stream_request>>,
    reason: *const c_char,
) -> c_int {
    call(|| Ok(given(request, "request")?.0.reject(text(reason, "reason")?).map(|()| 0)?))
}

/// Lets a request go: it is rejected. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_request_destroy(request: Option<Box<hamlyn_stream_request>>) {
    free(request);
}

/// Connects to a name on a host, and gives streams there and back, as hamlyn_stream_accept does:
/// -ECONNREFUSED if nobody listens there, -EHOSTUNREACH if there is no such host.
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

/// Connects as hamlyn_stream_connect does; the stream to this side is to be as the options say,
/// which may be NULL.
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

/// A file descriptor, which stays the library's, of a receiver that hamlyn_stream_accept or
/// hamlyn_stream_connect gave: readable once the other side has ended. Then call
/// hamlyn_stream_peer_ended. -ENOTCONN for another receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_peer_fd(receiver: Option<&hamlyn_stream_receiver>) -> c_int {
    call(|| {
        let file = given(receiver, "receiver")?.0.peer_file().ok_or(Error::NotConnected)?;
        Ok(file.as_raw_fd())
    })
}

/// Returns after how many milliseconds at the latest hamlyn_stream_receive says that the other side
/// has ended, for what it has sent may come until then; -EAGAIN if it has not. hamlyn_stream_send
/// says so at once.
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
