//! Packets on their way out.

use std::sync::Mutex;

use super::Engine;
use super::event::{Operation, finished};
use super::regions::Regions;
use super::transport::{Content, Link};
use super::wire::{HEADER, Header, Kind, flag};
use crate::abi::{FI_REMOTE_READ, FI_RMA};
use crate::memory::Area;

/// Where bytes come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Bytes(Vec<u8>),
    Area(Area),
    /// A registered region, looked up again for each packet: the program may have closed it.
    Region {
        key: u64,
        place: u64,
    },
}

impl Default for Source {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

/// A packet, or the pieces of something longer.
#[derive(Debug)]
pub(super) struct Outgoing {
    header: Header,
    source: Source,
    sent: usize,
    length: usize,
    is_pieces: bool,
    /// What is complete when it has been sent.
    pub(super) then: Option<Operation>,
}

/// What became of an attempt.
enum Put {
    Done,
    Part,
    Full,
}

impl Outgoing {
    pub(super) fn packet(header: Header, source: Source, then: Option<Operation>) -> Self {
        let length = match &source {
            Source::Bytes(bytes) => bytes.len(),
            Source::Area(area) => area.len(),
            Source::Region { .. } => 0,
        };
        Self { header, source, sent: 0, length, is_pieces: false, then }
    }

    /// Bytes in as many packets as they need. The header's `place` is that of the first byte.
    pub(super) fn pieces(header: Header, source: Source, length: usize, then: Option<Operation>) -> Self {
        Self { header, source, sent: 0, length, is_pieces: true, then }
    }
}

impl<L: Link> Engine<L> {
    /// Sends a packet when all before it have been sent.
    pub(super) fn post(&mut self, peer: usize, outgoing: Outgoing) {
        let to = &mut self.peers[peer];
        to.outbox.push_back(outgoing);
        if to.out.is_none() && !to.is_connecting {
            to.is_connecting = true;
            self.wanted.push(peer);
        } else if to.outbox.len() == 1 {
            self.flush(peer);
        }
    }

    /// Sends a packet if nothing waits and there is room. Most packets go this way.
    pub(super) fn send_at_once(&mut self, peer: usize, header: &Header, body: &Area) -> bool {
        let to = &self.peers[peer];
        let Some(out) = to.out.filter(|_| to.outbox.is_empty()) else { return false };
        let Some((link, _)) = self.links[out].as_mut() else { return false };
        // A link that fails does so again, from the queue.
        link.send(&header.to_bytes(), Content::Area(body)).unwrap_or(false)
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn flush(&mut self, peer: usize) {
        let Some(out) = self.peers[peer].out else { return };
        while let Some(mut next) = self.peers[peer].outbox.pop_front() {
            // While a packet of this link is handled, it is not here.
            let put = match self.links[out].as_mut() {
                Some((link, _)) => put(link, &mut next, &self.regions),
                None => Ok(Put::Full),
            };
            let outbox = &mut self.peers[peer].outbox;
            match put {
                Ok(Put::Done) => {
                    if let Source::Region { .. } = next.source {
                        self.was_accessed(peer, FI_RMA | FI_REMOTE_READ, None);
                    }
                    if let Some(operation) = next.then {
                        self.events.push(finished(operation, next.length, 0));
                    }
                }
                // Writes are in order with what follows. For others' pieces, nothing waits.
                Ok(Put::Part) if next.header.kind == Kind::Write => outbox.push_front(next),
                Ok(Put::Part) => outbox.push_back(next),
                Ok(Put::Full) => {
                    outbox.push_front(next);
                    return;
                }
                Err(error) => {
                    outbox.push_front(next);
                    self.lose(peer, error);
                    return;
                }
            }
        }
    }

    /// Confirms an operation of the peer, or refuses it with an `errno`.
    pub(super) fn confirm(&mut self, peer: usize, id: u64, error: i32) {
        let header = Header { id, error, ..Header::new(Kind::Ack) };
        self.post(peer, Outgoing::packet(header, Source::default(), None));
    }
}

/// Sends a packet, or the next piece.
fn put<L: Link>(link: &mut L, outgoing: &mut Outgoing, shared: &Mutex<Regions>) -> Result<Put, i32> {
    let (mut header, rest) = (outgoing.header, outgoing.length - outgoing.sent);
    let length = if outgoing.is_pieces { rest.min(link.longest() - HEADER) } else { rest };
    if outgoing.is_pieces {
        // A place past the last address is refused by the peer.
        header.place = header.place.saturating_add(outgoing.sent as u64);
        header.flags |= if length == rest { flag::LAST } else { 0 };
    }
    // Held while bytes are sent: the program may close the region in another thread.
    let (regions, cut);
    let body = match &outgoing.source {
        Source::Bytes(bytes) => Content::Bytes(&bytes[outgoing.sent..outgoing.sent + length]),
        Source::Area(area) if length == area.len() => Content::Area(area),
        Source::Area(area) => {
            cut = area.cut(outgoing.sent, length);
            Content::Area(&cut)
        }
        Source::Region { key, place } => {
            regions = shared.lock().map_err(|_| libc::EIO)?;
            match regions.find(*key, place + outgoing.sent as u64, length as u64, false) {
                Ok(found) => {
                    cut = found;
                    Content::Area(&cut)
                }
                Err(error) => {
                    // The region was closed: the reader hears of that instead.
                    header = Header { id: header.id, error, ..Header::new(Kind::Ack) };
                    *outgoing = Outgoing::packet(header, Source::default(), None);
                    Content::Bytes(&[])
                }
            }
        }
    };
    if !link.send(&header.to_bytes(), body)? {
        return Ok(Put::Full);
    }
    outgoing.sent += length.min(outgoing.length);
    Ok(if outgoing.sent == outgoing.length { Put::Done } else { Put::Part })
}
