//! The sending half of the lower layer: termini, send buffers, group shares, fetch-and-op and
//! barriers. Also the card's counters.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hamlyn::protocol::barrier::{Barrier, Entrance};
use hamlyn::{FetchOp, Handle, Message, Piece, SendBuffer, Share, Source, Statistic, Terminus};

use crate::area::hamlyn_area;
use crate::call::{Failure, retry, unused, waited};
use crate::card::hamlyn_card;
use crate::exported::{Out, exported};
use crate::memory::{bytes, items, items_mut, lent};
use crate::ticket::{hamlyn_ticket, print_counter};

/// The program's own send terminus. Any number of threads may use it.
pub struct hamlyn_terminus {
    terminus: Terminus,
    /// Requests whose outcome was not reported yet.
    under_way: Mutex<VecDeque<Handle>>,
}

/// One of a terminus' eight send buffers: memory that the card gathers from.
pub struct hamlyn_send_buffer(SendBuffer);

/// A participant of a barrier that does not know the other participants yet.
pub struct hamlyn_entrance(Entrance);

/// A participant of a barrier. One thread at a time may use it.
pub struct hamlyn_barrier(Barrier);

/// Size of a share in bytes.
pub const HAMLYN_SHARE_SIZE: usize = 52;

/// A part of a group receive (section 2.5 of the paper): a piece of a ticket's buffer, and its part
/// of the packet count. Sending or dividing a share uses it up. Using a copy of a used share
/// completes the group too early.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_share {
    /// The binary form.
    pub bytes: [u8; HAMLYN_SHARE_SIZE],
}

/// Options for a message, in addition to its data. Zeros select none.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_message {
    /// Metadata, up to HAMLYN_METADATA_SIZE bytes; not in fast mode.
    pub metadata: *const c_void,
    /// Number of bytes of metadata.
    pub metadata_length: usize,
    /// Offset in the ticket's buffer at which the data goes.
    pub offset: u32,
    /// The word that the notification carries (section 2.7); must be 0 if not in fast mode.
    pub word: u32,
    /// HAMLYN_MESSAGE_SILENT and HAMLYN_MESSAGE_INTERRUPT.
    pub flags: u32,
    /// The packet counter's initial value (section 2.5); must be 0 in fast mode.
    pub delta: u32,
    /// A word that is not sent: hamlyn_handle_context returns it.
    pub context: u64,
    /// Must be 0.
    pub reserved: [u32; 2],
}

/// A range of bytes of a send buffer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_piece {
    /// The buffer, which must belong to the terminus.
    pub buffer: *const hamlyn_send_buffer,
    /// Offset of the first byte.
    pub start: usize,
    /// Number of bytes.
    pub length: usize,
}

/// Moves the data without a notification.
pub const HAMLYN_MESSAGE_SILENT: u32 = 1;
/// Wakes the receiver if it sleeps.
pub const HAMLYN_MESSAGE_INTERRUPT: u32 = 2;
/// The word plus the operand.
pub const HAMLYN_OP_ADD: u32 = 0;
/// The word and the operand, bitwise.
pub const HAMLYN_OP_AND: u32 = 1;
/// The word or the operand, bitwise.
pub const HAMLYN_OP_OR: u32 = 2;
/// The word exclusive-or the operand.
pub const HAMLYN_OP_XOR: u32 = 3;
/// The operand.
pub const HAMLYN_OP_SWAP: u32 = 4;
/// The operand if the word equals `compare`.
pub const HAMLYN_OP_COMPARE_SWAP: u32 = 5;

impl hamlyn_share {
    fn new(share: &Share) -> Self {
        Self { bytes: share.to_bytes() }
    }

    pub(crate) fn read(&self) -> Result<Share, Failure> {
        Share::from_bytes(&self.bytes).map_err(|error| Failure::argument(error.to_string()))
    }
}

impl hamlyn_terminus {
    /// Sends when there is room. A later call reports the outcome.
    fn send(&self, message: &Message<'_>, data: Source<'_>, timeout_ms: c_int) -> Result<c_int, Failure> {
        let handle = self.post(message, data, timeout_ms)?;
        self.keep(handle).map(|()| 0)
    }

    /// Sends when there is room.
    pub(crate) fn post(
        &self,
        message: &Message<'_>,
        data: Source<'_>,
        timeout_ms: c_int,
    ) -> Result<Handle, Failure> {
        Ok(retry(&self.terminus, timeout_ms, || self.terminus.try_send(message, data))?)
    }

