//! What the driver of a card has opened, and what accesses then have as their effects.

use std::collections::BTreeMap;

use hamlyn_abi::clan::event::CLAN_EVENT_TRIPWIRE;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_NUMBER_SHIFT, CLAN_FIFO_TRIPWIRE};
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::family::area::ULN_MAX_AREA;

use crate::engine::area::Area;
use crate::engine::rng::Rng;

use super::events::Events;
use super::faults::Cause;
use super::objects::{Accesses, Aperture, Endpoint, Window};
use super::packet::{Letter, words};

/// The object that a page of host memory is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Aperture(u32),
    Endpoint(u32),
    Queue(u32),
    Fifo,
}

/// The open objects of a card.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    apertures: BTreeMap<u32, Aperture>,
    windows: BTreeMap<u32, Window>,
    endpoints: BTreeMap<u32, Endpoint>,
    /// The object of each page, and the page's index in it.
    parts: BTreeMap<u64, (Part, u64)>,
}

impl Ledger {
    pub(super) fn apertures(&self) -> &BTreeMap<u32, Aperture> {
        &self.apertures
    }

    pub(super) fn windows(&self) -> &BTreeMap<u32, Window> {
        &self.windows
    }

    pub(super) fn endpoints(&self) -> &BTreeMap<u32, Endpoint> {
        &self.endpoints
    }

