//! The FIFO (section 2.5): which endpoints and event queues the driver is to look after.

use std::collections::{HashMap, VecDeque};

use hamlyn_abi::clan::command::ClanOpenFifo;
use hamlyn_abi::clan::fifo::*;
use hamlyn_abi::family::command::HAMLYN_STATUS_BAD_LENGTH;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{Dma, DmaFault, write_value};

/// The FIFO, once it is open.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    ring: Option<Ring>,
}

#[derive(Debug)]
struct Ring {
    area: Area,
    records: u32,
    written: u32,
    taken: u32,
    /// Of the records that are not taken, in order.
    untaken: VecDeque<u32>,
    /// The same to look up, and whether something has happened again since.
    again: HashMap<u32, bool>,
    /// The vector was raised, and the driver has not said since that it has taken all.
    raised: bool,
}

impl Fifo {
    pub(crate) fn is_open(&self) -> bool {
        self.ring.is_some()
    }

    /// Opens it; `least`: how many it must have room for.
    pub(crate) fn open(&mut self, body: &ClanOpenFifo, least: u32) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        if !(least..=CLAN_MAX_FIFO).contains(&body.records) || !body.records.is_power_of_two() {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_LENGTH, body.records, CLAN_MAX_FIFO));
        }
        let area = Area::table(&body.area, body.records, CLAN_FIFO_SIZE)?;
        let (untaken, again) = (VecDeque::new(), HashMap::new());
        self.ring =
            Some(Ring { area, records: body.records, written: 0, taken: 0, untaken, again, raised: false });
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        self.ring = None;
    }

    /// Puts one in, unless it is there. Says whether there is a new record.
    pub(crate) fn put(&mut self, dma: &dyn Dma, what: u32) -> Result<bool, DmaFault> {
        let Some(ring) = &mut self.ring else { return Ok(false) };
        match ring.again.get_mut(&what) {
            Some(again) => {
                *again = true;
                Ok(false)
            }
            None => ring.write(dma, what).map(|()| true),
        }
    }

    /// Whether the vector is to be raised for what was written.
    pub(crate) fn take_news(&mut self) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let news = ring.written != ring.taken && !ring.raised;
        ring.raised |= news;
        news
    }

    /// The driver has taken so many records, modulo 2^32. A number that cannot be is for none. Says how many new ones there are, of what has
    /// happened again.
    pub(crate) fn taken(&mut self, dma: &dyn Dma, taken: u32) -> Result<u32, DmaFault> {
        let Some(ring) = &mut self.ring else { return Ok(0) };
        ring.raised = false;
        if taken.wrapping_sub(ring.taken) > ring.written.wrapping_sub(ring.taken) {
            return Ok(0);
        }
        let mut new = 0;
        for _ in 0..taken.wrapping_sub(ring.taken) {
            let Some(what) = ring.untaken.pop_front() else { break };
            ring.taken = ring.taken.wrapping_add(1);
            if ring.again.remove(&what) == Some(true) {
                ring.write(dma, what)?;
                new += 1;
            }
        }
        Ok(new)
    }
}

impl Ring {
    /// Each has one record at most, so there is room.
    fn write(&mut self, dma: &dyn Dma, what: u32) -> Result<(), DmaFault> {
        let place = u64::from(self.written % self.records) * u64::from(CLAN_FIFO_SIZE);
        let address = self.area.locate(dma, place)?;
        write_value(dma, address, what)?;
        self.written = self.written.wrapping_add(1);
        self.untaken.push_back(what);
        self.again.insert(what, false);
        dma.publish(address + 4, self.written)
    }
}
