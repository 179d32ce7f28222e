//! Deliberate updates.

use std::ffi::c_int;

use super::send_buffer::shrimp_send_buffer;
use crate::call::{at_once, call, given, timeout};

/// Has the card send these bytes as they are in memory: offset and length are multiples of 4, and
/// the mode is SHRIMP_MODE_DELIBERATE. It returns when the card has begun with the last page:
/// memory must not change before shrimp_wait_until_sent, and what is stored or sent later arrives
/// later only if that was waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_send(
    buffer: Option<&shrimp_send_buffer>,
    offset: usize,
    length: usize,
) -> c_int {
    call(|| Ok(given(buffer, "buffer")?.mapping().send(offset, length).map(|()| 0)?))
}

/// Waits until the card has read all that shrimp_send was called for. -ECONNRESET or -EHOSTDOWN if
/// it was sent to nobody, or may have been: the receive buffer was taken back, or its host is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_wait_until_sent(
    buffer: Option<&shrimp_send_buffer>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let buffer = given(buffer, "buffer")?.mapping();
        at_once(timeout_ms, buffer.wait_until_sent(timeout(timeout_ms)).map(|()| 0))
    })
}

/// 1 if the card's engine for deliberate updates has nothing to do, else 0: there is one for all
/// processes of the machine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_is_free(buffer: Option<&shrimp_send_buffer>) -> c_int {
    call(|| Ok(given(buffer, "buffer")?.mapping().is_free().into()))
}
