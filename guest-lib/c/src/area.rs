//! Memory of the program's own, at both ends.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;

use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::protocol::stream::StreamReceiver;
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Buffer, MessageArea};

use crate::call::{Failure, at_once, call, count, free, given, retry, store, timeout};
use crate::card::hamlyn_card;
use crate::datagram::hamlyn_datagram_receiver;
use crate::manager::{Way, hamlyn_manager};
use crate::memory::lent;
use crate::stream::{
    hamlyn_stream_options, hamlyn_stream_receiver, hamlyn_stream_sender, read_options, send_with,
};
use crate::tagged::hamlyn_tag_receiver;
use crate::ticket::hamlyn_ticket;

/// Memory that receivers are made in: what arrives is written there, and nobody copies it.
pub struct hamlyn_area(pub(crate) MessageArea);

/// Memory to send from without copying. One thread at a time may use it; it goes to any number of
/// peers.
pub struct hamlyn_buffer(Buffer);

/// Makes an area of `length` bytes of the program's own memory, up to 1 GiB, or with NULL of memory
/// that the library takes. The memory has to stay mapped and writable until the area and all that
/// was made in it are destroyed; until then the program may read what has arrived there, in place,
/// and is not to write. A card that is attached to by its socket takes whole pages of private
/// memory, such as aligned_alloc(4096, ...) gives, and no other thread is to touch them while this
/// call or the last of those that destroy runs. In a virtual machine any bytes do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_area_create(
    card: Option<&hamlyn_card>,
    memory: *mut c_void,
    length: usize,
    area: Option<&mut MaybeUninit<Box<hamlyn_area>>>,
) -> c_int {
    call(|| {
        let to = given(area, "area")?;
        let card = &given(card, "card")?.0;
        let area = match lent(memory, length)? {
            Some(mapping) => card.lend_mapping(mapping)?,
            None => card.create_area(length)?,
        };
        store(to, Box::new(hamlyn_area(area)))
    })
}

/// Lets an area go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_area_destroy(area: Option<Box<hamlyn_area>>) {
    free(area);
}

/// Where an area's bytes are; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_area_data(area: Option<&hamlyn_area>) -> *mut c_void {
    area.map_or(std::ptr::null_mut(), |area| area.0.as_ptr().cast_mut().cast())
}

/// Creates a receiver for datagrams as long as the area; it is ready for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_receiver_create_in(
    manager: Option<&hamlyn_manager>,
    area: Option<&hamlyn_area>,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_datagram_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        let (manager, area) = (&given(manager, "manager")?.manager, &given(area, "area")?.0);
        let made = DatagramReceiver::create_in(manager, area, 1)?.pop();
        let made = made.ok_or_else(|| Failure::argument("no receiver was made"))?;
        store(to, Box::new(hamlyn_datagram_receiver(made)))
    })
}

/// Creates a stream's receiver whose records arrive in the area: of `record_size` bytes for each of
/// `records` at least. With `max_records` 0 it makes no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_receiver_create_in(
    manager: Option<&hamlyn_manager>,
    area: Option<&hamlyn_area>,
    options: Option<&hamlyn_stream_options>,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_stream_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        let (manager, area) = (&given(manager, "manager")?.manager, &given(area, "area")?.0);
        let mut chosen = read_options(options)?;
        if options.is_none_or(|options| options.max_records == 0) {
            chosen.max_records = chosen.records;
        }
        store(to, Box::new(hamlyn_stream_receiver(StreamReceiver::create_in(manager, area, chosen)?)))
    })
}

/// Creates a receiver of tagged remote writes into the area, with a queue for as many as `tags`
/// tags (2 to 65536).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_receiver_create_in(
    card: Option<&hamlyn_card>,
    area: Option<&hamlyn_area>,
    tags: u32,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_tag_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        let (card, area) = (&given(card, "card")?.0, &given(area, "area")?.0);
        store(to, Box::new(hamlyn_tag_receiver(TagReceiver::create_in(card, area, tags)?)))
    })
}

