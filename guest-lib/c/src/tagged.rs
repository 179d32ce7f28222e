//! Tagged remote write.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use libc::EAGAIN;

use crate::call::{Failure, call, free, given, retry, store, timeout};
use crate::card::hamlyn_card;
use crate::manager::{Way, hamlyn_manager};
use crate::memory::{bytes, bytes_mut};
use crate::ticket::hamlyn_ticket;

/// The most bytes that go with the request itself. More are copied to memory that the card gathers
/// from.
const DIRECT: usize = 448;

/// Receives tagged remote writes. One thread at a time may use it.
pub struct hamlyn_tag_receiver(pub(crate) TagReceiver);

/// Writes data `offset` bytes into the receiver's buffer and enqueues the tag there. At most as
/// long as a packet (hamlyn_card_info.packet_size). The data may be changed when this returns.
/// There is no order among several. It waits while there is more to send than the card has room
/// for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_send(
    manager: Option<&hamlyn_manager>,
    ticket: Option<&hamlyn_ticket>,
    data: *const c_void,
    length: usize,
    offset: u32,
    tag: u32,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let manager = given(manager, "manager")?;
        let ticket = manager.sending().read(given(ticket, "ticket")?)?;
        let data = bytes(data, length, "data")?;
        let sender = TagSender::new(manager.manager.terminus().clone());
        // Others may send from the manager while this waits.
        retry(sender.terminus(), timeout_ms, || {
            let mut sending = manager.sending();
            let handle = if length <= DIRECT {
                sender.try_send(&ticket, data, offset, tag)?
            } else {
                let buffer = sending.long_buffer(sender.terminus())?;
                // Not before the card has gathered what was there.
                buffer.write(0, data)?;
                sender.try_send(&ticket, buffer.piece(0, length)?, offset, tag)?
            };
            sending.add(Way::Bytes(handle));
            Ok(0)
        })
        .map_err(Failure::from)
    })
}

fn nothing() -> Failure {
    Failure::new(EAGAIN, "no such tag has arrived")
}

/// Creates a receiver with a buffer of `length` bytes, and a queue for as many as `tags` tags (2 to
/// 65536) that have arrived and were not taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_receiver_create(
    card: Option<&hamlyn_card>,
    length: usize,
    tags: u32,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_tag_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        let receiver = TagReceiver::create(&given(card, "card")?.0, length, tags)?;
        store(to, Box::new(hamlyn_tag_receiver(receiver)))
    })
}

/// Lets a receiver go, with its buffer. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_receiver_destroy(receiver: Option<Box<hamlyn_tag_receiver>>) {
    free(receiver);
}

/// The ticket that senders need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_receiver_ticket(
    receiver: Option<&hamlyn_tag_receiver>,
    ticket: Option<&mut MaybeUninit<hamlyn_ticket>>,
) -> c_int {
    call(|| {
        let to = given(ticket, "ticket")?;
        store(to, hamlyn_ticket::new(&given(receiver, "receiver")?.0.ticket()?))
    })
}

/// Takes the next tag that has arrived.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_receive(
    receiver: Option<&mut hamlyn_tag_receiver>,
    tag: Option<&mut MaybeUninit<u32>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (receiver, to) = (&mut given(receiver, "receiver")?.0, given(tag, "tag")?);
        let tag = if timeout_ms == 0 {
            receiver.get_tag()?.ok_or_else(nothing)?
        } else {
            receiver.get_tag_block(timeout(timeout_ms))?
        };
        store(to, tag)
    })
}

/// Takes this very tag once it has arrived; others stay for later, in their order. -ENOSPC if as
/// many others stand aside as the receiver was created for: take some by hamlyn_tag_receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_receive_specific(
    receiver: Option<&mut hamlyn_tag_receiver>,
    tag: u32,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let receiver = &mut given(receiver, "receiver")?.0;
        if timeout_ms == 0 {
            receiver.get_specific_tag(tag)?.ok_or_else(nothing)?;
        } else {
            receiver.get_specific_tag_block(tag, timeout(timeout_ms))?;
        }
        Ok(0)
    })
}

/// A file descriptor for poll(2) and the like, which stays the library's. Call hamlyn_tag_arm
/// before each wait, and hamlyn_tag_receive with a time-out of 0 behind it until it has no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_fd(receiver: Option<&hamlyn_tag_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.file()?.as_fd().as_raw_fd()))
}

/// Makes hamlyn_tag_fd readable once a tag has arrived. Returns 1 if there is one that was not
/// taken (then the descriptor may not become readable for it), else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_arm(receiver: Option<&hamlyn_tag_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.arm()?.into()))
}

/// Copies bytes out of the receiver's buffer, from `offset` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_read(
    receiver: Option<&hamlyn_tag_receiver>,
    offset: usize,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        let receiver = given(receiver, "receiver")?;
        Ok(receiver.0.read(offset, bytes_mut(to, length, "to")?).map(|()| 0)?)
    })
}