    /// Sends several messages with one doorbell, as many as there is room for.
    pub(crate) fn post_batch(
        &self,
        batch: &[(Message<'_>, Source<'_>)],
        waits: Option<Option<Duration>>,
    ) -> hamlyn::Result<Vec<Handle>> {
        match waits {
            None => self.terminus.try_send_batch(batch),
            Some(None) => self.terminus.send_batch(batch),
            Some(Some(limit)) => self.terminus.send_batch_timeout(batch, limit),
        }
    }

    /// Keeps a request's handle until its outcome is known.
    fn keep(&self, handle: Handle) -> Result<(), Failure> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.push_back(handle);
        let mut refused = None;
        while let Some(outcome) = under_way.front().map(Handle::is_complete) {
            match outcome {
                Ok(false) => break,
                Ok(true) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
            under_way.pop_front();
        }
        refused.map_or(Ok(()), |error| Err(error.into()))
    }
}

exported! {
/// Creates a send terminus that gets `weight` times the link share of a terminus of weight 1. A
/// weight of 0 means 1.
fn hamlyn_terminus_create(card: &hamlyn_card, weight: u32, terminus: Out<Box<hamlyn_terminus>>) {
    let made = card.0.create_terminus_weighted(weight.max(1))?;
    terminus.store(hamlyn_terminus { terminus: made, under_way: Mutex::default() })
}

/// Releases a terminus. Requests that are still in its work queue are dropped, so flush it first.
/// It stays alive for its send buffers and barriers. NULL is a no-op.
fn hamlyn_terminus_destroy(terminus: Box<hamlyn_terminus>);

/// Sends bytes inside the request itself: up to 448, including the metadata. They may be changed
/// when this returns. The message may be NULL. Fails with -EPERM, once, if the card has refused an
/// earlier request; this request is sent nevertheless. To get a handle of each request instead, use
/// hamlyn_terminus_post.
fn hamlyn_terminus_send(
    terminus: &hamlyn_terminus,
    ticket: &hamlyn_ticket,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) {
    let ticket = ticket.read()?;
    let (message, data) = (described(Message::to(&ticket), message)?, bytes(data, length, "data")?);
    terminus.send(&message, Source::Bytes(data), timeout_ms)?
}

/// Sends up to 28 pieces of the terminus' send buffers, concatenated, without copying. Do not
/// change them until hamlyn_terminus_flush has returned. Otherwise like hamlyn_terminus_send.
fn hamlyn_terminus_send_pieces(
    terminus: &hamlyn_terminus,
    ticket: &hamlyn_ticket,
    message: Option<&hamlyn_message>,
    pieces: *const hamlyn_piece,
    count: usize,
    timeout_ms: c_int,
) {
    let ticket = ticket.read()?;
    let message = described(Message::to(&ticket), message)?;
    let pieces = items(pieces, count, "pieces")?.iter().map(piece).collect::<Result<Vec<_>, _>>()?;
    terminus.send(&message, Source::Gather(&pieces), timeout_ms)?
}

/// Sends bytes as a share of a group, which uses the share up. There may be fewer bytes than the
/// share has room for. Otherwise like hamlyn_terminus_send; the message's `word` and `delta` must
/// be 0.
fn hamlyn_terminus_send_share(
    terminus: &hamlyn_terminus,
    share: &hamlyn_share,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) {
    let share = share.read()?;
    let (message, data) = (shared(&share, message)?, bytes(data, length, "data")?);
    terminus.send(&message, Source::Bytes(data), timeout_ms)?
}

/// Waits until the card has finished with all requests. Fails, once, if the card refused any of
/// them.
fn hamlyn_terminus_flush(terminus: &hamlyn_terminus, timeout_ms: c_int) {
    waited!(timeout_ms, terminus.terminus => finish / finish_timeout())?;
    let mut under_way = terminus.under_way.lock().unwrap_or_else(PoisonError::into_inner);
    let refused = under_way.drain(..).find_map(|handle| handle.is_complete().err());
    refused.map_or(Ok(()), Err)?
}

/// Returns a file descriptor for poll(2) and similar calls, owned by the library. It is readable
/// once the event of the last hamlyn_terminus_arm_room or hamlyn_terminus_arm_flush call has
/// happened. Several termini may share it: call one of these before each wait.
fn hamlyn_terminus_fd(terminus: &hamlyn_terminus) {
    terminus.terminus.file()?.as_fd().as_raw_fd()
}

/// Makes hamlyn_terminus_fd readable once there is room for a call that sends. After a call that
/// found no room, this means that half of the work queue is free. Returns 1 if there already is
/// room (then the descriptor may not become readable for it), else 0.
fn hamlyn_terminus_arm_room(terminus: &hamlyn_terminus) {
    terminus.terminus.arm_room()?
}

/// Makes hamlyn_terminus_fd readable once the card has finished with everything sent so far.
/// Returns 1 if it already has (then the descriptor may not become readable for it), else 0.
/// hamlyn_terminus_flush reports whether the card refused any of it.
fn hamlyn_terminus_arm_flush(terminus: &hamlyn_terminus) {
    let under_way = &terminus.under_way;
    let under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
    under_way.back().map_or(Ok(true), Handle::arm)?
}

/// Changes the 64-bit word at `offset` (a multiple of 8) in a ticket's buffer, and stores its
/// previous value. The slot must be HAMLYN_SLOT_FETCHABLE. After a timeout the word may or may not
/// have been changed.
fn hamlyn_fetch(
    terminus: &hamlyn_terminus,
    ticket: &hamlyn_ticket,
    offset: u32,
    operation: u32,
    operand: u64,
    compare: u64,
    found: Out<u64>,
    timeout_ms: c_int,
) {
    let terminus = &terminus.terminus;
    let ticket = ticket.read()?;
    let operation = match operation {
        HAMLYN_OP_ADD => FetchOp::Add(operand),
        HAMLYN_OP_AND => FetchOp::And(operand),
        HAMLYN_OP_OR => FetchOp::Or(operand),
        HAMLYN_OP_XOR => FetchOp::Xor(operand),
        HAMLYN_OP_SWAP => FetchOp::Swap(operand),
        HAMLYN_OP_COMPARE_SWAP => FetchOp::CompareSwap { compare, swap: operand },
        _ => return Err(Failure::argument(format!("operation {operation} is out of range (limit 5)"))),
    };
    let fetch = terminus.fetch(&ticket, offset, operation)?;
    found.store(waited!(timeout_ms, fetch => wait / wait_timeout())?)
}

/// Creates a send buffer of `length` bytes of the program's own memory. If `memory` is NULL, the
/// library allocates the memory. See hamlyn_buffer_create for the requirements.
fn hamlyn_send_buffer_create(
    terminus: &hamlyn_terminus,
    memory: *mut c_void,
    length: usize,
    buffer: Out<Box<hamlyn_send_buffer>>,
) {
    let terminus = &terminus.terminus;
    buffer.store(hamlyn_send_buffer(match lent(memory, length)? {
        Some(mapping) => terminus.lend_mapping(mapping)?,
        None => terminus.create_send_buffer(length)?,
    }))
}

/// Makes a send buffer of `length` bytes of an area, from `start` on: what has arrived there is
/// sent on without a copy. If the area is registered, its pages are shared (hamlyn_area_register).
fn hamlyn_send_buffer_create_in(
    terminus: &hamlyn_terminus,
    area: &hamlyn_area,
    start: usize,
    length: usize,
    buffer: Out<Box<hamlyn_send_buffer>>,
) {
    let range = start..start.saturating_add(length);
    buffer.store(hamlyn_send_buffer(terminus.terminus.create_send_buffer_in(&area.0, range)?))
}

/// Takes a send buffer from the card immediately. The card refuses what it has not gathered yet.
/// NULL is a no-op.
fn hamlyn_send_buffer_destroy(buffer: Box<hamlyn_send_buffer>);
}

