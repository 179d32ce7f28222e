//! The sending end of a channel.

use std::ffi::{c_int, c_void};

use hamlyn::express::ChannelSender;

use crate::call::{at_once, timeout};
use crate::exported::{Out, exported};
use crate::memory::bytes;

/// The sending end of a channel. One thread at a time may use it.
pub struct hamlyn_channel_sender(pub(crate) ChannelSender);

/// Returns how long a call waits. With a timeout of 0 it does not wait.
pub(crate) fn waits(timeout_ms: c_int) -> Option<Option<std::time::Duration>> {
    (timeout_ms != 0).then(|| timeout(timeout_ms))
}

exported! {
/// Releases a sender without closing the channel: the receiver is notified after it has received
/// everything sent. NULL is a no-op.
fn hamlyn_channel_sender_destroy(sender: Box<hamlyn_channel_sender>);

/// Returns 1 if the channel uses express memory, 0 if it uses card messages.
fn hamlyn_channel_is_express(sender: &hamlyn_channel_sender) {
    sender.0.is_express()
}

/// Returns the maximum length of a message in bytes.
fn hamlyn_channel_longest(sender: &hamlyn_channel_sender) {
    sender.0.longest()
}

/// Sends a message. It is copied once, directly to where the peer reads it. Waits while there is no
/// room for it.
fn hamlyn_channel_send(
    sender: &mut hamlyn_channel_sender,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) {
    let data = bytes(data, length, "data")?;
    match waits(timeout_ms) {
        None => sender.0.try_send(data)?,
        Some(timeout) => sender.0.send(data, timeout)?,
    }
}

/// Reserves room for a message of `length` bytes where the peer will read it. Build the message
/// there, then send it with hamlyn_channel_commit. The peer may read and change it at any time. Any
/// other message that is sent first takes its place. The room is valid until the next call with
/// this sender.
fn hamlyn_channel_reserve(
    sender: &mut hamlyn_channel_sender,
    length: usize,
    data: Out<*mut c_void>,
    timeout_ms: c_int,
) {
    let room = sender.0.begin(length, waits(timeout_ms))?;
    data.store(room.as_ptr().cast_mut().cast())
}

/// Sends the message in the room from hamlyn_channel_reserve. Fails with -EINVAL if there is none.
fn hamlyn_channel_commit(sender: &mut hamlyn_channel_sender) {
    sender.0.finish()?
}

/// Sends bytes of a stream, regardless of message boundaries. Sends as many as fit in one piece, at
/// most a quarter of hamlyn_channel_longest. Returns the number of bytes sent.
fn hamlyn_channel_write(
    sender: &mut hamlyn_channel_sender,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) {
    let data = bytes(data, length.min(c_int::MAX as usize), "data")?;
    at_once(timeout_ms, sender.0.write_block(data, timeout(timeout_ms)))?
}

/// Makes hamlyn_manager_wait and hamlyn_manager_fd report when there may be room for a message of
/// `length` bytes. Returns 1 if there already is: try again. Also call hamlyn_manager_arm. Call
/// both before each wait.
fn hamlyn_channel_arm_room(sender: &mut hamlyn_channel_sender, length: usize) {
    sender.0.arm(length)?
}

/// Sets the token that hamlyn_manager_ready reports for a sender.
fn hamlyn_channel_sender_set_token(sender: &mut hamlyn_channel_sender, token: u64) {
    sender.0.set_token(token);
}

/// Waits until everything sent is in flight, and a receiver that sleeps has been woken. With a
/// timeout of 0 it sends what it can, and does not check for the wake-up.
fn hamlyn_channel_flush(sender: &mut hamlyn_channel_sender, timeout_ms: c_int) {
    match waits(timeout_ms) {
        None => sender.0.try_flush()?,
        Some(timeout) => sender.0.flush(timeout)?,
    }
}

/// Closes a channel: the peer receives everything sent, then the end. The sender is destroyed even
/// if this fails (hamlyn_channel_try_close does not wait).
fn hamlyn_channel_close(sender: Box<hamlyn_channel_sender>, timeout_ms: c_int) {
    at_once(timeout_ms, sender.0.close(timeout(timeout_ms)))?
}

/// Closes a channel without waiting; the sender stays. Fails with -EAGAIN until everything is in
/// flight: call it again then. Once it has returned 0, call hamlyn_channel_sender_destroy.
fn hamlyn_channel_try_close(sender: &mut hamlyn_channel_sender) {
    sender.0.try_close()?
}
}
