//! A FIFO in the driver's memory for objects that need its attention. An object is in it at most
//! once.
//!
//! A record is 8 bytes: the object's number, then the number of records written so far including
//! this one, modulo 2^32, which is written last.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::family::command::{ULN_STATUS_BAD_LENGTH, ULN_STATUS_IN_USE};

use super::area::Area;
use super::refusal::Refusal;
use crate::ports::{Dma, DmaFault, write_value};

/// Size of a record in bytes.
const RECORD: u32 = 8;

/// The FIFO, which is closed at first.
#[derive(Debug, Default)]
pub struct Fifo {
    ring: Option<Ring>,
}

#[derive(Debug)]
struct Ring {
    area: Area,
    records: u32,
    written: u32,
    taken: u32,
    /// Objects whose records the driver has not taken, in order.
    untaken: VecDeque<u32>,
    /// The same objects as a map. The value is whether the object was put again since.
    again: HashMap<u32, bool>,
    /// Whether the vector was raised since the driver last reported what it has taken.
    raised: bool,
}

impl Fifo {
    /// Opens the FIFO. The number of records must be within the limits and a power of two. Fails if
    /// the FIFO is open.
    pub fn open(&mut self, area: &UlnArea, records: u32, limits: RangeInclusive<u32>) -> Result<(), Refusal> {
        if self.ring.is_some() {
            return Err(Refusal::new(ULN_STATUS_IN_USE, 0_u32, 1_u32));
        }
        if !limits.contains(&records) || !records.is_power_of_two() {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, records, *limits.end()));
        }
        let area = Area::table(area, records, RECORD)?;
        let (untaken, again) = (VecDeque::new(), HashMap::new());
        self.ring = Some(Ring { area, records, written: 0, taken: 0, untaken, again, raised: false });
        Ok(())
    }

    /// Closes the FIFO.
    pub fn close(&mut self) {
        self.ring = None;
    }

    /// Adds an object unless it is already there. Returns whether a record was written.
    pub fn put(&mut self, dma: &dyn Dma, what: u32) -> Result<bool, DmaFault> {
        let Some(ring) = &mut self.ring else { return Ok(false) };
        match ring.again.get_mut(&what) {
            Some(again) => {
                *again = true;
                Ok(false)
            }
            None => ring.write(dma, what).map(|()| true),
        }
    }

    /// Returns whether the vector must be raised for the records written.
    pub fn take_news(&mut self) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let news = ring.written != ring.taken && !ring.raised;
        ring.raised |= news;
        news
    }

    /// Handles the driver's report that it has taken `taken` records in total, modulo 2^32.
    /// Out-of-range counts are ignored. Returns the number of new records, for objects that were
    /// put again.
    pub fn taken(&mut self, dma: &dyn Dma, taken: u32) -> Result<u32, DmaFault> {
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
    /// Appends a record. There is always space, because each object has at most one record.
    fn write(&mut self, dma: &dyn Dma, what: u32) -> Result<(), DmaFault> {
        let place = u64::from(self.written % self.records) * u64::from(RECORD);
        let address = self.area.locate(dma, place)?;
        write_value(dma, address, what)?;
        self.written = self.written.wrapping_add(1);
        self.untaken.push_back(what);
        self.again.insert(what, false);
        dma.publish(address + 4, self.written)
    }
}
