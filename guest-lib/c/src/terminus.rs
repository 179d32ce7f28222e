//! The lower layer's sending half: termini, send buffers, shares of a group, fetch-and-op,
//! barriers; and the card's counters.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};

use hamlyn::protocol::barrier::{Barrier, Entrance};
use hamlyn::{Error, FetchOp, Handle, Message, Piece, SendBuffer, Share, Source, Statistic, Terminus};

use crate::call::{Failure, at_once, call, free, given, retry, store, timeout, unused};
use crate::card::hamlyn_card;
use crate::memory::{bytes, items, items_mut, lent};
use crate::ticket::{hamlyn_ticket, print};

/// A send terminus of the program's own. Any number of threads may use it.
pub struct hamlyn_terminus {
    terminus: Terminus,
    /// Requests that nobody was told of yet.
    under_way: Mutex<VecDeque<Handle>>,
}

/// One of a terminus' eight send buffers: memory that the card gathers from.
pub struct hamlyn_send_buffer(SendBuffer);

/// A participant of a barrier that the others are not known to yet.
pub struct hamlyn_entrance(Entrance);

/// A participant of a barrier. One thread at a time may use it.
pub struct hamlyn_barrier(Barrier);

/// Bytes of a share.
pub const HAMLYN_SHARE_SIZE: usize = 52;

/// A part of a group receive (section 2.5 of the paper): a piece of a ticket's buffer, and what it
/// counts for. It is used up by sending or dividing it, once: who keeps a copy closes the group too
/// early.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_share {
    /// Its binary form.
    pub bytes: [u8; HAMLYN_SHARE_SIZE],
}

/// What a message has beside its data; zeros are nothing of it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_message {
    /// Metadata, up to HAMLYN_METADATA_SIZE bytes; not in fast mode.
    pub metadata: *const c_void,
    /// How many bytes of it.
    pub metadata_length: usize,
    /// Where in the ticket's buffer the data goes.
    pub offset: u32,
    /// In fast mode the word that the notification carries, else the packet counter's initial value
    /// (section 2.5).
    pub word: u32,
    /// HAMLYN_MESSAGE_SILENT and HAMLYN_MESSAGE_INTERRUPT.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// Some bytes of a send buffer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_piece {
    /// The buffer, which is the terminus'.
    pub buffer: *const hamlyn_send_buffer,
    /// The first byte.
    pub start: usize,
    /// How many.
    pub length: usize,
}

/// Moves the data without a notification.
pub const HAMLYN_MESSAGE_SILENT: u32 = 1;
/// Wakes the receiver if it sleeps.
pub const HAMLYN_MESSAGE_INTERRUPT: u32 = 2;
/// The word plus the operand.
pub const HAMLYN_OP_ADD: u32 = 0;
/// The word and the operand, bit by bit.
pub const HAMLYN_OP_AND: u32 = 1;
/// The word or the operand.
pub const HAMLYN_OP_OR: u32 = 2;
/// The word exclusive-or the operand.
pub const HAMLYN_OP_XOR: u32 = 3;
/// The operand.
pub const HAMLYN_OP_SWAP: u32 = 4;
/// The operand if the word is `compare`.
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
    /// Sends when there is room, and has a later call tell what became of it.
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

    /// Keeps a request's handle until it is known what became of it.
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

/// Creates a send terminus with `weight` times the share of the link of one of weight 1 (0 is 1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_create(
    card: Option<&hamlyn_card>,
    weight: u32,
    terminus: Option<&mut MaybeUninit<Box<hamlyn_terminus>>>,
) -> c_int {
    call(|| {
        let to = given(terminus, "terminus")?;
        let terminus = given(card, "card")?.0.create_terminus_weighted(weight.max(1))?;
        store(to, Box::new(hamlyn_terminus { terminus, under_way: Mutex::default() }))
    })
}

