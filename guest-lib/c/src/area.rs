//! The program's own memory, on the sending and the receiving side.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::protocol::stream::StreamReceiver;
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Buffer, MessageArea};

use crate::call::{Failure, call, retry, waited};
use crate::card::hamlyn_card;
use crate::datagram::hamlyn_datagram_receiver;
use crate::exported::{Out, exported};
use crate::manager::{Posted, hamlyn_manager};
use crate::memory::lent;
use crate::stream::{
    hamlyn_stream_options, hamlyn_stream_receiver, hamlyn_stream_sender, read_options, send_with,
};
use crate::tagged::hamlyn_tag_receiver;
use crate::ticket::hamlyn_ticket;

/// Memory to create receivers in: messages arrive there directly, without a copy.
pub struct hamlyn_area(pub(crate) MessageArea);

/// Memory to send from without copying. One thread at a time may use it. It can be sent to any
/// number of peers.
pub struct hamlyn_buffer(Buffer);

exported! {
/// Creates an area of `length` bytes of the program's own memory, up to 1 GiB. If `memory` is NULL,
/// the library allocates the memory.
///
/// The memory must stay mapped and writable until the area and everything created in it are
/// destroyed. Until then the program may read arrived data in place, but must not write to the
/// memory.
///
/// In a virtual machine any bytes are accepted. A card that is attached to through its socket
/// requires whole pages of private memory, for example from aligned_alloc(4096, ...). No other
/// thread may touch these pages during this call, or during the last of the destroy calls.
fn hamlyn_area_create(card: &hamlyn_card, memory: *mut c_void, length: usize, area: Out<Box<hamlyn_area>>) {
    area.store(hamlyn_area(match lent(memory, length)? {
        Some(mapping) => card.0.lend_mapping(mapping)?,
        None => card.0.create_area(length)?,
    }))
}

/// Registers an area: its pages are pinned, and counted against the limit on locked memory, once
/// for all slots and send buffers that are created over it from now on. Otherwise, each of them
/// pins and counts its own. Has no effect if the area is registered already.
fn hamlyn_area_register(card: &hamlyn_card, area: &hamlyn_area) {
    card.0.register(&area.0)?
}

/// Releases an area. NULL is a no-op.
fn hamlyn_area_destroy(area: Box<hamlyn_area>);
}

/// Returns the address of an area's first byte; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_area_data(area: Option<&hamlyn_area>) -> *mut c_void {
    area.map_or(std::ptr::null_mut(), |area| area.0.as_ptr().cast_mut().cast())
}

exported! {
/// Creates a receiver for datagrams as long as the area. It is ready for one datagram.
fn hamlyn_datagram_receiver_create_in(
    manager: &hamlyn_manager,
    area: &hamlyn_area,
    receiver: Out<Box<hamlyn_datagram_receiver>>,
) {
    let manager = &manager.manager;
    let made = DatagramReceiver::create_in(manager, &area.0, 1)?.pop();
    let made = made.ok_or_else(|| Failure::argument("no receiver was made"))?;
    receiver.store(hamlyn_datagram_receiver(made))
}

/// Creates a stream receiver whose records arrive in the area. The area must have at least
/// `record_size` bytes for each of `records`. If `max_records` is 0, the number of records does not
/// grow.
fn hamlyn_stream_receiver_create_in(
    manager: &hamlyn_manager,
    area: &hamlyn_area,
    options: Option<&hamlyn_stream_options>,
    receiver: Out<Box<hamlyn_stream_receiver>>,
) {
    let manager = &manager.manager;
    let mut chosen = read_options(options)?;
    if options.is_none_or(|options| options.max_records == 0) {
        chosen.max_records = chosen.records;
    }
    receiver.store(hamlyn_stream_receiver(StreamReceiver::create_in(manager, &area.0, chosen)?))
}

/// Creates a receiver of tagged remote writes into the area, with a queue for up to `tags` tags (2
/// to 65536).
fn hamlyn_tag_receiver_create_in(
    card: &hamlyn_card,
    area: &hamlyn_area,
    tags: u32,
    receiver: Out<Box<hamlyn_tag_receiver>>,
) {
    receiver.store(hamlyn_tag_receiver(TagReceiver::create_in(&card.0, &area.0, tags)?))
}

/// Creates a send buffer of `length` bytes of the program's own memory, up to 1 GiB. If `memory` is
/// NULL, the library allocates the memory. The memory must stay mapped until the buffer is
/// destroyed. A card behind a socket has the requirements that hamlyn_area_create lists. A manager
/// has at most eight send buffers: to send many messages, create one and send parts of it.
fn hamlyn_buffer_create(
    manager: &hamlyn_manager,
    memory: *mut c_void,
    length: usize,
    buffer: Out<Box<hamlyn_buffer>>,
) {
    let manager = &manager.manager;
    buffer.store(hamlyn_buffer(match lent(memory, length)? {
        Some(mapping) => manager.lend_mapping(mapping)?,
        None => manager.allocate(length)?,
    }))
}
}

