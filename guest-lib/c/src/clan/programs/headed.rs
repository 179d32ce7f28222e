//! Messages with header and body sent separately.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::programs::headed::{Receiver, Sender};

use super::end::clan_end;
use crate::call::{call, count, free, given, store};
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

/// Creates a sender on this end, for headers of `header` bytes. The other end needs a receiver for
/// the same header length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_sender_create(
    end: Option<&clan_end>,
    header: usize,
    sender: Option<&mut MaybeUninit<Box<clan_headed_sender>>>,
) -> c_int {
    call(|| {
        let to = given(sender, "sender")?;
        store(to, Box::new(clan_headed_sender(Sender::new(given(end, "end")?.shared(), header)?)))
    })
}

/// Releases a sender. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_sender_destroy(sender: Option<Box<clan_headed_sender>>) {
    free(sender);
}

/// Waits until the buffer is free, and sends a header of exactly the sender's header length. The
/// body must follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_sender_send_header(
    sender: Option<&mut clan_headed_sender>,
    header: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (sender, header) = (&mut given(sender, "sender")?.0, bytes(header, length, "header")?);
        // The body is sent by a separate call.
        let _ = sender.send_header(header)?;
        Ok(0)
    })
}

/// Sends the body for the header that was sent last. Fails with -EINVAL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_sender_send_body(
    sender: Option<&mut clan_headed_sender>,
    body: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (sender, body) = (&mut given(sender, "sender")?.0, bytes(body, length, "body")?);
        Ok(sender.send_body(body).map(|()| 0)?)
    })
}

/// Creates a receiver on this end, for headers of `header` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_receiver_create(
    end: Option<&clan_end>,
    header: usize,
    receiver: Option<&mut MaybeUninit<Box<clan_headed_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        let receiver = Receiver::new(given(end, "end")?.shared(), header)?;
        store(to, Box::new(clan_headed_receiver { receiver, header: vec![0; header] }))
    })
}

/// Releases a receiver. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_receiver_destroy(receiver: Option<Box<clan_headed_receiver>>) {
    free(receiver);
}

/// Waits for a header, and copies it. The body may still be in flight. Fails with -EINVAL if `size`
/// is less than the header length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_receiver_header(
    receiver: Option<&mut clan_headed_receiver>,
    header: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        let receiver = &mut given(receiver, "receiver")?.receiver;
        receiver.header(bytes_mut(header, size, "header")?)?;
        Ok(0)
    })
}

/// Waits for the body, and for its header if that was not received yet. Copies the body, returns
/// the buffer to the sender, and returns the body's length. Fails with -EINVAL if the body does not
/// fit; the message then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_headed_receiver_body(
    receiver: Option<&mut clan_headed_receiver>,
    body: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        let clan_headed_receiver { receiver, header } = given(receiver, "receiver")?;
        let body = bytes_mut(body, size, "body")?;
        Ok(count(receiver.header(header)?.body(body)?))
    })
}