/// Returns the address of a send buffer's first byte; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_send_buffer_data(buffer: Option<&hamlyn_send_buffer>) -> *mut c_void {
    buffer.map_or(std::ptr::null_mut(), |buffer| buffer.0.as_ptr().cast_mut().cast())
}

exported! {
/// Starts a group: all of a ticket's buffer. A single notification arrives when all its parts have.
fn hamlyn_share_whole(ticket: &hamlyn_ticket, share: Out<hamlyn_share>) {
    share.store(hamlyn_share::new(&Share::whole(ticket.read()?)?))
}

/// Divides a share into `count` parts, as equal as possible, and stores them. This uses the share
/// up.
fn hamlyn_share_split(share: &hamlyn_share, parts: *mut hamlyn_share, count: usize) {
    let share = share.read()?;
    let to = items_mut(parts, count, "parts")?;
    let parts = share.split(count).map_err(|error| Failure::argument(error.to_string()))?;
    for (to, part) in to.iter_mut().zip(&parts) {
        to.write(hamlyn_share::new(part));
    }
}

/// Takes the first `length` bytes off a share, for a message that is not its last.
fn hamlyn_share_take(share: &mut hamlyn_share, length: u32, taken: Out<hamlyn_share>) {
    let mut left = share.read()?;
    let part = left.take(length)?;
    *share = hamlyn_share::new(&left);
    taken.store(hamlyn_share::new(&part))
}

/// Creates a participant of a barrier (section 2.5 of the paper).
fn hamlyn_entrance_create(card: &hamlyn_card, entrance: Out<Box<hamlyn_entrance>>) {
    entrance.store(hamlyn_entrance(Entrance::create(&card.0)?))
}

/// Releases a participant that has not joined. NULL is a no-op.
fn hamlyn_entrance_destroy(entrance: Box<hamlyn_entrance>);

/// Stores the ticket that all other participants need.
fn hamlyn_entrance_ticket(entrance: &hamlyn_entrance, ticket: Out<hamlyn_ticket>) {
    ticket.store(hamlyn_ticket::new(&entrance.0.ticket()?))
}

/// Joins the barrier of the participants with these tickets. All participants must use the same
/// order. `index` is the number of this one's own ticket. The entrance is destroyed, even if this
/// fails.
fn hamlyn_barrier_join(
    entrance: Box<hamlyn_entrance>,
    terminus: &hamlyn_terminus,
    tickets: *const hamlyn_ticket,
    count: usize,
    index: usize,
    barrier: Out<Box<hamlyn_barrier>>,
) {
    let terminus = &terminus.terminus;
    let tickets = items(tickets, count, "tickets")?;
    let tickets = tickets.iter().map(hamlyn_ticket::read).collect::<Result<Vec<_>, _>>()?;
    barrier.store(hamlyn_barrier(entrance.0.join(terminus.clone(), &tickets, index)?))
}

/// Enters the next round, and leaves it when all other participants have entered it. After a
/// timeout, call it again to continue waiting.
fn hamlyn_barrier_wait(barrier: &mut hamlyn_barrier, timeout_ms: c_int) {
    waited!(timeout_ms, barrier.0 => wait / wait_timeout())?
}

/// Releases a participant. NULL is a no-op.
fn hamlyn_barrier_destroy(barrier: Box<hamlyn_barrier>);

/// Reads the card's counters, at most `count` of them. Returns the total number of counters.
fn hamlyn_statistics(card: &hamlyn_card, values: *mut u64, count: usize) {
    let statistics = card.0.statistics()?;
    for (to, (_, value)) in items_mut(values, count, "values")?.iter_mut().zip(&statistics) {
        to.write(*value);
    }
    statistics.len()
}

/// Writes the zero-terminated name of counter `number` into `size` bytes; HAMLYN_TEXT_SIZE is
/// enough.
fn hamlyn_statistic_name(number: u32, text: *mut c_char, size: usize) {
    print_counter(Statistic::from_number(number).map(Statistic::name), number, text, size)?
}
}

