//! What the host is told: records in its queues, the FIFO with its interrupt, and the counters.

use hamlyn_abi::dart::command::{DartOpenFifo, DartOpenQueue};
use hamlyn_abi::dart::fifo::{DART_FIFO_MISSES, DART_FIFO_QUEUE, DART_MAX_FIFO};
use hamlyn_abi::dart::queue::DartRecord;
use hamlyn_abi::dart::registers::DART_VECTOR_FIFO;
use hamlyn_abi::dart::statistics::{DART_STATISTICS, DartStatistic};
use hamlyn_card::chassis::counters::Counters;
use hamlyn_card::chassis::fifo::Fifo;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::Ports;

use crate::cells::Message;
use crate::queues::Queue;

/// The queues, the FIFO and the counters.
#[derive(Debug)]
pub(crate) struct Telling {
    queues: Table<Queue>,
    fifo: Fifo,
    counters: Counters<{ DART_STATISTICS as usize }>,
}

impl Telling {
    pub(crate) fn new(queues: u32) -> Self {
        Self { queues: Table::new(queues), fifo: Fifo::default(), counters: Counters::default() }
    }

    pub(crate) fn count(&mut self, statistic: DartStatistic) {
        self.add(statistic, 1);
    }

    pub(crate) fn add(&mut self, statistic: DartStatistic, amount: u64) {
        self.counters.add(statistic, amount);
    }

    pub(crate) fn counters(&self) -> &Counters<{ DART_STATISTICS as usize }> {
        &self.counters
    }

    pub(crate) fn open_fifo(&mut self, body: &DartOpenFifo, least: u32) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        self.fifo.open(&body.area, body.records, least..=DART_MAX_FIFO)
    }

    pub(crate) fn close_fifo(&mut self) {
        self.fifo.close();
    }

    /// Handles the driver's report of how many of the FIFO's records it has taken.
    pub(crate) fn fifo_taken(&mut self, ports: &Ports<'_>, taken: u32) {
        // Only the driver is affected if the FIFO's memory is gone.
        let _ = self.fifo.taken(ports.dma, taken);
        self.interrupt(ports);
    }

    /// Puts something that the driver must handle into the FIFO.
    pub(crate) fn tell(&mut self, ports: &Ports<'_>, what: u32) {
        // Only the driver is affected if the FIFO's memory is gone.
        let _ = self.fifo.put(ports.dma, what);
        self.interrupt(ports);
    }

    /// Interrupts if the FIFO holds something that was not yet reported to the driver.
    fn interrupt(&mut self, ports: &Ports<'_>) {
        if self.fifo.take_news() {
            self.count(DartStatistic::Interrupts);
            ports.interrupt.raise(DART_VECTOR_FIFO as u16);
        }
    }

    /// Asks the driver for `new` further pages of a connection.
    pub(crate) fn miss(&mut self, ports: &Ports<'_>, connection: u32, new: u64) {
        if new > 0 {
            self.add(DartStatistic::Misses, new);
            self.tell(ports, DART_FIFO_MISSES | connection);
        }
    }

    pub(crate) fn open_queue(&mut self, index: u32, body: &DartOpenQueue) -> Result<(), Refusal> {
        self.queues.check_vacant(index)?;
        self.queues.open(index, Queue::open(body)?);
        Ok(())
    }

    pub(crate) fn close_queue(&mut self, index: u32) -> Result<(), Refusal> {
        self.queues.vacate(index).map(drop)
    }

    /// Checks that a queue is open.
    pub(crate) fn check_queue(&mut self, index: u32) -> Result<(), Refusal> {
        self.queues.opened(index).map(drop)
    }

    pub(crate) fn queue(&self, index: u32) -> Option<&Queue> {
        self.queues.at(index)
    }

    /// Arms a queue for a sleeping process that has taken `taken` records.
    pub(crate) fn arm_queue(&mut self, ports: &Ports<'_>, index: u32, taken: u32) {
        if self.queues.at_mut(index).is_some_and(|queue| queue.arm(taken)) {
            self.tell(ports, DART_FIFO_QUEUE | index);
        }
    }

    /// Writes a record of a connection's message to a queue, and `parts` behind it.
    pub(crate) fn write_record(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        (connection, message): (u32, &Message),
        kind: u32,
        parts: &[u8],
    ) {
        let Some(queue) = self.queues.at_mut(index) else { return };
        let data = zerocopy::transmute!(message.block);
        let length = message.body.len() as u32;
        let record = DartRecord { control: message.control, data, length, connection, kind, number: 0 };
        // Only the owner is affected if a queue's memory is gone.
        let Ok(is_awaited) = queue.write(ports.dma, record, parts) else { return };
        self.count(DartStatistic::Records);
        if is_awaited {
            self.tell(ports, DART_FIFO_QUEUE | index);
        }
    }
}
