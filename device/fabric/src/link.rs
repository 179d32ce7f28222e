//! One end of a full-duplex link between a card and its switch.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use vm_memory::VolatileSlice;

use crate::bell::{Bell, Heard, Reason};
use crate::error::RingError;
use crate::geometry::Geometry;
use crate::header::Header;
use crate::memory::Sealed;
use crate::place::{Place, ring_bytes};
use crate::ring::{Consumer, Producer, Record};

/// The two ends of a link. The ring that one end sends on is the ring that the other receives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Card,
    Switch,
}

/// One end of a full-duplex link: a ring to send on, a ring to receive on, and a bell that wakes
/// it.
///
/// The parts are public, for a switch that moves packets from one link's receiver to another link's
/// sender.
#[derive(Debug)]
pub struct Link {
    /// The outgoing ring.
    pub sender: Producer,
    /// The incoming ring.
    pub receiver: Consumer,
    /// Wakes the other end, and rings when the other end wakes this one. None on a quiet link,
    /// whose ends one thread polls in turn.
    pub bell: Option<Arc<Bell>>,
}

impl Link {
    /// Returns both ends of a link inside one process.
    pub fn pair(geometry: Geometry) -> io::Result<(Link, Link)> {
        let (card, switch) = Bell::pair()?;
        Link::ends(geometry, Some(card), Some(switch))
    }

    /// Returns both ends of a link without a bell, for a thread that owns both ends and checks both
    /// before it sleeps.
    pub fn quiet_pair(geometry: Geometry) -> io::Result<(Link, Link)> {
        Link::ends(geometry, None, None)
    }

    fn ends(geometry: Geometry, card: Option<Bell>, switch: Option<Bell>) -> io::Result<(Link, Link)> {
        let shared = Shared::new(geometry)?;
        Ok((shared.link(End::Card, card)?, shared.link(End::Switch, switch)?))
    }

    /// Returns the longest payload that the link carries, in bytes. That includes the card's own
    /// header but not the fabric's.
    pub fn max_packet(&self) -> usize {
        self.sender.geometry().max_packet
    }

    /// See [`Producer::reserve`].
    pub fn reserve(&mut self, header: Header, length: usize) -> Result<Option<VolatileSlice<'_>>, RingError> {
        self.sender.reserve(header, length)
    }

    /// See [`Producer::commit`].
    pub fn commit(&mut self) {
        self.sender.commit();
    }

    /// See [`Producer::send`].
    pub fn send(&mut self, header: Header, payload: &[VolatileSlice<'_>]) -> Result<bool, RingError> {
        self.sender.send(header, payload)
    }

    /// See [`Consumer::peek`].
    pub fn peek(&mut self) -> Result<Option<Record<'_>>, RingError> {
        self.receiver.peek()
    }

    /// See [`Consumer::consume`].
    pub fn consume(&mut self) {
        self.receiver.consume();
    }

    /// See [`Consumer::sleep_for_records`].
    pub fn sleep_for_records(&mut self) -> Result<bool, RingError> {
        self.receiver.sleep_for_records()
    }

    /// See [`Producer::sleep_for_room`].
    pub fn sleep_for_room(&mut self) -> Result<bool, RingError> {
        self.sender.sleep_for_room()
    }

    /// Returns the bell's descriptor. It is readable when this end was woken or the other end is
    /// gone: then call [`Link::hear`].
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(|bell| bell.as_fd())
    }

    /// Ends the link because of something the other side did, see [`Bell::end`].
    pub fn end(&self, reason: Reason) {
        if let Some(bell) = &self.bell {
            bell.end(reason);
        }
    }

    /// Receives a ring, see [`Bell::hear`]. Call this first after waking, before checking the
    /// rings.
    pub fn hear(&self) -> Heard {
        self.bell.as_ref().map_or(Heard::Nothing, |bell| bell.hear())
    }
}

/// Memory that both ends of a link share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) geometry: Geometry,
    pub(crate) memory: Sealed,
}

impl Shared {
    /// Returns two empty rings in new, sealed memory that no other process has yet.
    pub(crate) fn new(geometry: Geometry) -> io::Result<Shared> {
        geometry.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Shared { geometry, memory: Sealed::new("hamlyn-link", 2 * ring_bytes(geometry))? })
    }

    /// Adopts the other process's rings. Fails if the memory does not match the geometry.
    pub(crate) fn adopt(geometry: Geometry, memory: OwnedFd) -> io::Result<Shared> {
        geometry.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Shared { geometry, memory: Sealed::adopt(memory, 2 * ring_bytes(geometry))? })
    }

    /// Returns one end. Create each end only once.
    pub(crate) fn link(&self, end: End, bell: Option<Bell>) -> io::Result<Link> {
        let place = |base| Place::new(self.memory.region.clone(), base, self.geometry);
        let (up, down) = (place(0)?, place(ring_bytes(self.geometry))?);
        let (out, back) = match end {
            End::Card => (up, down),
            End::Switch => (down, up),
        };
        let bell = bell.map(Arc::new);
        Ok(Link {
            sender: Producer::new(out, bell.clone()),
            receiver: Consumer::new(back, bell.clone()),
            bell,
        })
    }
}
