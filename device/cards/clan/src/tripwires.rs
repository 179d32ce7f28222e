//! Tripwires (sections 2.5 and 3.3): how they are set, and what happens when they fire.

use std::collections::HashMap;
use std::ops::Range;

use hamlyn_abi::clan::dma::CLAN_MAX_TRANSFER;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::CLAN_EVENT_TRIPWIRE;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_NUMBER_SHIFT, CLAN_FIFO_TRIPWIRE};
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_card::ports::{DmaFault, Ports};

use crate::ClanCard;
use crate::cam::{Cam, Wire, Words};
use crate::packet::WORD;

/// The memory that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Watched {
    /// An aperture of this host.
    Local(u32),
    /// The accesses of an owner to an aperture of another host.
    Remote { owner: u32, host: u32, aperture: u32 },
}

/// One Tripwire: the words that its owner has stored, and the range that it watches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tripwire {
    offset: u64,
    length: u64,
    target: u64,
    /// Number of times that it has fired.
    count: u32,
    armed: Option<Armed>,
}

#[derive(Debug, Clone)]
struct Armed {
    watched: Watched,
    bytes: Range<u64>,
    flags: u32,
}

/// A Tripwire that fires after the bytes before `at` have been accessed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Firing {
    pub(crate) at: u64,
    wire: Wire,
    /// Number of words that fire it.
    times: u32,
}

/// All watched ranges.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// By the number of an aperture of this host. It is an array because each arriving packet looks
    /// here, without the cost of a hash.
    local: Vec<Cam>,
    remote: HashMap<Watched, Cam>,
}

/// Returns the words of a range of bytes that is not empty.
fn words(bytes: &Range<u64>) -> Words {
    bytes.start / WORD..(bytes.end - 1) / WORD + 1
}

impl Watches {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn cam(&self, watched: Watched) -> Option<&Cam> {
        match watched {
            Watched::Local(aperture) => self.local.get(aperture as usize),
            Watched::Remote { .. } => self.remote.get(&watched),
        }
    }

    /// Returns the list for an aperture, and creates it if needed. The caller has checked that the
    /// aperture exists.
    fn cam_mut(&mut self, watched: Watched) -> &mut Cam {
        let Watched::Local(aperture) = watched else { return self.remote.entry(watched).or_default() };
        let needed = aperture as usize + 1;
        self.local.resize_with(self.local.len().max(needed), Cam::default);
        &mut self.local[aperture as usize]
    }

    /// Lists a Tripwire. Returns `false` if too many watch there.
    fn insert(&mut self, watched: Watched, bytes: &Range<u64>, wire: Wire) -> bool {
        self.cam_mut(watched).insert(&words(bytes), wire)
    }

    fn remove(&mut self, armed: &Armed, wire: Wire) {
        let cam = self.cam_mut(armed.watched);
        cam.remove(&words(&armed.bytes), wire);
        if cam.is_empty() {
            self.remote.remove(&armed.watched);
        }
    }

    fn matching(&self, watched: Watched, bytes: &Range<u64>) -> Vec<Wire> {
        self.cam(watched).map_or_else(Vec::new, |cam| cam.matching(&words(bytes)))
    }

    /// Returns all Tripwires that watch an aperture.
    fn all_of(&self, watched: Watched) -> Vec<Wire> {
        self.cam(watched).map_or_else(Vec::new, |cam| cam.matching(&(0..crate::cam::WORDS)))
    }
}

impl Tripwire {
    /// Stores half or all of one of the first three words. Returns `false` if the place or the
    /// width is invalid.
    fn store(&mut self, place: u32, width: u8, value: u64) -> bool {
        let word = match place & !7 {
            CLAN_TRIPWIRE_OFFSET => &mut self.offset,
            CLAN_TRIPWIRE_LENGTH => &mut self.length,
            CLAN_TRIPWIRE_TARGET => &mut self.target,
            _ => return false,
        };
        match (width, place % 8) {
            (8, _) => *word = value,
            (4, 0) => *word = *word >> 32 << 32 | value & 0xffff_ffff,
            (4, 4) => *word = value << 32 | *word & 0xffff_ffff,
            _ => return false,
        }
        true
    }

    /// Returns the bytes to be watched, or `None` if the range is invalid.
    fn bytes(&self) -> Option<Range<u64>> {
        let end = self.offset.checked_add(self.length)?;
        (self.length > 0 && end <= CLAN_MAX_TRANSFER).then_some(self.offset..end)
    }
}

