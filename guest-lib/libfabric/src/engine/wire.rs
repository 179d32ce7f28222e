//! Packets between two endpoints. Each is a message of the channel: a header of six words in little
//! endian order, and bytes.

/// Length of the header.
pub(crate) const HEADER: usize = 48;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// First packet of a connection. Its bytes are the sender's address.
    Hello,
    /// A message with its bytes.
    Eager,
    /// The envelope of a message whose bytes the receiver pulls with `id`.
    Long,
    /// The receiver of message `id` wants `length` of its bytes, as pieces for `place`.
    Pull,
    /// Bytes for the receive or read operation `id`, at its offset `place`.
    Piece,
    /// Bytes for the region `tag`, at address `place`.
    Write,
    /// A request for `length` bytes of the region `tag`, at address `place`.
    Read,
    /// Operation `id` is complete, or has failed with `error`.
    Ack,
    /// Eager messages of `length` bytes in total were taken by the program.
    Credit,
    /// An atomic operation on `length` bytes of the region `tag`, at address `place`; `data` says
    /// which ([`super::atomic::Atomic`]). Its bytes are the operand, if it has one, and what is
    /// compared, if it compares. The answer is a piece with what was there, or confirms.
    Atomic,
}

/// Header flags.
pub(crate) mod flag {
    /// The message has a tag.
    pub(crate) const TAGGED: u8 = 1;
    /// The message or write has a word of data for the peer's completion queue.
    pub(crate) const DATA: u8 = 2;
    /// The sender waits for an [`super::Kind::Ack`].
    pub(crate) const ACK: u8 = 4;
    /// The write's last packet.
    pub(crate) const LAST: u8 = 8;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    /// An `errno`, or 0.
    pub(crate) error: i32,
    pub(crate) id: u64,
    pub(crate) tag: u64,
    pub(crate) data: u64,
    pub(crate) length: u64,
    pub(crate) place: u64,
}

impl Header {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, flags: 0, error: 0, id: 0, tag: 0, data: 0, length: 0, place: 0 }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let first = self.kind as u64 | u64::from(self.flags) << 8 | u64::from(self.error as u32) << 32;
        let mut bytes = [0; HEADER];
        let words = [first, self.id, self.tag, self.data, self.length, self.place];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` if it has an unknown kind.
    pub(crate) fn from_bytes(bytes: &[u8; HEADER]) -> Option<Self> {
        let word = |at: usize| bytes[at * 8..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let kind = match word(0) & 0xff {
            0 => Kind::Hello,
            1 => Kind::Eager,
            2 => Kind::Long,
            3 => Kind::Pull,
            4 => Kind::Piece,
            5 => Kind::Write,
            6 => Kind::Read,
            7 => Kind::Ack,
            8 => Kind::Credit,
            9 => Kind::Atomic,
            _ => return None,
        };
        let (flags, error) = ((word(0) >> 8) as u8, (word(0) >> 32) as i32);
        let [id, tag, data, length, place] = [1, 2, 3, 4, 5].map(word);
        Some(Self { kind, flags, error, id, tag, data, length, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let kinds = [Kind::Hello, Kind::Eager, Kind::Long, Kind::Pull, Kind::Piece, Kind::Write];
        for kind in kinds.into_iter().chain([Kind::Read, Kind::Ack, Kind::Credit, Kind::Atomic]) {
            let header =
                Header { flags: 9, error: 265, id: 1, tag: u64::MAX, data: 3, length: 4, place: 5, kind };
            assert_eq!(Header::from_bytes(&header.to_bytes()), Some(header));
        }
        let mut unknown = Header::new(Kind::Credit).to_bytes();
        unknown[0] = 10;
        assert_eq!(Header::from_bytes(&unknown), None);
    }
}
