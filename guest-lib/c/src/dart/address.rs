//! Addresses of connections.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use hamlyn::dart::Address;

use crate::call::{Failure, call, given, store};
use crate::memory::text;
use crate::ticket::print;

/// Bytes of an address.
pub const DART_ADDRESS_SIZE: usize = 24;

/// What names a connection to whom may be its other end: its host, its number there, and its key.
/// It may be copied, handed on as text, or be passed by a name; the bytes hold the key, which is a
/// secret. They carry a checksum, which is checked when an address is used.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_address {
    /// Its binary form.
    pub bytes: [u8; DART_ADDRESS_SIZE],
}

/// What an address says, but for the key.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_address_info {
    /// The connection's host.
    pub host: u32,
    /// Its number there.
    pub number: u32,
    /// For what may come: zeros.
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

/// Makes an address of what another program has told in its own way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_address_of(
    host: u32,
    number: u32,
    key: u64,
    address: Option<&mut MaybeUninit<dart_address>>,
) -> c_int {
    call(|| {
        let to = given(address, "address")?;
        store(to, dart_address::new(&Address::new(host, number, key)))
    })
}

/// Reads an address' text, "dart1:" and digits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_address_parse(
    text: *const c_char,
    address: Option<&mut MaybeUninit<dart_address>>,
) -> c_int {
    call(|| {
        let to = given(address, "address")?;
        let address = self::text(text, "text")?.parse().map_err(hamlyn::Error::Address)?;
        store(to, dart_address::new(&address))
    })
}

/// Writes an address' text, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_address_print(
    address: Option<&dart_address>,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(|| print(&given(address, "address")?.read()?.to_string(), text, size))
}

/// Says what an address says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_address_get_info(
    address: Option<&dart_address>,
    info: Option<&mut MaybeUninit<dart_address_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let address = given(address, "address")?.read()?;
        store(to, dart_address_info { host: address.host(), number: address.number(), reserved: [0; 6] })
    })
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::*;
    use crate::ticket::HAMLYN_TEXT_SIZE;

    #[test]
    fn an_address_comes_back_from_its_text_and_a_changed_one_is_refused() {
        assert_eq!(DART_ADDRESS_SIZE, Address::SIZE);
        let none = dart_address { bytes: [0; DART_ADDRESS_SIZE] };
        let mut address = MaybeUninit::new(none);
        // SAFETY: it is there.
        assert_eq!(unsafe { dart_address_of(3, 7, 99, Some(&mut address)) }, 0);
        // SAFETY: it was made with a value.
        let mut address = unsafe { address.assume_init() };
        let mut text = [0x7f as c_char; HAMLYN_TEXT_SIZE];
        let place = text.as_mut_ptr();
        // SAFETY: the text has so many bytes, or more.
        let print = |size| unsafe { dart_address_print(Some(&address), place, size) };
        assert_eq!((print(54), print(55)), (-libc::EINVAL, 0));
        assert_eq!(text[55], 0x7f as c_char);
        let mut read = MaybeUninit::new(none);
        // SAFETY: each text ends with a zero, or is null.
        let mut parse = |text: *const c_char| unsafe { dart_address_parse(text, Some(&mut read)) };
        assert_eq!(parse(text.as_ptr()), 0);
        assert_eq!((parse(c"dart1:".as_ptr()), parse(null())), (-libc::EINVAL, -libc::EINVAL));
        // SAFETY: it was made with a value.
        assert_eq!(unsafe { read.assume_init() }.bytes, address.bytes);
        let mut info = MaybeUninit::new(dart_address_info { host: 0, number: 0, reserved: [0; 6] });
        // SAFETY: both are there.
        let mut ask =
            |address: &dart_address| unsafe { dart_address_get_info(Some(address), Some(&mut info)) };
        assert_eq!(ask(&address), 0);
        address.bytes[5] ^= 1;
        assert_eq!(ask(&address), -libc::EINVAL, "a changed address is refused");
        // SAFETY: it was made with a value.
        let info = unsafe { info.assume_init() };
        assert_eq!((info.host, info.number), (3, 7));
    }
}
