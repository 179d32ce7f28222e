//! Handles of receive buffers.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use hamlyn::shrimp::Handle;

use crate::call::{Failure, call, given, store};
use crate::memory::text;
use crate::ticket::print;

/// Bytes of a handle.
pub const SHRIMP_HANDLE_SIZE: usize = 72;

/// What names a receive buffer to those who may map theirs to it. It may be copied, handed on as
/// text, or passed when a connection begins. Who has it, and is on a host that the owner allows,
/// may store there. The bytes carry a checksum, which is checked when a handle is used.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_handle {
    /// Its binary form.
    pub bytes: [u8; SHRIMP_HANDLE_SIZE],
}

/// What a handle says.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_handle_info {
    /// How many bytes the receive buffer has.
    pub length: u64,
    /// The host that has it.
    pub host: u32,
    /// Its number there.
    pub number: u32,
    /// Offset of its first byte in that byte's page: a byte arrives at the offset that it was
    /// stored at.
    pub place: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 3],
}

impl shrimp_handle {
    pub(crate) fn new(handle: &Handle) -> Self {
        Self { bytes: handle.to_bytes() }
    }

    pub(crate) fn read(&self) -> Result<Handle, Failure> {
        Handle::from_bytes(&self.bytes).map_err(|error| Failure::argument(error.to_string()))
    }
}

/// Reads a handle's text, "shrimp2:" and digits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_handle_parse(
    text: *const c_char,
    handle: Option<&mut MaybeUninit<shrimp_handle>>,
) -> c_int {
    call(|| {
        let to = given(handle, "handle")?;
        let handle = self::text(text, "text")?.parse().map_err(hamlyn::Error::Handle)?;
        store(to, shrimp_handle::new(&handle))
    })
}

/// Writes a handle's text, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_handle_print(
    handle: Option<&shrimp_handle>,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(|| print(&given(handle, "handle")?.read()?.to_string(), text, size))
}

/// Says what a handle says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_handle_get_info(
    handle: Option<&shrimp_handle>,
    info: Option<&mut MaybeUninit<shrimp_handle_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let Handle { node, export, length, place, .. } = given(handle, "handle")?.read()?;
        store(to, shrimp_handle_info { length, host: node, number: export, place, reserved: [0; 3] })
    })
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::*;
    use crate::ticket::HAMLYN_TEXT_SIZE;

    #[test]
    fn a_handle_comes_back_from_its_text_and_says_what_it_names() {
        assert_eq!(SHRIMP_HANDLE_SIZE, Handle::SIZE);
        let handle = shrimp_handle::new(&Handle::new(3, 7, 99, 5000));
        let mut text = [0x7f as c_char; HAMLYN_TEXT_SIZE];
        let place = text.as_mut_ptr();
        // SAFETY: the text has so many bytes, or more.
        let print = |size| unsafe { shrimp_handle_print(Some(&handle), place, size) };
        assert_eq!((print(80), print(81)), (-libc::EINVAL, 0));
        assert_eq!(text[81], 0x7f as c_char);
        let mut read = MaybeUninit::new(shrimp_handle { bytes: [0; SHRIMP_HANDLE_SIZE] });
        // SAFETY: each text ends with a zero, or is null.
        let mut parse = |text: *const c_char| unsafe { shrimp_handle_parse(text, Some(&mut read)) };
        assert_eq!(parse(text.as_ptr()), 0);
        assert_eq!((parse(c"shrimp2:".as_ptr()), parse(null())), (-libc::EINVAL, -libc::EINVAL));
        // SAFETY: it was made with a value.
        let mut read = unsafe { read.assume_init() };
        let mut info = MaybeUninit::new(shrimp_handle_info {
            length: 0,
            host: 0,
            number: 0,
            place: 9,
            reserved: [0; 3],
        });
        // SAFETY: both are there.
        let mut ask =
            |handle: &shrimp_handle| unsafe { shrimp_handle_get_info(Some(handle), Some(&mut info)) };
        assert_eq!(ask(&read), 0);
        read.bytes[5] ^= 1;
        assert_eq!(ask(&read), -libc::EINVAL, "a changed handle is refused");
        // SAFETY: it was made with a value.
        let info = unsafe { info.assume_init() };
        assert_eq!((info.host, info.number, info.length, info.place), (3, 7, 5000, 0));
    }
}
