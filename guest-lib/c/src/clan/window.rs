//! Windows to memory of other hosts.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::Window;

use super::descriptor::clan_descriptor;
use super::endpoint::clan_endpoint;
use crate::call::{Failure, call, free, given, store};
use crate::memory::{bytes, bytes_mut};

/// A mapped aperture of another host (sections 2.1 and 3.2). Stores are posted and arrive in order.
/// A load is a read across the network, which stalls the processor. For more than some hundred
/// bytes, DMA is faster. Any number of threads may use it at once.
pub struct clan_window(pub(crate) Window);

/// Maps the bytes of an aperture from `offset`, a multiple of 8: 1 byte to 8 MiB. Does not check
/// that the aperture exists: the first load or store reports it, by a fault of this endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_map(
    endpoint: Option<&clan_endpoint>,
    descriptor: Option<&clan_descriptor>,
    offset: u64,
    length: usize,
    window: Option<&mut MaybeUninit<Box<clan_window>>>,
) -> c_int {
    call(|| {
        let to = given(window, "window")?;
        let endpoint = &given(endpoint, "endpoint")?.0;
        let window = endpoint.map(&given(descriptor, "descriptor")?.read()?, offset, length)?;
        store(to, Box::new(clan_window(window)))
    })
}

/// Releases a window; earlier stores still arrive. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_window_destroy(window: Option<Box<clan_window>>) {
    free(window);
}

/// Returns the address of the window's pages in this process, for the program's own stores and
/// loads; NULL for NULL. Stores must be 1, 2, 4 or 8 bytes wide and naturally aligned. A failed
/// load returns all ones, and clan_endpoint_fault reports why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_window_data(window: Option<&clan_window>) -> *mut c_void {
    window.map_or(std::ptr::null_mut(), |window| window.0.as_ptr().cast_mut().cast())
}

/// Stores the lower `width` bytes of `value` (1, 2, 4 or 8) at `offset`, a multiple of `width`. The
/// store arrives atomically.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_store(
    window: Option<&clan_window>,
    offset: usize,
    value: u64,
    width: u32,
) -> c_int {
    call(|| {
        let window = &given(window, "window")?.0;
        match width {
            1 => window.store_u8(offset, value as u8)?,
            2 => window.store_u16(offset, value as u16)?,
            4 => window.store_u32(offset, value as u32)?,
            8 => window.store_u64(offset, value)?,
            _ => return Err(Failure::width(width)),
        }
        Ok(0)
    })
}

/// Loads `width` bytes (1, 2, 4 or 8) at `offset`, a multiple of `width`. Fails with -EPERM if the
/// other host refuses, -EHOSTDOWN if it does not answer in time, and -EOPNOTSUPP for a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_load(
    window: Option<&clan_window>,
    offset: usize,
    width: u32,
    value: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (to, window) = (given(value, "value")?, &given(window, "window")?.0);
        let value = match width {
            1 => window.load_u8(offset)?.into(),
            2 => window.load_u16(offset)?.into(),
            4 => window.load_u32(offset)?.into(),
            8 => window.load_u64(offset)?,
            _ => return Err(Failure::width(width)),
        };
        store(to, value)
    })
}

/// Stores bytes in ascending order, in units of up to 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_write(
    window: Option<&clan_window>,
    offset: usize,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let window = &given(window, "window")?.0;
        Ok(window.write(offset, bytes(data, length, "data")?).map(|()| 0)?)
    })
}

/// Loads bytes. Each unit is a read across the network. Fails like clan_load.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_read(
    window: Option<&clan_window>,
    offset: usize,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        let window = &given(window, "window")?.0;
        Ok(window.read(offset, bytes_mut(to, length, "to")?).map(|()| 0)?)
    })
}
