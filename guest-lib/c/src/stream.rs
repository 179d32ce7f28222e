//! Streams.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};

use crate::call::{Failure, timeout, unused, waited};
use crate::exported::{Out, exported};
use crate::manager::hamlyn_manager;
use crate::memory::{bytes, bytes_mut};
use crate::ticket::hamlyn_seed;

/// The sending end of a stream: ordered bytes from one sender to one receiver. One thread at a time
/// may use it.
pub struct hamlyn_stream_sender(pub(crate) StreamSender);

/// The receiving end of a stream. It is created first, and gives the seed that the sender is
/// created from. One thread at a time may use it.
pub struct hamlyn_stream_receiver(pub(crate) StreamReceiver);

/// Options for a stream receiver; 0 in a field selects the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_stream_options {
    /// Size of a record's buffer in bytes; 16384 by default.
    pub record_size: u32,
    /// Initial number of buffers; 16 by default.
    pub records: u32,
    /// Number of buffers that the receiver may grow to by itself; 256 by default.
    pub max_records: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// Received bytes, a part of the stream.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_record {
    /// The record's number, for hamlyn_stream_release.
    pub number: u64,
    /// The bytes, where the card put them. Valid until the record is released or the receiver is
    /// destroyed.
    pub data: *const c_void,
    /// Number of bytes.
    pub length: usize,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 4],
}

exported! {
/// Creates a receiver. The options may be NULL.
fn hamlyn_stream_receiver_create(
    manager: &hamlyn_manager,
    options: Option<&hamlyn_stream_options>,
    receiver: Out<Box<hamlyn_stream_receiver>>,
) {
    let chosen = read_options(options)?;
    receiver.store(hamlyn_stream_receiver(StreamReceiver::create_with(&manager.manager, chosen)?))
}
}

pub(crate) fn read_options(options: Option<&hamlyn_stream_options>) -> Result<StreamOptions, Failure> {
    let mut chosen = StreamOptions::default();
    let Some(options) = options else { return Ok(chosen) };
    unused(&options.reserved)?;
    let places = [
        (options.record_size, &mut chosen.record_size),
        (options.records, &mut chosen.records),
        (options.max_records, &mut chosen.max_records),
    ];
    for (value, place) in places {
        if value != 0 {
            *place = value;
        }
    }
    Ok(chosen)
}

exported! {
/// Releases a receiver and its buffers. NULL is a no-op.
fn hamlyn_stream_receiver_destroy(receiver: Box<hamlyn_stream_receiver>);

/// Stores the seed to create the sender from.
fn hamlyn_stream_receiver_seed(receiver: &hamlyn_stream_receiver, seed: Out<hamlyn_seed>) {
    seed.store(hamlyn_seed::new(&receiver.0.make_seed()?))
}

/// Stores the next record, without copying. Returns 1, or 0 if the sender has closed the stream and
/// everything was received.
fn hamlyn_stream_receive(receiver: &hamlyn_stream_receiver, record: Out<hamlyn_record>, timeout_ms: c_int) {
    let came = waited!(timeout_ms, receiver.0 => try_recv / recv / recv_timeout())?;
    match came {
        Some(came) => {
            let (number, data, length) = (came.number(), came.as_ptr().cast(), came.len());
            record.store(hamlyn_record { number, data, length, reserved: [0; 4] });
            true
        }
        None => false,
    }
}

/// Copies `length` bytes out of the stream, and releases the records that were read completely.
/// Returns the number of bytes copied. It is less than `length` if the timeout expired or the
/// stream ended meanwhile; the next call reports that. Returns 0 if the sender has closed the
/// stream and everything was received. Do not mix with hamlyn_stream_receive: use one or the other.
fn hamlyn_stream_read(
    receiver: &mut hamlyn_stream_receiver,
    to: *mut c_void,
    length: usize,
    timeout_ms: c_int,
) {
    let to = bytes_mut(to, length.min(c_int::MAX as usize), "to")?;
    waited!(timeout_ms, receiver.0 => read_exact_or_end / read_exact_or_end_timeout(to))?
}

/// Releases all records up to and including this number. The memory that their `data` points to may
/// change from now on.
fn hamlyn_stream_release(receiver: &mut hamlyn_stream_receiver, number: u64) {
    receiver.0.release(number)?
}

/// Creates a sender from a receiver's seed.
fn hamlyn_stream_sender_create(
    manager: &hamlyn_manager,
    seed: &hamlyn_seed,
    sender: Out<Box<hamlyn_stream_sender>>,
) {
    let seed = seed.read()?;
    sender.store(hamlyn_stream_sender(StreamSender::from_seed(&manager.manager, &seed)?))
}

/// Releases a sender without closing the stream: the receiver is notified that the stream was
/// abandoned. NULL is a no-op.
fn hamlyn_stream_sender_destroy(sender: Box<hamlyn_stream_sender>);

/// Sends bytes, which may be changed when this returns. A small number of bytes is held back until
/// there are more, or until hamlyn_stream_flush. Returns the number of bytes accepted: all, or as
/// many as there was room for before the timeout.
fn hamlyn_stream_send(
    sender: &mut hamlyn_stream_sender,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) {
    let data = bytes(data, length.min(c_int::MAX as usize), "data")?;
    if timeout_ms == 0 {
        sender.0.try_send(data)?
    } else {
        send_with(&mut sender.0, timeout_ms, |sender, limit| match limit {
            None => sender.send(data),
            Some(limit) => sender.send_timeout(data, limit),
        })?
    }
}
}

/// Sends with a timeout. Returns the number of bytes accepted.
pub(crate) fn send_with(
    sender: &mut StreamSender,
    timeout_ms: c_int,
    send: impl FnOnce(&mut StreamSender, Option<Duration>) -> hamlyn::Result<()>,
) -> Result<usize, Failure> {
    let before = sender.accepted();
    match send(sender, timeout(timeout_ms)) {
        Err(error) if error.is_timed_out() && sender.accepted() > before => {}
        outcome => outcome?,
    }
    Ok((sender.accepted() - before) as usize)
}

exported! {
/// Sets the token that hamlyn_manager_ready reports for a sender.
fn hamlyn_stream_sender_set_token(sender: &mut hamlyn_stream_sender, token: u64) {
    sender.0.set_token(token);
}

/// Sets the token that hamlyn_manager_ready reports for a receiver.
fn hamlyn_stream_receiver_set_token(receiver: &mut hamlyn_stream_receiver, token: u64) {
    receiver.0.set_token(token);
}

/// Sends the bytes that are held back.
fn hamlyn_stream_flush(sender: &mut hamlyn_stream_sender, timeout_ms: c_int) {
    waited!(timeout_ms, sender.0 => try_flush / flush / flush_timeout())?;
}

/// Closes a stream: sends the bytes that are held back, notifies the receiver of the end, and
/// releases the sender. The sender is released even if this fails (hamlyn_stream_try_close does not
/// wait).
fn hamlyn_stream_close(sender: Box<hamlyn_stream_sender>, timeout_ms: c_int) {
    waited!(timeout_ms, sender.0 => close / close_timeout())?
}

/// Closes a stream without waiting; the sender stays. Fails with -EAGAIN until everything has been
/// sent: call it again then. Once it has returned 0, call hamlyn_stream_sender_destroy.
fn hamlyn_stream_try_close(sender: &mut hamlyn_stream_sender) {
    sender.0.try_close()?
}
}
