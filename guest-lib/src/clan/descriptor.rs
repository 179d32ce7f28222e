//! Descriptors of apertures: the paper's RDMA cookie.

use std::fmt;
use std::str::FromStr;

use hamlyn_abi::clan::aperture::{CLAN_GROUP_HOST, CLAN_GROUPS};

use super::descriptor_error::{DescriptorError, SIZE, VERSION};
use super::rights::Rights;
use crate::core::text::{TextError, read_hex, write_hex};
use crate::error::{Result, at_most};

const MAGIC: [u8; 2] = *b"CL";
const PREFIX: &str = "clan1:";

/// The opaque descriptor of section 3.2: the host, aperture and access rights of some memory.
///
/// Every holder may map the memory, use it as the target of a DMA transfer, and pass the descriptor
/// on; the key is a secret. The host that owns the memory checks each packet, whatever the
/// descriptor contains.
///
/// A descriptor is passed on as text ([`fmt::Display`], [`FromStr`]), or as 32 bytes, which fit
/// into a message of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor {
    pub(super) host: u32,
    pub(super) aperture: u32,
    pub(super) key: u64,
    pub(super) length: u64,
    pub(super) rights: Rights,
}

impl Descriptor {
    /// Size of the binary form, in bytes.
    pub const SIZE: usize = SIZE;

    /// Creates a descriptor from values that another program passed in a format of its own.
    #[must_use]
    pub fn new(host: u32, aperture: u32, key: u64, length: u64, rights: Rights) -> Self {
        Self { host, aperture, key, length, rights }
    }

    /// Returns the descriptor of a group (multicast, section 2.5), whose members agree on key and
    /// length. A group is write-only.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] if the group number is too large.
    pub fn of_group(group: u32, key: u64, length: u64) -> Result<Self> {
        at_most("group", group.into(), u64::from(CLAN_GROUPS) - 1)?;
        Ok(Self::new(CLAN_GROUP_HOST + group, 0, key, length, Rights::Write))
    }

    /// Returns the host that owns the memory; `None` for a group, whose members are at several
    /// hosts.
    #[must_use]
    pub fn host(&self) -> Option<u32> {
        (!self.is_group()).then_some(self.host)
    }

    /// Returns whether the descriptor names a group.
    #[must_use]
    pub fn is_group(&self) -> bool {
        (CLAN_GROUP_HOST..CLAN_GROUP_HOST + CLAN_GROUPS).contains(&self.host)
    }

    /// Returns the aperture's number at its host.
    #[must_use]
    pub fn aperture(&self) -> u32 {
        self.aperture
    }

    /// Returns the length of the memory in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns whether the length is zero, which it never is in a valid descriptor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the access rights, as its owner declared them.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Returns the binary form, little-endian: `CL`, version, rights, host, aperture, key, length,
    /// and the CRC-32 of all bytes before it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.rights.flags() as u8;
        bytes[4..8].copy_from_slice(&self.host.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.aperture.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.key.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.length.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses the binary form.
    ///
    /// # Errors
    /// [`DescriptorError`] describes the problem.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DescriptorError> {
        let length = bytes.len();
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| DescriptorError::Size { length })?;
        if bytes[..2] != MAGIC {
            return Err(DescriptorError::Magic);
        }
        if bytes[2] != VERSION {
            return Err(DescriptorError::Version { version: bytes[2] });
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (stored, computed) = (word(28), crc32fast::hash(&bytes[..28]));
        if stored != computed {
            return Err(DescriptorError::Checksum { stored, computed });
        }
        let rights = Rights::of_flags(bytes[3].into()).ok_or(DescriptorError::Rights { rights: bytes[3] })?;
        Ok(Self { host: word(4), aperture: word(8), key: long(12), length: long(20), rights })
    }
}

/// The text form: `clan1:` and the binary form in hexadecimal.
impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, PREFIX, &self.to_bytes())
    }
}

/// Prints everything but the key, which is a secret.
impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor")
            .field("host", &self.host)
            .field("aperture", &self.aperture)
            .field("length", &self.length)
            .field("rights", &self.rights)
            .finish_non_exhaustive()
    }
}

impl FromStr for Descriptor {
    type Err = DescriptorError;

    fn from_str(text: &str) -> Result<Self, DescriptorError> {
        let bytes = read_hex::<{ Self::SIZE }>(PREFIX, text).map_err(|error| match error {
            TextError::Prefix => DescriptorError::Prefix,
            TextError::Digits { digits } => DescriptorError::Digits { digits },
            TextError::Digit { position } => DescriptorError::Digit { position },
        })?;
        Self::from_bytes(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_abi::clan::uapi::ClanSend;
    use proptest::prelude::*;

    use super::*;

    fn rights() -> impl Strategy<Value = Rights> {
        prop::sample::select(vec![Rights::None, Rights::Read, Rights::Write, Rights::ReadWrite])
    }

    fn descriptors() -> impl Strategy<Value = Descriptor> {
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), rights()).prop_map(
            |(host, aperture, key, length, rights)| Descriptor::new(host, aperture, key, length, rights),
        )
    }

    proptest! {
        #[test]
        fn descriptor_round_trips_in_both_forms(descriptor in descriptors()) {
            prop_assert_eq!(Descriptor::from_bytes(&descriptor.to_bytes()), Ok(descriptor));
            prop_assert_eq!(descriptor.to_string().parse(), Ok(descriptor));
        }

        #[test]
        fn changed_byte_is_detected(
            descriptor in descriptors(),
            at in 0..Descriptor::SIZE,
            change in 1..=255_u8,
        ) {
            let mut bytes = descriptor.to_bytes();
            bytes[at] ^= change;
            prop_assert!(Descriptor::from_bytes(&bytes).is_err());
        }

        #[test]
        fn descriptor_of_wrong_size_is_refused(descriptor in descriptors(), length in 0..100_usize) {
            let mut bytes = descriptor.to_bytes().to_vec();
            bytes.resize(length, 0);
            prop_assert_eq!(Descriptor::from_bytes(&bytes).is_err(), length != Descriptor::SIZE);
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in ".*") {
            let _ = text.parse::<Descriptor>();
            let _ = format!("{PREFIX}{text}").parse::<Descriptor>();
        }

        #[test]
        fn unknown_rights_are_refused(descriptor in descriptors(), strange in 4..=255_u8) {
            let mut bytes = descriptor.to_bytes();
            bytes[3] = strange;
            let sum = crc32fast::hash(&bytes[..28]);
            bytes[28..].copy_from_slice(&sum.to_le_bytes());
            prop_assert_eq!(Descriptor::from_bytes(&bytes), Err(DescriptorError::Rights { rights: strange }));
        }
    }

    #[test]
    fn descriptor_fits_into_message_and_hides_key() {
        assert!(Descriptor::SIZE + 8 <= size_of_val(&ClanSend::default().data));
        let text = format!("{:?}", Descriptor::new(1, 2, 123_454_321, 4, Rights::Read));
        assert!(!text.contains("123454321"), "{text}");
        assert_eq!("shrimp1:00".parse::<Descriptor>(), Err(DescriptorError::Prefix));
    }

    #[test]
    fn group_has_no_host_and_is_write_only() {
        let group = Descriptor::of_group(63, 5, 64).unwrap();
        assert_eq!((group.host(), group.is_group(), group.rights()), (None, true, Rights::Write));
        assert_eq!(
            Descriptor::of_group(64, 5, 64).unwrap_err().to_string(),
            "group 64 is out of range (limit 63)"
        );
        assert_eq!(Descriptor::new(0xff00 + 64, 0, 5, 64, Rights::Write).host(), Some(0xff40));
    }
}
