//! Release handles (section 3.2 of the paper): the outcome of a single request.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::{Handle, Message, Source};

use crate::call::{Failure, at_once, call, free, given, store, timeout};
use crate::memory::{bytes, items};
use crate::terminus::{
    described, hamlyn_message, hamlyn_piece, hamlyn_share, hamlyn_terminus, piece, shared,
};
use crate::ticket::hamlyn_ticket;

/// The handle of a request. Any number of threads may use it.
pub struct hamlyn_handle(Handle);

/// Sends bytes like hamlyn_terminus_send, and stores a handle of the request. Only the handle
/// reports the request's outcome; no other call does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_post(
    terminus: Option<&hamlyn_terminus>,
    ticket: Option<&hamlyn_ticket>,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    handle: Option<&mut MaybeUninit<Box<hamlyn_handle>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let ticket = given(ticket, "ticket")?.read()?;
        let (message, data) = (described(Message::to(&ticket), message)?, bytes(data, length, "data")?);
        post(terminus, &message, Source::Bytes(data), handle, timeout_ms)
    })
}

/// Sends pieces of send buffers like hamlyn_terminus_send_pieces, and stores a handle of the
/// request. The pieces may be changed once the request has finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_post_pieces(
    terminus: Option<&hamlyn_terminus>,
    ticket: Option<&hamlyn_ticket>,
    message: Option<&hamlyn_message>,
    pieces: *const hamlyn_piece,
    count: usize,
    handle: Option<&mut MaybeUninit<Box<hamlyn_handle>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let ticket = given(ticket, "ticket")?.read()?;
        let message = described(Message::to(&ticket), message)?;
        let pieces = items(pieces, count, "pieces")?.iter().map(piece).collect::<Result<Vec<_>, _>>()?;
        post(terminus, &message, Source::Gather(&pieces), handle, timeout_ms)
    })
}

/// Sends bytes as a share of a group like hamlyn_terminus_send_share, and stores a handle of the
/// request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_terminus_post_share(
    terminus: Option<&hamlyn_terminus>,
    share: Option<&hamlyn_share>,
    message: Option<&hamlyn_message>,
    data: *const c_void,
    length: usize,
    handle: Option<&mut MaybeUninit<Box<hamlyn_handle>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let share = given(share, "share")?.read()?;
        let (message, data) = (shared(&share, message)?, bytes(data, length, "data")?);
        post(terminus, &message, Source::Bytes(data), handle, timeout_ms)
    })
}

fn post(
    terminus: Option<&hamlyn_terminus>,
    message: &Message<'_>,
    data: Source<'_>,
    handle: Option<&mut MaybeUninit<Box<hamlyn_handle>>>,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    let (terminus, to) = (given(terminus, "terminus")?, given(handle, "handle")?);
    store(to, Box::new(hamlyn_handle(terminus.post(message, data, timeout_ms)?)))
}

/// Waits until the card has finished with a request. Every call fails with -EPERM if the card
/// refused the request; uln_error gives the reason. With a timeout of 0 the call does not wait:
/// it fails with -EAGAIN if the card has not finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_handle_wait(handle: Option<&hamlyn_handle>, timeout_ms: c_int) -> c_int {
    call(|| {
        let handle = &given(handle, "handle")?.0;
        if handle.is_complete()? {
            return Ok(0);
        }
        at_once(timeout_ms, handle.wait(timeout(timeout_ms)).map(|()| 0))
    })
}

/// Makes the terminus' hamlyn_terminus_fd readable once the card has finished with a request.
/// Returns 1 if it already has (then the descriptor may not become readable for it), else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_handle_arm(handle: Option<&hamlyn_handle>) -> c_int {
    call(|| Ok(given(handle, "handle")?.0.arm()?.into()))
}

/// Releases a handle; its request continues. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_handle_destroy(handle: Option<Box<hamlyn_handle>>) {
    free(handle);
}
