//! The simulation's own account of each card: what its driver has opened, and what the card owes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use hamlyn_abi::clan::aperture::{CLAN_APERTURE_GROUP, CLAN_APERTURE_PARTS, CLAN_GROUP_HOST, CLAN_PART};
use hamlyn_abi::clan::dma::{CLAN_DMA_WRITE, CLAN_REQUEST_SIZE, ClanRequest};
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::CLAN_EVENTS_TAKEN;
use hamlyn_abi::clan::statistics::ClanStatistic;

use crate::engine::area::Area;
use crate::engine::memory::{Memory, Write};

use super::packet::Letter;

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

/// The accesses that an enabled Tripwire watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The aperture in the lower half, its host in the upper if it is remote.
    pub(super) target: u64,
    pub(super) flags: u32,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Tripwire {
    /// Values that were stored to its words.
    pub(super) held: [u64; 3],
    pub(super) watch: Option<Watch>,
    pub(super) count: u32,
    pub(super) answer: u32,
    pub(super) serial: u16,
}

/// A DMA request that has not ended.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Its number among all requests.
    pub(super) serial: u64,
    pub(super) request: ClanRequest,
    /// Bytes that have left, or come.
    pub(super) done: u64,
    /// For a request that does not wait for its packets: by host, the first bytes of packets that
    /// have left, or whose loss was reported.
    pub(super) copied: BTreeMap<u16, BTreeSet<u64>>,
    /// Members of its group that have not got all their copies.
    pub(super) owed: BTreeSet<u16>,
    /// Bytes that were asked for.
    pub(super) asked: u64,
    /// Reason that the other host has reported: `CLAN_FAULT_*`.
    pub(super) refused: u32,
    /// When it was put, by [`Ledger::next_event`].
    pub(super) put_at: u64,
    /// When it was put: the moment (`since`), and the time in milliseconds (`since_ms`).
    pub(super) since: u64,
    pub(super) since_ms: u64,
    /// Its local aperture was closed, so the bytes read from it are unknown.
    pub(super) is_cut: bool,
}

/// A request that has ended, and may still have a packet that is about to leave.
#[derive(Debug, Clone)]
pub(super) struct Ghost {
    /// Tag and owner of its endpoint.
    pub(super) tag: u32,
    pub(super) owner: u32,
    pub(super) flags: u32,
    pub(super) pending: Pending,
    /// When it ended as done, by [`Ledger::next_event`]. All its packets had been made by then.
    pub(super) ended_at: Option<u64>,
}

/// Fields of a fault, in the order in which the card writes them before it increments the count.
pub(super) const FAULT_PARTS: [u32; 4] =
    [CLAN_STATE_FAULTS_BEGUN, CLAN_STATE_FAULT_USE, CLAN_STATE_FAULT_REASON, CLAN_STATE_FAULT_OFFSET];

/// A possible cause of an endpoint's fault: reason, host, aperture and offset.
pub(super) type Cause = (u32, u32, u32, u64);

/// An open endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) area: Area,
    /// The sender in its packets.
    pub(super) tag: u32,
    pub(super) owner: u32,
    pub(super) tripwires: Vec<Tripwire>,
    pub(super) requests: u32,
    pub(super) events: Option<u32>,
    pub(super) flags: u32,
    /// Bits that must be set.
    pub(super) bits: u64,
    /// The halves of its bitmap: the card's (`bitmap`) and its owner's (`cleared`).
    pub(super) bitmap: u64,
    pub(super) cleared: u64,
    pub(super) put: u32,
    pub(super) done: u32,
    /// Requests whose results are written, as reported by `done`.
    pub(super) ended: u32,
    pub(super) pending: VecDeque<Pending>,
    /// Packets of other endpoints' requests to the same host that have left since its last turn.
    pub(super) passed_over: u32,
    /// Its owner counts requests that cannot exist.
    pub(super) overstates: bool,
    /// Its owner changes each request as soon as the card has read it.
    pub(super) changes_requests: bool,
    /// The last request failed, and the next one is chained to it.
    pub(super) chain_failed: bool,
    pub(super) faults: u32,
    pub(super) fault_words: [u8; 24],
    /// Fields of the next fault that the card has written so far.
    pub(super) fault_parts: Vec<u32>,
    pub(super) causes: Vec<Cause>,
    /// Faults that must have been reported to it.
    pub(super) owed_faults: u32,
    /// Bits that a process waits for.
    pub(super) armed: u64,
}

/// A source of records: endpoint, kind, detail. It has at most one record of an event queue that is
/// not taken.
pub(super) type Source = (u32, u32, u32);

/// An open event queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) area: Area,
    pub(super) owner: u32,
    pub(super) records: u32,
    /// Sources of all records so far.
    pub(super) written: Vec<Source>,
    /// `taken`: records that its owner has taken. `said`: the count that its owner has stored.
    /// `known`: the count that the card assumed when it last looked.
    pub(super) taken: u32,
    pub(super) said: u32,
    pub(super) known: u32,
    /// Sources whose records are due.
    pub(super) owed: BTreeSet<Source>,
    /// Number of records taken by a process that sleeps on it.
    pub(super) armed: Option<u32>,
}