/// Makes a send buffer of `length` bytes of the program's own memory, up to 1 GiB, or with NULL of
/// memory that the library takes. The memory has to stay mapped until the buffer is destroyed; a
/// card behind a socket wants of it what hamlyn_area_create says. A manager has at most eight of
/// them, so a program with many messages makes one, and sends parts of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_buffer_create(
    manager: Option<&hamlyn_manager>,
    memory: *mut c_void,
    length: usize,
    buffer: Option<&mut MaybeUninit<Box<hamlyn_buffer>>>,
) -> c_int {
    call(|| {
        let to = given(buffer, "buffer")?;
        let manager = &given(manager, "manager")?.manager;
        let buffer = match lent(memory, length)? {
            Some(mapping) => manager.lend_mapping(mapping)?,
            None => manager.allocate(length)?,
        };
        store(to, Box::new(hamlyn_buffer(buffer)))
    })
}

/// Lets a buffer go at once: the memory is the program's again. What the card has not gathered yet
/// is refused, so wait first (hamlyn_buffer_wait). NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_buffer_destroy(buffer: Option<Box<hamlyn_buffer>>) {
    call(|| {
        if let Some(buffer) = buffer {
            buffer.0.abandon();
        }
        Ok(0)
    });
}

/// Where a buffer's bytes are, to be written to while none of them is on its way; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_buffer_data(buffer: Option<&hamlyn_buffer>) -> *mut c_void {
    buffer.map_or(std::ptr::null_mut(), |buffer| buffer.0.as_ptr().cast_mut().cast())
}

/// Waits until the card has finished with all that was sent from a buffer: its bytes may be changed
/// then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_buffer_wait(buffer: Option<&hamlyn_buffer>, timeout_ms: c_int) -> c_int {
    call(|| at_once(timeout_ms, given(buffer, "buffer")?.0.wait_idle(timeout(timeout_ms)).map(|()| 0)))
}

/// Sends `length` bytes from `start` in a buffer as a datagram, as hamlyn_datagram_send does, but
/// without copying: they are not to be changed until hamlyn_buffer_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_send_from(
    manager: Option<&hamlyn_manager>,
    ticket: Option<&hamlyn_ticket>,
    buffer: Option<&hamlyn_buffer>,
    start: usize,
    length: usize,
    offset: u32,
    reply: Option<&hamlyn_ticket>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (manager, buffer) = (given(manager, "manager")?, &given(buffer, "buffer")?.0);
        let to = manager.sending().read(given(ticket, "ticket")?)?;
        let reply = reply.map(hamlyn_ticket::read).transpose()?;
        let sender = DatagramSender::new(&manager.manager);
        let part = part(start, length);
        let handle = retry(manager.manager.terminus(), timeout_ms, || {
            sender.try_send_from(&to, buffer, part.clone(), offset, reply.as_ref())
        })?;
        manager.sending().add(Way::Bytes(handle));
        Ok(0)
    })
}

/// Sends `length` bytes from `start` in a buffer by a stream, without copying: they are not to be
/// changed until hamlyn_buffer_wait. Returns how many were taken: all, or as many as there was room
/// for in time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_stream_send_from(
    sender: Option<&mut hamlyn_stream_sender>,
    buffer: Option<&hamlyn_buffer>,
    start: usize,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (sender, buffer) = (&mut given(sender, "sender")?.0, &given(buffer, "buffer")?.0);
        let part = part(start, length.min(c_int::MAX as usize));
        if timeout_ms == 0 {
            return Ok(count(sender.try_send_from(buffer, part)?));
        }
        send_with(sender, timeout_ms, |sender| sender.send_from(buffer, part).map(drop))
    })
}

/// Sends `length` bytes from `start` in a buffer as a tagged remote write, at most as long as a
/// packet, without copying: they are not to be changed until hamlyn_buffer_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_tag_send_from(
    manager: Option<&hamlyn_manager>,
    ticket: Option<&hamlyn_ticket>,
    buffer: Option<&hamlyn_buffer>,
    start: usize,
    length: usize,
    offset: u32,
    tag: u32,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (manager, buffer) = (given(manager, "manager")?, &given(buffer, "buffer")?.0);
        let to = manager.sending().read(given(ticket, "ticket")?)?;
        let sender = TagSender::new(manager.manager.terminus().clone());
        let part = part(start, length);
        let handle = retry(sender.terminus(), timeout_ms, || {
            sender.try_send_from(&to, buffer, part.clone(), offset, tag)
        })?;
        manager.sending().add(Way::Bytes(handle));
        Ok(0)
    })
}

/// A range whose end is past the end of any buffer if it cannot be said.
fn part(start: usize, length: usize) -> Range<usize> {
    start..start.saturating_add(length)
}