/// Lets a terminus go: what is still in its work queue is abandoned, so flush it. It lives on for
/// its send buffers and barriers. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_destroy(terminus: Option<Box<hamlyn_terminus>>) {
    free(terminus);
}

/// Sends bytes with the request itself, up to 448 with what metadata there is; they may be changed
/// when this returns. -EPERM if the card has refused an earlier one, which is said once; this one
/// is sent all the same (hamlyn_terminus_post gives a handle of each request instead). The message
/// may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_send(
    terminus: Option<&hamlyn_terminus>,
    ticket: Option<&hamlyn_ticket>,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let terminus = given(terminus, "terminus")?;
        let ticket = given(ticket, "ticket")?.read()?;
        let (message, data) = (described(Message::to(&ticket), message)?, bytes(data, length, "data")?);
        terminus.send(&message, Source::Bytes(data), timeout_ms)
    })
}

/// Sends up to 28 pieces of the terminus' send buffers, one behind the other, without copying: they
/// are not to be changed until hamlyn_terminus_flush. Otherwise as hamlyn_terminus_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_send_pieces(
    terminus: Option<&hamlyn_terminus>,
    ticket: Option<&hamlyn_ticket>,
    message: Option<&hamlyn_message>,
    pieces: *const hamlyn_piece,
    count: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let terminus = given(terminus, "terminus")?;
        let ticket = given(ticket, "ticket")?.read()?;
        let message = described(Message::to(&ticket), message)?;
        let pieces = items(pieces, count, "pieces")?.iter().map(piece).collect::<Result<Vec<_>, _>>()?;
        terminus.send(&message, Source::Gather(&pieces), timeout_ms)
    })
}

/// Sends bytes as a share of a group, which uses the share up; there may be fewer than it has room
/// for. Otherwise as hamlyn_terminus_send; the message's `word` must be 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_send_share(
    terminus: Option<&hamlyn_terminus>,
    share: Option<&hamlyn_share>,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let terminus = given(terminus, "terminus")?;
        let share = given(share, "share")?.read()?;
        let (message, data) = (shared(&share, message)?, bytes(data, length, "data")?);
        terminus.send(&message, Source::Bytes(data), timeout_ms)
    })
}

/// Waits until the card has finished with all requests. If it has refused any of them, this says
/// so, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_flush(
    terminus: Option<&hamlyn_terminus>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let terminus = given(terminus, "terminus")?;
        at_once(timeout_ms, terminus.terminus.finish(timeout(timeout_ms)))?;
        let mut under_way = terminus.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = under_way.drain(..).find_map(|handle| handle.is_complete().err());
        Ok(refused.map_or(Ok(0), Err)?)
    })
}

/// A file descriptor for poll(2) and the like, which stays the library's: readable once what
/// hamlyn_terminus_arm_room or hamlyn_terminus_arm_flush was called for is there, the one that was
/// called last. It may stand for more than this terminus: call that before each wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_fd(terminus: Option<&hamlyn_terminus>) -> c_int {
    call(|| Ok(given(terminus, "terminus")?.terminus.file()?.as_fd().as_raw_fd()))
}

/// Makes hamlyn_terminus_fd readable once there is room for a call that sends: for who was without,
/// once half of the work queue is free. Returns 1 if there is room (then the descriptor may not
/// become readable for it), else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_arm_room(terminus: Option<&hamlyn_terminus>) -> c_int {
    call(|| Ok(given(terminus, "terminus")?.terminus.arm_room()?.into()))
}

/// Makes hamlyn_terminus_fd readable once the card has finished with all that was sent until now.
/// Returns 1 if it has (then the descriptor may not become readable for it), else 0.
/// hamlyn_terminus_flush says whether it has refused any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_arm_flush(terminus: Option<&hamlyn_terminus>) -> c_int {
    call(|| {
        let under_way = &given(terminus, "terminus")?.under_way;
        let under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(under_way.back().map_or(Ok(true), Handle::arm)?.into())
    })
}

