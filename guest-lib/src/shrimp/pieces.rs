//! Buffers larger than the driver's limit: several contiguous exports and mappings.

use hamlyn_abi::shrimp::uapi::SHRIMP_MAX_BUFFER;

/// Maximum number of exports of a buffer. Three handles then fit into a connection's private data.
pub(super) const PIECES: usize = 4;
/// Maximum size of a buffer in bytes, including the bytes before it in its page.
pub const MAX_BUFFER: u64 = PIECES as u64 * SHRIMP_MAX_BUFFER;

/// A part of a receive buffer that lies in one export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) export: u32,
    pub(super) key: u64,
    /// Offset of its first byte in the export.
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Splits `length` bytes from `at` on at each multiple of [`SHRIMP_MAX_BUFFER`], where `at` counts
/// from the start of the first page. So each piece but the first begins at a page boundary. Returns
/// the start and length of each piece.
pub(super) fn cut(at: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = at + length;
    let mut next = at;
    std::iter::from_fn(move || {
        let begins = next;
        next = end.min((begins / SHRIMP_MAX_BUFFER + 1) * SHRIMP_MAX_BUFFER);
        (begins < end).then_some((begins, next - begins))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_split_at_multiples_of_limit() {
        const LIMIT: u64 = SHRIMP_MAX_BUFFER;
        let of = |at, length| cut(at, length).collect::<Vec<_>>();
        assert_eq!(of(16, 0), []);
        assert_eq!(of(0, LIMIT), [(0, LIMIT)]);
        assert_eq!(of(16, LIMIT), [(16, LIMIT - 16), (LIMIT, 16)]);
        assert_eq!(of(LIMIT - 1, LIMIT + 2), [(LIMIT - 1, 1), (LIMIT, LIMIT), (2 * LIMIT, 1)]);
    }
}
