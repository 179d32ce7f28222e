//! Packets that are written to memory as one burst (section 5.2).

use crate::packet::{Header, WORD};

/// Data longer than this is written separately, not joined.
const SHORT: usize = 512;
/// Size at which a burst is written.
const ENOUGH: usize = 4096;

/// Joined data that has arrived and is not yet written.
#[derive(Debug)]
pub(crate) struct Burst {
    pub(crate) source: u16,
    pub(crate) header: Header,
    pub(crate) aperture: u32,
    /// First byte in the aperture.
    pub(crate) place: u64,
    pub(crate) data: Vec<u8>,
}

impl Burst {
    pub(crate) fn is_short(&self) -> bool {
        self.data.len() <= SHORT
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.data.len() >= ENOUGH
    }

    /// Appends the data of `next`, if that comes behind this burst's data and could be in one
    /// packet with it. Returns whether it was appended.
    pub(crate) fn append(&mut self, next: &Burst) -> bool {
        let end = self.place + self.data.len() as u64;
        let head = |header: &Header| (header.tag, header.flags, header.key);
        let follows = end % WORD == 0
            && (self.source, self.aperture, end) == (next.source, next.aperture, next.place)
            && head(&self.header) == head(&next.header);
        if follows {
            self.data.extend_from_slice(&next.data);
        }
        follows
    }
}
