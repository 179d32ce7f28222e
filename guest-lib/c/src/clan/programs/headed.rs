//! Messages with header and body sent separately.

use std::ffi::c_void;

use hamlyn::clan::programs::headed::{Receiver, Sender};

use super::end::clan_end;
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut};

/// Sends messages whose header goes before the body, with a flag and a Tripwire for each (section
/// 4.3). One thread at a time may use it.
pub struct clan_headed_sender(Sender);

/// Receives messages whose header goes before the body. The program can process the header while
/// the body is in flight. One thread at a time may use it.
pub struct clan_headed_receiver {
    receiver: Receiver,
    header: Vec<u8>,
}

exported! {
/// Creates a sender on this end, for headers of `header` bytes. The other end needs a receiver for
/// the same header length.
fn clan_headed_sender_create(end: &clan_end, header: usize, sender: Out<Box<clan_headed_sender>>) {
    sender.store(clan_headed_sender(Sender::new(end.shared(), header)?))
}

/// Releases a sender. NULL is a no-op.
fn clan_headed_sender_destroy(sender: Box<clan_headed_sender>);

/// Waits until the buffer is free, and sends a header of exactly the sender's header length. The
/// body must follow.
fn clan_headed_sender_send_header(sender: &mut clan_headed_sender, header: *const c_void, length: usize) {
    let header = bytes(header, length, "header")?;
    // The body is sent by a separate call.
    let _ = sender.0.send_header(header)?;
}

/// Sends the body for the header that was sent last. Fails with -EINVAL if there is none.
fn clan_headed_sender_send_body(sender: &mut clan_headed_sender, body: *const c_void, length: usize) {
    let body = bytes(body, length, "body")?;
    sender.0.send_body(body)?
}

/// Creates a receiver on this end, for headers of `header` bytes.
fn clan_headed_receiver_create(end: &clan_end, header: usize, receiver: Out<Box<clan_headed_receiver>>) {
    let made = Receiver::new(end.shared(), header)?;
    receiver.store(clan_headed_receiver { receiver: made, header: vec![0; header] })
}

/// Releases a receiver. NULL is a no-op.
fn clan_headed_receiver_destroy(receiver: Box<clan_headed_receiver>);

/// Waits for a header, and copies it. The body may still be in flight. Fails with -EINVAL if `size`
/// is less than the header length.
fn clan_headed_receiver_header(receiver: &mut clan_headed_receiver, header: *mut c_void, size: usize) {
    let receiver = &mut receiver.receiver;
    receiver.header(bytes_mut(header, size, "header")?)?;
}

/// Waits for the body, and for its header if that was not received yet. Copies the body, returns
/// the buffer to the sender, and returns the body's length. Fails with -EINVAL if the body does not
/// fit; the message then stays.
fn clan_headed_receiver_body(receiver: &mut clan_headed_receiver, body: *mut c_void, size: usize) {
    let clan_headed_receiver { receiver, header } = receiver;
    let body = bytes_mut(body, size, "body")?;
    receiver.header(header)?.body(body)?
}
}
