//! Addresses of endpoints: a host of the fabric and the name of a listener there.

use std::fmt;

/// Length of an address in bytes, as programs exchange it.
pub(crate) const ADDRESS: usize = 32;
/// Longest name.
pub(crate) const LONGEST_NAME: usize = ADDRESS - 4;

/// The host's number in little endian order, and the name, padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Address(pub(crate) [u8; ADDRESS]);

impl Address {
    /// `None` if the name is empty, too long, or has a NUL.
    pub(crate) fn new(host: u32, name: &str) -> Option<Self> {
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return None;
        }
        let mut bytes = [0; ADDRESS];
        bytes[..4].copy_from_slice(&host.to_le_bytes());
        bytes[4..4 + name.len()].copy_from_slice(name.as_bytes());
        Some(Self(bytes))
    }

    /// An endpoint of the host that has no name yet.
    pub(crate) fn unnamed(host: u32) -> Self {
        let mut bytes = [0; ADDRESS];
        bytes[..4].copy_from_slice(&host.to_le_bytes());
        Self(bytes)
    }

    pub(crate) fn host(&self) -> u32 {
        self.0.first_chunk().map_or(0, |host| u32::from_le_bytes(*host))
    }

    /// `None` if the bytes are no valid address.
    pub(crate) fn name(&self) -> Option<&str> {
        let name = self.0[4..].split(|byte| *byte == 0).next()?;
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fi_hamlyn://{}/{}", self.host(), self.name().unwrap_or("?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_hold_a_host_and_a_name() {
        let address = Address::new(3, "fi.7471").expect("a valid name");
        assert_eq!((address.host(), address.name()), (3, Some("fi.7471")));
        assert_eq!(address.to_string(), "fi_hamlyn://3/fi.7471");
        let unnamed = Address::unnamed(3);
        assert_eq!((unnamed.host(), unnamed.name()), (3, None));
        assert!(Address::new(0, &"x".repeat(LONGEST_NAME)).is_some());
        for name in ["", "a\0b", &"x".repeat(LONGEST_NAME + 1)] {
            assert_eq!(Address::new(0, name), None);
        }
    }
}
