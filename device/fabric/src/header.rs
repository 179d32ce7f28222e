//! The common packet header: the part of a packet that the fabric understands.
//!
//! | byte | field | |
//! |---|---|---|
//! | 0 | destination | host id, little-endian |
//! | 2 | source | host id, little-endian; the switch replaces it with the incoming port |
//! | 4 | version | [`VERSION`] |
//! | 5 | protocol | protocol of the packet that follows: 1 to 255, assigned by the cards |
//! | 6 | reserved | zero |
//!
//! It has no length, because the ring's records have one. What follows is the card's own: the rest
//! of Table 1 for Hamlyn.

use std::fmt;
use std::num::NonZeroU8;

use thiserror::Error;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;
/// Version of the header.
pub const VERSION: u8 = 1;

/// A host's place in the fabric: the number of its port on the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u16);

impl HostId {
    /// Returns the id as an index into a table of ports.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Protocol of the packet that follows the header. Cards with the same number understand each
/// other, and discard packets of other protocols. The cards assign the numbers; the fabric does not
/// interpret them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol(NonZeroU8);

impl Protocol {
    /// Returns the protocol with this number.
    pub const fn of(number: NonZeroU8) -> Protocol {
        Protocol(number)
    }

    /// Parses a protocol's number. Fails if it is 0, which is not a protocol.
    pub fn parse(number: u8) -> Result<Protocol, HeaderError> {
        NonZeroU8::new(number).map(Protocol).ok_or(HeaderError::Protocol)
    }

    /// Returns its number.
    pub const fn number(self) -> u8 {
        self.0.get()
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Properties of a card's packets that the fabric needs, declared when the card attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Protocol of the packets.
    pub protocol: Protocol,
    /// Whether packets of one sender to one receiver must arrive in the order in which they were
    /// sent.
    pub ordered: bool,
}

/// Why eight bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Written by a newer or older program, or not a header.
    #[error("packet header version {0} is not known (this is version {VERSION})")]
    Version(u8),
    /// Protocol 0, which no card has.
    #[error("protocol 0 belongs to no card (must be 1 to 255)")]
    Protocol,
    /// A reserved field is not zero.
    #[error("reserved packet header field is {0:#x} (must be 0)")]
    Reserved(u16),
}

/// The common packet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The packet's destination.
    pub destination: HostId,
    /// The packet's source, as the switch fills it in.
    pub source: HostId,
    /// The packet's protocol.
    pub protocol: Protocol,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Wire {
    destination: U16,
    source: U16,
    version: u8,
    protocol: u8,
    reserved: U16,
}

impl Header {
    /// Parses a header that another component wrote.
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Header, HeaderError> {
        let wire: Wire = zerocopy::transmute!(bytes);
        if wire.version != VERSION {
            return Err(HeaderError::Version(wire.version));
        }
        if wire.reserved != 0 {
            return Err(HeaderError::Reserved(wire.reserved.get()));
        }
        Ok(Header {
            destination: HostId(wire.destination.get()),
            source: HostId(wire.source.get()),
            protocol: Protocol::parse(wire.protocol)?,
        })
    }

    /// Returns the header's bytes on the wire.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        zerocopy::transmute!(Wire {
            destination: self.destination.0.into(),
            source: self.source.0.into(),
            version: VERSION,
            protocol: self.protocol.number(),
            reserved: 0.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: Header =
        Header { destination: HostId(0x102), source: HostId(3), protocol: Protocol(NonZeroU8::MIN) };

    #[test]
    fn every_field_has_its_place() {
        assert_eq!(GOOD.to_bytes(), [2, 1, 3, 0, 1, 1, 0, 0]);
        assert_eq!(Header::parse(GOOD.to_bytes()), Ok(GOOD));
    }

    #[test]
    fn a_bad_field_is_named_with_its_value() {
        for (byte, value, error) in [
            (4, 9, HeaderError::Version(9)),
            (5, 0, HeaderError::Protocol),
            (7, 1, HeaderError::Reserved(0x100)),
        ] {
            let mut bytes = GOOD.to_bytes();
            bytes[byte] = value;
            assert_eq!(Header::parse(bytes), Err(error));
        }
        assert_eq!(HeaderError::Protocol.to_string(), "protocol 0 belongs to no card (must be 1 to 255)");
    }

    proptest! {
        #[test]
        fn parsed_header_encodes_to_the_same_bytes(bytes: [u8; HEADER_BYTES]) {
            if let Ok(header) = Header::parse(bytes) {
                prop_assert_eq!(header.to_bytes(), bytes);
            }
        }

        #[test]
        fn any_host_survives(destination: u16, source: u16) {
            let header = Header { destination: HostId(destination), source: HostId(source), ..GOOD };
            prop_assert_eq!(Header::parse(header.to_bytes()), Ok(header));
        }
    }
}