impl ClanCard {
    /// Handles a store to an endpoint's page.
    pub(super) fn endpoint_page(&mut self, ports: &Ports<'_>, offset: u64, width: u8, value: u64) {
        let (index, place) = (
            (offset / u64::from(CLAN_ENDPOINT_SIZE)) as u32,
            (offset % u64::from(CLAN_ENDPOINT_SIZE)) as u32,
        );
        let number = place / CLAN_TRIPWIRE_STRIDE;
        let Some(endpoint) = self.endpoints.get(index) else {
            return self.count(ClanStatistic::TripwiresRefused);
        };
        if place == CLAN_ENDPOINT_GO {
            return self.look_for_requests(ports, index);
        }
        match (place, width) {
            (CLAN_ENDPOINT_USE, 4) => return self.begin_use(ports, index, value as u32),
            (CLAN_ENDPOINT_INTEREST, 4) => return self.set_interest(ports, index, value as u32),
            _ => {}
        }
        let Some(tripwire) = endpoint.tripwires.get_mut(number as usize) else {
            return self.count(ClanStatistic::TripwiresRefused);
        };
        match (place % CLAN_TRIPWIRE_STRIDE, width) {
            (CLAN_TRIPWIRE_CONTROL, 4 | 8) => {
                self.control(ports, Wire { endpoint: index, number }, value as u32)
            }
            (place, width) if tripwire.store(place, width, value) => {}
            _ => self.count(ClanStatistic::TripwiresRefused),
        }
    }

    /// Handles a store to a control word: disables the Tripwire, enables it again if requested, and
    /// writes an answer.
    fn control(&mut self, ports: &Ports<'_>, wire: Wire, value: u32) {
        self.disarm(wire);
        let answer = if value & CLAN_TRIPWIRE_ENABLE != 0 { self.arm(wire, value & 0xffff) } else { Ok(()) };
        let code = answer.err().unwrap_or(CLAN_TRIPWIRE_OK);
        let counter = if code == CLAN_TRIPWIRE_OK {
            ClanStatistic::TripwiresSet
        } else {
            ClanStatistic::TripwiresRefused
        };
        self.count(counter);
        let Some(endpoint) = self.endpoints.get(wire.endpoint) else { return };
        let place = CLAN_STATE_TRIPWIRES + wire.number * 8 + 4;
        let told = endpoint.store(ports.dma, place, value & 0xffff_0000 | code);
        self.note(told);
    }

    /// Disarms a Tripwire.
    pub(super) fn disarm(&mut self, wire: Wire) {
        let Some(endpoint) = self.endpoints.get(wire.endpoint) else { return };
        let armed =
            endpoint.tripwires.get_mut(wire.number as usize).and_then(|tripwire| tripwire.armed.take());
        if let Some(armed) = armed {
            self.watches.remove(&armed, wire);
        }
    }

    /// Enables a Tripwire that is disabled. Fails with the code of the answer.
    fn arm(&mut self, wire: Wire, flags: u32) -> Result<(), u32> {
        const ACTIONS: u32 =
            CLAN_TRIPWIRE_FIFO | CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_COUNT | CLAN_TRIPWIRE_EVENT;
        let means_nothing = flags & !CLAN_TRIPWIRE_FLAGS != 0
            || flags & (CLAN_TRIPWIRE_READS | CLAN_TRIPWIRE_WRITES) == 0
            || flags & ACTIONS == 0;
        if means_nothing {
            return Err(CLAN_TRIPWIRE_BAD_FLAGS);
        }
        let endpoint = self.endpoints.get(wire.endpoint).ok_or(CLAN_TRIPWIRE_BAD_FLAGS)?;
        let (owner, has_events) = (endpoint.owner, endpoint.events.is_some());
        let tripwire = endpoint.tripwires.get_mut(wire.number as usize).ok_or(CLAN_TRIPWIRE_BAD_FLAGS)?;
        let (aperture, host) = (tripwire.target as u32, (tripwire.target >> 32) as u32);
        let bytes = tripwire.bytes().ok_or(CLAN_TRIPWIRE_BAD_RANGE)?;
        if flags & CLAN_TRIPWIRE_EVENT != 0 && !has_events {
            return Err(CLAN_TRIPWIRE_NO_EVENTS);
        }
        let watched = if flags & CLAN_TRIPWIRE_REMOTE != 0 {
            Watched::Remote { owner, host, aperture }
        } else {
            let own = self.apertures.owned(aperture, owner).filter(|_| host == 0);
            if !own.ok_or(CLAN_TRIPWIRE_NO_APERTURE)?.area.contains(bytes.start, bytes.end - bytes.start) {
                return Err(CLAN_TRIPWIRE_BAD_RANGE);
            }
            Watched::Local(aperture)
        };
        if !self.watches.insert(watched, &bytes, wire) {
            return Err(CLAN_TRIPWIRE_CROWDED);
        }
        tripwire.armed = Some(Armed { watched, bytes, flags });
        Ok(())
    }

