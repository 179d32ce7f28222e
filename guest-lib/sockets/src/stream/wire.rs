//! The messages by which two ends agree on a channel, little-endian.

/// Bytes of the marker.
pub(crate) const MARKER: usize = 16;
/// First bytes of each message: what it is, and its version.
const HELLO: [u8; 4] = *b"SH\x01\0";
const SWITCH: [u8; 4] = *b"SW\x01\0";

/// What the accepting end shows on TCP to prove that it is the connection's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) marker: [u8; MARKER],
}

/// Its sender's bytes on TCP end here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Switch {
    pub(super) position: u64,
}

impl Hello {
    pub(super) fn to_bytes(&self) -> [u8; 4 + MARKER] {
        let mut bytes = [0; 4 + MARKER];
        bytes[..4].copy_from_slice(&HELLO);
        bytes[4..].copy_from_slice(&self.marker);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, i32> {
        let marker = bytes.strip_prefix(&HELLO).and_then(|marker| marker.try_into().ok());
        Ok(Self { marker: marker.ok_or(libc::EPROTO)? })
    }
}

impl Switch {
    pub(super) fn to_bytes(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&SWITCH);
        bytes[4..].copy_from_slice(&self.position.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, i32> {
        let position = bytes.strip_prefix(&SWITCH).and_then(|position| position.try_into().ok());
        Ok(Self { position: u64::from_le_bytes(position.ok_or(libc::EPROTO)?) })
    }
}
