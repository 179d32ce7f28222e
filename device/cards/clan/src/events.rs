//! Event queues (section 3.5).
//!
//! A queue has room for a record of each source of its member endpoints. It also has room for each
//! untaken record of an endpoint that has left the queue or is closed. So there is always room: an
//! endpoint for which there is none cannot join.

use std::collections::HashMap;

use hamlyn_abi::clan::command::ClanOpenEvents;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::family::command::{ULN_STATUS_BAD_LENGTH, ULN_STATUS_IN_USE};
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{Dma, DmaFault, barrier_before_last_look, read_value, write_value};

/// The source of an event: the endpoint, the kind of event, and a Tripwire's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub(crate) endpoint: u32,
    pub(crate) kind: u32,
    pub(crate) detail: u32,
}

/// An event queue.
#[derive(Debug)]
pub(crate) struct Events {
    area: Area,
    pub(crate) owner: u32,
    records: u32,
    written: u32,
    /// Number of taken records: the owner's value, if that is possible.
    taken: u32,
    /// Number of the last record of each source.
    last: HashMap<Source, u32>,
    /// The endpoints whose events come here, and the number of Tripwires of each.
    members: HashMap<u32, u32>,
    /// A process sleeps on the queue.
    pub(crate) armed: bool,
}

/// The result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// A record was written.
    Written,
    /// The source already has a record that was not taken.
    Coalesced,
}

/// Number of an endpoint's event sources beside its Tripwires: requests, messages, faults.
const OTHER_SOURCES: u32 = 3;

impl Events {
    pub(crate) fn open(body: &ClanOpenEvents) -> Result<Self, Refusal> {
        let possible = (CLAN_MIN_EVENTS..=CLAN_MAX_EVENTS).contains(&body.records);
        if !possible || !body.records.is_power_of_two() {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.records, CLAN_MAX_EVENTS));
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

    /// Directs an endpoint's events to this queue. A record that it left here earlier stands for
    /// new events of the same source.
    pub(crate) fn join(&mut self, dma: &dyn Dma, endpoint: u32, tripwires: u32) -> Result<(), Refusal> {
        self.look(dma)?;
        self.members.insert(endpoint, tripwires);
        let sources: u32 = self.members.values().map(|tripwires| tripwires + OTHER_SOURCES).sum();
        let needed = sources + self.strays();
        if needed <= self.records {
            return Ok(());
        }
        self.members.remove(&endpoint);
        // The endpoint may join once the owner has taken the records in the queue.
        let status = if sources > self.records { ULN_STATUS_BAD_LENGTH } else { ULN_STATUS_IN_USE };
        Err(Refusal::new(status, needed, self.records))
    }

    /// Directs an endpoint's events elsewhere. Its records stay until they are taken.
    pub(crate) fn leave(&mut self, endpoint: u32) {
        self.members.remove(&endpoint);
    }

    /// Returns the number of untaken records that belong to no source of the members.
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

    /// Returns whether there are more records than `taken`. Out-of-range counts are ignored.
    pub(crate) fn has_more_than(&self, taken: u32) -> bool {
        (1..=self.records).contains(&self.written.wrapping_sub(taken))
    }

    /// Records an event of a member.
    pub(crate) fn tell(&mut self, dma: &dyn Dma, source: Source) -> Result<Recorded, DmaFault> {
        self.look(dma)?;
        let last = self.last.get(&source);
        if last.is_some_and(|number| is_untaken(*number, self.written, self.taken)) {
            return Ok(Recorded::Coalesced);
        }
        let place = u64::from(self.written % self.records) * u64::from(CLAN_EVENT_SIZE);
        let address = self.area.locate(dma, u64::from(CLAN_EVENTS_HEAD) + place)?;
        let Source { endpoint, kind, detail } = source;
        write_value(dma, address, [kind, endpoint, detail])?;
        self.last.insert(source, self.written);
        self.written = self.written.wrapping_add(1);
        dma.publish(address + 12, self.written)?;
        Ok(Recorded::Written)
    }

    /// Reads how many records the owner has taken. An owner that has not taken a record found
    /// untaken here sees all writes before this call.
    fn look(&mut self, dma: &dyn Dma) -> Result<(), DmaFault> {
        barrier_before_last_look();
        let taken: u32 = read_value(dma, self.area.locate(dma, CLAN_EVENTS_TAKEN.into())?)?;
        // An impossible count takes all records. So does a count that goes backwards.
        let is_possible = taken.wrapping_sub(self.taken) <= self.written.wrapping_sub(self.taken);
        self.taken = if is_possible { taken } else { self.written };
        Ok(())
    }
}

/// Returns whether record `number` was written and not yet taken.
fn is_untaken(number: u32, written: u32, taken: u32) -> bool {
    number.wrapping_sub(taken) < written.wrapping_sub(taken)
}
