//! The wire format of a stream's messages, in their metadata. Little-endian.

use crate::hamlyn::ticket::Ticket;

/// Metadata of one message.
type Metadata = [u8; 60];

/// Type of metadata for the receiver's entries; the digit is the version.
const RECORD: u8 = b'S';
/// Type of metadata for the sender's entries.
const RETURN: u8 = b'R';

/// The record contains the ticket for the way back.
const FIRST: u8 = 1;
/// No record follows.
const LAST: u8 = 2;
/// No record follows, because the sender was dropped without closing.
const ABANDONED: u8 = 4;
/// The return contains tickets for more buffers.
const GRANT: u8 = 1;
/// The receiver accepts no more records.
const STOP: u8 = 2;

/// Size of a record's head, in bytes.
const HEAD: usize = 20;
/// Size of a return's head, in bytes.
const RETURN_HEAD: usize = 16;

/// Why no record follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// The sender has closed.
    Closed,
    /// The sender has gone.
    Abandoned,
}

/// The head of a record, from sender to receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The record's number, from 0.
    pub(super) number: u64,
    /// Number of data bytes in the message.
    pub(super) length: u32,
    /// Number of returns that the sender has taken in without a gap, modulo 2^32.
    pub(super) taken_in: u32,
    /// In record 0: where returns are sent.
    pub(super) way_back: Option<Ticket>,
    pub(super) last: Option<Last>,
}

impl Head {
    /// Encodes the head as metadata. Returns the metadata and its length in bytes.
    pub(super) fn to_metadata(self) -> (Metadata, usize) {
        let mut bytes = [0; 60];
        let last = match self.last {
            None => 0,
            Some(Last::Closed) => LAST,
            Some(Last::Abandoned) => LAST | ABANDONED,
        };
        bytes[0] = RECORD;
        bytes[1] = last | if self.way_back.is_some() { FIRST } else { 0 };
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.taken_in.to_le_bytes());
        let Some(ticket) = self.way_back else { return (bytes, HEAD) };
        bytes[HEAD..].copy_from_slice(&ticket.to_bytes());
        (bytes, HEAD + Ticket::SIZE)
    }

    /// Decodes a head. Returns `None` if it is not valid.
    pub(super) fn from_metadata(bytes: &Metadata) -> Option<Self> {
        let (kind, flags, number) = (bytes[0], bytes[1], u64_at(bytes, 8));
        let last = match flags & !FIRST {
            0 => None,
            LAST => Some(Last::Closed),
            flags if flags == LAST | ABANDONED => Some(Last::Abandoned),
            _ => return None,
        };
        let first = flags & FIRST != 0;
        if kind != RECORD || bytes[2..4] != [0; 2] || first != (number == 0) {
            return None;
        }
        let way_back = if first { Some(Ticket::from_bytes(&bytes[HEAD..]).ok()?) } else { None };
        Some(Self { number, length: u32_at(bytes, 4), taken_in: u32_at(bytes, 16), way_back, last })
    }
}

/// A return, from receiver to sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Return {
    /// Number of records released since the stream began.
    pub(super) released: u64,
    /// More buffers: the first one's ticket, and their number.
    pub(super) grant: Option<(Ticket, u32)>,
    /// The receiver accepts no more records.
    pub(super) stop: bool,
}

impl Return {
    /// Encodes the return as metadata. Returns the metadata and its length in bytes.
    pub(super) fn to_metadata(self) -> (Metadata, usize) {
        let mut bytes = [0; 60];
        bytes[0] = RETURN;
        bytes[1] = if self.stop { STOP } else { 0 } | if self.grant.is_some() { GRANT } else { 0 };
        bytes[8..16].copy_from_slice(&self.released.to_le_bytes());
        let Some((ticket, count)) = self.grant else { return (bytes, RETURN_HEAD) };
        bytes[4..8].copy_from_slice(&count.to_le_bytes());
        bytes[RETURN_HEAD..RETURN_HEAD + Ticket::SIZE].copy_from_slice(&ticket.to_bytes());
        (bytes, RETURN_HEAD + Ticket::SIZE)
    }

    /// Decodes a return. Returns `None` if it is not valid.
    pub(super) fn from_metadata(bytes: &Metadata) -> Option<Self> {
        if bytes[0] != RETURN || bytes[1] & !(GRANT | STOP) != 0 || bytes[2..4] != [0; 2] {
            return None;
        }
        let ticket = &bytes[RETURN_HEAD..RETURN_HEAD + Ticket::SIZE];
        let grant = match bytes[1] & GRANT {
            0 => None,
            _ => Some((Ticket::from_bytes(ticket).ok()?, u32_at(bytes, 4))),
        };
        Some(Self { released: u64_at(bytes, 8), grant, stop: bytes[1] & STOP != 0 })
    }
}

fn u32_at(bytes: &Metadata, at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn u64_at(bytes: &Metadata, at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hamlyn::ticket::TicketFlags;

    fn ticket() -> Ticket {
        let flags = TicketFlags::default();
        Ticket { destination: 1, slot: 2, metadata_index: 3, key: 4, base: 5, length: 6, flags }
    }

    proptest! {
        #[test]
        fn heads_come_back(number: u64, length: u32, taken_in: u32, last in 0..3_u8) {
            let way_back = (number == 0).then(ticket);
            let last = [None, Some(Last::Closed), Some(Last::Abandoned)][last as usize];
            let head = Head { number, length, taken_in, way_back, last };
            prop_assert_eq!(Head::from_metadata(&head.to_metadata().0), Some(head));
        }

        #[test]
        fn returns_come_back(released: u64, count in prop::option::of(any::<u32>()), stop: bool) {
            let back = Return { released, grant: count.map(|count| (ticket(), count)), stop };
            prop_assert_eq!(Return::from_metadata(&back.to_metadata().0), Some(back));
        }

        #[test]
        fn anything_is_read_or_refused(bytes in prop::array::uniform32(any::<u8>()), kind in 0..2_usize) {
            let mut metadata = [0; 60];
            metadata[..32].copy_from_slice(&bytes);
            metadata[0] = [RECORD, RETURN][kind];
            let _ = (Head::from_metadata(&metadata), Return::from_metadata(&metadata));
        }
    }

    #[test]
    fn first_record_requires_intact_ticket() {
        let head = Head { number: 0, length: 0, taken_in: 0, way_back: Some(ticket()), last: None };
        let (mut bytes, length) = head.to_metadata();
        assert_eq!(length, 60);
        bytes[50] ^= 1;
        assert_eq!(Head::from_metadata(&bytes), None);
        let (mut bytes, _) = Head { number: 1, way_back: None, ..head }.to_metadata();
        bytes[8] = 0;
        assert_eq!(Head::from_metadata(&bytes), None, "record 0 without a ticket");
    }
}
