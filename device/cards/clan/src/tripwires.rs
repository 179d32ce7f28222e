//! Tripwires (sections 2.5 and 3.3): how they are set, and what happens when they fire.

use std::collections::HashMap;
use std::ops::Range;

use hamlyn_abi::clan::dma::CLAN_MAX_TRANSFER;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::CLAN_EVENT_TRIPWIRE;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_NUMBER_SHIFT, CLAN_FIFO_TRIPWIRE};
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{DmaFault, Ports};

use crate::apertures::Apertures;
use crate::cam::{Cam, Wire, Words};
use crate::endpoints::Endpoint;
use crate::packet::WORD;
use crate::telling::Telling;

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
struct Tripwire {
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

/// The Tripwires of all endpoints.
#[derive(Debug)]
pub(crate) struct Tripwires {
    /// By endpoint.
    wires: Table<Vec<Tripwire>>,
    watches: Watches,
}

/// All watched ranges.
#[derive(Debug, Default)]
struct Watches {
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

impl Tripwires {
    pub(crate) fn new(endpoints: u32) -> Self {
        Self { wires: Table::new(endpoints), watches: Watches::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.wires.close_all();
        self.watches = Watches::default();
    }

    /// Gives an endpoint its Tripwires.
    pub(crate) fn open(&mut self, endpoint: u32, count: u32) {
        self.wires.open(endpoint, (0..count).map(|_| Tripwire::default()).collect());
    }

    /// Disarms and removes an endpoint's Tripwires.
    pub(crate) fn close(&mut self, endpoint: u32) {
        for (number, tripwire) in (0..).zip(self.wires.close(endpoint).into_iter().flatten()) {
            if let Some(armed) = tripwire.armed {
                self.watches.remove(&armed, Wire { endpoint, number });
            }
        }
    }

    fn get(&mut self, wire: Wire) -> Option<&mut Tripwire> {
        self.wires.at_mut(wire.endpoint)?.get_mut(wire.number as usize)
    }

    /// Handles a store to place `place` of an endpoint's page.
    pub(crate) fn store(
        &mut self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        apertures: &Apertures,
        (endpoint, place): (u32, u32),
        (width, value): (u8, u64),
    ) {
        let wire = Wire { endpoint, number: place / CLAN_TRIPWIRE_STRIDE };
        let Some(tripwire) = self.get(wire) else { return telling.count(ClanStatistic::TripwiresRefused) };
        match (place % CLAN_TRIPWIRE_STRIDE, width) {
            (CLAN_TRIPWIRE_CONTROL, 4 | 8) => self.control(ports, telling, apertures, (wire, value as u32)),
            (place, width) if tripwire.store(place, width, value) => {}
            _ => telling.count(ClanStatistic::TripwiresRefused),
        }
    }

    /// Handles a store to a control word: disables the Tripwire, enables it again if requested, and
    /// writes an answer.
    fn control(
        &mut self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        apertures: &Apertures,
        (wire, value): (Wire, u32),
    ) {
        self.disarm(wire);
        let Some(endpoint) = telling.endpoint(wire.endpoint) else { return };
        let enables = value & CLAN_TRIPWIRE_ENABLE != 0;
        let answer = if enables { self.arm(apertures, endpoint, wire, value & 0xffff) } else { Ok(()) };
        let code = answer.err().unwrap_or(CLAN_TRIPWIRE_OK);
        let place = CLAN_STATE_TRIPWIRES + wire.number * 8 + 4;
        let told = endpoint.store(ports.dma, place, value & 0xffff_0000 | code);
        telling.count(match code {
            CLAN_TRIPWIRE_OK => ClanStatistic::TripwiresSet,
            _ => ClanStatistic::TripwiresRefused,
        });
        telling.note(told);
    }

    /// Disarms a Tripwire.
    fn disarm(&mut self, wire: Wire) {
        if let Some(armed) = self.get(wire).and_then(|tripwire| tripwire.armed.take()) {
            self.watches.remove(&armed, wire);
        }
    }

    /// Enables an endpoint's Tripwire, which is disabled. Fails with the code of the answer.
    fn arm(&mut self, apertures: &Apertures, of: &Endpoint, wire: Wire, flags: u32) -> Result<(), u32> {
        const ACTIONS: u32 =
            CLAN_TRIPWIRE_FIFO | CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_COUNT | CLAN_TRIPWIRE_EVENT;
        let means_nothing = flags & !CLAN_TRIPWIRE_FLAGS != 0
            || flags & (CLAN_TRIPWIRE_READS | CLAN_TRIPWIRE_WRITES) == 0
            || flags & ACTIONS == 0;
        if means_nothing {
            return Err(CLAN_TRIPWIRE_BAD_FLAGS);
        }
        let Self { wires, watches } = self;
        let tripwire = wires.at_mut(wire.endpoint).and_then(|wires| wires.get_mut(wire.number as usize));
        let tripwire = tripwire.ok_or(CLAN_TRIPWIRE_BAD_FLAGS)?;
        let (aperture, host) = (tripwire.target as u32, (tripwire.target >> 32) as u32);
        let bytes = tripwire.bytes().ok_or(CLAN_TRIPWIRE_BAD_RANGE)?;
        if flags & CLAN_TRIPWIRE_EVENT != 0 && of.events.is_none() {
            return Err(CLAN_TRIPWIRE_NO_EVENTS);
        }
        let watched = if flags & CLAN_TRIPWIRE_REMOTE != 0 {
            Watched::Remote { owner: of.owner, host, aperture }
        } else {
            let own = apertures.owned(aperture, of.owner).filter(|_| host == 0);
            if !own.ok_or(CLAN_TRIPWIRE_NO_APERTURE)?.area.contains(bytes.start, bytes.end - bytes.start) {
                return Err(CLAN_TRIPWIRE_BAD_RANGE);
            }
            Watched::Local(aperture)
        };
        if !watches.insert(watched, &bytes, wire) {
            return Err(CLAN_TRIPWIRE_CROWDED);
        }
        tripwire.armed = Some(Armed { watched, bytes, flags });
        Ok(())
    }

    /// Disarms all Tripwires that watch an aperture that is being closed.
    pub(crate) fn disarm_all_of(&mut self, aperture: u32) {
        for wire in self.watches.all_of(Watched::Local(aperture)) {
            self.disarm(wire);
        }
    }

    /// Fires the Tripwires that watch memory that has been read or written.
    pub(crate) fn accessed(
        &mut self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        watched: Watched,
        bytes: Range<u64>,
        writes: bool,
    ) {
        for firing in self.firings(watched, &bytes, writes) {
            self.fire(ports, telling, &firing);
        }
    }

    /// Returns the Tripwires that fire when some bytes are accessed in the order of their
    /// addresses. Each fires at the first of these words that it watches and, for the rest, at the
    /// last.
    pub(crate) fn firings(&mut self, watched: Watched, bytes: &Range<u64>, writes: bool) -> Vec<Firing> {
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
        self.get(wire)?.armed.as_ref()
    }

    /// Fires a Tripwire, if it is still enabled.
    pub(crate) fn fire(&mut self, ports: &Ports<'_>, telling: &mut Telling, firing: &Firing) {
        let Firing { wire, times, .. } = *firing;
        let Some(flags) = self.armed(wire).map(|armed| armed.flags) else { return };
        let counted = self.get(wire).filter(|_| flags & CLAN_TRIPWIRE_COUNT != 0);
        let count = counted.map(|tripwire| {
            tripwire.count = tripwire.count.wrapping_add(times);
            tripwire.count
        });
        telling.add(ClanStatistic::TripwiresFired, times.into());
        if flags & CLAN_TRIPWIRE_ONCE != 0 {
            self.disarm(wire);
        }
        let told = act(ports, telling, wire, flags, count);
        telling.note(told);
    }
}

/// Performs the actions of a Tripwire that has fired.
fn act(
    ports: &Ports<'_>,
    telling: &mut Telling,
    Wire { endpoint: index, number }: Wire,
    flags: u32,
    count: Option<u32>,
) -> Result<(), DmaFault> {
    let Some(endpoint) = telling.endpoint(index) else { return Ok(()) };
    if let Some(count) = count {
        endpoint.store(ports.dma, CLAN_STATE_TRIPWIRES + number * 8, count)?;
    }
    let interrupts = flags & CLAN_TRIPWIRE_FIFO != 0;
    let wakes = (interrupts || flags & CLAN_TRIPWIRE_BIT != 0) && endpoint.set_bit(ports.dma, number)?;
    if interrupts {
        telling.put(ports, CLAN_FIFO_TRIPWIRE | number << CLAN_FIFO_NUMBER_SHIFT | index)?;
    }
    if flags & CLAN_TRIPWIRE_EVENT != 0 {
        telling.tell(ports, index, CLAN_EVENT_TRIPWIRE, number)?;
    }
    if wakes { telling.wake(ports, index) } else { Ok(()) }
}
