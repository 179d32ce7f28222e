//! Event queues (section 3.5).
//!
//! A queue has a record for each source of the endpoints whose events come here, and one for each
//! record that an endpoint has left in it which has gone elsewhere, or is no more. So there is
//! always room: who would come and finds none is refused.

use std::collections::HashMap;

use hamlyn_abi::clan::command::ClanOpenEvents;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::family::command::{HAMLYN_STATUS_BAD_LENGTH, HAMLYN_STATUS_IN_USE};
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{Dma, DmaFault, barrier_before_last_look, read_value, write_value};

/// What events come from: an endpoint, and what of it, with a Tripwire's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// As its owner says, as far as that can be.
    taken: u32,
    /// By source, the number of its last record.
    last: HashMap<Source, u32>,
    /// The endpoints whose events come here, and how many Tripwires each has.
    members: HashMap<u32, u32>,
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

/// How many sources of events an endpoint has beside its Tripwires: requests, messages, faults.
const OTHER_SOURCES: u32 = 3;

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
            taken: 0,
            last: HashMap::new(),
            members: HashMap::new(),
            armed: false,
        })
    }

    /// An endpoint's events come here from now on. What it has left here before stands for what
    /// happens now.
    pub(crate) fn join(&mut self, dma: &dyn Dma, endpoint: u32, tripwires: u32) -> Result<(), Refusal> {
        self.look(dma)?;
        self.members.insert(endpoint, tripwires);
        let sources: u32 = self.members.values().map(|tripwires| tripwires + OTHER_SOURCES).sum();
        let needed = sources + self.strays();
        if needed <= self.records {
            return Ok(());
        }
        self.members.remove(&endpoint);
        // Once the owner has taken what lies there it may do.
        let status = if sources > self.records { HAMLYN_STATUS_BAD_LENGTH } else { HAMLYN_STATUS_IN_USE };
        Err(Refusal::new(status, needed, self.records))
    }

    /// An endpoint's events go elsewhere from now on. Its records stay until they are taken.
    pub(crate) fn leave(&mut self, endpoint: u32) {
        self.members.remove(&endpoint);
    }

    /// How many records are not taken that none of the members' sources has.
    fn strays(&mut self) -> u32 {
        let (written, taken, members) = (self.written, self.taken, &self.members);
        self.last.retain(|_, number| is_untaken(*number, written, taken));
        let is_stray = |source: &&Source| {
            let tripwires = members.get(&source.endpoint);
            tripwires
                .is_none_or(|tripwires| source.kind == CLAN_EVENT_TRIPWIRE && source.detail >= *tripwires)
        };
        self.last.keys().filter(is_stray).count() as u32
    }

    /// Whether there are more records than so many. Nobody has taken more than there are.
    pub(crate) fn has_more_than(&self, taken: u32) -> bool {
        (1..=self.records).contains(&self.written.wrapping_sub(taken))
    }

    /// Something has happened to a member.
    pub(crate) fn tell(&mut self, dma: &dyn Dma, source: Source) -> Result<Told, DmaFault> {
        self.look(dma)?;
        let last = self.last.get(&source);
        if last.is_some_and(|number| is_untaken(*number, self.written, self.taken)) {
            return Ok(Told::Coalesced);
        }
        let place = u64::from(self.written % self.records) * u64::from(CLAN_EVENT_SIZE);
        let address = self.area.locate(dma, u64::from(CLAN_EVENTS_HEAD) + place)?;
        let Source { endpoint, kind, detail } = source;
        write_value(dma, address, [kind, endpoint, detail])?;
        self.last.insert(source, self.written);
        self.written = self.written.wrapping_add(1);
        dma.publish(address + 12, self.written)?;
        Ok(Told::Written)
    }

    /// Looks how many the owner has taken. What is written before this is called he sees, if he has
    /// not taken a record that is found untaken here.
    fn look(&mut self, dma: &dyn Dma) -> Result<(), DmaFault> {
        barrier_before_last_look();
        let taken: u32 = read_value(dma, self.area.locate(dma, CLAN_EVENTS_TAKEN.into())?)?;
        // Nonsense takes all that there is. So does who would have some back.
        let is_possible = taken.wrapping_sub(self.taken) <= self.written.wrapping_sub(self.taken);
        self.taken = if is_possible { taken } else { self.written };
        Ok(())
    }
}

/// Whether the record of a number is among those that are there, of which so many were taken.
fn is_untaken(number: u32, written: u32, taken: u32) -> bool {
    number.wrapping_sub(taken) < written.wrapping_sub(taken)
}