    /// Disarms all Tripwires that watch an aperture that is being closed.
    pub(super) fn disarm_all_of(&mut self, aperture: u32) {
        for wire in self.watches.all_of(Watched::Local(aperture)) {
            self.disarm(wire);
        }
    }

    /// Fires the Tripwires that watch memory that has been read or written.
    pub(super) fn accessed(&mut self, ports: &Ports<'_>, watched: Watched, bytes: Range<u64>, writes: bool) {
        for firing in self.firings(watched, &bytes, writes) {
            self.fire(ports, &firing);
        }
    }

    /// Returns the Tripwires that fire when some bytes are accessed in the order of their
    /// addresses. Each fires at the first of these words that it watches and, for the rest, at the
    /// last.
    pub(super) fn firings(&mut self, watched: Watched, bytes: &Range<u64>, writes: bool) -> Vec<Firing> {
        let mut firings = Vec::new();
        if bytes.is_empty() {
            return firings;
        }
        let kind = if writes { CLAN_TRIPWIRE_WRITES } else { CLAN_TRIPWIRE_READS };
        for wire in self.watches.matching(watched, bytes) {
            let Some(armed) = self.armed(wire).filter(|armed| armed.flags & kind != 0) else { continue };
            let seen = armed.bytes.start.max(bytes.start)..armed.bytes.end.min(bytes.end);
            if seen.is_empty() {
                continue;
            }
            let all = words(&seen);
            let end_of = |word: u64| ((word + 1) * WORD).min(bytes.end);
            firings.push(Firing { at: end_of(all.start), wire, times: 1 });
            let more = (all.end - all.start - 1) as u32;
            if more > 0 && armed.flags & CLAN_TRIPWIRE_ONCE == 0 {
                firings.push(Firing { at: end_of(all.end - 1), wire, times: more });
            }
        }
        firings.sort_unstable_by_key(|firing| (firing.at, firing.wire));
        firings
    }

    fn armed(&mut self, wire: Wire) -> Option<&Armed> {
        let endpoint = self.endpoints.get(wire.endpoint)?;
        endpoint.tripwires.get(wire.number as usize)?.armed.as_ref()
    }

    /// Fires a Tripwire, if it is still enabled.
    pub(super) fn fire(&mut self, ports: &Ports<'_>, firing: &Firing) {
        let Firing { wire, times, .. } = *firing;
        let Some(flags) = self.armed(wire).map(|armed| armed.flags) else { return };
        let counted = self.tripwire(wire).filter(|_| flags & CLAN_TRIPWIRE_COUNT != 0);
        if let Some(tripwire) = counted {
            tripwire.count = tripwire.count.wrapping_add(times);
        }
        self.counters.add(ClanStatistic::TripwiresFired, times.into());
        if flags & CLAN_TRIPWIRE_ONCE != 0 {
            self.disarm(wire);
        }
        let told = self.act(ports, wire, flags);
        self.note(told);
    }

    fn tripwire(&mut self, wire: Wire) -> Option<&mut Tripwire> {
        self.endpoints.get(wire.endpoint)?.tripwires.get_mut(wire.number as usize)
    }

    /// Performs the actions of a Tripwire that has fired.
    fn act(
        &mut self,
        ports: &Ports<'_>,
        Wire { endpoint: index, number }: Wire,
        flags: u32,
    ) -> Result<(), DmaFault> {
        let Some(endpoint) = self.endpoints.get(index) else { return Ok(()) };
        if flags & CLAN_TRIPWIRE_COUNT != 0 {
            let count = endpoint.tripwires[number as usize].count;
            endpoint.store(ports.dma, CLAN_STATE_TRIPWIRES + number * 8, count)?;
        }
        let interrupts = flags & CLAN_TRIPWIRE_FIFO != 0;
        let wakes = (interrupts || flags & CLAN_TRIPWIRE_BIT != 0) && endpoint.set_bit(ports.dma, number)?;
        if interrupts {
            self.put(ports, CLAN_FIFO_TRIPWIRE | number << CLAN_FIFO_NUMBER_SHIFT | index)?;
        }
        if flags & CLAN_TRIPWIRE_EVENT != 0 {
            self.tell(ports, index, CLAN_EVENT_TRIPWIRE, number)?;
        }
        if wakes { self.wake(ports, index) } else { Ok(()) }
    }
}
