//! Simple message transfer.

use std::ffi::c_void;

use hamlyn::clan::programs::transfer::{Message, Receiver, Sender};

use super::end::clan_end;
use crate::call::Failure;
use crate::clan::aperture::clan_aperture;
use crate::clan::events::clan_events;
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut};

/// Sends messages, one at a time, into one buffer in the peer's memory (section 4.1, Example 1).
/// One thread at a time may use it.
pub struct clan_sender(Sender);

/// Receives messages, in place or copied. One thread at a time may use it.
pub struct clan_receiver(Receiver);

exported! {
/// Creates a sender on this end. The other end needs a receiver.
fn clan_sender_create(end: &clan_end, sender: Out<Box<clan_sender>>) {
    sender.store(clan_sender(Sender::new(end.shared())?))
}

/// Releases a sender. NULL is a no-op.
fn clan_sender_destroy(sender: Box<clan_sender>);

/// Returns the maximum length of a message in bytes.
fn clan_sender_capacity(sender: &clan_sender) {
    sender.0.capacity()
}

/// Returns 1 if the buffer is free (tx_ready), else 0. Makes no system call.
fn clan_sender_is_ready(sender: &clan_sender) {
    sender.0.is_ready()
}

/// Waits until the buffer is free, and sends a message by stores.
fn clan_sender_send(sender: &mut clan_sender, data: *const c_void, length: usize) {
    sender.0.send(bytes(data, length, "data")?)?
}

/// Like clan_sender_send, but sends by DMA, from `offset` in this process' memory. Returns when
/// that memory may be reused.
fn clan_sender_send_from(sender: &mut clan_sender, from: &clan_aperture, offset: usize, length: usize) {
    sender.0.send_from(&from.0, offset, length)?
}

/// Waits until the buffer is free, and writes bytes of the next message there; clan_sender_finish
/// sends it.
fn clan_sender_write(sender: &mut clan_sender, offset: usize, data: *const c_void, length: usize) {
    let data = bytes(data, length, "data")?;
    sender.0.wait()?.write(offset, data)?
}

/// Sends a message of `length` bytes that was written before: notifies the receiver.
fn clan_sender_finish(sender: &mut clan_sender, length: usize) {
    sender.0.wait()?.send(length)?
}

/// Creates a receiver on this end. The other end needs a sender.
fn clan_receiver_create(end: &clan_end, receiver: Out<Box<clan_receiver>>) {
    receiver.store(clan_receiver(Receiver::new(end.shared())?))
}

/// Releases a receiver. NULL is a no-op.
fn clan_receiver_destroy(receiver: Box<clan_receiver>);

/// Returns the maximum length of a message in bytes.
fn clan_receiver_capacity(receiver: &clan_receiver) {
    receiver.0.capacity()
}

/// Lets the first bytes of a message wake the receiver from now on, not only the last. The wake-up
/// then overlaps with the arrival of the rest (section 4.3).
fn clan_receiver_set_early(receiver: &mut clan_receiver) {
    receiver.0.set_early()?
}

/// Registers a receiver with an event queue: arriving messages become events with this token, by a
/// Tripwire over rx_ready.
fn clan_receiver_register(receiver: &mut clan_receiver, events: &mut clan_events, token: u64) {
    events.0.register_tripwire(receiver.0.tripwire(), token)?
}

/// Waits for a message, and returns its length. It stays in the buffer, for clan_receiver_read,
/// until clan_receiver_release.
fn clan_receiver_wait(receiver: &mut clan_receiver) {
    kept(receiver.0.recv()?)
}

/// Like clan_receiver_wait, but does not wait and makes no system call: fails with -EAGAIN if no
/// message has arrived.
fn clan_receiver_try_wait(receiver: &mut clan_receiver) {
    kept(there(&mut receiver.0)?)
}

/// Copies bytes out of the message in the buffer.
fn clan_receiver_read(receiver: &mut clan_receiver, offset: usize, to: *mut c_void, length: usize) {
    let message = there(&mut receiver.0)?;
    let outcome = bytes_mut(to, length, "to").and_then(|to| Ok(message.read(offset, to)?));
    message.keep();
    outcome?
}

/// Returns the buffer to the sender.
fn clan_receiver_release(receiver: &mut clan_receiver) {
    drop(there(&mut receiver.0)?);
}

/// Waits for a message, copies it, returns the buffer to the sender, and returns the message's
/// length. Fails with -EINVAL if the message does not fit; it then stays.
fn clan_receiver_receive(receiver: &mut clan_receiver, to: *mut c_void, size: usize) {
    receiver.0.recv_into(bytes_mut(to, size, "to")?)?
}
}

fn there(receiver: &mut Receiver) -> Result<Message<'_>, Failure> {
    receiver.try_recv()?.ok_or_else(|| Failure::nothing_yet("message"))
}

fn kept(message: Message<'_>) -> usize {
    let length = message.len();
    message.keep();
    length
}
