//! Endpoints (section 3.1): the card's state for each of them, and its writes to their memory.

use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::family::command::*;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{
    Dma, DmaFault, barrier_before_last_look, barrier_before_overwriting, read_value, write_value,
};

use crate::tags::{endpoint_of_tag, tag};

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) memory: Area,
    pub(crate) owner: u32,
    pub(crate) privileged: bool,
    pub(crate) events: Option<u32>,
    /// Number of its Tripwires.
    pub(crate) tripwires: u32,
    pub(crate) requests: u32,
    /// The tag that identifies the endpoint in its packets.
    pub(crate) tag: u32,
    /// Bits that a process sleeps on.
    pub(crate) armed: u64,
    faults: u32,
    /// The number that the owner gave to the current use, and the endpoint to which faults are
    /// reported, if it is another.
    used_as: u32,
    pub(crate) faults_to: Option<u32>,
    /// `CLAN_INTERESTED_*`.
    pub(crate) interest: u32,
}

/// The reason of a fault, and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultReport {
    pub(crate) reason: u32,
    pub(crate) host: u16,
    pub(crate) aperture: u32,
    pub(crate) offset: u64,
}

/// The table of endpoints.
#[derive(Debug)]
pub(crate) struct Endpoints {
    table: Table<Endpoint>,
    /// Number of Tripwires that are left for new endpoints.
    tripwires: u32,
    tripwires_at_all: u32,
    /// Number of tags that were given out.
    opened: u32,
}

impl Endpoints {
    pub(crate) fn new(size: u32, tripwires: u32) -> Self {
        Self { table: Table::new(size), tripwires, tripwires_at_all: tripwires, opened: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.table.close_all();
        self.tripwires = self.tripwires_at_all;
    }

    /// Opens an endpoint. The caller sets the queue for its events.
    pub(crate) fn open(&mut self, index: u32, body: &ClanOpenEndpoint) -> Result<(), Refusal> {
        self.table.check_vacant(index)?;
        let faults_to = (body.faults_to != 0).then_some(body.faults_to);
        if let Some(other) = faults_to {
            let owner = self.table.opened(other)?.owner;
            if owner != body.owner {
                return Err(Refusal::new(ULN_STATUS_NOT_OPEN, other, owner));
            }
        }
        if body.flags & !CLAN_PRIVILEGED != 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, CLAN_PRIVILEGED));
        }
        let most = CLAN_MAX_TRIPWIRES.min(self.tripwires);
        if body.tripwires > most {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.tripwires, most));
        }
        let possible = (CLAN_MIN_REQUESTS..=CLAN_MAX_REQUESTS).contains(&body.requests);
        if !possible || !body.requests.is_power_of_two() {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.requests, CLAN_MAX_REQUESTS));
        }
        let length = u64::from(CLAN_STATE_SIZE) + u64::from(body.requests) * u64::from(CLAN_REQUEST_SIZE);
        let memory = Area::pages(&body.memory, length)?;
        self.tripwires -= body.tripwires;
        self.opened = self.opened.wrapping_add(1);
        let endpoint = Endpoint {
            memory,
            owner: body.owner,
            privileged: body.flags & CLAN_PRIVILEGED != 0,
            events: None,
            tripwires: body.tripwires,
            requests: body.requests,
            tag: tag(self.opened, index),
            armed: 0,
            faults: 0,
            used_as: 0,
            faults_to,
            interest: u32::MAX,
        };
        self.table.open(index, endpoint);
        Ok(())
    }

    pub(crate) fn close(&mut self, index: u32) -> Result<(), Refusal> {
        self.tripwires += self.table.vacate(index)?.tripwires;
        Ok(())
    }

    pub(crate) fn get(&mut self, index: u32) -> Option<&mut Endpoint> {
        self.table.at_mut(index)
    }

    /// Returns an endpoint that a command names.
    pub(crate) fn opened(&mut self, index: u32) -> Result<&mut Endpoint, Refusal> {
        self.table.opened(index)
    }

    /// Removes an event queue that is closed from the endpoints whose events went there.
    pub(crate) fn events_closed(&mut self, events: u32) {
        for endpoint in self.table.iter_mut().flatten() {
            endpoint.events = endpoint.events.filter(|queue| *queue != events);
        }
    }

    /// Begins another use of an endpoint. Gives a new tag to it and to each endpoint whose faults
    /// are reported to it. Returns the numbers of these endpoints with their old tags.
    pub(crate) fn begin_use(&mut self, index: u32, used_as: u32) -> Vec<(u32, u32)> {
        let Some(endpoint) = self.get(index) else { return Vec::new() };
        endpoint.used_as = used_as;
        let number = |endpoint: &Endpoint| endpoint_of_tag(endpoint.tag);
        let is_concerned =
            |endpoint: &&Endpoint| number(endpoint) == index || endpoint.faults_to == Some(index);
        let numbers: Vec<u32> = self.table.all_open().filter(is_concerned).map(number).collect();
        let mut before = Vec::new();
        for index in numbers {
            self.opened = self.opened.wrapping_add(1);
            let tag = tag(self.opened, index);
            if let Some(endpoint) = self.get(index) {
                before.push((index, std::mem::replace(&mut endpoint.tag, tag)));
            }
        }
        before
    }

    /// Returns the endpoint whose packets have this tag, and its number.
    pub(crate) fn tagged(&mut self, tag: u32) -> Option<(u32, &mut Endpoint)> {
        let index = endpoint_of_tag(tag);
        let endpoint = self.get(index).filter(|endpoint| endpoint.tag == tag)?;
        Some((index, endpoint))
    }
}

