//! NX/2's `csend` and `crecv` (section 5.2): messages of any length, distinguished by types of 16
//! bits, and in order for each type.
//!
//! Each node has memory of [`LENGTH`] bytes for each other node:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 127 | 16 slots, filled in turn: pieces that have arrived, and their buffers |
//! | 128 to 191 | a word for each buffer of the other's: 0 if it is free |
//! | 4096 and up | 16 buffers of 2,048 bytes |
//!
//! The lowest 32 bits of a slot are the number of bytes left of the message, including this piece.
//! Above them are the type in 16 bits, and the buffer's number in 4 bits. The highest bit is set.
//! The receiver stores 0 when it has taken the piece.
//!
//! The sender manages the buffers, without the operating system: it looks for a free one and fills
//! it. A message that is longer than a buffer is sent in consecutive pieces. The receiver copies a
//! message out when the program asks for its type, and then notifies the sender that its buffers
//! are free. Messages of other types stay in their buffers until the program asks for them.
//!
//! So a sender blocks while all 16 buffers hold messages that the receiver has not asked for. Two
//! nodes that both send more than fits before they receive deadlock, as on any machine whose system
//! has buffers.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use hamlyn_sys::{copy_in, copy_out};

use super::end::{End, Idle, Memories, expired};
use crate::error::{Error, Result, at_most};

/// Size of the memory that a node has for each other node, in bytes.
pub const LENGTH: usize = DATA + BUFFERS * PIECE;
/// Number of buffers, and of slots.
const BUFFERS: usize = 16;
/// Size of a buffer in bytes.
const PIECE: usize = 2048;
/// Offset of the words for the other's buffers.
const BUSY: usize = 128;
/// Offset of the buffers.
const DATA: usize = 4096;
/// The flag of a slot that is filled; and the number of bits below it that describe the piece.
const THERE: u64 = 1 << 63;
const NUMBERS: u32 = 52;

/// A piece that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    node: usize,
    place: u64,
}

impl Piece {
    fn kind(self) -> u16 {
        (self.place >> 32) as u16
    }

    fn buffer(self) -> usize {
        (self.place >> 48) as usize % BUFFERS
    }

    /// Returns the number of bytes left of the message, including this piece.
    fn left(self) -> usize {
        self.place as u32 as usize
    }
}

/// Another node.
struct Peer<'a> {
    /// The slots of arriving pieces, and of sent pieces.
    arrived: &'a [AtomicU64; BUFFERS],
    sent: &'a [AtomicU64; BUFFERS],
    /// Whether the other's buffers are free; and this node's buffers, as the other sees them.
    busy: &'a [AtomicU32; BUFFERS],
    freed: &'a [AtomicU32; BUFFERS],
    from: &'a [AtomicU8],
    to: &'a [AtomicU8],
    /// Number of slots taken and filled, and the buffer to try next.
    taken: usize,
    filled: usize,
    next: usize,
    idle: &'a dyn Idle,
}

/// Returns the first [`BUFFERS`] words. The caller has checked that they exist.
fn first<T>(words: &[T]) -> Result<&[T; BUFFERS]> {
    words.first_chunk().ok_or(Error::Invalid("a node's memory is too small"))
}

impl<'a> Peer<'a> {
    fn new(memories: Memories<'a>) -> Result<Self> {
        memories.have(LENGTH, LENGTH)?;
        Ok(Self {
            arrived: first(memories.own.long_words(0, BUFFERS))?,
            sent: first(memories.out.long_words(0, BUFFERS))?,
            busy: first(memories.own.words(BUSY, BUFFERS))?,
            freed: first(memories.out.words(BUSY, BUFFERS))?,
            from: memories.own.cells(DATA, BUFFERS * PIECE),
            to: memories.out.cells(DATA, BUFFERS * PIECE),
            taken: 0,
            filled: 0,
            next: 0,
            idle: memories.idle,
        })
    }

    /// Sends a piece. `left` is the number of bytes left of the message.
    #[inline]
    fn send(&mut self, kind: u16, bytes: &[u8], left: u32) -> Result<()> {
        let mut buffer = self.next;
        if self.busy[buffer % BUFFERS].load(Ordering::Acquire) != 0 {
            buffer = self.until_free()?;
        }
        self.busy[buffer % BUFFERS].store(1, Ordering::Relaxed);
        copy_in(&self.to[buffer % BUFFERS * PIECE..][..PIECE], bytes);
        let place = THERE | (buffer as u64) << 48 | u64::from(kind) << 32 | u64::from(left);
        // The other node sees the bytes before it sees this.
        self.sent[self.filled % BUFFERS].store(place, Ordering::Release);
        self.filled = (self.filled + 1) % BUFFERS;
        self.next = (buffer + 1) % BUFFERS;
        Ok(())
    }

