//! The common packet header: the part of a packet that the fabric understands.
//!
//! | byte | field | |
//! |---|---|---|
//! | 0 | destination | host id, little-endian |
//! | 2 | source | host id, little-endian; the switch overwrites it with the number of the port the packet came in by |
//! | 4 | version | [`VERSION`] |
//! | 5 | protocol | whose packet follows: 1 to 255, a number of the cards' own |
//! | 6 | reserved | zero |
//!
//! It has no length: the ring's records have one. What follows is the card's own: the rest of Table
//! 1 for Hamlyn.

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
    /// As an index into a table of ports.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Whose packet follows the header: cards with the same number understand each other, and discard
/// the packets of others. The numbers are the cards' own; the fabric knows none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol(NonZeroU8);

impl Protocol {
    /// The one of this number.
    pub const fn of(number: NonZeroU8) -> Protocol {
        Protocol(number)
    }

    /// The one of this number, if it is one: there is no protocol 0.
    pub fn parse(number: u8) -> Result<Protocol, HeaderError> {
        NonZeroU8::new(number).map(Protocol).ok_or(HeaderError::Protocol)
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0.get()
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a card's packets are to the fabric, as the card says when it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Whose they are.
    pub protocol: Protocol,
    /// Whether those of one sender to one receiver must come in the order in which they were sent.
    pub ordered: bool,
}

/// Why eight bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Written by a newer or older program, or not a header.
    #[error("packet header version {0} is not known (this is version {VERSION})")]
    Version(u8),
    /// It is no card's.
    #[error("protocol 0 is no card's (must be 1 to 255)")]
    Protocol,
    /// A field that must be zero.
    #[error("reserved packet header field is {0:#x} (must be 0)")]
    Reserved(u16),
}

/// The common packet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Where the packet goes.
    pub destination: HostId,
    /// Where it came from, as the switch says.
    pub source: HostId,
    /// Whose packet it is.
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
    /// Reads a header that somebody else wrote.
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

    /// The header as it travels.
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
        assert_eq!(HeaderError::Protocol.to_string(), "protocol 0 is no card's (must be 1 to 255)");
    }

    proptest! {
        #[test]
        fn what_parses_is_what_was_written(bytes: [u8; HEADER_BYTES]) {
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
