//! The receiving end of a channel.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;

use hamlyn::Error;
use hamlyn::express::ChannelReceiver;
use libc::EAGAIN;

use crate::call::{Failure, at_once};
use crate::exported::{Out, exported};
use crate::express::waits;
use crate::memory::bytes_mut;

/// The receiving end of a channel. One thread at a time may use it.
pub struct hamlyn_channel_receiver(pub(crate) ChannelReceiver);

/// A received message, where the peer stored it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_channel_message {
    /// The bytes. The peer may change them as long as the message is not released: copy data before
    /// you validate it, and validate the copy.
    pub data: *const c_void,
    /// Number of bytes.
    pub length: usize,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 4],
}

exported! {
/// Releases a receiver. NULL is a no-op.
fn hamlyn_channel_receiver_destroy(receiver: Box<hamlyn_channel_receiver>);

/// Stores the next message, without copying. It is valid until it is released or the next one is
/// received. Returns 1, or 0 if the peer has closed the channel and everything was received. Fails
/// with -EBADMSG if the peer stored invalid data, which ends the channel. If the previous message
/// was not released, this call releases it and reports the errors of hamlyn_channel_release.
fn hamlyn_channel_receive(
    receiver: &mut hamlyn_channel_receiver,
    message: Out<hamlyn_channel_message>,
    timeout_ms: c_int,
) {
    match receiver.0.take(waits(timeout_ms))? {
        Some(came) => {
            let (data, length) = (came.as_ptr().cast(), came.len());
            message.store(hamlyn_channel_message { data, length, reserved: [0; 4] });
            true
        }
        None => false,
    }
}

/// Releases the last received message: the peer can reuse its room. A no-op if there is none. An
/// error means that the message was already gone, for example after a card reset: discard what was
/// read from it.
fn hamlyn_channel_release(receiver: &mut hamlyn_channel_receiver) {
    receiver.0.give_back()?;
}

/// Copies received bytes of a stream, regardless of message boundaries: waits for the first bytes,
/// and takes what is available. Returns the number of bytes; 0 if the peer has closed the channel.
/// Do not mix with hamlyn_channel_receive: use one or the other.
fn hamlyn_channel_read(
    receiver: &mut hamlyn_channel_receiver,
    to: *mut c_void,
    length: usize,
    timeout_ms: c_int,
) {
    let to = bytes_mut(to, length.min(c_int::MAX as usize), "to")?;
    let read = match waits(timeout_ms) {
        None => receiver.0.try_read(to),
        Some(timeout) => receiver.0.read_block(to, timeout),
    };
    at_once(timeout_ms, read)?
}

/// Makes hamlyn_manager_wait and hamlyn_manager_fd report when a message may have arrived. Returns
/// 1 if a message or the end has already arrived: try again. Also call hamlyn_manager_arm. Call
/// both before each wait.
fn hamlyn_channel_arm(receiver: &mut hamlyn_channel_receiver) {
    receiver.0.arm()?
}

/// Sets the token that hamlyn_manager_ready reports for a receiver.
fn hamlyn_channel_receiver_set_token(receiver: &mut hamlyn_channel_receiver, token: u64) {
    receiver.0.set_token(token);
}

/// Returns a file descriptor, owned by the library: readable once the peer has ended. Then call
/// hamlyn_channel_peer_ended.
fn hamlyn_channel_peer_fd(receiver: &hamlyn_channel_receiver) {
    let file = receiver.0.peer_file().ok_or(Error::NotConnected)?;
    file.as_raw_fd()
}

/// Returns the number of milliseconds after which, at the latest, hamlyn_channel_receive reports
/// that the peer has ended. Fails with -EAGAIN if the peer has not ended.
fn hamlyn_channel_peer_ended(receiver: &hamlyn_channel_receiver) {
    let left = receiver.0.peer_ended();
    let left = left.ok_or_else(|| Failure::new(EAGAIN, "the other side has not ended"))?;
    left.as_millis() as usize + 1
}
}
