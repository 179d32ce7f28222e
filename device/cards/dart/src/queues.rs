//! Queues of records for hosts (sections 1 and 2).

use hamlyn_abi::dart::command::{DART_QUEUE_IMMEDIATE, DartOpenQueue};
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::family::command::{ULN_STATUS_BAD_LENGTH, ULN_STATUS_BAD_VALUE};
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
    /// A process sleeps on the queue.
    armed: bool,
}

impl Queue {
    pub(crate) fn open(body: &DartOpenQueue) -> Result<Self, Refusal> {
        let possible = (DART_MIN_RECORDS..=DART_MAX_RECORDS).contains(&body.records);
        if !possible || !body.records.is_power_of_two() {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.records, DART_MAX_RECORDS));
        }
        if body.flags & !DART_QUEUE_IMMEDIATE != 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, DART_QUEUE_IMMEDIATE));
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

    /// Returns whether there is room for a record and `parts` behind it.
    pub(crate) fn has_room(&self, dma: &dyn Dma, parts: u32) -> Result<bool, DmaFault> {
        let taken: u32 = read_value(dma, self.area.locate(dma, DART_QUEUE_TAKEN.into())?)?;
        // An out-of-range count takes nothing.
        let free = self.records.checked_sub(self.written.wrapping_sub(taken));
        Ok(free.is_some_and(|free| parts < free))
    }

    /// Returns whether a record with `parts` behind it fits into the empty queue.
    pub(crate) fn holds(&self, parts: u32) -> bool {
        parts < self.records
    }

    /// Writes a record and `data` behind it. The caller has checked that there is room. Returns
    /// whether the driver must look after the queue.
    pub(crate) fn write(&mut self, dma: &dyn Dma, record: DartRecord, data: &[u8]) -> Result<bool, DmaFault> {
        let first = self.written;
        let mut number = first.wrapping_add(1);
        for part in data.chunks(DART_PART as usize) {
            let address = self.place(dma, number)?;
            number = number.wrapping_add(1);
            let mut bytes = [0; DART_PART as usize];
            bytes[..part.len()].copy_from_slice(part);
            write_value(dma, address, DartPart { data: bytes, number })?;
        }
        let address = self.place(dma, first)?;
        self.written = number;
        let number = first.wrapping_add(1);
        // The number of the earlier record there marks this one as not yet written.
        write_value(dma, address, DartRecord { number: number.wrapping_sub(self.records), ..record })?;
        dma.publish(address + std::mem::offset_of!(DartRecord, number) as u64, number)?;
        Ok(std::mem::take(&mut self.armed) || self.is_immediate)
    }

    /// Returns the address of the `n`-th record.
    fn place(&self, dma: &dyn Dma, n: u32) -> Result<u64, DmaFault> {
        let place = u64::from(n % self.records) * u64::from(DART_RECORD_SIZE);
        self.area.locate(dma, u64::from(DART_QUEUE_HEAD) + place)
    }

    /// Arms the queue for a sleeping process that has taken `taken` records. Returns whether there
    /// are more.
    pub(crate) fn arm(&mut self, taken: u32) -> bool {
        barrier_before_last_look();
        let has_more = (1..=self.records).contains(&self.written.wrapping_sub(taken));
        self.armed |= !has_more;
        has_more
    }
}
