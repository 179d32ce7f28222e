//! Simple message transfer.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::programs::transfer::{Message, Receiver, Sender};

use super::end::{clan_end, register};
use crate::call::{Failure, call, count, free, given, store};
use crate::clan::aperture::clan_aperture;
use crate::clan::events::clan_events;
use crate::memory::{bytes, bytes_mut};

/// Sends messages, one at a time, into one buffer in the peer's memory (section 4.1, Example 1).
/// One thread at a time may use it.
pub struct clan_sender(Sender);

/// Receives messages, in place or copied. One thread at a time may use it.
pub struct clan_receiver(Receiver);

/// Creates a sender on this end. The other end needs a receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_create(
    end: Option<&clan_end>,
    sender: Option<&mut MaybeUninit<Box<clan_sender>>>,
) -> c_int {
    call(|| {
        let to = given(sender, "sender")?;
        store(to, Box::new(clan_sender(Sender::new(given(end, "end")?.shared())?)))
    })
}

/// Releases a sender. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_destroy(sender: Option<Box<clan_sender>>) {
    free(sender);
}

/// Returns the maximum length of a message in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_capacity(sender: Option<&clan_sender>) -> c_int {
    call(|| Ok(count(given(sender, "sender")?.0.capacity())))
}

/// Returns 1 if the buffer is free (tx_ready), else 0. Makes no system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_is_ready(sender: Option<&clan_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.is_ready().into()))
}

/// Waits until the buffer is free, and sends a message by stores.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_send(
    sender: Option<&mut clan_sender>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let sender = &mut given(sender, "sender")?.0;
        Ok(sender.send(bytes(data, length, "data")?).map(|()| 0)?)
    })
}

/// Like clan_sender_send, but sends by DMA, from `offset` in this process' memory. Returns when
/// that memory may be reused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_send_from(
    sender: Option<&mut clan_sender>,
    from: Option<&clan_aperture>,
    offset: usize,
    length: usize,
) -> c_int {
    call(|| {
        let (sender, from) = (&mut given(sender, "sender")?.0, &given(from, "from")?.0);
        Ok(sender.send_from(from, offset, length).map(|()| 0)?)
    })
}

/// Waits until the buffer is free, and writes bytes of the next message there; clan_sender_finish
/// sends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_write(
    sender: Option<&mut clan_sender>,
    offset: usize,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (sender, data) = (&mut given(sender, "sender")?.0, bytes(data, length, "data")?);
        Ok(sender.wait()?.write(offset, data).map(|()| 0)?)
    })
}

/// Sends a message of `length` bytes that was written before: notifies the receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_sender_finish(sender: Option<&mut clan_sender>, length: usize) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.wait()?.send(length).map(|()| 0)?))
}

/// Creates a receiver on this end. The other end needs a sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_create(
    end: Option<&clan_end>,
    receiver: Option<&mut MaybeUninit<Box<clan_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        store(to, Box::new(clan_receiver(Receiver::new(given(end, "end")?.shared())?)))
    })
}

/// Releases a receiver. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_destroy(receiver: Option<Box<clan_receiver>>) {
    free(receiver);
}

/// Returns the maximum length of a message in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_capacity(receiver: Option<&clan_receiver>) -> c_int {
    call(|| Ok(count(given(receiver, "receiver")?.0.capacity())))
}

/// Lets the first bytes of a message wake the receiver from now on, not only the last. The wake-up
/// then overlaps with the arrival of the rest (section 4.3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_set_early(receiver: Option<&mut clan_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.set_early().map(|()| 0)?))
}

/// Registers a receiver with an event queue: arriving messages become events with this token, by a
/// Tripwire over rx_ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_register(
    receiver: Option<&mut clan_receiver>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(receiver, "receiver").map(|receiver| receiver.0.tripwire()), token)
}

/// Waits for a message, and returns its length. It stays in the buffer, for clan_receiver_read,
/// until clan_receiver_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_wait(receiver: Option<&mut clan_receiver>) -> c_int {
    call(|| Ok(kept(given(receiver, "receiver")?.0.wait()?)))
}

/// Like clan_receiver_wait, but does not wait and makes no system call: fails with -EAGAIN if no
/// message has arrived.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_try_wait(receiver: Option<&mut clan_receiver>) -> c_int {
    call(|| Ok(kept(there(&mut given(receiver, "receiver")?.0)?)))
}

/// Copies bytes out of the message in the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_read(
    receiver: Option<&mut clan_receiver>,
    offset: usize,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        let message = there(&mut given(receiver, "receiver")?.0)?;
        let outcome = bytes_mut(to, length, "to").and_then(|to| Ok(message.read(offset, to)?));
        message.keep();
        outcome.map(|()| 0)
    })
}

/// Returns the buffer to the sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_release(receiver: Option<&mut clan_receiver>) -> c_int {
    call(|| {
        drop(there(&mut given(receiver, "receiver")?.0)?);
        Ok(0)
    })
}

/// Waits for a message, copies it, returns the buffer to the sender, and returns the message's
/// length. Fails with -EINVAL if the message does not fit; it then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receiver_receive(
    receiver: Option<&mut clan_receiver>,
    to: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        let receiver = &mut given(receiver, "receiver")?.0;
        Ok(count(receiver.receive(bytes_mut(to, size, "to")?)?))
    })
}

fn there(receiver: &mut Receiver) -> Result<Message<'_>, Failure> {
    receiver.try_wait()?.ok_or_else(|| Failure::nothing_yet("message"))
}

fn kept(message: Message<'_>) -> c_int {
    let length = count(message.len());
    message.keep();
    length
}
