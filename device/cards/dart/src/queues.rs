//! Queues of what hosts are told of (sections 1 and 2).

use hamlyn_abi::dart::command::{DART_QUEUE_IMMEDIATE, DartOpenQueue};
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::family::command::{HAMLYN_STATUS_BAD_LENGTH, HAMLYN_STATUS_BAD_VALUE};
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{Dma, DmaFault, barrier_before_last_look, read_value, write_value};

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    area: Area,
    records: u32,
    written: u32,
    is_immediate: bool,
    /// Somebody sleeps.
    armed: bool,
}

impl Queue {
    pub(crate) fn open(body: &DartOpenQueue) -> Result<Self, Refusal> {
        let possible = (DART_MIN_RECORDS..=DART_MAX_RECORDS).contains(&body.records);
        if !possible || !body.records.is_power_of_two() {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_LENGTH, body.records, DART_MAX_RECORDS));
        }
        if body.flags & !DART_QUEUE_IMMEDIATE != 0 {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.flags, DART_QUEUE_IMMEDIATE));
        }
        let length = u64::from(DART_QUEUE_HEAD) + u64::from(body.records) * u64::from(DART_RECORD_SIZE);
        Ok(Self {
            area: Area::pages(&body.memory, length)?,
            records: body.records,
            written: 0,
            is_immediate: body.flags & DART_QUEUE_IMMEDIATE != 0,
            armed: false,
        })
    }

    /// Whether there is room for a record.
    pub(crate) fn has_room(&self, dma: &dyn Dma) -> Result<bool, DmaFault> {
        let taken: u32 = read_value(dma, self.area.locate(dma, DART_QUEUE_TAKEN.into())?)?;
        // Nonsense takes nothing.
        Ok(self.written.wrapping_sub(taken) < self.records)
    }

    /// Writes a record, for which there is room. Says whether the driver is to look after the queue.
    pub(crate) fn write(&mut self, dma: &dyn Dma, record: DartRecord) -> Result<bool, DmaFault> {
        let place = u64::from(self.written % self.records) * u64::from(DART_RECORD_SIZE);
        let address = self.area.locate(dma, u64::from(DART_QUEUE_HEAD) + place)?;
        self.written = self.written.wrapping_add(1);
        // What is there of an earlier record says that this one is not there yet.
        write_value(dma, address, DartRecord { number: self.written.wrapping_sub(self.records), ..record })?;
        dma.publish(address + std::mem::offset_of!(DartRecord, number) as u64, self.written)?;
        Ok(std::mem::take(&mut self.armed) || self.is_immediate)
    }

    /// Somebody sleeps who has taken so many records. Says whether there are more.
    pub(crate) fn arm(&mut self, taken: u32) -> bool {
        barrier_before_last_look();
        let has_more = (1..=self.records).contains(&self.written.wrapping_sub(taken));
        self.armed |= !has_more;
        has_more
    }
}
