//! Addresses of connections.

use std::ffi::c_char;

use hamlyn::dart::Address;

use crate::call::Failure;
use crate::exported::{Out, exported};
use crate::ticket::print;

/// Size of an address in bytes.
pub const DART_ADDRESS_SIZE: usize = 24;

/// Names a connection to the process that is to be its other end: its host, its number there, and
/// its key. It may be copied, passed on as text, or passed when a connection by name begins. Keep
/// it secret, because it contains the key. It also contains a checksum, which is checked when the
/// address is used.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_address {
    /// The binary form.
    pub bytes: [u8; DART_ADDRESS_SIZE],
}

/// The contents of an address, except the key.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_address_info {
    /// The connection's host.
    pub host: u32,
    /// Its number there.
    pub number: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 6],
}

impl dart_address {
    pub(crate) fn new(address: &Address) -> Self {
        Self { bytes: address.to_bytes() }
    }

    pub(crate) fn read(&self) -> Result<Address, Failure> {
        Address::from_bytes(&self.bytes).map_err(|error| Failure::argument(error.to_string()))
    }
}

exported! {
/// Creates an address from values that another program has passed in its own format.
fn dart_address_of(host: u32, number: u32, key: u64, address: Out<dart_address>) {
    address.store(dart_address::new(&Address::new(host, number, key)))
}

/// Parses an address' text: "dart1:" and digits.
fn dart_address_parse(text: &str, address: Out<dart_address>) {
    address.store(dart_address::new(&text.parse().map_err(hamlyn::Error::from)?))
}

/// Writes an address' zero-terminated text into `size` bytes; HAMLYN_TEXT_SIZE is enough.
fn dart_address_print(address: &dart_address, text: *mut c_char, size: usize) {
    print(&address.read()?.to_string(), text, size)?
}

/// Stores the contents of an address.
fn dart_address_get_info(address: &dart_address, info: Out<dart_address_info>) {
    let address = address.read()?;
    info.store(dart_address_info { host: address.host(), number: address.number(), reserved: [0; 6] })
}
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use std::ptr::null;

    use super::*;
    use crate::ticket::HAMLYN_TEXT_SIZE;

    #[test]
    fn changed_address_is_refused_and_text_round_trips() {
        assert_eq!(DART_ADDRESS_SIZE, Address::SIZE);
        let none = dart_address { bytes: [0; DART_ADDRESS_SIZE] };
        let mut address = MaybeUninit::new(none);
        // SAFETY: the reference is valid.
        assert_eq!(unsafe { dart_address_of(3, 7, 99, Some(&mut address)) }, 0);
        // SAFETY: it was created with a value.
        let mut address = unsafe { address.assume_init() };
        let mut text = [0x7f as c_char; HAMLYN_TEXT_SIZE];
        let place = text.as_mut_ptr();
        // SAFETY: the text has at least `size` bytes.
        let print = |size| unsafe { dart_address_print(Some(&address), place, size) };
        assert_eq!((print(54), print(55)), (-libc::EINVAL, 0));
        assert_eq!(text[55], 0x7f as c_char);
        let mut read = MaybeUninit::new(none);
        // SAFETY: each text is zero-terminated, or null.
        let mut parse = |text: *const c_char| unsafe { dart_address_parse(text, Some(&mut read)) };
        assert_eq!(parse(text.as_ptr()), 0);
        assert_eq!((parse(c"dart1:".as_ptr()), parse(null())), (-libc::EINVAL, -libc::EINVAL));
        // SAFETY: it was created with a value.
        assert_eq!(unsafe { read.assume_init() }.bytes, address.bytes);
        let mut info = MaybeUninit::new(dart_address_info { host: 0, number: 0, reserved: [0; 6] });
        // SAFETY: both references are valid.
        let mut ask =
            |address: &dart_address| unsafe { dart_address_get_info(Some(address), Some(&mut info)) };
        assert_eq!(ask(&address), 0);
        address.bytes[5] ^= 1;
        assert_eq!(ask(&address), -libc::EINVAL, "a changed address is refused");
        // SAFETY: it was created with a value.
        let info = unsafe { info.assume_init() };
        assert_eq!((info.host, info.number), (3, 7));
    }
}