    /// Blocks until a buffer is free and returns it.
    #[cold]
    fn until_free(&self) -> Result<usize> {
        let begun = Instant::now();
        loop {
            let is_free = |buffer: &usize| self.busy[*buffer].load(Ordering::Acquire) == 0;
            if let Some(found) = (0..BUFFERS).map(|more| (self.next + more) % BUFFERS).find(is_free) {
                return Ok(found);
            }
            let value = self.busy[self.next].load(Ordering::Acquire);
            if value != 0 {
                self.idle.glance(BUSY + 4 * self.next, value)?;
            }
            expired(begun, self.idle.timeout())?;
        }
    }

    /// Takes the piece in the next slot, if there is one, and empties the slot.
    #[inline]
    fn take(&mut self, node: usize) -> Result<Option<Piece>> {
        let here = &self.arrived[self.taken % BUFFERS];
        let place = here.load(Ordering::Acquire);
        if place == 0 {
            return Ok(None);
        }
        // Must precede the release of the buffer, after which the slot may be filled again.
        here.store(0, Ordering::Relaxed);
        self.taken = (self.taken + 1) % BUFFERS;
        if place >> NUMBERS != THERE >> NUMBERS {
            return Err(Error::Malformed("a node has stored what tells of no message"));
        }
        Ok(Some(Piece { node, place }))
    }

    /// Copies a piece out, and frees its buffer.
    #[inline]
    fn read(&self, piece: Piece, to: &mut [u8]) {
        let buffer = piece.buffer();
        copy_out(&self.from[buffer * PIECE..][..PIECE], to);
        self.freed[buffer].store(0, Ordering::Release);
    }

    /// Waits a short time for the next slot to be filled.
    fn glance(&self) -> Result<()> {
        // The upper half of the slot contains the highest bit.
        self.idle.glance(self.taken * size_of::<u64>() + 4, 0)
    }
}

/// A node: one of several programs that send messages to each other.
pub struct Node<'a> {
    peers: Vec<Peer<'a>>,
    /// Pieces that have arrived and were not asked for yet, in order.
    pending: Vec<Piece>,
}

impl<'a> Node<'a> {
    /// Creates a node with an end for each other node; a node's number is its position among these.
    /// Both buffers of an end must have at least [`LENGTH`] bytes. Make at most one node from an
    /// end, because a node remembers its next slot.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if a buffer is smaller; [`Error::Invalid`] if there is no other node.
    pub fn new(ends: impl IntoIterator<Item = &'a End>) -> Result<Self> {
        Self::over(ends.into_iter().map(End::memories))
    }

    fn over(memories: impl Iterator<Item = Memories<'a>>) -> Result<Self> {
        let peers = memories.map(Peer::new).collect::<Result<Vec<_>>>()?;
        if peers.is_empty() {
            return Err(Error::Invalid("a node has at least one other"));
        }
        let pending = Vec::with_capacity(peers.len() * BUFFERS);
        Ok(Self { peers, pending })
    }

    /// Sends a message of this type to a node. Returns when the bytes may be changed, which may be
    /// before the receiver has asked for them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the node does not exist, or the message has 4 GiB or more;
    /// [`Error::TimedOut`]; the errors of [`End::check`] if the node is gone: it may then have a
    /// part of the message, and nothing more can be sent to it.
    #[inline]
    pub fn csend(&mut self, kind: u16, bytes: &[u8], node: usize) -> Result<()> {
        let nodes = self.peers.len();
        let Some(peer) = self.peers.get_mut(node) else { return Err(no_node(node, nodes)) };
        if bytes.len() > PIECE {
            return send_pieces(peer, kind, bytes);
        }
        peer.send(kind, bytes, bytes.len() as u32)
    }

