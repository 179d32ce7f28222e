//! Handles of receive buffers.

use std::ffi::c_char;

use hamlyn::shrimp::Handle;

use crate::call::Failure;
use crate::exported::{Out, exported};
use crate::ticket::print;

/// Size of a handle in bytes.
pub const SHRIMP_HANDLE_SIZE: usize = 72;

/// Names a receive buffer to processes that may map their buffers to it. It may be copied, passed
/// on as text, or passed when a connection begins. It is a capability: any process that has it may
/// store to the buffer, if its host is one that the owner allows. It contains a checksum, which is
/// checked when the handle is used.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_handle {
    /// The binary form.
    pub bytes: [u8; SHRIMP_HANDLE_SIZE],
}

/// The contents of a handle.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_handle_info {
    /// Size of the receive buffer in bytes.
    pub length: u64,
    /// The host of the receive buffer.
    pub host: u32,
    /// Its number there.
    pub number: u32,
    /// Offset of the buffer's first byte in its page. A byte arrives at the page offset that it was
    /// stored at.
    pub place: u32,
    /// Reserved for future use: zeros.
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

exported! {
/// Parses a handle's text: "shrimp2:" and digits.
fn shrimp_handle_parse(text: &str, handle: Out<shrimp_handle>) {
    handle.store(shrimp_handle::new(&text.parse().map_err(hamlyn::Error::from)?))
}

/// Writes a handle's zero-terminated text into `size` bytes; HAMLYN_TEXT_SIZE is enough.
fn shrimp_handle_print(handle: &shrimp_handle, text: *mut c_char, size: usize) {
    print(&handle.read()?.to_string(), text, size)?
}

/// Stores the contents of a handle.
fn shrimp_handle_get_info(handle: &shrimp_handle, info: Out<shrimp_handle_info>) {
    let Handle { node, export, length, place, .. } = handle.read()?;
    info.store(shrimp_handle_info { length, host: node, number: export, place, reserved: [0; 3] })
}
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use std::ptr::null;

    use super::*;
    use crate::ticket::HAMLYN_TEXT_SIZE;

    #[test]
    fn handle_survives_text_round_trip() {
        assert_eq!(SHRIMP_HANDLE_SIZE, Handle::SIZE);
        let handle = shrimp_handle::new(&Handle::new(3, 7, 99, 5000));
        let mut text = [0x7f as c_char; HAMLYN_TEXT_SIZE];
        let place = text.as_mut_ptr();
        // SAFETY: the text has at least `size` bytes.
        let print = |size| unsafe { shrimp_handle_print(Some(&handle), place, size) };
        assert_eq!((print(80), print(81)), (-libc::EINVAL, 0));
        assert_eq!(text[81], 0x7f as c_char);
        let mut read = MaybeUninit::new(shrimp_handle { bytes: [0; SHRIMP_HANDLE_SIZE] });
        // SAFETY: each text is zero-terminated, or null.
        let mut parse = |text: *const c_char| unsafe { shrimp_handle_parse(text, Some(&mut read)) };
        assert_eq!(parse(text.as_ptr()), 0);
        assert_eq!((parse(c"shrimp2:".as_ptr()), parse(null())), (-libc::EINVAL, -libc::EINVAL));
        // SAFETY: it was created with a value.
        let mut read = unsafe { read.assume_init() };
        let mut info = MaybeUninit::new(shrimp_handle_info {
            length: 0,
            host: 0,
            number: 0,
            place: 9,
            reserved: [0; 3],
        });
        // SAFETY: both references are valid.
        let mut ask =
            |handle: &shrimp_handle| unsafe { shrimp_handle_get_info(Some(handle), Some(&mut info)) };
        assert_eq!(ask(&read), 0);
        read.bytes[5] ^= 1;
        assert_eq!(ask(&read), -libc::EINVAL, "a changed handle is refused");
        // SAFETY: it was created with a value.
        let info = unsafe { info.assume_init() };
        assert_eq!((info.host, info.number, info.length, info.place), (3, 7, 5000, 0));
    }
}
