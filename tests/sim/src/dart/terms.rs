//! The terms on which a connection was opened.

use std::ops::Range;

use crate::engine::memory::PAGE;

/// A region of virtual memory, or of pinned memory, which has space 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoint {
    pub(super) space: u32,
    pub(super) base: u64,
    pub(super) length: u64,
}

/// Bytes of an endpoint that are contiguous in a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) page: (u32, u64),
    /// Offset in the page.
    pub(super) place: usize,
    pub(super) length: usize,
}

/// The parameters of one end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// The host of the other end.
    pub(super) host: u16,
    pub(super) key: u64,
    pub(super) endpoint: Endpoint,
    /// Offsets of its endpoint that messages may access.
    pub(super) reach: Range<u64>,
    pub(super) window: Range<usize>,
    pub(super) program: Range<usize>,
    pub(super) events: Option<u32>,
    pub(super) exceptions: Option<u32>,
    pub(super) may_write: bool,
    pub(super) may_read: bool,
    pub(super) is_system: bool,
}

impl Terms {
    /// Returns where `length` bytes of its endpoint are, from an offset on.
    pub(super) fn pieces(&self, mut offset: u64, length: u64) -> Vec<Piece> {
        let end = offset + length;
        let mut pieces = Vec::new();
        while offset < end {
            let (page, place) = self.place(offset);
            let length = (PAGE as usize - place).min((end - offset) as usize);
            pieces.push(Piece { page, place, length });
            offset += length as u64;
        }
        pieces
    }

    /// Returns where a byte of its endpoint is: the page and its space, and the offset in the page.
    pub(super) fn place(&self, offset: u64) -> ((u32, u64), usize) {
        let address = self.endpoint.base.wrapping_add(offset);
        ((self.endpoint.space, address / PAGE), (address % PAGE) as usize)
    }
}
