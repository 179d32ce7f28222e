//! A packet in flight from card to card (section 3.1). The fabric's own header precedes it and
//! holds the hosts.
//!
//! ```text
//! | to x, y | from x, y | length | address | data ... | CRC-32 of all that |
//!     2          2          4         8                     4
//! ```

use hamlyn_card::packet::PacketField;
use hamlyn_card::packet_field;
use hamlyn_card::ports::Pieces;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{PAGE, Target};

/// Number of bytes of a packet beside its data.
pub const OVERHEAD: usize = size_of::<Header>() + CRC;
/// Size of the largest packet, in bytes: its data is a page.
pub(crate) const LARGEST: usize = OVERHEAD + PAGE as usize;

const CRC: usize = 4;

/// A place in the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Coordinates {
    pub(crate) column: u8,
    pub(crate) row: u8,
}

impl Coordinates {
    /// Returns the place of a host in a mesh of `columns` columns. Returns `None` if the mesh would
    /// have too many rows.
    pub(crate) fn of(host: u16, columns: u16) -> Option<Self> {
        let (column, row) = (host % columns, host / columns);
        Some(Self { column: column as u8, row: u8::try_from(row).ok()? })
    }
}

/// The header in front of the data.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    to: Coordinates,
    from: Coordinates,
    length: U32,
    address: U64,
}

/// The header's fields, for traces. A place in the mesh is its column, and its row in the upper
/// byte.
pub(crate) const FIELDS: &[PacketField] = &[
    packet_field!(Header, to),
    packet_field!(Header, from),
    packet_field!(Header, length),
    packet_field!(Header, address),
];

/// A packet under construction: the header, and then data until the packet is sealed.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) target: Target,
    bytes: Vec<u8>,
}

impl Packet {
    /// Creates a packet without data.
    pub(crate) fn new(target: Target, from: Coordinates, to: Coordinates) -> Self {
        let header = Header { to, from, length: 0.into(), address: target.address.into() };
        Self { target, bytes: header.as_bytes().to_vec() }
    }

    /// Appends data to the packet.
    pub(crate) fn append(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Returns the address behind the packet's last byte.
    pub(crate) fn end(&self) -> u64 {
        self.target.address + self.data_length() as u64
    }

    pub(crate) fn data_length(&self) -> usize {
        self.bytes.len() - size_of::<Header>()
    }

    /// Completes the packet. Returns the bytes that go to the other card.
    pub(crate) fn seal(mut self) -> Vec<u8> {
        let length = self.data_length() as u32;
        let place = std::mem::offset_of!(Header, length);
        self.bytes[place..place + 4].copy_from_slice(&length.to_le_bytes());
        let crc = crc32fast::hash(&self.bytes);
        self.bytes.extend_from_slice(&crc.to_le_bytes());
        self.bytes
    }
}

/// Why a packet is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Malformed,
    WrongNode,
    BadChecksum,
}

/// A packet that has arrived, whole and for this node: copied out once, then checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrived {
    bytes: Vec<u8>,
    pub(crate) address: u64,
}

impl Arrived {
    /// Takes a packet. `here` is the place of this node, and `from` is that of the source host as
    /// the switch reports it.
    pub(crate) fn take(mut packet: Pieces<'_>, here: Coordinates, from: Coordinates) -> Result<Self, Fault> {
        if packet.len() <= OVERHEAD || packet.len() > LARGEST {
            return Err(Fault::Malformed);
        }
        let mut bytes = vec![0; packet.len()];
        packet.take_into(&mut bytes).ok_or(Fault::Malformed)?;
        let crc = bytes.split_off(bytes.len() - CRC);
        let (header, data) = Header::read_from_prefix(&bytes).map_err(|_| Fault::Malformed)?;
        if crc32fast::hash(&bytes).to_le_bytes() != crc[..] {
            return Err(Fault::BadChecksum);
        }
        if header.to != here || header.from != from {
            return Err(Fault::WrongNode);
        }
        let address = header.address.get();
        if header.length.get() as usize != data.len() || address % PAGE + data.len() as u64 > PAGE {
            return Err(Fault::Malformed);
        }
        Ok(Self { bytes, address })
    }

    pub(crate) fn data(&mut self) -> &mut [u8] {
        &mut self.bytes[size_of::<Header>()..]
    }

    pub(crate) fn data_length(&self) -> usize {
        self.bytes.len() - size_of::<Header>()
    }
}