/// The FIFO.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    pub(super) area: Option<Area>,
    pub(super) records: u32,
    pub(super) written: u32,
    pub(super) taken: u32,
    pub(super) untaken: VecDeque<u32>,
    pub(super) owed: BTreeSet<u32>,
    /// Entries that have happened again since their record, which is not taken.
    pub(super) again: BTreeSet<u32>,
    pub(super) may: BTreeSet<u32>,
    /// The vector was raised since the driver last took records.
    pub(super) raised: bool,
}

/// The object that a page of host memory is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Command,
    Aperture(u32),
    Endpoint(u32),
    Queue(u32),
    Fifo,
}

/// Data to be written to memory, in order of arrival.
#[derive(Debug, Clone)]
pub(super) struct Landing {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
    /// Accesses that are complete once it is written. They were made for other hosts or by this
    /// one.
    pub(super) then: Option<Accesses>,
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

/// A store or load that has not left.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// Its expected contents in a packet.
    pub(super) letter: Letter,
    pub(super) owner: u32,
    /// When it was made, by [`Ledger::next_event`].
    pub(super) made_at: u64,
    /// Its endpoint or load no longer exists, so its loss is not reported.
    pub(super) excused: bool,
}

/// A load that a processor waits for.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// The first page of its window.
    pub(super) first: u32,
    pub(super) window: Window,
    pub(super) offset: u64,
    pub(super) width: u8,
    pub(super) since: u64,
    pub(super) owner: u32,
    /// Its expected value, once that is known.
    pub(super) value: Option<u64>,
    /// The accesses that it then has made.
    pub(super) accesses: Option<Accesses>,
    pub(super) refused: u32,
    /// Its window or card is gone: it may read as ones for that reason.
    pub(super) is_cut: bool,
    /// It has not left, and never will.
    pub(super) is_dropped: bool,
}

/// The account of a card.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) apertures: BTreeMap<u32, Aperture>,
    pub(super) windows: BTreeMap<u32, Window>,
    pub(super) endpoints: BTreeMap<u32, Endpoint>,
    pub(super) queues: BTreeMap<u32, Queue>,
    pub(super) fifo: Fifo,
    pub(super) parts: BTreeMap<u64, (Part, u64)>,
    /// For each host, stores and loads that have not left, in the order in which they were made.
    pub(super) program: BTreeMap<u32, VecDeque<Made>>,
    /// Counts stores and loads that were made, and requests that were put or ended.
    events: u64,
    /// Loads by the card's numbers for them.
    pub(super) loads: BTreeMap<u64, Load>,
    /// For each host that has not answered a load in time, when the card must make loads of it
    /// again.
    pub(super) late_loads: BTreeMap<u32, u64>,
    /// Requests that have ended, or whose endpoints were closed, with a packet that may be about to
    /// leave.
    pub(super) ghosts: Vec<Ghost>,
    /// Requests that ended when their packets were made. The packets may leave later.
    pub(super) detached: Vec<Ghost>,
    /// Groups that other hosts have announced to be members of. The hosts may have been given up
    /// since.
    pub(super) members: BTreeMap<u16, u64>,
    /// Its writes that are not accounted for yet.
    pub(super) unsettled: Vec<Write>,
    /// Hosts that it has given up in the current tick.
    pub(super) given_up: BTreeSet<u32>,
    pub(super) is_ticking: bool,
    pub(super) landings: VecDeque<Landing>,
    /// Bytes of the first landing that have been written.
    pub(super) landed: usize,
    counts: BTreeMap<usize, u64>,
}

impl Pending {
    /// Returns whether it ends when its packets are made, without waiting for them to leave.
    /// `flags` are its endpoint's.
    pub(super) fn is_detached(&self, flags: u32) -> bool {
        self.request.opcode == CLAN_DMA_WRITE && (flags != 0 || self.request.host >= CLAN_GROUP_HOST)
    }
}

impl Ghost {
    /// Creates a ghost of an endpoint with this tag, owner and flags. If it has not ended as done,
    /// it owes no copies.
    pub(super) fn new((tag, owner, flags): (u32, u32, u32), pending: Pending, ended_at: Option<u64>) -> Self {
        let mut pending = pending;
        if ended_at.is_none() {
            pending.owed.clear();
        }
        Self { tag, owner, flags, pending, ended_at }
    }
}

impl Ledger {
    /// Returns the members of a group that this host knows of.
    pub(super) fn members_of(&self, host: u16, group: u32) -> Vec<u16> {
        let own = self.apertures.values().any(|one| one.is_member() && one.group == group);
        let others = self.members.iter().filter(|(_, groups)| **groups >> group & 1 == 1);
        let others = others.map(|(other, _)| *other).filter(|other| *other != host);
        others.chain(own.then_some(host)).collect()
    }