    pub(super) fn endpoint(&mut self, number: u32) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(&number)
    }

    pub(super) fn endpoints_mut(&mut self) -> impl Iterator<Item = (u32, &mut Endpoint)> {
        self.endpoints.iter_mut().map(|(number, endpoint)| (*number, endpoint))
    }

    /// Returns the endpoint with this tag, if it is still open.
    pub(super) fn by_tag(&mut self, tag: u32) -> Option<(u32, &mut Endpoint)> {
        self.endpoints_mut().find(|(_, endpoint)| endpoint.tag == tag)
    }

    pub(super) fn own_aperture(&self, number: u32, owner: u32) -> Option<&Aperture> {
        self.apertures.get(&number).filter(|aperture| aperture.owner == owner)
    }

    /// Returns the aperture that a packet is for, if the packet has its key.
    pub(super) fn meant(&self, letter: &Letter) -> Option<(u32, &Aperture)> {
        let all = self.apertures.iter().map(|(number, aperture)| (*number, aperture));
        all.into_iter().find(|(number, aperture)| aperture.is_meant(*number, letter))
    }

    pub(super) fn has_member(&self, group: u32) -> bool {
        self.apertures.values().any(|one| one.is_member() && one.group == group)
    }

    pub(super) fn windows_of(&self, endpoint: u32) -> Vec<u32> {
        let own = self.windows.iter().filter(|(_, window)| window.endpoint == endpoint);
        own.map(|(first, _)| *first).collect()
    }

    /// Returns a random endpoint, of a process if `owner` is given.
    pub(super) fn some_endpoint(&self, rng: &mut Rng, owner: Option<u32>) -> Option<u32> {
        let is_own = |endpoint: &Endpoint| owner.is_none_or(|owner| owner == endpoint.owner);
        let all = self.endpoints.iter().filter(|(_, endpoint)| is_own(endpoint));
        rng.pick(&all.map(|(number, _)| *number).collect::<Vec<u32>>())
    }

    pub(super) fn some_window(&self, rng: &mut Rng) -> Option<(u32, Window)> {
        let all = self.windows.iter().map(|(first, window)| (*first, *window));
        rng.pick(&all.collect::<Vec<_>>())
    }

    pub(super) fn open_aperture(&mut self, number: u32, aperture: Aperture) {
        self.note_pages(&aperture.area, Part::Aperture(number));
        self.apertures.insert(number, aperture);
    }

    pub(super) fn close_aperture(&mut self, number: u32) -> Option<Aperture> {
        let aperture = self.apertures.remove(&number)?;
        self.forget_pages(&aperture.area);
        self.endpoints.values_mut().for_each(|endpoint| endpoint.cut(number));
        Some(aperture)
    }

    pub(super) fn open_window(&mut self, first: u32, window: Window) {
        self.windows.insert(first, window);
    }

    pub(super) fn close_window(&mut self, first: u32) -> Option<Window> {
        self.windows.remove(&first)
    }

    pub(super) fn open_endpoint(&mut self, number: u32, endpoint: Endpoint) {
        self.note_pages(&endpoint.area, Part::Endpoint(number));
        self.endpoints.insert(number, endpoint);
    }

    pub(super) fn close_endpoint(&mut self, number: u32) -> Option<Endpoint> {
        let endpoint = self.endpoints.remove(&number)?;
        self.forget_pages(&endpoint.area);
        Some(endpoint)
    }

    /// Takes an event queue away from endpoints whose events went there.
    pub(super) fn forget_queue(&mut self, number: u32) {
        for endpoint in self.endpoints.values_mut() {
            endpoint.events.take_if(|events| *events == number);
        }
    }

    /// Returns the endpoints of an event queue, with the number of their Tripwires.
    pub(super) fn members_of(&self, queue: u32) -> BTreeMap<u32, u32> {
        let members = self.endpoints.iter().filter(|(_, one)| one.events == Some(queue));
        members.map(|(of, one)| (*of, one.tripwires.len() as u32)).collect()
    }

    /// Notes which object the pages of an area belong to.
    pub(super) fn note_pages(&mut self, area: &Area, part: Part) {
        let pages = area.pages().iter().zip(0..);
        self.parts.extend(pages.map(|(page, index)| (*page, (part, index))));
    }

    pub(super) fn forget_pages(&mut self, area: &Area) {
        for page in area.pages() {
            self.parts.remove(page);
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

    /// Notes a fault that may be reported to an endpoint, and must be if `is_owed`.
    pub(super) fn note_fault(&mut self, number: u32, cause: Cause, is_owed: bool) {
        if let Some(endpoint) = self.endpoint(number) {
            endpoint.faults.permit(cause, is_owed);
        }
    }

    /// Fires the Tripwires that watch accesses, once for each word. Words whose last byte is not in
    /// `range` are left out. It is relative to the first accessed byte. Returns how often Tripwires
    /// have fired.
    pub(super) fn passed(&mut self, events: &mut Events, accesses: Accesses, range: (u64, u64)) -> u64 {
        let mut fired = 0;
        for word in words(accesses.offset, accesses.length) {
            let end = word.0 + word.1 - accesses.offset;
            if !(range.0 < end && end <= range.1) {
                continue;
            }
            for (number, index) in self.seen(&accesses, word) {
                fired += u64::from(self.fire(events, number, index));
            }
        }
        fired
    }

    fn seen(&self, accesses: &Accesses, word: (u64, u64)) -> Vec<(u32, usize)> {
        let endpoints = self.endpoints.iter();
        let of_owner =
            endpoints.filter(|(_, endpoint)| !accesses.is_remote || endpoint.owner == accesses.owner);
        let all = of_owner.flat_map(|(number, endpoint)| {
            endpoint.tripwires.iter().enumerate().map(|(index, tripwire)| (*number, index, tripwire))
        });
        all.filter(|(.., tripwire)| tripwire.sees(accesses, word))
            .map(|(number, index, _)| (number, index))
            .collect()
    }

    fn fire(&mut self, events: &mut Events, number: u32, index: usize) -> bool {
        let Some(endpoint) = self.endpoints.get_mut(&number) else { return false };
        let Some(flags) = endpoint.tripwires[index].fire() else { return false };
        let index = index as u32;
        if flags & (CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_FIFO) != 0 {
            self.set_bit(events, number, index);
        }
        if flags & CLAN_TRIPWIRE_EVENT != 0 {
            self.owe_record(events, number, CLAN_EVENT_TRIPWIRE, index);
        }
        if flags & CLAN_TRIPWIRE_FIFO != 0 {
            events.owe_fifo(CLAN_FIFO_TRIPWIRE | index << CLAN_FIFO_NUMBER_SHIFT | number);
        }
        true
    }

    pub(super) fn happened(&mut self, events: &mut Events, number: u32, kind: u32, bit: u32) {
        self.set_bit(events, number, bit);
        self.owe_record(events, number, kind, 0);
    }

    fn set_bit(&mut self, events: &mut Events, number: u32, bit: u32) {
        if self.endpoint(number).is_some_and(|endpoint| endpoint.bits.set(bit)) {
            events.owe_fifo(number);
        }
    }

    fn owe_record(&self, events: &mut Events, number: u32, kind: u32, detail: u32) {
        if let Some(queue) = self.endpoints.get(&number).and_then(|endpoint| endpoint.events) {
            events.owe(queue, (number, kind, detail));
        }
    }

    /// Returns the possible answers to a process's store to its Tripwire's words. One of them
    /// reports that it is enabled.
    pub(super) fn judge_tripwire(&self, number: u32, held: [u64; 3], flags: u32) -> Vec<u32> {
        let Some(endpoint) = self.endpoints.get(&number) else { return Vec::new() };
        let [offset, length, target] = held;
        let has = |flag| flags & flag != 0;
        let is_enabled = has(CLAN_TRIPWIRE_ENABLE);
        let mut wrong = Vec::new();
        let actions = CLAN_TRIPWIRE_FIFO | CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_COUNT | CLAN_TRIPWIRE_EVENT;
        let means = flags & !CLAN_TRIPWIRE_FLAGS == 0;
        if !means || is_enabled && !(has(CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_READS) && has(actions)) {
            wrong.push(CLAN_TRIPWIRE_BAD_FLAGS);
        }
        if !is_enabled {
            wrong.push(CLAN_TRIPWIRE_OK);
            return wrong;
        }
        let aperture = u32::try_from(target).ok();
        let aperture = aperture.and_then(|number| self.own_aperture(number, endpoint.owner));
        let is_remote = has(CLAN_TRIPWIRE_REMOTE);
        if !is_remote && aperture.is_none() {
            wrong.push(CLAN_TRIPWIRE_NO_APERTURE);
        }
        let most = aperture.filter(|_| !is_remote).map_or(ULN_MAX_AREA, |one| one.area.length);
        let end = offset.checked_add(length);
        if length == 0 || end.is_none_or(|end| end > most) {
            wrong.push(CLAN_TRIPWIRE_BAD_RANGE);
        }
        if has(CLAN_TRIPWIRE_EVENT) && endpoint.events.is_none() {
            wrong.push(CLAN_TRIPWIRE_NO_EVENTS);
        }
        if wrong.is_empty() { vec![CLAN_TRIPWIRE_OK] } else { wrong }
    }
}
