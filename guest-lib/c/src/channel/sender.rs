//! The sending end of a channel.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use hamlyn::channel::Sender;

use crate::call::{at_once, call, count, free, given, store, timeout};
use crate::express::waits;
use crate::memory::bytes;

/// The sending end of a channel. One thread at a time may use it.
pub struct uln_sender(pub(crate) Sender);

/// Drops a sender without closing the channel: the peer receives everything sent, and then
/// -ECONNRESET. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_sender_destroy(sender: Option<Box<uln_sender>>) {
    free(sender);
}

/// Returns 1 if the channel uses express memory, 0 if it uses a card.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_is_express(sender: Option<&uln_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.is_express().into()))
}

/// Returns the maximum length of a message in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_longest(sender: Option<&uln_sender>) -> c_int {
    call(|| Ok(count(given(sender, "sender")?.0.longest())))
}

/// Sends a message. Waits while the ring has no room for it. If the peer is lost, fails with
/// -ECONNRESET (its process), -EHOSTDOWN (its host) or -ENETDOWN (the network path).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_send(
    sender: Option<&mut uln_sender>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let sender = &mut given(sender, "sender")?.0;
        let data = bytes(data, length, "data")?;
        match waits(timeout_ms) {
            None => sender.try_send(data)?,
            Some(None) => sender.send(data)?,
            Some(Some(limit)) => sender.send_timeout(data, limit)?,
        }
        Ok(0)
    })
}

/// Reserves room for a message of `length` bytes, and stores its address. Build the message there,
/// then send it with uln_commit or uln_put. Any other message that is sent first takes its place.
/// The room is valid until the next call with this sender, also if that fails. With express memory
/// the peer may read and change it at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_reserve(
    sender: Option<&mut uln_sender>,
    length: usize,
    data: Option<&mut MaybeUninit<*mut c_void>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(data, "data")?;
        let room = given(sender, "sender")?.0.begin(length, waits(timeout_ms))?;
        store(to, room.as_ptr().cast_mut().cast())
    })
}

/// Sends the message in the room from uln_reserve, and all messages that were put. Fails with
/// -EINVAL if no room is reserved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_commit(sender: Option<&mut uln_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.finish(false).map(|()| 0)?))
}

/// Queues the message in the room from uln_reserve. The next uln_commit or uln_flush sends it, so
/// several messages share one doorbell.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_put(sender: Option<&mut uln_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.finish(true).map(|()| 0)?))
}

/// Sends all messages that were put. May wait for room in the card without a limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_flush(sender: Option<&mut uln_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.flush().map(|()| 0)?))
}

/// Stores the number of bytes sent and not known to be received, plus 8 for each message. If it
/// stays near the ring's capacity, the peer is slow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_bytes_behind(
    sender: Option<&mut uln_sender>,
    behind: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let to = given(behind, "behind")?;
        store(to, given(sender, "sender")?.0.bytes_behind()?)
    })
}

/// Closes the channel in this direction: the peer receives everything sent, and then the end. Waits
/// until delivery is certain. The sender is destroyed even if this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_close(sender: Option<Box<uln_sender>>, timeout_ms: c_int) -> c_int {
    call(|| {
        let sender = given(sender, "sender")?.0;
        let closed = match timeout(timeout_ms) {
            None => sender.close(),
            Some(limit) => sender.close_timeout(limit),
        };
        at_once(timeout_ms, closed.map(|()| 0))
    })
}

/// Returns the sender's file, for poll(2), epoll(7) and the like. It is readable once there is room
/// for the message of uln_sender_arm. It may be readable without a reason. It belongs to the
/// sender, which closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_sender_fd(sender: Option<&mut uln_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.file()?.as_raw_fd()))
}

/// Arms the sender's file for when there is room for a message of this many bytes, or the channel
/// has ended. Call it before each poll. Returns 1 if that is already the case: do not poll then.
/// Returns 0 otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_sender_arm(sender: Option<&mut uln_sender>, length: usize) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.arm(length)?.into()))
}
