//! Descriptors of apertures.

use std::ffi::c_char;

use hamlyn::clan::Descriptor;

use super::rights::rights_number;
use crate::call::Failure;
use crate::card::ULN_NO_LINK;
use crate::exported::{Out, exported};
use crate::ticket::print;

/// Size of a descriptor in bytes.
pub const CLAN_DESCRIPTOR_SIZE: usize = 32;

/// Names an aperture to processes that may access it: the paper's opaque descriptor (section 3.2).
/// It may be copied, passed on as text, or sent in a message. It is a capability: any process that
/// has it can access the memory within the aperture's rights, because it contains a secret key. It
/// also contains a checksum, which is checked when the descriptor is used.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_descriptor {
    /// The binary form.
    pub bytes: [u8; CLAN_DESCRIPTOR_SIZE],
}

/// The contents of a descriptor.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_descriptor_info {
    /// Size of the aperture in bytes.
    pub length: u64,
    /// The host of the aperture; ULN_NO_LINK for a group, whose members are at several hosts.
    pub host: u32,
    /// Its number there.
    pub aperture: u32,
    /// The rights that it gives: CLAN_RIGHT_READ and CLAN_RIGHT_WRITE.
    pub rights: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 5],
}

impl clan_descriptor {
    pub(crate) fn new(descriptor: &Descriptor) -> Self {
        Self { bytes: descriptor.to_bytes() }
    }

    pub(crate) fn read(&self) -> Result<Descriptor, Failure> {
        Descriptor::from_bytes(&self.bytes).map_err(|error| Failure::argument(error.to_string()))
    }
}

exported! {
/// Parses a descriptor's text: "clan1:" and digits.
fn clan_descriptor_parse(text: &str, descriptor: Out<clan_descriptor>) {
    descriptor.store(clan_descriptor::new(&text.parse().map_err(hamlyn::Error::from)?))
}

/// Writes a descriptor's zero-terminated text into `size` bytes; HAMLYN_TEXT_SIZE is enough.
fn clan_descriptor_print(descriptor: &clan_descriptor, text: *mut c_char, size: usize) {
    print(&descriptor.read()?.to_string(), text, size)?
}

/// Stores the contents of a descriptor.
fn clan_descriptor_get_info(descriptor: &clan_descriptor, info: Out<clan_descriptor_info>) {
    let descriptor = descriptor.read()?;
    info.store(clan_descriptor_info {
        length: descriptor.len(),
        host: descriptor.host().unwrap_or(ULN_NO_LINK),
        aperture: descriptor.aperture(),
        rights: rights_number(descriptor.rights()),
        reserved: [0; 5],
    })
}

/// Stores the descriptor of a group, 0 to 63 (multicast, section 2.5). Its members must agree on
/// key and length. A group can be written to, but never read.
fn clan_descriptor_of_group(group: u32, key: u64, length: u64, descriptor: Out<clan_descriptor>) {
    descriptor.store(clan_descriptor::new(&Descriptor::of_group(group, key, length)?))
}
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use std::ptr::null;

    use hamlyn::clan::Rights;

    use super::*;
    use crate::clan::rights::CLAN_RIGHT_WRITE;
    use crate::ticket::HAMLYN_TEXT_SIZE;

    #[test]
    fn descriptor_survives_text_round_trip() {
        assert_eq!(CLAN_DESCRIPTOR_SIZE, Descriptor::SIZE);
        let descriptor = clan_descriptor::new(&Descriptor::new(3, 7, 99, 5000, Rights::Write));
        let mut text = [0x7f as c_char; HAMLYN_TEXT_SIZE];
        let place = text.as_mut_ptr();
        // SAFETY: the text has at least `size` bytes.
        let print = |size| unsafe { clan_descriptor_print(Some(&descriptor), place, size) };
        assert_eq!((print(70), print(71)), (-libc::EINVAL, 0));
        assert_eq!(text[71], 0x7f as c_char);
        let mut read = MaybeUninit::new(clan_descriptor { bytes: [0; CLAN_DESCRIPTOR_SIZE] });
        // SAFETY: each text is zero-terminated, or null.
        let mut parse = |text: *const c_char| unsafe { clan_descriptor_parse(text, Some(&mut read)) };
        assert_eq!(parse(text.as_ptr()), 0);
        assert_eq!((parse(c"clan1:".as_ptr()), parse(null())), (-libc::EINVAL, -libc::EINVAL));
        // SAFETY: it was created with a value.
        let mut read = unsafe { read.assume_init() };
        let empty = clan_descriptor_info { length: 0, host: 0, aperture: 0, rights: 0, reserved: [0; 5] };
        let mut info = MaybeUninit::new(empty);
        // SAFETY: both references are valid.
        let mut ask = |descriptor: &clan_descriptor| unsafe {
            clan_descriptor_get_info(Some(descriptor), Some(&mut info))
        };
        assert_eq!(ask(&read), 0);
        read.bytes[5] ^= 1;
        assert_eq!(ask(&read), -libc::EINVAL, "a changed descriptor is refused");
        // SAFETY: it was created with a value.
        let info = unsafe { info.assume_init() };
        assert_eq!((info.host, info.aperture, info.length, info.rights), (3, 7, 5000, CLAN_RIGHT_WRITE));
    }

    #[test]
    fn a_group_has_no_host() {
        let mut descriptor = MaybeUninit::new(clan_descriptor { bytes: [0; CLAN_DESCRIPTOR_SIZE] });
        // SAFETY: the reference is valid.
        let mut of_group = |group| unsafe { clan_descriptor_of_group(group, 5, 64, Some(&mut descriptor)) };
        assert_eq!((of_group(64), of_group(63)), (-libc::EINVAL, 0));
        // SAFETY: it was created with a value.
        let descriptor = unsafe { descriptor.assume_init() };
        assert!(descriptor.read().is_ok_and(|descriptor| descriptor.is_group()));
    }
}
