//! Windows to memory of other hosts.

use std::ffi::c_void;

use hamlyn::clan::Window;

use super::descriptor::clan_descriptor;
use super::endpoint::clan_endpoint;
use crate::call::Failure;
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut};

/// A mapped aperture of another host (sections 2.1 and 3.2). Stores are posted and arrive in order.
/// A load is a read across the network, which stalls the processor. For more than some hundred
/// bytes, DMA is faster. Any number of threads may use it at once.
pub struct clan_window(pub(crate) Window);

exported! {
/// Maps the bytes of an aperture from `offset`, a multiple of 8: 1 byte to 8 MiB. Does not check
/// that the aperture exists: the first load or store reports it, by a fault of this endpoint.
fn clan_map(
    endpoint: &clan_endpoint,
    descriptor: &clan_descriptor,
    offset: u64,
    length: usize,
    window: Out<Box<clan_window>>,
) {
    window.store(clan_window(endpoint.0.map(&descriptor.read()?, offset, length)?))
}

/// Releases a window; earlier stores still arrive. NULL is a no-op.
fn clan_window_destroy(window: Box<clan_window>);
}

/// Returns the address of the window's pages in this process, for the program's own stores and
/// loads; NULL for NULL. Stores must be 1, 2, 4 or 8 bytes wide and naturally aligned. A failed
/// load returns all ones, and clan_endpoint_fault reports why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_window_data(window: Option<&clan_window>) -> *mut c_void {
    window.map_or(std::ptr::null_mut(), |window| window.0.as_ptr().cast_mut().cast())
}

exported! {
/// Stores the lower `width` bytes of `value` (1, 2, 4 or 8) at `offset`, a multiple of `width`. The
/// store arrives atomically.
fn clan_store(window: &clan_window, offset: usize, value: u64, width: u32) {
    match width {
        1 => window.0.store_u8(offset, value as u8)?,
        2 => window.0.store_u16(offset, value as u16)?,
        4 => window.0.store_u32(offset, value as u32)?,
        8 => window.0.store_u64(offset, value)?,
        _ => return Err(Failure::width(width)),
    }
}

/// Loads `width` bytes (1, 2, 4 or 8) at `offset`, a multiple of `width`. Fails with -EPERM if the
/// other host refuses, -EHOSTDOWN if it does not answer in time, and -EOPNOTSUPP for a group.
fn clan_load(window: &clan_window, offset: usize, width: u32, value: Out<u64>) {
    value.store(match width {
        1 => window.0.load_u8(offset)?.into(),
        2 => window.0.load_u16(offset)?.into(),
        4 => window.0.load_u32(offset)?.into(),
        8 => window.0.load_u64(offset)?,
        _ => return Err(Failure::width(width)),
    })
}

/// Stores bytes in ascending order, in units of up to 8 bytes.
fn clan_write(window: &clan_window, offset: usize, data: *const c_void, length: usize) {
    window.0.write(offset, bytes(data, length, "data")?)?
}

/// Loads bytes. Each unit is a read across the network. Fails like clan_load.
fn clan_read(window: &clan_window, offset: usize, to: *mut c_void, length: usize) {
    window.0.read(offset, bytes_mut(to, length, "to")?)?
}
}
