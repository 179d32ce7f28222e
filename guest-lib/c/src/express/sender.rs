//! The sending end of a channel.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::express::ChannelSender;

use crate::call::{at_once, call, count, free, given, store, timeout};
use crate::memory::bytes;

/// The sending end of a channel. One thread at a time may use it.
pub struct hamlyn_channel_sender(pub(crate) ChannelSender);

/// Returns how long a call waits. With a timeout of 0 it does not wait.
pub(crate) fn waits(timeout_ms: c_int) -> Option<Option<std::time::Duration>> {
    (timeout_ms != 0).then(|| timeout(timeout_ms))
}

/// Releases a sender without closing the channel: the receiver is notified after it has received
/// everything sent. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_sender_destroy(sender: Option<Box<hamlyn_channel_sender>>) {
    free(sender);
}

/// Returns 1 if the channel uses express memory, 0 if it uses card messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_is_express(sender: Option<&hamlyn_channel_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.is_express().into()))
}

/// Returns the maximum length of a message in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_longest(sender: Option<&hamlyn_channel_sender>) -> c_int {
    call(|| Ok(count(given(sender, "sender")?.0.longest())))
}

/// Sends a message. It is copied once, directly to where the peer reads it. Waits while there is no
/// room for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_send(
    sender: Option<&mut hamlyn_channel_sender>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let sender = &mut given(sender, "sender")?.0;
        let data = bytes(data, length, "data")?;
        match waits(timeout_ms) {
            None => sender.try_send(data)?,
            Some(timeout) => sender.send(data, timeout)?,
        }
        Ok(0)
    })
}

/// Reserves room for a message of `length` bytes where the peer will read it. Build the message
/// there, then send it with hamlyn_channel_commit. The peer may read and change it at any time. Any
/// other message that is sent first takes its place. The room is valid until the next call with
/// this sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_reserve(
    sender: Option<&mut hamlyn_channel_sender>,
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

/// Sends the message in the room from hamlyn_channel_reserve. Fails with -EINVAL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_commit(sender: Option<&mut hamlyn_channel_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.finish().map(|()| 0)?))
}

/// Sends bytes of a stream, regardless of message boundaries. Sends as many as fit in one piece, at
/// most a quarter of hamlyn_channel_longest. Returns the number of bytes sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_write(
    sender: Option<&mut hamlyn_channel_sender>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let sender = &mut given(sender, "sender")?.0;
        let data = bytes(data, length.min(c_int::MAX as usize), "data")?;
        Ok(count(at_once(timeout_ms, sender.write_block(data, timeout(timeout_ms)))?))
    })
}

/// Makes hamlyn_manager_wait and hamlyn_manager_fd report when there may be room for a message of
/// `length` bytes. Returns 1 if there already is: try again. Also call hamlyn_manager_arm. Call
/// both before each wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_arm_room(
    sender: Option<&mut hamlyn_channel_sender>,
    length: usize,
) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.arm(length)?.into()))
}

/// Sets the token that hamlyn_manager_ready reports for a sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_sender_set_token(
    sender: Option<&mut hamlyn_channel_sender>,
    token: u64,
) -> c_int {
    call(|| {
        given(sender, "sender")?.0.set_token(token);
        Ok(0)
    })
}

/// Waits until everything sent is in flight, and a receiver that sleeps has been woken. With a
/// timeout of 0 it sends what it can, and does not check for the wake-up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_flush(
    sender: Option<&mut hamlyn_channel_sender>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let sender = &mut given(sender, "sender")?.0;
        match waits(timeout_ms) {
            None => sender.try_flush()?,
            Some(timeout) => sender.flush(timeout)?,
        }
        Ok(0)
    })
}

/// Closes a channel: the peer receives everything sent, then the end. The sender is destroyed even
/// if this fails (hamlyn_channel_try_close does not wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_close(
    sender: Option<Box<hamlyn_channel_sender>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| at_once(timeout_ms, given(sender, "sender")?.0.close(timeout(timeout_ms)).map(|()| 0)))
}

/// Closes a channel without waiting; the sender stays. Fails with -EAGAIN until everything is in
/// flight: call it again then. Once it has returned 0, call hamlyn_channel_sender_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_try_close(sender: Option<&mut hamlyn_channel_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.try_close().map(|()| 0)?))
}
