//! Release handles (section 3.2 of the paper): the outcome of a single request.

use std::ffi::{c_int, c_void};

use hamlyn::{Handle, Message, Piece, Source, Ticket};

use crate::call::{Failure, unused, waited, waits};
use crate::exported::{Out, exported};
use crate::memory::{bytes, items, items_mut};
use crate::terminus::{
    described, hamlyn_message, hamlyn_piece, hamlyn_share, hamlyn_terminus, piece, shared,
};
use crate::ticket::hamlyn_ticket;

/// The handle of a request. Any number of threads may use it.
pub struct hamlyn_handle(Handle);

/// A request of hamlyn_terminus_post_batch: bytes, or pieces of send buffers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_post {
    /// The ticket.
    pub ticket: *const hamlyn_ticket,
    /// Bytes to send inside the request; NULL if there are pieces.
    pub data: *const c_void,
    /// Number of bytes.
    pub length: usize,
    /// Pieces of the terminus' send buffers; NULL if there are bytes.
    pub pieces: *const hamlyn_piece,
    /// Number of pieces.
    pub piece_count: usize,
    /// The message's options; zeros select none.
    pub message: hamlyn_message,
    /// Must be 0.
    pub reserved: [u32; 4],
}

impl hamlyn_post {
    fn ticket(&self) -> Result<Ticket, Failure> {
        unused(&self.reserved)?;
        items(self.ticket, 1, "ticket")?[0].read()
    }

    fn pieces(&self) -> Result<Vec<Piece<'_>>, Failure> {
        items(self.pieces, self.piece_count, "pieces")?.iter().map(piece).collect()
    }

    fn source<'a>(&'a self, pieces: &'a [Piece<'a>]) -> Result<Source<'a>, Failure> {
        match (self.length, self.piece_count) {
            (_, 0) => Ok(Source::Bytes(bytes(self.data, self.length, "data")?)),
            (0, _) => Ok(Source::Gather(pieces)),
            _ => Err(Failure::argument("a request has bytes or pieces, and not both")),
        }
    }
}

exported! {
/// Sends bytes like hamlyn_terminus_send, and stores a handle of the request. Only the handle
/// reports the request's outcome; no other call does.
fn hamlyn_terminus_post(
    terminus: &hamlyn_terminus,
    ticket: &hamlyn_ticket,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    handle: Out<Box<hamlyn_handle>>,
    timeout_ms: c_int,
) {
    let ticket = ticket.read()?;
    let (message, data) = (described(Message::to(&ticket), message)?, bytes(data, length, "data")?);
    handle.store(hamlyn_handle(terminus.post(&message, Source::Bytes(data), timeout_ms)?))
}

/// Sends pieces of send buffers like hamlyn_terminus_send_pieces, and stores a handle of the
/// request. The pieces may be changed once the request has finished.
fn hamlyn_terminus_post_pieces(
    terminus: &hamlyn_terminus,
    ticket: &hamlyn_ticket,
    message: Option<&hamlyn_message>,
    pieces: *const hamlyn_piece,
    count: usize,
    handle: Out<Box<hamlyn_handle>>,
    timeout_ms: c_int,
) {
    let ticket = ticket.read()?;
    let message = described(Message::to(&ticket), message)?;
    let pieces = items(pieces, count, "pieces")?.iter().map(piece).collect::<Result<Vec<_>, _>>()?;
    handle.store(hamlyn_handle(terminus.post(&message, Source::Gather(&pieces), timeout_ms)?))
}

/// Sends bytes as a share of a group like hamlyn_terminus_send_share, and stores a handle of the
/// request.
fn hamlyn_terminus_post_share(
    terminus: &hamlyn_terminus,
    share: &hamlyn_share,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    handle: Out<Box<hamlyn_handle>>,
    timeout_ms: c_int,
) {
    let share = share.read()?;
    let (message, data) = (shared(&share, message)?, bytes(data, length, "data")?);
    handle.store(hamlyn_handle(terminus.post(&message, Source::Bytes(data), timeout_ms)?))
}

/// Sends several messages in this order, with one doorbell, and stores a handle of each. Returns
/// the number of messages that there was room for until the timeout: the first ones. If a message
/// is wrong, none is sent. Otherwise like hamlyn_terminus_post.
fn hamlyn_terminus_post_batch(
    terminus: &hamlyn_terminus,
    posts: *const hamlyn_post,
    count: usize,
    handles: *mut *mut hamlyn_handle,
    timeout_ms: c_int,
) {
    let (posts, to) = (items(posts, count, "posts")?, items_mut(handles, count, "handles")?);
    let tickets = posts.iter().map(hamlyn_post::ticket).collect::<Result<Vec<_>, _>>()?;
    let pieces = posts.iter().map(hamlyn_post::pieces).collect::<Result<Vec<_>, _>>()?;
    let mut batch = Vec::new();
    for (post, (ticket, pieces)) in posts.iter().zip(tickets.iter().zip(&pieces)) {
        batch.push((described(Message::to(ticket), Some(&post.message))?, post.source(pieces)?));
    }
    let posted = terminus.post_batch(&batch, waits(timeout_ms))?;
    let number = posted.len();
    for (to, handle) in to.iter_mut().zip(posted) {
        to.write(Box::into_raw(Box::new(hamlyn_handle(handle))));
    }
    number
}

/// Stores the context word of the message that a handle belongs to.
fn hamlyn_handle_context(handle: &hamlyn_handle, context: Out<u64>) {
    context.store(handle.0.context())
}

/// Waits until the card has finished with a request. Every call fails with -EPERM if the card
/// refused the request; uln_error gives the reason. With a timeout of 0 the call does not wait:
/// it fails with -EAGAIN if the card has not finished.
fn hamlyn_handle_wait(handle: &hamlyn_handle, timeout_ms: c_int) {
    if !handle.0.is_complete()? {
        waited!(timeout_ms, handle.0 => wait / wait_timeout())?;
    }
}

/// Makes the terminus' hamlyn_terminus_fd readable once the card has finished with a request.
/// Returns 1 if it already has (then the descriptor may not become readable for it), else 0.
fn hamlyn_handle_arm(handle: &hamlyn_handle) {
    handle.0.arm()?
}

/// Releases a handle; its request continues. NULL is a no-op.
fn hamlyn_handle_destroy(handle: Box<hamlyn_handle>);
}