    /// Blocks until a message of this type arrives, copies it, and returns its length. Messages of
    /// one type arrive in the order in which they were sent. A message that does not fit is kept.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it does not fit; [`Error::TimedOut`]; [`Error::Malformed`] if a
    /// node has stored invalid data; the errors of [`End::check`] if a node is gone while this one
    /// waits, and no other node is left that could send, or the wait has timed out.
    #[inline]
    pub fn crecv(&mut self, kind: u16, to: &mut [u8]) -> Result<usize> {
        let piece = self.next(kind, None)?;
        let length = piece.left();
        let Some(to) = to.get_mut(..length) else { return Err(self.does_not_fit(piece, to.len())) };
        if length > PIECE {
            return self.receive_pieces(piece, to);
        }
        self.peers[piece.node].read(piece, to);
        Ok(length)
    }

    #[cold]
    fn does_not_fit(&mut self, piece: Piece, room: usize) -> Error {
        self.pending.insert(0, piece);
        let (object, value, limit) = ("message length", piece.left() as u64, room as u64);
        Error::OutOfRange { object, value, limit }
    }

    #[inline(never)]
    fn receive_pieces(&mut self, mut piece: Piece, to: &mut [u8]) -> Result<usize> {
        let (kind, node, length) = (piece.kind(), piece.node, to.len());
        let mut left = length;
        for part in to.chunks_mut(PIECE) {
            if left < length {
                piece = self.next(kind, Some(node))?;
            }
            if piece.left() != left {
                return Err(Error::Malformed("a piece of a message is not the next one"));
            }
            self.peers[node].read(piece, part);
            left -= part.len();
        }
        Ok(length)
    }

    /// Returns the next piece of this type, from `node` if that is given.
    #[inline]
    fn next(&mut self, kind: u16, node: Option<usize>) -> Result<Piece> {
        if let ([peer], true) = (&mut self.peers[..], self.pending.is_empty()) {
            match peer.take(0)? {
                Some(piece) if piece.kind() == kind => return Ok(piece),
                Some(piece) => self.pending.push(piece),
                None => {}
            }
        }
        self.search(kind, node)
    }

    #[cold]
    #[inline(never)]
    fn search(&mut self, kind: u16, node: Option<usize>) -> Result<Piece> {
        let is_it = |piece: &Piece| piece.kind() == kind && node.is_none_or(|node| node == piece.node);
        // Avoids reading the clock if a piece is already there.
        let mut begun = None;
        loop {
            if let Some(at) = self.pending.iter().position(is_it) {
                return Ok(self.pending.remove(at));
            }
            if !self.collect()? {
                let begun = *begun.get_or_insert_with(Instant::now);
                let gone = self.glance(node)?;
                expired(begun, self.peers[0].idle.timeout()).map_err(|late| gone.unwrap_or(late))?;
            }
        }
    }

    /// Waits a short time for the next piece of all nodes, or of one. Returns why one is gone, and
    /// fails if all are gone.
    fn glance(&self, node: Option<usize>) -> Result<Option<Error>> {
        let asked = node.map_or(&self.peers[..], |node| &self.peers[node..=node]);
        let gone: Vec<Error> = asked.iter().filter_map(|peer| peer.glance().err()).collect();
        let nobody_is_left = gone.len() == asked.len();
        match gone.into_iter().next() {
            Some(gone) if nobody_is_left => Err(gone),
            gone => Ok(gone),
        }
    }

    /// Takes all pieces that have arrived. Returns false if there were none.
    fn collect(&mut self) -> Result<bool> {
        let before = self.pending.len();
        for (node, peer) in self.peers.iter_mut().enumerate() {
            while let Some(piece) = peer.take(node)? {
                // A correct sender waits for a free buffer first.
                if self.pending.iter().filter(|other| other.node == node).count() == BUFFERS {
                    return Err(Error::Malformed("a node has sent more messages than it has buffers"));
                }
                self.pending.push(piece);
            }
        }
        Ok(self.pending.len() > before)
    }
}

#[cold]
fn no_node(node: usize, nodes: usize) -> Error {
    Error::OutOfRange { object: "node", value: node as u64, limit: nodes as u64 - 1 }
}

#[inline(never)]
fn send_pieces(peer: &mut Peer<'_>, kind: u16, bytes: &[u8]) -> Result<()> {
    at_most("message length", bytes.len() as u64, u32::MAX.into())?;
    let mut left = bytes.len();
    for piece in bytes.chunks(PIECE) {
        peer.send(kind, piece, left as u32)?;
        left -= piece.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
