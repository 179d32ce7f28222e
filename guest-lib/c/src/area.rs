//! The program's own memory, on the sending and the receiving side.

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

/// Memory to create receivers in: messages arrive there directly, without a copy.
pub struct hamlyn_area(pub(crate) MessageArea);

/// Memory to send from without copying. One thread at a time may use it. It can be sent to any
/// number of peers.
pub struct hamlyn_buffer(Buffer);

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

/// Releases an area. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_area_destroy(area: Option<Box<hamlyn_area>>) {
    free(area);
}

/// Returns the address of an area's first byte; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_area_data(area: Option<&hamlyn_area>) -> *mut c_void {
    area.map_or(std::ptr::null_mut(), |area| area.0.as_ptr().cast_mut().cast())
}

/// Creates a receiver for datagrams as long as the area. It is ready for one datagram.
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

/// Creates a stream receiver whose records arrive in the area. The area must have at least
/// `record_size` bytes for each of `records`. If `max_records` is 0, the number of records does not
/// grow.
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

/// Creates a receiver of tagged remote writes into the area, with a queue for up to `tags` tags (2
/// to 65536).
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

/// Creates a send buffer of `length` bytes of the program's own memory, up to 1 GiB. If `memory` is
/// NULL, the library allocates the memory. The memory must stay mapped until the buffer is
/// destroyed. A card behind a socket has the requirements that hamlyn_area_create lists. A manager
/// has at most eight send buffers: to send many messages, create one and send parts of it.
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

/// Waits until the card has finished with everything sent from a buffer. The bytes may be changed
/// then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_buffer_wait(buffer: Option<&hamlyn_buffer>, timeout_ms: c_int) -> c_int {
    call(|| at_once(timeout_ms, given(buffer, "buffer")?.0.wait_idle(timeout(timeout_ms)).map(|()| 0)))
}

/// Sends `length` bytes from `start` in a buffer as a datagram, like hamlyn_datagram_send but
/// without copying. Do not change the bytes until hamlyn_buffer_wait has returned.
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

/// Sends `length` bytes from `start` in a buffer by a stream, without copying. Do not change the
/// bytes until hamlyn_buffer_wait has returned. Returns the number of bytes accepted: all, or as
/// many as there was room for before the timeout.
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

/// Sends `length` bytes from `start` in a buffer as a tagged remote write of at most one packet,
/// without copying. Do not change the bytes until hamlyn_buffer_wait has returned.
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

/// Returns the range. On overflow its end saturates, which is past the end of any buffer.
fn part(start: usize, length: usize) -> Range<usize> {
    start..start.saturating_add(length)
}
