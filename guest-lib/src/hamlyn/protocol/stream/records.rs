//! The receiving end's records: those that have arrived, and what is reported to the sender.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use super::tickets::WAY_BACK;
use super::wire::{Head, Last, Return};
use crate::core::loss::PeerLoss;
use crate::error::{Error, Result};
use crate::hamlyn::manager::{Manager, Place};
use crate::hamlyn::record::{Landed, landed};
use crate::hamlyn::request::Message;
use crate::hamlyn::ticket::Ticket;

/// Violation: the way back does not lead to the sender.
const ANOTHER_HOST: &str = "a way back to another host";

/// The records that have arrived, in any order, by number.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) places: Vec<Place>,
    /// Number of buffers whose tickets the sender has, or will get soon.
    pub(super) buffers: u32,
    /// Records that have arrived and are not released, by number.
    pub(super) records: BTreeMap<u64, Spot>,
    /// All records before this one have arrived.
    pub(super) complete: u64,
    /// All records before this one have been returned to the application.
    pub(super) received: u64,
    /// All records before this one are released.
    pub(super) released: u64,
    /// Number of released records that have been reported to the sender.
    pub(super) told: u64,
    /// Total number of records that have arrived, in any order.
    pub(super) count: u64,
    /// The first record that does not exist, and why.
    pub(super) end: Option<(u64, Last)>,
    pub(super) way_back: Option<Ticket>,
    /// The sender's host, if known.
    pub(super) host: Option<u32>,
    /// Number of returns sent, and number of returns that the sender has taken in.
    pub(super) returns: u64,
    pub(super) taken_in: u64,
    /// Additional buffers, to be reported with the next returns.
    pub(super) grants: VecDeque<(Ticket, u32)>,
    pub(super) lost: Option<PeerLoss>,
    pub(super) loss_told: bool,
    pub(super) token: Option<u64>,
}

/// The location of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) place: usize,
    pub(super) entry: u32,
    pub(super) length: usize,
}

