//! One end of a full-duplex link between a card and its switch.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use vm_memory::{FileOffset, MmapRegion, VolatileSlice};

use crate::bell::Bell;
use crate::header::Header;
use crate::place::Place;
use crate::ring::{Consumer, Geometry, Producer, Record, RingError};

/// Which end of a link: the ring that one end sends by, the other receives by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Card,
    Switch,
}

/// One end of a full-duplex link: a ring to send by, a ring to receive by, and a bell to be woken by.
///
/// The parts are public, for a switch that moves packets from one link's receiver to another link's sender.
#[derive(Debug)]
pub struct Link {
    /// The ring that leads away.
    pub sender: Producer,
    /// The ring that leads here.
    pub receiver: Consumer,
    /// What wakes this end.
    pub wires: Wires,
}

/// The descriptors of one end of a link.
#[derive(Debug)]
pub struct Wires {
    /// Rings when the other end woke this one.
    pub bell: Arc<Bell>,
    /// The handshake's socket: readable, or hung up, when the process at the other end is gone. `None` inside one
    /// process.
    pub lifeline: Option<OwnedFd>,
}

impl Link {
    /// Both ends of a link inside one process.
    pub fn pair(geometry: Geometry) -> io::Result<(Link, Link)> {
        let shared = Shared::new(geometry)?;
        Ok((shared.link(End::Card, None)?, shared.link(End::Switch, None)?))
    }

    /// The longest payload that the link carries, in bytes: the card's own header included, the fabric's not.
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

    /// Readable when somebody woke this end.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.wires.bell.as_fd()
    }

    /// Stops the bell: the first thing to do after waking, before a look at the rings.
    pub fn silence_bell(&self) {
        self.wires.bell.silence();
    }

    /// Readable, or hung up, when the process at the other end is gone. `None` inside one process.
    pub fn lifeline(&self) -> Option<BorrowedFd<'_>> {
        self.wires.lifeline.as_ref().map(AsFd::as_fd)
    }
}

/// What both ends of a link share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) geometry: Geometry,
    pub(crate) memory: Arc<File>,
    region: Arc<MmapRegion>,
    pub(crate) card_bell: Arc<Bell>,
    pub(crate) switch_bell: Arc<Bell>,
}

impl Shared {
    /// Two empty rings in sealed memory that nobody else knows.
    pub(crate) fn new(geometry: Geometry) -> io::Result<Shared> {
        geometry.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let memory = memfd_create("hamlyn-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, 2 * geometry.ring_bytes() as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Shared::map(geometry, memory, Bell::new()?, Bell::new()?)
    }

    /// The other process's rings, whose memory must be what it says.
    pub(crate) fn adopt(
        geometry: Geometry,
        memory: OwnedFd,
        card: OwnedFd,
        switch: OwnedFd,
    ) -> io::Result<Shared> {
        geometry.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // Without the seal the other process could shrink the file, and our next access would be a SIGBUS.
        if !fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("ring memory can shrink (it must be sealed)"));
        }
        Shared::map(geometry, memory, Bell::from_fd(card), Bell::from_fd(switch))
    }

    fn map(geometry: Geometry, memory: OwnedFd, card: Bell, switch: Bell) -> io::Result<Shared> {
        let memory = Arc::new(File::from(memory));
        let (size, wanted) = (memory.metadata()?.len(), 2 * geometry.ring_bytes());
        if size < wanted as u64 {
            return Err(io::Error::other(format!("ring memory has {size} bytes ({wanted} needed)")));
        }
        let region = MmapRegion::from_file(FileOffset::from_arc(memory.clone(), 0), wanted)
            .map_err(io::Error::other)?;
        Ok(Shared {
            geometry,
            memory,
            region: Arc::new(region),
            card_bell: Arc::new(card),
            switch_bell: Arc::new(switch),
        })
    }

    /// One end. Each end is to be made once.
    pub(crate) fn link(&self, end: End, lifeline: Option<OwnedFd>) -> io::Result<Link> {
        let place = |base| Place::new(self.region.clone(), base, self.geometry);
        let (up, down) = (place(0)?, place(self.geometry.ring_bytes())?);
        let (out, back, mine, other) = match end {
            End::Card => (up, down, &self.card_bell, &self.switch_bell),
            End::Switch => (down, up, &self.switch_bell, &self.card_bell),
        };
        Ok(Link {
            sender: Producer::new(out, other.clone()),
            receiver: Consumer::new(back, other.clone()),
            wires: Wires { bell: mine.clone(), lifeline },
        })
    }
}
