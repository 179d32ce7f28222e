//! Objects that a driver has opened: apertures, windows, and endpoints with their Tripwires.

use std::ops::Range;

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::dma::CLAN_REQUEST_SIZE;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::tripwire::*;

use crate::engine::area::Area;

use super::faults::{Bits, Faults};
use super::packet::Letter;
use super::packet::TO_GROUP;
use super::requests::Requests;

/// An open aperture.
#[derive(Debug, Clone)]
pub(super) struct Aperture {
    pub(super) area: Area,
    pub(super) key: u64,
    pub(super) owner: u32,
    pub(super) flags: u32,
    /// Its group, if it is a member of one.
    pub(super) group: u32,
}

impl Aperture {
    /// Returns the range of its memory that a host may access.
    pub(super) fn part(&self, source: u16) -> Range<u64> {
        let length = self.area.length;
        if self.flags & CLAN_APERTURE_PARTS == 0 {
            return 0..length;
        }
        let (start, part) = (u64::from(source) * u64::from(CLAN_PART), u64::from(CLAN_PART));
        start..(start + part).min(length).max(start)
    }

    pub(super) fn is_member(&self) -> bool {
        self.flags & CLAN_APERTURE_GROUP != 0
    }

    /// Returns whether its flags allow an access of another host.
    pub(super) fn allows(&self, is_read: bool, is_privileged: bool) -> bool {
        let right = if is_read { CLAN_APERTURE_READ } else { CLAN_APERTURE_WRITE };
        self.flags & right != 0 && (is_privileged || self.flags & CLAN_APERTURE_PRIVILEGED == 0)
    }

    /// Returns whether a packet has its name and its key.
    pub(super) fn is_meant(&self, number: u32, letter: &Letter) -> bool {
        let to_group = letter.flags & TO_GROUP != 0;
        let called = if to_group { self.group } else { number };
        (called, self.key, self.is_member()) == (letter.aperture, letter.key, to_group)
    }
}

/// An open window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) key: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) host: u32,
    pub(super) aperture: u32,
    pub(super) endpoint: u32,
    pub(super) flags: u32,
}

/// Accesses that Tripwires may watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accesses {
    /// See [`Watch::target`].
    pub(super) target: u64,
    pub(super) is_remote: bool,
    pub(super) is_read: bool,
    pub(super) owner: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The accesses that an enabled Tripwire watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The aperture in the lower half, its host in the upper if it is remote.
    pub(super) target: u64,
    pub(super) flags: u32,
}

impl Watch {
    /// Returns whether it sees a word of accesses.
    fn sees(&self, accesses: &Accesses, (offset, length): (u64, u64)) -> bool {
        let right = if accesses.is_read { CLAN_TRIPWIRE_READS } else { CLAN_TRIPWIRE_WRITES };
        let is_remote = self.flags & CLAN_TRIPWIRE_REMOTE != 0;
        self.flags & right != 0
            && is_remote == accesses.is_remote
            && self.target == accesses.target
            && offset < self.offset + self.length
            && self.offset < offset + length
    }
}

#[derive(Debug, Default)]
pub(super) struct Tripwire {
    watch: Option<Watch>,
    count: u32,
    answer: u32,
    serial: u16,
}

impl Tripwire {
    /// Returns the control word that sets it the next time.
    pub(super) fn next_control(&mut self, flags: u32) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        u32::from(self.serial) << 16 | flags
    }

    /// Notes what it watches since the card's answer.
    pub(super) fn set(&mut self, answer: u32, watch: Option<Watch>) {
        (self.answer, self.watch) = (answer, watch);
    }

    pub(super) fn sees(&self, accesses: &Accesses, word: (u64, u64)) -> bool {
        self.watch.is_some_and(|watch| watch.sees(accesses, word))
    }

    /// Fires it. Returns its flags if it is enabled.
    pub(super) fn fire(&mut self) -> Option<u32> {
        let flags = self.watch?.flags;
        self.watch.take_if(|_| flags & CLAN_TRIPWIRE_ONCE != 0);
        if flags & CLAN_TRIPWIRE_COUNT != 0 {
            self.count = self.count.wrapping_add(1);
        }
        Some(flags)
    }

    /// Disables it if it watches an own aperture, which is closed.
    fn cut(&mut self, aperture: u32) {
        self.watch
            .take_if(|watch| watch.flags & CLAN_TRIPWIRE_REMOTE == 0 && watch.target == u64::from(aperture));
    }

    /// Returns the words that the card must show.
    pub(super) fn words(&self) -> [u32; 2] {
        [self.count, self.answer]
    }
}

/// An open endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) area: Area,
    /// The sender in its packets.
    pub(super) tag: u32,
    pub(super) owner: u32,
    pub(super) flags: u32,
    /// Its event queue.
    pub(super) events: Option<u32>,
    /// Its owner changes each request as soon as the card has read it.
    pub(super) changes_requests: bool,
    pub(super) tripwires: Vec<Tripwire>,
    pub(super) requests: Requests,
    pub(super) bits: Bits,
    pub(super) faults: Faults,
}

impl Endpoint {
    /// Returns whether the request at an index of its queue is the next to end, and does not wait
    /// for its packets.
    pub(super) fn is_detached(&self, index: u32) -> bool {
        let is_next = self.requests.next() == index;
        is_next && self.requests.front().is_some_and(|front| front.is_detached(self.flags))
    }

    /// Returns the address of its request with a number.
    pub(super) fn request_at(&self, number: u32) -> u64 {
        let at = CLAN_STATE_SIZE + (number & (self.requests.size() - 1)) * CLAN_REQUEST_SIZE;
        self.area.address(at.into())
    }

    /// Notes that an aperture of the card is closed.
    pub(super) fn cut(&mut self, aperture: u32) {
        self.requests.all_mut().for_each(|pending| pending.cut(aperture));
        self.tripwires.iter_mut().for_each(|tripwire| tripwire.cut(aperture));
    }
}
