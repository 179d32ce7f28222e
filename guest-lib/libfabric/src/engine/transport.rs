//! What the engine sends packets over.

use super::wire::HEADER;
use crate::memory::Area;

/// A way to and from a peer that keeps the order of packets. Errors are `errno` values; the link is
/// then lost.
pub(crate) trait Link {
    /// The peer's host.
    fn host(&self) -> u32;

    /// Length of the longest packet, with its header.
    fn longest(&self) -> usize;

    /// Sends a packet. Returns `false` if the link is full.
    fn send(&mut self, header: &[u8; HEADER], body: Content<'_>) -> Result<bool, i32>;

    /// Passes the next packet on. Returns `false` if there is none.
    fn receive(&mut self, take: &mut dyn FnMut(&dyn Packet)) -> Result<bool, i32>;
}

/// A packet that has arrived.
pub(crate) trait Packet {
    fn len(&self) -> usize;

    /// Copies bytes from `offset` on. The error is an `errno`.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), i32>;
}

/// Bytes to send.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    Bytes(&'a [u8]),
    Area(&'a Area),
}

impl Content<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Area(area) => area.len(),
        }
    }

    /// Calls `write` with each range, and the offset at which it begins.
    pub(crate) fn each(&self, mut write: impl FnMut(usize, &[u8])) {
        match self {
            Self::Bytes(bytes) => write(0, bytes),
            Self::Area(area) => area.each_read(write),
        }
    }
}