/// Changes the 64-bit word `offset` bytes into a ticket's buffer (a multiple of 8), and stores what
/// it was. The slot is HAMLYN_SLOT_FETCHABLE. After a time-out it is not known whether the word was
/// changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_fetch(
    terminus: Option<&hamlyn_terminus>,
    ticket: Option<&hamlyn_ticket>,
    offset: u32,
    operation: u32,
    operand: u64,
    compare: u64,
    found: Option<&mut MaybeUninit<u64>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (terminus, to) = (&given(terminus, "terminus")?.terminus, given(found, "found")?);
        let ticket = given(ticket, "ticket")?.read()?;
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
        store(to, at_once(timeout_ms, fetch.wait(timeout(timeout_ms)))?)
    })
}

/// Makes a send buffer of `length` bytes of the program's own memory, or with NULL of memory that
/// the library takes; as hamlyn_buffer_create says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_send_buffer_create(
    terminus: Option<&hamlyn_terminus>,
    memory: *mut c_void,
    length: usize,
    buffer: Option<&mut MaybeUninit<Box<hamlyn_send_buffer>>>,
) -> c_int {
    call(|| {
        let to = given(buffer, "buffer")?;
        let terminus = &given(terminus, "terminus")?.terminus;
        let buffer = match lent(memory, length)? {
            Some(mapping) => terminus.lend_mapping(mapping)?,
            None => terminus.create_send_buffer(length)?,
        };
        store(to, Box::new(hamlyn_send_buffer(buffer)))
    })
}

/// Takes a send buffer from the card at once, which refuses what it had not gathered. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_send_buffer_destroy(buffer: Option<Box<hamlyn_send_buffer>>) {
    free(buffer);
}

/// Where a send buffer's bytes are; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_send_buffer_data(buffer: Option<&hamlyn_send_buffer>) -> *mut c_void {
    buffer.map_or(std::ptr::null_mut(), |buffer| buffer.0.as_ptr().cast_mut().cast())
}

/// Starts a group: all of a ticket's buffer. One notification comes when all its parts have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_share_whole(
    ticket: Option<&hamlyn_ticket>,
    share: Option<&mut MaybeUninit<hamlyn_share>>,
) -> c_int {
    call(|| {
        let to = given(share, "share")?;
        store(to, hamlyn_share::new(&Share::whole(given(ticket, "ticket")?.read()?)?))
    })
}

/// Divides a share into `count` parts, as equal as can be, which are stored; the share is used up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_share_split(
    share: Option<&hamlyn_share>,
    parts: *mut hamlyn_share,
    count: usize,
) -> c_int {
    call(|| {
        let share = given(share, "share")?.read()?;
        let to = items_mut(parts, count, "parts")?;
        let parts = share.split(count).map_err(|error| Failure::argument(error.to_string()))?;
        for (to, part) in to.iter_mut().zip(&parts) {
            to.write(hamlyn_share::new(part));
        }
        Ok(0)
    })
}

/// Takes the first `length` bytes off a share, for a message that is not its last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_share_take(
    share: Option<&mut hamlyn_share>,
    length: u32,
    taken: Option<&mut MaybeUninit<hamlyn_share>>,
) -> c_int {
    call(|| {
        let (share, to) = (given(share, "share")?, given(taken, "taken")?);
        let mut left = share.read()?;
        let taken = left.take(length)?;
        *share = hamlyn_share::new(&left);
        store(to, hamlyn_share::new(&taken))
    })
}

/// Makes a place at a barrier (section 2.5 of the paper).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_entrance_create(
    card: Option<&hamlyn_card>,
    entrance: Option<&mut MaybeUninit<Box<hamlyn_entrance>>>,
) -> c_int {
    call(|| {
        let to = given(entrance, "entrance")?;
        store(to, Box::new(hamlyn_entrance(Entrance::create(&given(card, "card")?.0)?)))
    })
}

