//! Deliberate updates.

use std::ffi::c_int;

use super::send_buffer::shrimp_send_buffer;
use crate::call::waited;
use crate::exported::exported;

exported! {
/// Makes the card send these bytes as they are in memory. Offset and length must be multiples of 4,
/// and the mode SHRIMP_MODE_DELIBERATE. Returns when the card has started with the last page. Do
/// not change the memory before shrimp_wait_until_sent has returned. Later stores and sends are
/// ordered after this one only if you wait for it first.
fn shrimp_send(buffer: &shrimp_send_buffer, offset: usize, length: usize) {
    buffer.mapping().send(offset, length)?
}

/// Waits until the card has read everything from earlier shrimp_send calls. Fails with -ECONNRESET
/// or -EHOSTDOWN if the data did not or may not have reached a receiver: the receive buffer was
/// withdrawn, or its host is lost.
fn shrimp_wait_until_sent(buffer: &shrimp_send_buffer, timeout_ms: c_int) {
    let buffer = buffer.mapping();
    waited!(timeout_ms, buffer => wait_until_sent / wait_until_sent_timeout())?
}

/// Returns 1 if the card's engine for deliberate updates is idle, else 0. All processes of the
/// machine share one engine.
fn shrimp_is_free(buffer: &shrimp_send_buffer) {
    buffer.mapping().is_free()
}
}