impl Endpoint {
    /// Marks the endpoint as idle: it has no requests yet, and its owner must announce the first.
    pub(crate) fn begin(&self, dma: &dyn Dma) -> Result<(), DmaFault> {
        self.store(dma, CLAN_STATE_IDLE, 1)
    }

    /// Returns whether the owner wants events of a kind that has a flag.
    pub(crate) fn wants(&self, bit: u32) -> bool {
        let wanted = match bit {
            CLAN_BIT_DMA => CLAN_INTERESTED_IN_DMA,
            CLAN_BIT_MESSAGE => CLAN_INTERESTED_IN_MESSAGES,
            _ => CLAN_INTERESTED_IN_FAULTS,
        };
        self.interest & wanted != 0
    }

    pub(crate) fn load(&self, dma: &dyn Dma, place: u32) -> Result<u32, DmaFault> {
        read_value(dma, self.memory.locate(dma, place.into())?)
    }

    pub(crate) fn store(&self, dma: &dyn Dma, place: u32, value: u32) -> Result<(), DmaFault> {
        dma.publish(self.memory.locate(dma, place.into())?, value)
    }

    /// Returns the halves of the bitmap: the card's, and the owner's. An owner that clears a bit
    /// after this look sees all earlier writes.
    fn bitmap(&self, dma: &dyn Dma) -> Result<[u64; 2], DmaFault> {
        barrier_before_last_look();
        read_value(dma, self.memory.locate(dma, CLAN_STATE_BITS.into())?)
    }

    /// Returns the bits that are set.
    pub(crate) fn bits(&self, dma: &dyn Dma) -> Result<u64, DmaFault> {
        self.bitmap(dma).map(|[card, cleared]| card ^ cleared)
    }

    /// Sets a bit. Returns whether a process slept on it. The endpoint is then no longer armed.
    pub(crate) fn set_bit(&mut self, dma: &dyn Dma, bit: u32) -> Result<bool, DmaFault> {
        let [card, cleared] = self.bitmap(dma)?;
        if (card ^ cleared) & 1 << bit == 0 {
            let word = bit / 32;
            self.store(dma, CLAN_STATE_BITS + 4 * word, ((card ^ 1 << bit) >> (32 * word)) as u32)?;
        }
        let awaited = self.armed & (1 << bit) != 0;
        if awaited {
            self.armed = 0;
        }
        Ok(awaited)
    }

    /// Writes a fault report between the count of begun reports and the count of complete ones.
    pub(crate) fn write_fault(&mut self, dma: &dyn Dma, report: FaultReport) -> Result<(), DmaFault> {
        self.faults = self.faults.wrapping_add(1);
        let at = |place: u32| self.memory.locate(dma, place.into());
        self.store(dma, CLAN_STATE_FAULTS_BEGUN, self.faults)?;
        barrier_before_overwriting();
        write_value(dma, at(CLAN_STATE_FAULT_USE)?, self.used_as)?;
        write_value(dma, at(CLAN_STATE_FAULT_REASON)?, [report.reason, report.host.into(), report.aperture])?;
        write_value(dma, at(CLAN_STATE_FAULT_OFFSET)?, report.offset)?;
        self.store(dma, CLAN_STATE_FAULTS, self.faults)
    }

    /// Returns the offset of request `number` in the endpoint's memory.
    pub(crate) fn request_at(&self, number: u32) -> u64 {
        let place = u64::from(number % self.requests) * u64::from(CLAN_REQUEST_SIZE);
        u64::from(CLAN_STATE_SIZE) + place
    }
}
