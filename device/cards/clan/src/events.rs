//! Event queues (section 3.5).

use std::collections::{BTreeMap, BTreeSet};

use hamlyn_abi::clan::command::ClanOpenEvents;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::family::command::HAMLYN_STATUS_BAD_LENGTH;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{Dma, DmaFault, barrier_before_last_look, read_value, write_value};

/// What events come from: an endpoint, and what of it, with a Tripwire's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) endpoint: u32,
    pub(crate) kind: u32,
    pub(crate) detail: u32,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Events {
    area: Area,
    pub(crate) owner: u32,
    records: u32,
    written: u32,
    /// By source, the number of its last record.
    last: BTreeMap<Source, u32>,
    /// Sources for whose events there was no room: an owner has moved endpoints away whose records he had not taken.
    waiting: BTreeSet<Source>,
    /// How many sources have a record of their own.
    pub(crate) reserved: u32,
    /// Somebody sleeps.
    pub(crate) armed: bool,
}

/// What came of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// There is a new record.
    Written,
    /// The source has one that was not taken.
    Coalesced,
}

impl Events {
    pub(crate) fn open(body: &ClanOpenEvents) -> Result<Self, Refusal> {
        let possible = (CLAN_MIN_EVENTS..=CLAN_MAX_EVENTS).contains(&body.records);
        if !possible || !body.records.is_power_of_two() {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_LENGTH, body.records, CLAN_MAX_EVENTS));
        }
        let length = u64::from(CLAN_EVENTS_HEAD) + u64::from(body.records) * u64::from(CLAN_EVENT_SIZE);
        Ok(Self {
            area: Area::pages(&body.memory, length)?,
            owner: body.owner,
            records: body.records,
            written: 0,
            last: BTreeMap::new(),
            waiting: BTreeSet::new(),
            reserved: 0,
            armed: false,
        })
    }

    /// Reserves records for so many sources. Fails with how many there are.
    pub(crate) fn reserve(&mut self, sources: u32) -> Result<(), u32> {
        if self.reserved + sources > self.records {
            return Err(self.records);
        }
        self.reserved += sources;
        Ok(())
    }

    /// An endpoint's events go elsewhere from now on.
    pub(crate) fn forget(&mut self, endpoint: u32, sources: u32) {
        self.reserved -= sources;
        self.last.retain(|source, _| source.endpoint != endpoint);
        self.waiting.retain(|source| source.endpoint != endpoint);
    }

    /// Whether there are more records than so many. Nobody has taken more than there are.
    pub(crate) fn has_more_than(&self, taken: u32) -> bool {
        (1..=self.records).contains(&self.written.wrapping_sub(taken))
    }

    /// Something has happened.
    pub(crate) fn tell(&mut self, dma: &dyn Dma, source: Source) -> Result<Told, DmaFault> {
        let taken = self.taken(dma)?;
        let untaken = self.written.wrapping_sub(taken);
        if self.last.get(&source).is_some_and(|number| number.wrapping_sub(taken) < untaken) {
            return Ok(Told::Coalesced);
        }
        self.waiting.insert(source);
        self.write_waiting(dma, taken)
    }

    /// Writes records for which there was no room, as far as there is.
    pub(crate) fn catch_up(&mut self, dma: &dyn Dma) -> Result<Told, DmaFault> {
        if self.waiting.is_empty() {
            return Ok(Told::Coalesced);
        }
        let taken = self.taken(dma)?;
        self.write_waiting(dma, taken)
    }

    /// How many the owner has taken. What is written before this is called he sees, if he has not taken a record that is found untaken here.
    fn taken(&self, dma: &dyn Dma) -> Result<u32, DmaFault> {
        barrier_before_last_look();
        let taken: u32 = read_value(dma, self.area.locate(dma, CLAN_EVENTS_TAKEN.into())?)?;
        // Nonsense takes all that there is.
        let untaken = self.written.wrapping_sub(taken);
        Ok(if untaken > self.records { self.written } else { taken })
    }

    fn write_waiting(&mut self, dma: &dyn Dma, taken: u32) -> Result<Told, DmaFault> {
        let mut told = Told::Coalesced;
        while self.written.wrapping_sub(taken) < self.records {
            let Some(source) = self.waiting.pop_first() else { break };
            let place = u64::from(self.written % self.records) * u64::from(CLAN_EVENT_SIZE);
            let address = self.area.locate(dma, u64::from(CLAN_EVENTS_HEAD) + place)?;
            let Source { endpoint, kind, detail } = source;
            write_value(dma, address, [kind, endpoint, detail])?;
            self.last.insert(source, self.written);
            self.written = self.written.wrapping_add(1);
            dma.publish(address + 12, self.written)?;
            told = Told::Written;
        }
        Ok(told)
    }
}
