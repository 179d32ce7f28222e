//! NX/2's `csend` and `crecv` (section 5.2): messages of any length, told apart by types of 16
//! bits, and in order for each type.
//!
//! Each node has memory of [`LENGTH`] bytes for each other:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 127 | 16 places, which are filled in turn: what has arrived, and in which buffer |
//! | 128 to 191 | a word for each buffer of the other's: 0 if it is free |
//! | 4096 and up | 16 buffers of 2,048 bytes |
//!
//! A place has the bytes that are left of the message, with this piece, in its lowest 32 bits;
//! above them the type in 16 and the buffer's number in 4 bits; and its highest bit is set. Who has
//! taken what is there stores 0.
//!
//! Buffers are the sender's to manage, without the operating system: he looks for a free one and
//! fills it. A message that is longer than a buffer travels in pieces, one behind the other. The
//! receiver copies a message out when he asks for its type, and tells the sender then that its
//! buffers are free. What has come of other types stays in its buffers until it is asked for.
//!
//! So who sends waits when all 16 buffers hold messages that nobody asks for. Two nodes that both
//! send more than fits, and receive only behind that, wait for each other for ever, as on any
//! machine whose system has buffers.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use hamlyn_sys::{copy_in, copy_out};

use super::end::{End, Idle, Ways, expired};
use crate::error::{Error, Result, at_most};

/// Bytes of the memory that a node has for each other.
pub const LENGTH: usize = DATA + BUFFERS * PIECE;
/// Buffers, and places.
const BUFFERS: usize = 16;
/// Bytes of a buffer.
const PIECE: usize = 2048;
/// Where the words for the other's buffers are.
const BUSY: usize = 128;
/// Where the buffers are.
const DATA: usize = 4096;
/// In a place that has something; and the bits below it that say what.
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

    /// Bytes that are left of the message, with this piece.
    fn left(self) -> usize {
        self.place as u32 as usize
    }
}

/// Another node.
struct Peer<'a> {
    /// What arrives, and what is sent.
    arrived: &'a [AtomicU64; BUFFERS],
    sent: &'a [AtomicU64; BUFFERS],
    /// Whether the other's buffers are free; and ours, as it sees them.
    busy: &'a [AtomicU32; BUFFERS],
    freed: &'a [AtomicU32; BUFFERS],
    from: &'a [AtomicU8],
    to: &'a [AtomicU8],
    /// How many places were taken and filled, and the buffer that is tried next.
    taken: usize,
    filled: usize,
    next: usize,
    idle: &'a dyn Idle,
}

/// The first of them; that there are so many has been checked.
fn first<T>(words: &[T]) -> Result<&[T; BUFFERS]> {
    words.first_chunk().ok_or(Error::Invalid("a node's memory is too small"))
}

impl<'a> Peer<'a> {
    fn new(ways: Ways<'a>) -> Result<Self> {
        ways.have(LENGTH, LENGTH)?;
        Ok(Self {
            arrived: first(ways.own.long_words(0, BUFFERS))?,
            sent: first(ways.out.long_words(0, BUFFERS))?,
            busy: first(ways.own.words(BUSY, BUFFERS))?,
            freed: first(ways.out.words(BUSY, BUFFERS))?,
            from: ways.own.cells(DATA, BUFFERS * PIECE),
            to: ways.out.cells(DATA, BUFFERS * PIECE),
            taken: 0,
            filled: 0,
            next: 0,
            idle: ways.idle,
        })
    }

    /// Sends a piece, with as many bytes as are left of the message.
    #[inline]
    fn send(&mut self, kind: u16, bytes: &[u8], left: u32) -> Result<()> {
        let mut buffer = self.next;
        if self.busy[buffer % BUFFERS].load(Ordering::Acquire) != 0 {
            buffer = self.until_free()?;
        }
        self.busy[buffer % BUFFERS].store(1, Ordering::Relaxed);
        copy_in(&self.to[buffer % BUFFERS * PIECE..][..PIECE], bytes);
        let place = THERE | (buffer as u64) << 48 | u64::from(kind) << 32 | u64::from(left);
        // The other sees the bytes before it sees this.
        self.sent[self.filled % BUFFERS].store(place, Ordering::Release);
        self.filled = (self.filled + 1) % BUFFERS;
        self.next = (buffer + 1) % BUFFERS;
        Ok(())
    }

    /// Any buffer that is free.
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

