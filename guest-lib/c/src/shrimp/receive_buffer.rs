//! Receive buffers.

use std::ffi::{c_int, c_void};

use hamlyn::shrimp::{OwnMemory, ReceiveBuffer};

use super::card::shrimp_card;
use super::handle::shrimp_handle;
use crate::call::{given, waited};
use crate::exported::{Out, exported};
use crate::memory::lent;

/// All hosts, for shrimp_export.
pub const SHRIMP_ALL_HOSTS: u64 = 0xffff_ffff_ffff_ffff;

/// Memory that other processes store to. Data arrives without any call on this side. Stores of one
/// host arrive in the order in which they were stored; stores of several hosts arrive in any
/// relative order. Any number of threads may use it at once.
pub struct shrimp_receive_buffer(pub(crate) ReceiveBuffer);

exported! {
/// Creates a zeroed receive buffer of 1 byte to 16 MiB. Processes on `hosts` may map their buffers
/// to it: bit h stands for host h. SHRIMP_ALL_HOSTS allows all hosts; 0 is refused.
fn shrimp_export(card: &shrimp_card, length: usize, hosts: u64, buffer: Out<Box<shrimp_receive_buffer>>) {
    buffer.store(shrimp_receive_buffer(card.0.export(length, named(hosts))?))
}

/// Creates a receive buffer of `length` bytes of the program's own memory, up to 16 MiB including
/// the bytes before it in its page. The bytes keep their contents until a host stores to them.
/// Other hosts change them at any time, so access them as described at shrimp_receive_buffer_data.
/// The memory must stay mapped until the buffer is destroyed.
///
/// A page can have at most two parts. So memory that begins inside a page must begin at a multiple
/// of 4 and reach that page's end. Two receive buffers that share a page must be adjacent.
/// Otherwise the call fails with -EINVAL. Only these bytes are exposed, not the rest of their
/// pages.
fn shrimp_export_memory(
    card: &shrimp_card,
    memory: *mut c_void,
    length: usize,
    hosts: u64,
    buffer: Out<Box<shrimp_receive_buffer>>,
) {
    let memory = OwnMemory::over_mapping(given(lent(memory, length)?, "memory")?);
    buffer.store(shrimp_receive_buffer(card.0.export_own(&memory, 0..length, named(hosts))?))
}
}

/// Returns the hosts whose bit is set.
fn named(hosts: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |host| hosts & 1 << host != 0)
}

exported! {
/// Withdraws a receive buffer: no more data arrives in it, and shrimp_state reports this to
/// processes that had mapped it. Its memory is freed unless it is the program's own. NULL is a
/// no-op.
fn shrimp_receive_buffer_destroy(buffer: Box<shrimp_receive_buffer>);

/// Stores the handle that names the buffer to other processes. Fails with -ENETDOWN while the
/// card's link is down.
fn shrimp_receive_buffer_handle(buffer: &shrimp_receive_buffer, handle: Out<shrimp_handle>) {
    handle.store(shrimp_handle::new(&buffer.0.handle()?))
}
}

/// Returns the address of the buffer's first byte; NULL for NULL. Memory that the library allocated
/// begins at a page boundary. Arriving data changes the bytes at any time. So load a flag with
/// __atomic_load_n(..., __ATOMIC_ACQUIRE) or similar: everything that its sender had stored before
/// it is then visible. Stores to this memory are visible only to this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_receive_buffer_data(buffer: Option<&shrimp_receive_buffer>) -> *mut c_void {
    buffer.map_or(std::ptr::null_mut(), |buffer| buffer.0.as_ptr().cast_mut().cast())
}

exported! {
/// Sleeps while the 4 bytes at `offset`, a multiple of 4, equal `value`, then stores their new
/// value. The loss of the writer does not end the wait: keep a connection, or set a timeout.
fn shrimp_wait(buffer: &shrimp_receive_buffer, offset: usize, value: u32, now: Out<u32>, timeout_ms: c_int) {
    now.store(waited!(timeout_ms, buffer.0 => wait / wait_timeout(offset, value))?)
}
}
