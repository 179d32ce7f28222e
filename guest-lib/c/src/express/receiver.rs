//! The receiving end of a channel.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use hamlyn::Error;
use hamlyn::express::ChannelReceiver;
use libc::EAGAIN;

use crate::call::{Failure, at_once, call, count, free, given, store};
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

/// Releases a receiver. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_receiver_destroy(receiver: Option<Box<hamlyn_channel_receiver>>) {
    free(receiver);
}

/// Stores the next message, without copying. It is valid until it is released or the next one is
/// received. Returns 1, or 0 if the peer has closed the channel and everything was received. Fails
/// with -EBADMSG if the peer stored invalid data, which ends the channel. If the previous message
/// was not released, this call releases it and reports the errors of hamlyn_channel_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_receive(
    receiver: Option<&mut hamlyn_channel_receiver>,
    message: Option<&mut MaybeUninit<hamlyn_channel_message>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(message, "message")?;
        let Some(came) = given(receiver, "receiver")?.0.take(waits(timeout_ms))? else { return Ok(0) };
        store(
            to,
            hamlyn_channel_message { data: came.as_ptr().cast(), length: came.len(), reserved: [0; 4] },
        )?;
        Ok(1)
    })
}

/// Releases the last received message: the peer can reuse its room. A no-op if there is none. An
/// error means that the message was already gone, for example after a card reset: discard what was
/// read from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_release(receiver: Option<&mut hamlyn_channel_receiver>) -> c_int {
    call(|| {
        given(receiver, "receiver")?.0.give_back()?;
        Ok(0)
    })
}

/// Copies received bytes of a stream, regardless of message boundaries: waits for the first bytes,
/// and takes what is available. Returns the number of bytes; 0 if the peer has closed the channel.
/// Do not mix with hamlyn_channel_receive: use one or the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_read(
    receiver: Option<&mut hamlyn_channel_receiver>,
    to: *mut c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let receiver = &mut given(receiver, "receiver")?.0;
        let to = bytes_mut(to, length.min(c_int::MAX as usize), "to")?;
        let read = match waits(timeout_ms) {
            None => receiver.try_read(to),
            Some(timeout) => receiver.read_block(to, timeout),
        };
        Ok(count(at_once(timeout_ms, read)?))
    })
}

/// Makes hamlyn_manager_wait and hamlyn_manager_fd report when a message may have arrived. Returns
/// 1 if a message or the end has already arrived: try again. Also call hamlyn_manager_arm. Call
/// both before each wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_arm(receiver: Option<&mut hamlyn_channel_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.arm()?.into()))
}

/// Sets the token that hamlyn_manager_ready reports for a receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_receiver_set_token(
    receiver: Option<&mut hamlyn_channel_receiver>,
    token: u64,
) -> c_int {
    call(|| {
        given(receiver, "receiver")?.0.set_token(token);
        Ok(0)
    })
}

/// Returns a file descriptor, owned by the library: readable once the peer has ended. Then call
/// hamlyn_channel_peer_ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_peer_fd(receiver: Option<&hamlyn_channel_receiver>) -> c_int {
    call(|| {
        let file = given(receiver, "receiver")?.0.peer_file().ok_or(Error::NotConnected)?;
        Ok(file.as_raw_fd())
    })
}

/// Returns the number of milliseconds after which, at the latest, hamlyn_channel_receive reports
/// that the peer has ended. Fails with -EAGAIN if the peer has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_peer_ended(receiver: Option<&hamlyn_channel_receiver>) -> c_int {
    call(|| {
        let left = given(receiver, "receiver")?.0.peer_ended();
        let left = left.ok_or_else(|| Failure::new(EAGAIN, "the other side has not ended"))?;
        Ok(count(left.as_millis() as usize + 1))
    })
}