/// Returns a share's message with the options from C.
pub(crate) fn shared<'a>(
    share: &'a Share,
    options: Option<&'a hamlyn_message>,
) -> Result<Message<'a>, Failure> {
    if options.is_some_and(|message| message.word != 0 || message.delta != 0) {
        return Err(Failure::argument("a share has a packet count of its own"));
    }
    described(share.message(), options)
}

/// Adds the options from C to a message.
pub(crate) fn described<'a>(
    mut message: Message<'a>,
    options: Option<&'a hamlyn_message>,
) -> Result<Message<'a>, Failure> {
    let Some(options) = options else { return Ok(message) };
    unused(&options.reserved)?;
    if options.flags & !(HAMLYN_MESSAGE_SILENT | HAMLYN_MESSAGE_INTERRUPT) != 0 {
        return Err(Failure::argument(format!("message flags {:#x} are unknown", options.flags)));
    }
    message = message
        .metadata(bytes(options.metadata, options.metadata_length, "metadata")?)
        .offset(options.offset)
        .context(options.context);
    if options.word != 0 {
        message = message.word(options.word);
    }
    if options.delta != 0 {
        message = message.delta(options.delta);
    }
    if options.flags & HAMLYN_MESSAGE_SILENT != 0 {
        message = message.silent();
    }
    if options.flags & HAMLYN_MESSAGE_INTERRUPT != 0 {
        message = message.interrupt();
    }
    Ok(message)
}

/// Converts a piece from C.
pub(crate) fn piece(piece: &hamlyn_piece) -> Result<Piece<'_>, Failure> {
    let buffer = items(piece.buffer, 1, "buffer")?;
    Ok(buffer[0].0.piece(piece.start, piece.length)?)
}
