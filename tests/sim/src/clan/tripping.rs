//! Tripwires: what they watch, when they fire, and the effects.

use hamlyn_abi::clan::event::CLAN_EVENT_TRIPWIRE;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_NUMBER_SHIFT, CLAN_FIFO_TRIPWIRE};
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::family::area::ULN_MAX_AREA;

use crate::engine::world::World;

use super::ledger::{Accesses, Ledger, Source, Watch};
use super::model::Clan;
use super::packet::words;

impl Watch {
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

impl Ledger {
    /// Returns the Tripwires that an access fires.
    fn seen(&self, accesses: &Accesses, word: (u64, u64)) -> Vec<(u32, usize)> {
        let endpoints = self.endpoints.iter();
        let of_owner =
            endpoints.filter(|(_, endpoint)| !accesses.is_remote || endpoint.owner == accesses.owner);
        let all = of_owner.flat_map(|(number, endpoint)| {
            endpoint.tripwires.iter().enumerate().map(|(index, tripwire)| (*number, index, tripwire.watch))
        });
        let sees = |watch: Option<Watch>| watch.is_some_and(|watch| watch.sees(accesses, word));
        all.filter(|(_, _, watch)| sees(*watch)).map(|(number, index, _)| (number, index)).collect()
    }
}

impl World<Clan> {
    /// Fires the Tripwires that watch accesses which have passed a card, once for each access.
    pub(super) fn passed(&mut self, host: usize, accesses: Accesses) {
        for word in words(accesses.offset, accesses.length) {
            for (number, index) in self.model.ledgers[host].seen(&accesses, word) {
                self.fire(host, number, index);
            }
        }
    }

    /// Like `passed`, but only for words whose last byte is in a range of bytes. The range is
    /// relative to the first accessed byte.
    pub(super) fn passed_by(&mut self, host: usize, accesses: Accesses, (before, after): (u64, u64)) {
        for word in words(accesses.offset, accesses.length) {
            let end = word.0 + word.1 - accesses.offset;
            if before < end && end <= after {
                for (number, index) in self.model.ledgers[host].seen(&accesses, word) {
                    self.fire(host, number, index);
                }
            }
        }
    }

    fn fire(&mut self, host: usize, number: u32, index: usize) {
        let ledger = &mut self.model.ledgers[host];
        let Some(endpoint) = ledger.endpoints.get_mut(&number) else { return };
        let tripwire = &mut endpoint.tripwires[index];
        let Some(Watch { flags, .. }) = tripwire.watch else { return };
        if flags & CLAN_TRIPWIRE_ONCE != 0 {
            tripwire.watch = None;
        }
        if flags & CLAN_TRIPWIRE_COUNT != 0 {
            tripwire.count = tripwire.count.wrapping_add(1);
        }
        ledger.count(Counter::TripwiresFired, 1);
        self.model.fired += 1;
        let bit = (flags & (CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_FIFO) != 0).then_some(index as u32);
        if let Some(bit) = bit {
            self.set_bit(host, number, bit);
        }
        if flags & CLAN_TRIPWIRE_EVENT != 0 {
            self.owe_record(host, number, (number, CLAN_EVENT_TRIPWIRE, index as u32));
        }
        if flags & CLAN_TRIPWIRE_FIFO != 0 {
            self.owe_fifo(host, CLAN_FIFO_TRIPWIRE | (index as u32) << CLAN_FIFO_NUMBER_SHIFT | number);
        }
    }

    /// Notes an event of an endpoint.
    pub(super) fn happened(&mut self, host: usize, number: u32, kind: u32, detail: u32, bit: Option<u32>) {
        if let Some(bit) = bit {
            self.set_bit(host, number, bit);
        }
        self.owe_record(host, number, (number, kind, detail));
    }

    fn set_bit(&mut self, host: usize, number: u32, bit: u32) {
        let Some(endpoint) = self.model.ledgers[host].endpoints.get_mut(&number) else { return };
        endpoint.bits |= 1 << bit;
        if endpoint.armed & 1 << bit != 0 {
            endpoint.armed = 0;
            self.owe_fifo(host, number);
        }
    }

    /// Notes that a record is due, unless its source has one that is not taken.
    fn owe_record(&mut self, host: usize, number: u32, source: Source) {
        let ledger = &mut self.model.ledgers[host];
        let events = ledger.endpoints.get(&number).and_then(|endpoint| endpoint.events);
        let Some(queue) = events.and_then(|events| ledger.queues.get_mut(&events)) else { return };
        queue.look();
        if !queue.untaken().contains(&source) {
            queue.owed.insert(source);
        }
    }

    /// Notes that a record of the FIFO is due, unless there is one that is not taken.
    pub(super) fn owe_fifo(&mut self, host: usize, what: u32) {
        let fifo = &mut self.model.ledgers[host].fifo;
        if fifo.area.is_none() {
            return;
        }
        if fifo.untaken.contains(&what) {
            fifo.again.insert(what);
        } else if !fifo.owed.insert(what) {
            // Several at once may be reported once or several times.
            fifo.may.insert(what);
        }
    }

    /// Returns the possible answers to a process's store to its Tripwire's words. One of them
    /// reports that it is enabled.
    pub(super) fn judge_tripwire(&self, host: usize, number: u32, held: [u64; 3], control: u32) -> Vec<u32> {
        let ledger = &self.model.ledgers[host];
        let Some(endpoint) = ledger.endpoints.get(&number) else { return Vec::new() };
        let (flags, [offset, length, target]) = (control & 0xffff, held);
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
        let aperture = u32::try_from(target).ok().and_then(|number| ledger.apertures.get(&number));
        let aperture = aperture.filter(|aperture| aperture.owner == endpoint.owner);
        let is_remote = has(CLAN_TRIPWIRE_REMOTE);
        if !is_remote && aperture.is_none() {
            wrong.push(CLAN_TRIPWIRE_NO_APERTURE);
        }
        let most = aperture.map_or(ULN_MAX_AREA, |one| one.area.length);
        let most = if is_remote { ULN_MAX_AREA } else { most };
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