/// Releases a buffer immediately: the program may use the memory freely again. The card refuses
/// what it has not gathered yet, so wait first (hamlyn_buffer_wait). NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_buffer_destroy(buffer: Option<Box<hamlyn_buffer>>) {
    call(|| {
        if let Some(buffer) = buffer {
            buffer.0.abandon();
        }
        Ok(0)
    });
}

/// Returns the address of a buffer's first byte; NULL for NULL. Write to the buffer only while none
/// of its bytes is in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_buffer_data(buffer: Option<&hamlyn_buffer>) -> *mut c_void {
    buffer.map_or(std::ptr::null_mut(), |buffer| buffer.0.as_ptr().cast_mut().cast())
}

exported! {
/// Waits until the card has finished with everything sent from a buffer. The bytes may be changed
/// then.
fn hamlyn_buffer_wait(buffer: &hamlyn_buffer, timeout_ms: c_int) {
    waited!(timeout_ms, buffer.0 => wait_idle / wait_idle_timeout())?
}

/// Sends `length` bytes from `start` in a buffer as a datagram, like hamlyn_datagram_send but
/// without copying. Do not change the bytes until hamlyn_buffer_wait has returned.
fn hamlyn_datagram_send_from(
    manager: &hamlyn_manager,
    ticket: &hamlyn_ticket,
    buffer: &hamlyn_buffer,
    start: usize,
    length: usize,
    offset: u32,
    reply: Option<&hamlyn_ticket>,
    timeout_ms: c_int,
) {
    let to = manager.sending().read(ticket)?;
    let reply = reply.map(hamlyn_ticket::read).transpose()?;
    let sender = DatagramSender::new(&manager.manager);
    let part = part(start, length);
    let handle = retry(manager.manager.terminus(), timeout_ms, || {
        sender.try_send_from(&to, &buffer.0, part.clone(), offset, reply.as_ref())
    })?;
    manager.sending().add(Posted::Bytes(handle));
}

/// Sends `length` bytes from `start` in a buffer by a stream, without copying. Do not change the
/// bytes until hamlyn_buffer_wait has returned. Returns the number of bytes accepted: all, or as
/// many as there was room for before the timeout.
fn hamlyn_stream_send_from(
    sender: &mut hamlyn_stream_sender,
    buffer: &hamlyn_buffer,
    start: usize,
    length: usize,
    timeout_ms: c_int,
) {
    let part = part(start, length.min(c_int::MAX as usize));
    if timeout_ms == 0 {
        sender.0.try_send_from(&buffer.0, part)?
    } else {
        send_with(&mut sender.0, timeout_ms, |sender, limit| match limit {
            None => sender.send_from(&buffer.0, part).map(drop),
            Some(limit) => sender.send_from_timeout(&buffer.0, part, limit).map(drop),
        })?
    }
}

/// Sends `length` bytes from `start` in a buffer as a tagged remote write of at most one packet,
/// without copying. Do not change the bytes until hamlyn_buffer_wait has returned.
fn hamlyn_tag_send_from(
    manager: &hamlyn_manager,
    ticket: &hamlyn_ticket,
    buffer: &hamlyn_buffer,
    start: usize,
    length: usize,
    offset: u32,
    tag: u32,
    timeout_ms: c_int,
) {
    let to = manager.sending().read(ticket)?;
    let sender = TagSender::new(manager.manager.terminus().clone());
    let part = part(start, length);
    let handle = retry(sender.terminus(), timeout_ms, || {
        sender.try_send_from(&to, &buffer.0, part.clone(), offset, tag)
    })?;
    manager.sending().add(Posted::Bytes(handle));
}
}

/// Returns the range. On overflow its end saturates, which is past the end of any buffer.
fn part(start: usize, length: usize) -> Range<usize> {
    start..start.saturating_add(length)
}
