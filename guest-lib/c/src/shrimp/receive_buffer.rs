//! Receive buffers.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::shrimp::{OwnMemory, ReceiveBuffer};

use super::card::shrimp_card;
use super::handle::shrimp_handle;
use crate::call::{at_once, call, free, given, store, timeout};
use crate::memory::lent;

/// All hosts, for shrimp_export.
pub const SHRIMP_ALL_HOSTS: u64 = 0xffff_ffff_ffff_ffff;

/// Memory that others store to. What arrives is there: nobody is asked, and no call is needed to
/// let it in. What one host has stored arrives in the order in which it was stored; stores of
/// several hosts come in any order among them. Any number of threads may use it at once.
pub struct shrimp_receive_buffer(pub(crate) ReceiveBuffer);

/// Makes a receive buffer of 1 byte to 16 MiB, zeroed, that processes of these hosts may map theirs
/// to: bit h of the word stands for host h. SHRIMP_ALL_HOSTS are all of them; with none it is
/// refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_export(
    card: Option<&shrimp_card>,
    length: usize,
    hosts: u64,
    buffer: Option<&mut MaybeUninit<Box<shrimp_receive_buffer>>>,
) -> c_int {
    call(|| {
        let to = given(buffer, "buffer")?;
        let buffer = given(card, "card")?.0.export(length, named(hosts))?;
        store(to, Box::new(shrimp_receive_buffer(buffer)))
    })
}

/// Makes a receive buffer of `length` bytes of the program's own memory, up to 16 MiB with what is
/// before it in its page. Its bytes stay as they are until a host stores to them. Other hosts
/// change them at any time, so access them as shrimp_receive_buffer_data says. The memory stays
/// where it is until the buffer is destroyed.
///
/// A page has at most two parts. So memory that begins inside a page begins at a multiple of 4 and
/// reaches that page's end, and two receive buffers that share a page touch; if not: -EINVAL. Only
/// these bytes are exposed, and not the rest of their pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_export_memory(
    card: Option<&shrimp_card>,
    memory: *mut c_void,
    length: usize,
    hosts: u64,
    buffer: Option<&mut MaybeUninit<Box<shrimp_receive_buffer>>>,
) -> c_int {
    call(|| {
        let (to, card) = (given(buffer, "buffer")?, given(card, "card")?);
        let memory = OwnMemory::over_mapping(given(lent(memory, length)?, "memory")?);
        let buffer = card.0.export_own(&memory, 0..length, named(hosts))?;
        store(to, Box::new(shrimp_receive_buffer(buffer)))
    })
}

/// The hosts that have a bit.
fn named(hosts: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |host| hosts & 1 << host != 0)
}

/// Takes a receive buffer back: nothing more arrives in it, and shrimp_state tells this to those
/// that had mapped it. Its memory is gone, if it is not the program's own. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_receive_buffer_destroy(buffer: Option<Box<shrimp_receive_buffer>>) {
    free(buffer);
}

/// What others name it by. -ENETDOWN while the card's link is down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_receive_buffer_handle(
    buffer: Option<&shrimp_receive_buffer>,
    handle: Option<&mut MaybeUninit<shrimp_handle>>,
) -> c_int {
    call(|| {
        let to = given(handle, "handle")?;
        store(to, shrimp_handle::new(&given(buffer, "buffer")?.0.handle()?))
    })
}

/// Where its bytes are; NULL for NULL. New memory begins at a page. What arrives changes them at
/// any time, so load a flag by __atomic_load_n(..., __ATOMIC_ACQUIRE) or the like: what its sender
/// had stored before it is there then. What is stored here is for this process alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_receive_buffer_data(buffer: Option<&shrimp_receive_buffer>) -> *mut c_void {
    buffer.map_or(std::ptr::null_mut(), |buffer| buffer.0.as_ptr().cast_mut().cast())
}

/// Sleeps while the 4 bytes at `offset`, a multiple of 4, are `value`, and stores what they are
/// then. That its writer is gone is nothing that arrives: keep a connection, or give a time-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_wait(
    buffer: Option<&shrimp_receive_buffer>,
    offset: usize,
    value: u32,
    now: Option<&mut MaybeUninit<u32>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(now, "now")?;
        let buffer = &given(buffer, "buffer")?.0;
        store(to, at_once(timeout_ms, buffer.wait(offset, value, timeout(timeout_ms)))?)
    })
}
