//! Streams.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};

use crate::call::{Failure, at_once, call, count, free, given, store, timeout, unused, wait};
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

/// Creates a receiver. The options may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_receiver_create(
    manager: Option<&hamlyn_manager>,
    options: Option<&hamlyn_stream_options>,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_stream_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        let chosen = read_options(options)?;
        let receiver = StreamReceiver::create_with(&given(manager, "manager")?.manager, chosen)?;
        store(to, Box::new(hamlyn_stream_receiver(receiver)))
    })
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

/// Releases a receiver and its buffers. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_receiver_destroy(receiver: Option<Box<hamlyn_stream_receiver>>) {
    free(receiver);
}

/// Stores the seed to create the sender from.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_receiver_seed(
    receiver: Option<&hamlyn_stream_receiver>,
    seed: Option<&mut MaybeUninit<hamlyn_seed>>,
) -> c_int {
    call(|| {
        let to = given(seed, "seed")?;
        store(to, hamlyn_seed::new(&given(receiver, "receiver")?.0.make_seed()?))
    })
}

/// Stores the next record, without copying. Returns 1, or 0 if the sender has closed the stream and
/// everything was received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_receive(
    receiver: Option<&hamlyn_stream_receiver>,
    record: Option<&mut MaybeUninit<hamlyn_record>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (receiver, to) = (&given(receiver, "receiver")?.0, given(record, "record")?);
        let came = wait(timeout_ms, || receiver.try_receive(), |timeout| receiver.receive(timeout))?;
        let Some(came) = came else { return Ok(0) };
        store(
            to,
            hamlyn_record {
                number: came.number(),
                data: came.as_ptr().cast(),
                length: came.len(),
                reserved: [0; 4],
            },
        )?;
        Ok(1)
    })
}

/// Copies `length` bytes out of the stream, and releases the records that were read completely.
/// Returns the number of bytes copied. It is less than `length` if the timeout expired or the
/// stream ended meanwhile; the next call reports that. Returns 0 if the sender has closed the
/// stream and everything was received. Do not mix with hamlyn_stream_receive: use one or the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_read(
    receiver: Option<&mut hamlyn_stream_receiver>,
    to: *mut c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let receiver = &mut given(receiver, "receiver")?.0;
        let to = bytes_mut(to, length.min(c_int::MAX as usize), "to")?;
        let read = receiver.read_exact_or_end(to, timeout(timeout_ms));
        Ok(count(at_once(timeout_ms, read)?))
    })
}

/// Releases all records up to and including this number. The memory that their `data` points to may
/// change from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_release(
    receiver: Option<&mut hamlyn_stream_receiver>,
    number: u64,
) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.release(number).map(|()| 0)?))
}

/// Creates a sender from a receiver's seed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_sender_create(
    manager: Option<&hamlyn_manager>,
    seed: Option<&hamlyn_seed>,
    sender: Option<&mut MaybeUninit<Box<hamlyn_stream_sender>>>,
) -> c_int {
    call(|| {
        let to = given(sender, "sender")?;
        let seed = given(seed, "seed")?.read()?;
        let sender = StreamSender::from_seed(&given(manager, "manager")?.manager, &seed)?;
        store(to, Box::new(hamlyn_stream_sender(sender)))
    })
}

/// Releases a sender without closing the stream: the receiver is notified that the stream was
/// abandoned. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_sender_destroy(sender: Option<Box<hamlyn_stream_sender>>) {
    free(sender);
}

/// Sends bytes, which may be changed when this returns. A small number of bytes is held back until
/// there are more, or until hamlyn_stream_flush. Returns the number of bytes accepted: all, or as
/// many as there was room for before the timeout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_send(
    sender: Option<&mut hamlyn_stream_sender>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let sender = &mut given(sender, "sender")?.0;
        let data = bytes(data, length.min(c_int::MAX as usize), "data")?;
        if timeout_ms == 0 {
            return Ok(count(sender.try_send(data)?));
        }
        send_with(sender, timeout_ms, |sender| sender.send(data))
    })
}

/// Sends with a timeout. Returns the number of bytes accepted.
pub(crate) fn send_with(
    sender: &mut StreamSender,
    timeout_ms: c_int,
    send: impl FnOnce(&mut StreamSender) -> hamlyn::Result<()>,
) -> Result<c_int, Failure> {
    sender.set_timeout(timeout(timeout_ms));
    let before = sender.accepted();
    match send(sender) {
        Err(error) if error.is_timed_out() && sender.accepted() > before => {}
        outcome => outcome?,
    }
    Ok(count((sender.accepted() - before) as usize))
}

/// Sets the token that hamlyn_manager_ready reports for a sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_sender_set_token(
    sender: Option<&mut hamlyn_stream_sender>,
    token: u64,
) -> c_int {
    call(|| {
        given(sender, "sender")?.0.set_token(token);
        Ok(0)
    })
}

/// Sets the token that hamlyn_manager_ready reports for a receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_receiver_set_token(
    receiver: Option<&mut hamlyn_stream_receiver>,
    token: u64,
) -> c_int {
    call(|| {
        given(receiver, "receiver")?.0.set_token(token);
        Ok(0)
    })
}

/// Sends the bytes that are held back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_flush(
    sender: Option<&mut hamlyn_stream_sender>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let sender = &mut given(sender, "sender")?.0;
        if timeout_ms == 0 {
            sender.try_flush()?;
        } else {
            sender.set_timeout(timeout(timeout_ms));
            sender.flush()?;
        }
        Ok(0)
    })
}

/// Closes a stream: sends the bytes that are held back, notifies the receiver of the end, and
/// releases the sender. The sender is released even if this fails (hamlyn_stream_try_close does not
/// wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_close(
    sender: Option<Box<hamlyn_stream_sender>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| at_once(timeout_ms, given(sender, "sender")?.0.close(timeout(timeout_ms)).map(|()| 0)))
}

/// Closes a stream without waiting; the sender stays. Fails with -EAGAIN until everything has been
/// sent: call it again then. Once it has returned 0, call hamlyn_stream_sender_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_try_close(sender: Option<&mut hamlyn_stream_sender>) -> c_int {
    call(|| Ok(given(sender, "sender")?.0.try_close().map(|()| 0)?))
}