    /// What is in the next place, if anything; that is empty then.
    #[inline]
    fn take(&mut self, node: usize) -> Result<Option<Piece>> {
        let here = &self.arrived[self.taken % BUFFERS];
        let place = here.load(Ordering::Acquire);
        if place == 0 {
            return Ok(None);
        }
        // Before the buffer is given back, after which the place may be filled again.
        here.store(0, Ordering::Relaxed);
        self.taken = (self.taken + 1) % BUFFERS;
        if place >> NUMBERS != THERE >> NUMBERS {
            return Err(Error::Malformed("a node has stored what tells of no message"));
        }
        Ok(Some(Piece { node, place }))
    }

    /// Copies a piece out, and gives its buffer back.
    #[inline]
    fn read(&self, piece: Piece, to: &mut [u8]) {
        let buffer = piece.buffer();
        copy_out(&self.from[buffer * PIECE..][..PIECE], to);
        self.freed[buffer].store(0, Ordering::Release);
    }

    /// Waits a moment for the next place to be filled.
    fn glance(&self) -> Result<()> {
        // Its upper half has the highest bit.
        self.idle.glance(self.taken * size_of::<u64>() + 4, 0)
    }
}

/// A node: one program of several, which send each other messages.
pub struct Node<'a> {
    peers: Vec<Peer<'a>>,
    /// What has come and was not asked for yet, in its order.
    pending: Vec<Piece>,
}

impl<'a> Node<'a> {
    /// With an end for each other node; nodes are known by their place among these. Both buffers of
    /// an end have at least [`LENGTH`] bytes, and no more than one node is made of an end: it
    /// remembers which place is next.
    ///
    /// # Errors
    /// [`Error::PastEnd`] for smaller buffers; [`Error::Invalid`] for no other node.
    pub fn new(ends: impl IntoIterator<Item = &'a End>) -> Result<Self> {
        Self::over(ends.into_iter().map(End::ways))
    }

    fn over(ways: impl Iterator<Item = Ways<'a>>) -> Result<Self> {
        let peers = ways.map(Peer::new).collect::<Result<Vec<_>>>()?;
        if peers.is_empty() {
            return Err(Error::Invalid("a node has at least one other"));
        }
        let pending = Vec::with_capacity(peers.len() * BUFFERS);
        Ok(Self { peers, pending })
    }

    /// Sends a message of this type to a node. It returns when the bytes may be changed, which may
    /// be before anybody has asked for them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there is no such node, or for 4 GiB; [`Error::TimedOut`]; those of
    /// [`End::check`] if the node is gone: then it may have a part of the message, and nothing more
    /// can be sent to it.
    #[inline]
    pub fn csend(&mut self, kind: u16, bytes: &[u8], node: usize) -> Result<()> {
        let nodes = self.peers.len();
        let Some(peer) = self.peers.get_mut(node) else { return Err(no_node(node, nodes)) };
        if bytes.len() > PIECE {
            return send_pieces(peer, kind, bytes);
        }
        peer.send(kind, bytes, bytes.len() as u32)
    }

    /// Waits for a message of this type, and copies it; how many bytes it has. Messages of one type
    /// come in the order in which they were sent. One that does not fit stays.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it does not fit; [`Error::TimedOut`]; [`Error::Malformed`] if a
    /// node has stored nonsense; those of [`End::check`] if a node is gone while this one waits,
    /// when no other is left that could send, or the time is over.
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

    /// The next piece of this type, of a node if it must be one's.
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
        // A piece that is there costs no look at the clock.
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

    /// Waits a moment for the next piece of all nodes, or of one. Says why one is gone, and fails
    /// if nobody is left.
    fn glance(&self, node: Option<usize>) -> Result<Option<Error>> {
        let asked = node.map_or(&self.peers[..], |node| &self.peers[node..=node]);
        let gone: Vec<Error> = asked.iter().filter_map(|peer| peer.glance().err()).collect();
        let nobody_is_left = gone.len() == asked.len();
        match gone.into_iter().next() {
            Some(gone) if nobody_is_left => Err(gone),
            gone => Ok(gone),
        }
    }

    /// Takes all that has come. False if there was nothing.
    fn collect(&mut self) -> Result<bool> {
        let before = self.pending.len();
        for (node, peer) in self.peers.iter_mut().enumerate() {
            while let Some(piece) = peer.take(node)? {
                // Whoever is as he should be waits for a buffer first.
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
