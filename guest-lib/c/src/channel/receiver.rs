//! The receiving end of a channel.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;

use hamlyn::channel::Receiver;

use crate::call::waits;
use crate::exported::{Out, exported};

/// The receiving end of a channel. One thread at a time may use it.
pub struct uln_receiver(pub(crate) Receiver);

/// A received message, where the peer's card or process has stored it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct uln_message {
    /// The bytes. The peer may change them until the message is released: copy what you check, and
    /// check the copy.
    pub data: *const c_void,
    /// Number of bytes.
    pub length: usize,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 4],
}

exported! {
/// Closes a receiver. The peer's sender gets -ECONNRESET once the ring is full. NULL is a no-op.
fn uln_receiver_destroy(receiver: Box<uln_receiver>);

/// Stores the next message, without copying. It is valid until uln_release or the next uln_recv,
/// also if that fails. If the message before was not released, this call releases it and reports
/// the errors of uln_release. Returns 1, or 0 if the peer has closed the channel and everything was
/// received. If the peer is lost, fails after all messages that it sent: with -ECONNRESET (its
/// process, or it dropped its sender), -EHOSTDOWN (its host), -ENETRESET (its host or card was
/// restarted), -ENETDOWN (this host's link) or -ECONNABORTED (this host's card was reset). Fails
/// with -EBADMSG if the peer stored invalid data, which ends the channel.
fn uln_recv(receiver: &mut uln_receiver, message: Out<uln_message>, timeout_ms: c_int) {
    match receiver.0.take(waits(timeout_ms))? {
        Some(came) => {
            message.store(uln_message { data: came.as_ptr().cast(), length: came.len(), reserved: [0; 4] });
            true
        }
        None => false,
    }
}

/// Releases the last received message: the peer can reuse its room. A no-op if there is none. An
/// error means that the message was already gone, for example after a reset of the card: discard
/// what was read from it.
fn uln_release(receiver: &mut uln_receiver) {
    receiver.0.give_back()?;
}

/// Returns the receiver's file, for poll(2), epoll(7) and the like. It is readable once uln_recv
/// has something to report, if uln_receiver_arm was called since uln_recv found nothing. It may be
/// readable without a reason. It belongs to the receiver, which closes it.
fn uln_receiver_fd(receiver: &mut uln_receiver) {
    receiver.0.file()?.as_raw_fd()
}

/// Arms the receiver's file for the next message, or the channel's end. Call it before each poll.
/// Returns 1 if uln_recv already has something to report: do not poll then. Returns 0 otherwise.
fn uln_receiver_arm(receiver: &mut uln_receiver) {
    receiver.0.arm()?
}
}
