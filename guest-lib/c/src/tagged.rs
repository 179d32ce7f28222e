//! Tagged remote write.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use libc::EAGAIN;

use crate::call::{Failure, retry, waits};
use crate::card::hamlyn_card;
use crate::exported::{Out, exported};
use crate::manager::{Posted, hamlyn_manager};
use crate::memory::{bytes, bytes_mut};
use crate::ticket::hamlyn_ticket;

/// Maximum number of bytes in the request itself. Longer data is copied to memory that the card
/// gathers from.
const DIRECT: usize = 448;

/// Receives tagged remote writes. One thread at a time may use it.
pub struct hamlyn_tag_receiver(pub(crate) TagReceiver);

exported! {
/// Writes data to `offset` bytes into the receiver's buffer, and enqueues the tag there. The data
/// must fit in one packet (hamlyn_card_info.packet_size), and may be changed when this returns.
/// Several writes may arrive in any order. Waits while the card has no room.
fn hamlyn_tag_send(
    manager: &hamlyn_manager,
    ticket: &hamlyn_ticket,
    data: *const c_void,
    length: usize,
    offset: u32,
    tag: u32,
    timeout_ms: c_int,
) {
    let ticket = manager.sending().read(ticket)?;
    let data = bytes(data, length, "data")?;
    let sender = TagSender::new(manager.manager.terminus().clone());
    // Takes the lock for each attempt, so that other threads can send from the manager while
    // this waits.
    retry(sender.terminus(), timeout_ms, || {
        let mut sending = manager.sending();
        let handle = if length <= DIRECT {
            sender.try_send(&ticket, data, offset, tag)?
        } else {
            let buffer = sending.long_buffer(sender.terminus())?;
            // Fails until the card has gathered the previous contents.
            buffer.write(0, data)?;
            sender.try_send(&ticket, buffer.piece(0, length)?, offset, tag)?
        };
        sending.add(Posted::Bytes(handle));
        Ok(())
    })?
}
}

fn nothing() -> Failure {
    Failure::new(EAGAIN, "no such tag has arrived")
}

exported! {
/// Creates a receiver with a buffer of `length` bytes. Its queue has room for up to `tags` tags (2
/// to 65536) that have arrived and were not taken.
fn hamlyn_tag_receiver_create(
    card: &hamlyn_card,
    length: usize,
    tags: u32,
    receiver: Out<Box<hamlyn_tag_receiver>>,
) {
    receiver.store(hamlyn_tag_receiver(TagReceiver::create(&card.0, length, tags)?))
}

/// Releases a receiver and its buffer. NULL is a no-op.
fn hamlyn_tag_receiver_destroy(receiver: Box<hamlyn_tag_receiver>);

/// Stores the ticket that senders need.
fn hamlyn_tag_receiver_ticket(receiver: &hamlyn_tag_receiver, ticket: Out<hamlyn_ticket>) {
    ticket.store(hamlyn_ticket::new(&receiver.0.ticket()?))
}

/// Takes the next tag that has arrived.
fn hamlyn_tag_receive(receiver: &mut hamlyn_tag_receiver, tag: Out<u32>, timeout_ms: c_int) {
    tag.store(match waits(timeout_ms) {
        None => receiver.0.try_recv()?.ok_or_else(nothing)?,
        Some(None) => receiver.0.recv()?,
        Some(Some(limit)) => receiver.0.recv_timeout(limit)?,
    })
}

/// Takes this specific tag once it has arrived. Other tags stay queued in order. Fails with -ENOSPC
/// if as many other tags are set aside as the receiver was created for: take some with
/// hamlyn_tag_receive.
fn hamlyn_tag_receive_specific(receiver: &mut hamlyn_tag_receiver, tag: u32, timeout_ms: c_int) {
    match waits(timeout_ms) {
        None => receiver.0.try_recv_tag(tag)?.ok_or_else(nothing)?,
        Some(None) => receiver.0.recv_tag(tag)?,
        Some(Some(limit)) => receiver.0.recv_tag_timeout(tag, limit)?,
    };
}

/// Returns a file descriptor for poll(2) and similar calls, owned by the library. Call
/// hamlyn_tag_arm before each wait. After it, call hamlyn_tag_receive with a timeout of 0 until
/// there are no more tags.
fn hamlyn_tag_fd(receiver: &hamlyn_tag_receiver) {
    receiver.0.file()?.as_fd().as_raw_fd()
}

/// Makes hamlyn_tag_fd readable once a tag has arrived. Returns 1 if there already is a tag that
/// was not taken (then the descriptor may not become readable for it), else 0.
fn hamlyn_tag_arm(receiver: &hamlyn_tag_receiver) {
    receiver.0.arm()?
}

/// Copies bytes out of the receiver's buffer, starting at `offset`.
fn hamlyn_tag_read(receiver: &hamlyn_tag_receiver, offset: usize, to: *mut c_void, length: usize) {
    receiver.0.read(offset, bytes_mut(to, length, "to")?)?
}
}
