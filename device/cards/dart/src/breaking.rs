//! Messages that have left or were dropped, and connections that break.

use hamlyn_abi::dart::connection::{DART_BROKEN_MEMORY, DART_DROPPED_BROKEN};
use hamlyn_abi::dart::fifo::DART_FIFO_LEFT;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_card::ports::{DmaFault, Ports};

use crate::backlog::Backlog;
use crate::connections::Connection;
use crate::telling::Telling;

impl Connection {
    /// Records that `count` messages have left, or were dropped and for which reason. Wakes a
    /// process that sleeps until then.
    pub(crate) fn left(
        &mut self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        count: u32,
        dropped: Option<u32>,
    ) -> Result<(), DmaFault> {
        if dropped.is_some() {
            telling.add(DartStatistic::MessagesDropped, count.into());
        }
        if self.write_left(ports.dma, count, dropped)? {
            telling.tell(ports, DART_FIFO_LEFT | self.number);
        }
        Ok(())
    }

    /// Drops everything that a connection has to send. The connection is broken or the operating
    /// system's.
    pub(crate) fn drop_all(&mut self, ports: &Ports<'_>, telling: &mut Telling) {
        // Such a connection does not break if that cannot be written to its owner's memory.
        let _ = match self.take_sends() {
            0 => Ok(()),
            count => self.left(ports, telling, count, Some(DART_DROPPED_BROKEN)),
        };
    }

    /// Breaks the connection, if it is not the operating system's.
    pub(crate) fn break_off(
        &mut self,
        ports: &Ports<'_>,
        backlog: &mut Backlog,
        telling: &mut Telling,
        why: u32,
    ) {
        if self.broken != 0 || self.is_system {
            return;
        }
        // The connection breaks even if that cannot be reported to its owner's memory.
        let _ = self.write_broken(ports.dma, why);
        backlog.leave_queue(self.number);
        telling.count(DartStatistic::Broken);
        self.drop_all(ports, telling);
        telling.tell(ports, DART_FIFO_LEFT | self.number);
    }

    /// Breaks the connection if its state could not be written to its owner's memory: it is then
    /// useless.
    pub(crate) fn note(
        &mut self,
        ports: &Ports<'_>,
        backlog: &mut Backlog,
        telling: &mut Telling,
        told: Result<(), DmaFault>,
    ) {
        if told.is_err() {
            self.break_off(ports, backlog, telling, DART_BROKEN_MEMORY);
        }
    }
}