    /// Returns the number of the next event: see `events`.
    pub(super) fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    pub(super) fn count(&mut self, statistic: ClanStatistic, more: u64) {
        *self.counts.entry(usize::from(statistic)).or_default() += more;
    }

    pub(super) fn counted(&self, statistic: ClanStatistic) -> u64 {
        self.counts.get(&usize::from(statistic)).copied().unwrap_or(0)
    }

    /// Notes which object the pages of an area belong to.
    pub(super) fn note_pages(&mut self, area: &Area, part: Part, is_open: bool) {
        for (index, page) in area.pages().iter().enumerate() {
            if is_open {
                self.parts.insert(*page, (part, index as u64));
            } else {
                self.parts.remove(page);
            }
        }
    }

    /// Returns the object that an address belongs to, and the byte in it.
    pub(super) fn place(&self, address: u64) -> Option<(Part, u64)> {
        let (part, index) = *self.parts.get(&(address / 4096 * 4096))?;
        let byte = index * 4096 + address % 4096;
        let first = match part {
            Part::Aperture(number) => self.apertures.get(&number)?.area.address(0) % 4096,
            _ => 0,
        };
        Some((part, byte.checked_sub(first)?))
    }

    /// Returns the first free number for an object of a kind.
    pub(super) fn free<T>(objects: &BTreeMap<u32, T>, limit: u32) -> Option<u32> {
        (0..limit).find(|number| !objects.contains_key(number))
    }
}

impl Endpoint {
    /// Returns whether the request at an index of its ring is the next to end, and does not wait
    /// for its packets.
    pub(super) fn is_detached(&self, index: u32) -> bool {
        let is_next = self.ended & (self.requests - 1) == index;
        is_next && self.pending.front().is_some_and(|front| front.is_detached(self.flags))
    }

    /// Returns the address of its request with a number.
    pub(super) fn request_at(&self, number: u32) -> u64 {
        let at = CLAN_STATE_SIZE + (number & (self.requests - 1)) * CLAN_REQUEST_SIZE;
        self.area.address(at.into())
    }

    /// Takes a word of the bitmap that the card has stored. The card may set one bit that was not
    /// set, and clears none.
    pub(super) fn note_bits(&mut self, at: u32, word: u32) -> bool {
        let shift = 8 * (at - CLAN_STATE_BITS);
        let before = self.bitmap;
        self.bitmap = before & !(u64::from(u32::MAX) << shift) | u64::from(word) << shift;
        let changed = before ^ self.bitmap;
        at % 4 == 0 && changed.count_ones() <= 1 && changed & (before ^ self.cleared) == 0
    }

    /// Records a write to a field of a fault. Returns whether it is the next in order.
    pub(super) fn note_fault_part(&mut self, at: u32) -> bool {
        self.fault_parts.push(at);
        FAULT_PARTS.starts_with(&self.fault_parts)
    }

    pub(super) fn new(area: Area, owner: u32, tripwires: u32, requests: u32) -> Self {
        debug_assert!(tripwires <= CLAN_MAX_TRIPWIRES, "more Tripwires than there can be");
        Self {
            area,
            tag: 0,
            owner,
            tripwires: vec![Tripwire::default(); tripwires as usize],
            requests,
            events: None,
            flags: 0,
            bits: 0,
            bitmap: 0,
            cleared: 0,
            put: 0,
            done: 0,
            ended: 0,
            pending: VecDeque::new(),
            passed_over: 0,
            overstates: false,
            changes_requests: false,
            chain_failed: false,
            faults: 0,
            fault_words: [0; 24],
            fault_parts: Vec::new(),
            causes: Vec::new(),
            owed_faults: 0,
            armed: 0,
        }
    }
}

impl Queue {
    pub(super) fn new(area: Area, owner: u32, records: u32) -> Self {
        Self {
            area,
            owner,
            records,
            written: Vec::new(),
            taken: 0,
            said: 0,
            known: 0,
            owed: BTreeSet::new(),
            armed: None,
        }
    }

    /// Returns the number of records so far.
    pub(super) fn count(&self) -> u32 {
        self.written.len() as u32
    }

    /// Stores the number of records taken, as its owner.
    pub(super) fn say(&mut self, memory: &Memory, taken: u32) {
        self.said = taken;
        self.area.poke(memory, CLAN_EVENTS_TAKEN.into(), &taken.to_le_bytes());
    }

    /// Lets the card look at the number of records taken. An impossible number, or one that would
    /// take some back, takes all.
    pub(super) fn look(&mut self) {
        let is_possible = self.said.wrapping_sub(self.known) <= self.count() - self.known;
        self.known = if is_possible { self.said } else { self.count() };
    }

    /// Returns the sources of the records that are untaken from the card's view.
    pub(super) fn untaken(&self) -> &[Source] {
        &self.written[self.known as usize..]
    }
}