impl Records {
    /// Takes in one message. Fails with the violation if it is not valid.
    pub(super) fn record_arrived(
        &mut self,
        place: usize,
        entry: u32,
        metadata: &[u8; 60],
    ) -> Result<(), &'static str> {
        if self.lost.is_some() {
            return Ok(());
        }
        let head = Head::from_metadata(metadata).ok_or("no record of a stream")?;
        if head.way_back.is_some_and(|back| back.metadata_index >= Ticket::FAST - WAY_BACK) {
            return Err("a way back that there cannot be");
        }
        if head.way_back.is_some_and(|back| !self.may_answer(&back)) {
            return Err(ANOTHER_HOST);
        }
        let length = head.length as usize;
        if length > self.places[place].length() || (length == 0 && head.last.is_none()) {
            return Err("a record that is longer than its buffer, or empty");
        }
        let not_the_last = self.end.is_some() || self.records.range(head.number..).next().is_some();
        if head.last.is_some() && not_the_last {
            return Err("another record behind the last");
        }
        let beyond = self.end.is_some_and(|(end, _)| head.number >= end);
        let again = head.number < self.complete || self.records.contains_key(&head.number);
        if beyond || again || head.number - self.released >= u64::from(self.buffers) {
            return Err("a record out of its turn");
        }
        // Modulo 2^32; older messages may report smaller numbers.
        let taken_in = u64::from(head.taken_in.wrapping_sub(self.taken_in as u32));
        if taken_in <= self.returns - self.taken_in {
            self.taken_in += taken_in;
        }
        self.way_back = self.way_back.or(head.way_back);
        if let Some(last) = head.last {
            self.end = Some((head.number + 1, last));
        }
        self.records.insert(head.number, Spot { place, entry, length });
        self.count += 1;
        while self.records.contains_key(&self.complete) {
            self.complete += 1;
        }
        Ok(())
    }

    /// Sets the sender's host. Its first record may have arrived before the host was known.
    pub(super) fn expect_from(&mut self, host: u32) {
        self.host = Some(host);
        if self.way_back.is_some_and(|back| !self.may_answer(&back)) {
            self.way_back = None;
            self.lose(PeerLoss::Violation(ANOTHER_HOST));
        }
    }

    /// Returns true if a way back leads to the sender. A peer must not make this side send to a
    /// third host.
    fn may_answer(&self, way_back: &Ticket) -> bool {
        self.host.is_none_or(|host| way_back.destination == host)
    }

    /// Returns what comes next: nothing yet, a record, or the end.
    pub(super) fn next(&mut self) -> Result<Option<Option<Record<'static>>>> {
        if self.received < self.complete {
            let number = self.received;
            self.received += 1;
            let record = self.record(number).filter(|record| !record.is_empty());
            if record.is_some() {
                return Ok(Some(record));
            }
            // It was the last.
        }
        match self.end {
            Some((end, Last::Abandoned)) if self.received == end => self.lose(PeerLoss::Abandoned),
            Some((end, Last::Closed)) if self.received == end => return Ok(Some(None)),
            _ => {}
        }
        match self.lost {
            None => Ok(None),
            Some(_) if self.loss_told => Ok(Some(None)),
            Some(loss) => {
                self.loss_told = true;
                Err(Error::PeerLost(loss))
            }
        }
    }

    pub(super) fn record(&self, number: u64) -> Option<Record<'static>> {
        let arrived = self.records.get(&number)?;
        let place = &self.places[arrived.place];
        // The record outlives the lock.
        let area = Cow::Owned(place.area().clone());
        let landed = Landed::new(area, place.start(arrived.entry), arrived.length).ok()?;
        Some(Record { landed, number })
    }

    pub(super) fn release(&mut self, up_to: u64) {
        while self.released <= up_to {
            if let Some(arrived) = self.records.remove(&self.released) {
                self.places[arrived.place].reopen(arrived.entry);
            }
            self.released += 1;
        }
    }

    /// Returns true if the sender has no ticket left except the one that is reserved for the end.
    pub(super) fn is_starving(&self) -> bool {
        self.count - self.told + 1 >= u64::from(self.buffers)
    }

    /// Returns true if something must be reported to the sender now.
    pub(super) fn owes_tickets(&self) -> bool {
        let released = self.released - self.told;
        let enough = released >= u64::from(self.buffers).div_ceil(4) || (released > 0 && self.is_starving());
        self.end.is_none() && self.lost.is_none() && (enough || !self.grants.is_empty())
    }

    /// Reports released records and new buffers to the sender, if that justifies a message. Returns
    /// true if the work queue has no room for the message.
    pub(super) fn return_tickets(&mut self, manager: &Manager) -> Result<bool> {
        // One entry of the way back is reserved, for reporting that the receiver has gone.
        while self.owes_tickets() && self.returns - self.taken_in + 1 < u64::from(WAY_BACK) {
            let back = Return { released: self.released, grant: self.grants.front().copied(), stop: false };
            match self.send_back(manager, back) {
                Err(error @ Error::WouldBlock { .. }) => {
                    manager.fell_behind(self.token, &error);
                    return Ok(true);
                }
                result => result?,
            }
            self.told = self.released;
            self.grants.pop_front();
        }
        Ok(false)
    }

    /// Returns true if the sender has closed and everything was received.
    pub(super) fn is_finished(&self) -> bool {
        self.end == Some((self.received, Last::Closed))
    }

    pub(super) fn stop(&mut self, manager: &Manager) {
        if self.end.is_none() && self.lost.is_none() && self.returns - self.taken_in < u64::from(WAY_BACK) {
            let _ = self.send_back(manager, Return { released: self.released, grant: None, stop: true });
        }
    }

    pub(super) fn send_back(&mut self, manager: &Manager, back: Return) -> Result<()> {
        let Some(way_back) = self.way_back else { return Ok(()) };
        let entry = (self.returns % u64::from(WAY_BACK)) as u32;
        let ticket = Ticket { metadata_index: way_back.metadata_index.wrapping_add(entry), ..way_back };
        let (metadata, length) = back.to_metadata();
        manager.terminus().try_send(&Message::to(&ticket).metadata(&metadata[..length]), &[])?;
        self.returns += 1;
        Ok(())
    }

    pub(super) fn lose(&mut self, loss: PeerLoss) {
        let closed = self.end.is_some_and(|(end, last)| last == Last::Closed && self.complete == end);
        if self.lost.is_none() && !closed {
            self.lost = Some(loss);
        }
    }
}

/// A received record, in place. It must be dropped before records are released, which the borrow
/// checker ensures.
///
/// ```compile_fail,E0502
/// # fn example(mut stream: hamlyn::protocol::stream::StreamReceiver) -> hamlyn::Result<()> {
/// if let Some(record) = stream.recv()? {
///     stream.release(record.number())?;
///     println!("{:?}", record.to_vec());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Record<'a> {
    pub(super) landed: Landed<'a>,
    pub(super) number: u64,
}

landed!(Record);

impl Record<'_> {
    /// Returns the record's number; the first is 0.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hamlyn::ticket::TicketFlags;

    fn way_back() -> Ticket {
        let flags = TicketFlags::default();
        Ticket { destination: 5, slot: 2, metadata_index: 0, key: 4, base: 0, length: 0, flags }
    }

    #[test]
    fn way_back_leads_to_the_sender_alone() {
        let head = Head { number: 0, length: 0, taken_in: 0, way_back: Some(way_back()), last: None };
        let mut records = Records { host: Some(6), ..Records::default() };
        assert_eq!(records.record_arrived(0, 0, &head.to_metadata().0), Err(ANOTHER_HOST));
    }

    #[test]
    fn early_way_back_is_checked_when_host_known() {
        for (host, lost) in [(5, None), (6, Some(PeerLoss::Violation(ANOTHER_HOST)))] {
            let mut records = Records { way_back: Some(way_back()), ..Records::default() };
            records.expect_from(host);
            assert_eq!((records.lost, records.way_back.is_none()), (lost, lost.is_some()));
        }
    }
}