/// Lets a place go that was not joined from. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_entrance_destroy(entrance: Option<Box<hamlyn_entrance>>) {
    free(entrance);
}

/// The ticket that all other participants need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_entrance_ticket(
    entrance: Option<&hamlyn_entrance>,
    ticket: Option<&mut MaybeUninit<hamlyn_ticket>>,
) -> c_int {
    call(|| {
        let to = given(ticket, "ticket")?;
        store(to, hamlyn_ticket::new(&given(entrance, "entrance")?.0.ticket()?))
    })
}

/// Joins the barrier of those whose tickets these are, in an order on which all agree; this one's
/// own is number `index`. The entrance is used up, also by a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_barrier_join(
    entrance: Option<Box<hamlyn_entrance>>,
    terminus: Option<&hamlyn_terminus>,
    tickets: *const hamlyn_ticket,
    count: usize,
    index: usize,
    barrier: Option<&mut MaybeUninit<Box<hamlyn_barrier>>>,
) -> c_int {
    call(|| {
        let entrance = given(entrance, "entrance")?;
        let (terminus, to) = (&given(terminus, "terminus")?.terminus, given(barrier, "barrier")?);
        let tickets = items(tickets, count, "tickets")?;
        let tickets = tickets.iter().map(hamlyn_ticket::read).collect::<Result<Vec<_>, _>>()?;
        store(to, Box::new(hamlyn_barrier(entrance.0.join(terminus.clone(), &tickets, index)?)))
    })
}

/// Enters the next round, and leaves it when all others have entered it. After a time-out call it
/// again to wait on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_barrier_wait(
    barrier: Option<&mut hamlyn_barrier>,
    timeout_ms: c_int,
) -> c_int {
    call(|| at_once(timeout_ms, given(barrier, "barrier")?.0.wait(timeout(timeout_ms)).map(|()| 0)))
}

/// Lets a participant go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_barrier_destroy(barrier: Option<Box<hamlyn_barrier>>) {
    free(barrier);
}

/// Reads the card's counters, as many as there is room for. Returns how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_statistics(
    card: Option<&hamlyn_card>,
    values: *mut u64,
    count: usize,
) -> c_int {
    call(|| {
        let statistics = given(card, "card")?.0.statistics()?;
        for (to, (_, value)) in items_mut(values, count, "values")?.iter_mut().zip(&statistics) {
            to.write(*value);
        }
        Ok(crate::call::count(statistics.len()))
    })
}

/// Writes the name of a counter, by its place among them, with a zero behind it, into `size` bytes;
/// HAMLYN_TEXT_SIZE are enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_statistic_name(number: u32, text: *mut c_char, size: usize) -> c_int {
    call(|| match given(std::ptr::NonNull::new(text), "text").map(|_| Statistic::from_number(number))? {
        Some(statistic) => print(statistic.name(), text, size),
        None => Err(Error::Invalid("there is no counter of this number").into()),
    })
}

/// A share's message, as C describes it.
pub(crate) fn shared<'a>(
    share: &'a Share,
    options: Option<&'a hamlyn_message>,
) -> Result<Message<'a>, Failure> {
    if options.is_some_and(|message| message.word != 0) {
        return Err(Failure::argument("a share has a packet count of its own"));
    }
    described(share.message(), options)
}

/// What C says of a message, on top of where it goes.
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
        .offset(options.offset);
    if options.word != 0 {
        message = message.word(options.word);
    }
    if options.flags & HAMLYN_MESSAGE_SILENT != 0 {
        message = message.silent();
    }
    if options.flags & HAMLYN_MESSAGE_INTERRUPT != 0 {
        message = message.interrupt();
    }
    Ok(message)
}

/// A piece as C names it.
pub(crate) fn piece(piece: &hamlyn_piece) -> Result<Piece<'_>, Failure> {
    let buffer = items(piece.buffer, 1, "buffer")?;
    Ok(buffer[0].0.piece(piece.start, piece.length)?)
}
