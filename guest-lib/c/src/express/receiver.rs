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

/// A message that has come, where the other side put it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_channel_message {
    /// Its bytes. The other side may change them for as long as they are there: copy what is to be
    /// believed, and look at the copy.
    pub data: *const c_void,
    /// How many.
    pub length: usize,
    /// For what may come: zeros.
    pub reserved: [u32; 4],
}

/// Lets a receiver go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_receiver_destroy(receiver: Option<Box<hamlyn_channel_receiver>>) {
    free(receiver);
}

/// Gives the next message, without copying; it stays until it is released, or the next is received.
/// Returns 1, or 0 if the other side has closed and all was received. -EBADMSG if it stored what
/// makes no sense, which ends the channel. What hamlyn_channel_release says of the message before
/// is said here, if it is still there.
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

/// Releases the message that was received last: the other side has its room again. Nothing happens
/// if there is none. An error says that it was gone before, as after a reset of the card: what was
/// seen of it is of no worth.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_release(receiver: Option<&mut hamlyn_channel_receiver>) -> c_int {
    call(|| {
        given(receiver, "receiver")?.0.give_back()?;
        Ok(0)
    })
}

/// Copies bytes of a stream that have come, where it means nothing in which messages they came:
/// waits for the first, and takes what is there. Returns how many; 0 if the other side has closed.
/// Not beside hamlyn_channel_receive: one or the other.
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

/// From now on hamlyn_manager_wait and hamlyn_manager_fd tell of it once a message may have come.
/// Returns 1 if one has, or the end: try again. Call hamlyn_manager_arm as well, and both before
/// each wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_arm(receiver: Option<&mut hamlyn_channel_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.arm()?.into()))
}

/// Gives a receiver a token for hamlyn_manager_ready.
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

/// A file descriptor, which stays the library's: readable once the other side has ended. Then call
/// hamlyn_channel_peer_ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_peer_fd(receiver: Option<&hamlyn_channel_receiver>) -> c_int {
    call(|| {
        let file = given(receiver, "receiver")?.0.peer_file().ok_or(Error::NotConnected)?;
        Ok(file.as_raw_fd())
    })
}

/// Returns after how many milliseconds at the latest hamlyn_channel_receive says that the other
/// side has ended; -EAGAIN if it has not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_channel_peer_ended(receiver: Option<&hamlyn_channel_receiver>) -> c_int {
    call(|| {
        let left = given(receiver, "receiver")?.0.peer_ended();
        let left = left.ok_or_else(|| Failure::new(EAGAIN, "the other side has not ended"))?;
        Ok(count(left.as_millis() as usize + 1))
    })
}
