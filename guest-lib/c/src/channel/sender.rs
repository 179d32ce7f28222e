//! The sending end of a channel.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;

use hamlyn::channel::Sender;

use crate::call::{waited, waits};
use crate::exported::{Out, exported};
use crate::memory::bytes;

/// The sending end of a channel. One thread at a time may use it.
pub struct uln_sender(pub(crate) Sender);

exported! {
/// Drops a sender without closing the channel: the peer receives everything sent, and then
/// -ECONNRESET. NULL is a no-op.
fn uln_sender_destroy(sender: Box<uln_sender>);

/// Returns 1 if the channel uses express memory, 0 if it uses a card.
fn uln_is_express(sender: &uln_sender) {
    sender.0.is_express()
}

/// Returns the maximum length of a message in bytes.
fn uln_longest(sender: &uln_sender) {
    sender.0.longest()
}

/// Sends a message. Waits while the ring has no room for it. If the peer is lost, fails with
/// -ECONNRESET (its process), -EHOSTDOWN (its host), -ENETRESET (its host or card was restarted),
/// -ENETDOWN (this host's link) or -ECONNABORTED (this host's card was reset).
fn uln_send(sender: &mut uln_sender, data: *const c_void, length: usize, timeout_ms: c_int) {
    let data = bytes(data, length, "data")?;
    waited!(timeout_ms, sender.0 => try_send / send / send_timeout(data))?
}

/// Reserves room for a message of `length` bytes, and stores its address. Build the message there,
/// then send it with uln_commit or uln_put. Any other message that is sent first takes its place.
/// The room is valid until the next call with this sender, also if that fails. With express memory
/// the peer may read and change it at any time.
fn uln_reserve(sender: &mut uln_sender, length: usize, data: Out<*mut c_void>, timeout_ms: c_int) {
    let room = sender.0.begin(length, waits(timeout_ms))?;
    data.store(room.as_ptr().cast_mut().cast())
}

/// Sends the message in the room from uln_reserve, and all messages that were put. Fails with
/// -EINVAL if no room is reserved.
fn uln_commit(sender: &mut uln_sender) {
    sender.0.finish(false)?
}

/// Queues the message in the room from uln_reserve. The next uln_commit or uln_flush sends it, so
/// several messages share one doorbell.
fn uln_put(sender: &mut uln_sender) {
    sender.0.finish(true)?
}

/// Sends all messages that were put. Waits while the card has no room for them; after a timeout
/// they stay put.
fn uln_flush(sender: &mut uln_sender, timeout_ms: c_int) {
    waited!(timeout_ms, sender.0 => try_flush / flush / flush_timeout())?
}

/// Stores the position of the last message that was sent, for uln_delivered: the number of bytes of
/// the ring up to its end.
fn uln_sent(sender: &uln_sender, position: Out<u64>) {
    position.store(sender.0.sent())
}

/// Waits until delivery of all messages up to a position is certain: the peer has received them, or
/// will receive them even if this process ends now. Fails like uln_send if the peer is lost, and
/// with -ECONNRESET if it dropped its receiver before. Fails with -EINVAL for a position beyond
/// that of uln_sent.
fn uln_delivered(sender: &mut uln_sender, position: u64, timeout_ms: c_int) {
    waited!(timeout_ms, sender.0 => try_delivered / delivered / delivered_timeout(position))?
}

/// Stores the number of bytes sent and not known to be received, plus 8 for each message. If it
/// stays near the ring's capacity, the peer is slow.
fn uln_bytes_behind(sender: &mut uln_sender, behind: Out<u64>) {
    behind.store(sender.0.bytes_behind()?)
}

/// Closes the channel in this direction: the peer receives everything sent, and then the end. Waits
/// until delivery is certain. The sender is destroyed even if this fails.
fn uln_close(sender: Box<uln_sender>, timeout_ms: c_int) {
    waited!(timeout_ms, sender.0 => close / close_timeout())?
}

/// Returns the sender's file, for poll(2), epoll(7) and the like. It is readable once there is room
/// for the message of uln_sender_arm. It may be readable without a reason. It belongs to the
/// sender, which closes it.
fn uln_sender_fd(sender: &mut uln_sender) {
    sender.0.file()?.as_raw_fd()
}

/// Arms the sender's file for when there is room for a message of this many bytes, or the channel
/// has ended. Call it before each poll. Returns 1 if that is already the case: do not poll then.
/// Returns 0 otherwise.
fn uln_sender_arm(sender: &mut uln_sender, length: usize) {
    sender.0.arm(length)?
}
}
