//! The sending end of a channel.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::express::ChannelSender;

use crate::call::{at_once, call, count, free, given, store, timeout};
use crate::memory::bytes;

/// The sending end of a channel. One thread at a time may use it.
pub struct hamlyn_channel_sender(pub(crate) ChannelSender);

/// How a call waits: not at all with a time-out of 0.
pub(crate) fn waits(timeout_ms: c_int) -> Option<Option<std::time::Duration>> {
    (timeout_ms != 0).then(|| timeout(timeout_ms))
}

/// Lets a sender go without closing: the receiver is told so, behind all that was sent. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_sender_destroy(sender: Option<Box<hamlyn_channel_sender>>) {
    free(sender);
}

/// Returns 1 if the channel goes by express memory, 0 if by messages of cards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_is_express(sender: Option<&hamlyn_channel_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.is_express().into()))
}

/// Returns how many bytes the longest message has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_longest(sender: Option<&hamlyn_channel_sender>) -> c_int {
    call(|| Ok(count(given(sender, "sender")?.0.longest())))
}

/// Sends a message, which is copied once, to where the other side reads it. Waits while there is no
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

/// Gives room for a message of so many bytes where the other side will read it, to be built there
/// and sent by hamlyn_channel_commit. The other side may look at it and change it at any moment.
/// Any other message that is sent first takes its place. The room is valid until the next call with
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

/// Sends what hamlyn_channel_reserve gave room for. -EINVAL if there is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_commit(sender: Option<&mut hamlyn_channel_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.finish().map(|()| 0)?))
}

/// Sends bytes of a stream, where it means nothing in which messages they go: as many as go in one
/// piece, a quarter of hamlyn_channel_longest at most. Returns how many.
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

/// From now on hamlyn_manager_wait and hamlyn_manager_fd tell of it once there may be room for a
/// message of so many bytes. Returns 1 if there is: try again. Call hamlyn_manager_arm as well, and
/// both before each wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_arm_room(
    sender: Option<&mut hamlyn_channel_sender>,
    length: usize,
) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.arm(length)?.into()))
}

/// Gives a sender a token for hamlyn_manager_ready.
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

/// Waits until all that was sent is on its way, and whoever sleeps for it has been woken. With a
/// time-out of 0 it sends on what it can, and does not ask whether he has been.
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

/// Closes it: the other side receives all that was sent, and then that there is no more. The sender
/// is gone even if this fails (hamlyn_channel_try_close does not wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_close(
    sender: Option<Box<hamlyn_channel_sender>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| at_once(timeout_ms, given(sender, "sender")?.0.close(timeout(timeout_ms)).map(|()| 0)))
}

/// Closes it without waiting, and the sender stays. -EAGAIN until all is on its way: call it again
/// then. Once it has returned 0 comes hamlyn_channel_sender_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_try_close(sender: Option<&mut hamlyn_channel_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.try_close().map(|()| 0)?))
}
