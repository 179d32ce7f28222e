//! Release handles (section 3.2 of the paper): the outcome of a single request.

use std::ffi::{c_int, c_void};

use hamlyn::{Handle, Message, Source};

use crate::call::{at_once, timeout};
use crate::exported::{Out, exported};
use crate::memory::{bytes, items};
use crate::terminus::{
    described, hamlyn_message, hamlyn_piece, hamlyn_share, hamlyn_terminus, piece, shared,
};
use crate::ticket::hamlyn_ticket;

/// The handle of a request. Any number of threads may use it.
pub struct hamlyn_handle(Handle);

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

/// Waits until the card has finished with a request. Every call fails with -EPERM if the card
/// refused the request; uln_error gives the reason. With a timeout of 0 the call does not wait:
/// it fails with -EAGAIN if the card has not finished.
fn hamlyn_handle_wait(handle: &hamlyn_handle, timeout_ms: c_int) {
    if !handle.0.is_complete()? {
        at_once(timeout_ms, handle.0.wait(timeout(timeout_ms)))?;
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
