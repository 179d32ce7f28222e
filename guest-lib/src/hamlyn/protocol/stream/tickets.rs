//! The sending end's tickets: those that it may use, and those that will be returned.

use std::collections::VecDeque;

use super::wire::{Last, Return};
use crate::core::loss::PeerLoss;
use crate::hamlyn::seed::Seed;
use crate::hamlyn::ticket::Ticket;

/// Number of metadata entries of the way back.
pub(super) const WAY_BACK: u32 = 8;
/// Maximum number of tickets that a sender accepts from a receiver.
const MAX_TICKETS: usize = Seed::MAX_TICKETS as usize;

/// The sender's tickets, according to the returns that it has taken in.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    pub(super) tickets: VecDeque<Ticket>,
    /// Used tickets, in the order of their records.
    pub(super) used: VecDeque<Ticket>,
    /// The receiver's host.
    pub(super) host: u32,
    /// Number of bytes that each ticket opens.
    pub(super) record_size: u32,
    /// Number of records that the receiver has released, as far as this end knows.
    pub(super) released: u64,
    /// The next record's number.
    pub(super) next: u64,
    /// All returns before this one have been taken in.
    pub(super) taken_in: u64,
    /// Entries of the way back whose return has arrived out of order.
    pub(super) early: [bool; WAY_BACK as usize],
    pub(super) lost: Option<PeerLoss>,
    pub(super) token: Option<u64>,
}

impl Tickets {
    /// Returns true if a record may be sent. One ticket is reserved for the last record.
    pub(super) fn may_send(&self, last: Option<Last>) -> bool {
        self.tickets.len() > usize::from(last.is_none())
    }

    /// Returns true if this number of records may be sent.
    pub(super) fn may_send_records(&self, records: usize) -> bool {
        self.tickets.len() > records || records == 0
    }

    /// Returns the number of tickets that the sender may use now, plus those that will be returned.
    pub(super) fn all_tickets(&self) -> u32 {
        (self.tickets.len() + self.used.len()) as u32
    }

    /// Takes in a return. Fails with the violation if it is not valid.
    pub(super) fn take_in(&mut self, entry: u32, metadata: &[u8; 60]) -> Result<(), &'static str> {
        let back = Return::from_metadata(metadata).ok_or("no return of tickets")?;
        if std::mem::replace(&mut self.early[entry as usize], true) {
            return Err("a return of tickets before its turn");
        }
        while std::mem::take(&mut self.early[(self.taken_in % u64::from(WAY_BACK)) as usize]) {
            self.taken_in += 1;
        }
        if back.released > self.next {
            return Err("tickets that were not used");
        }
        // An older return may arrive later.
        while self.released < back.released {
            self.released += 1;
            self.tickets.extend(self.used.pop_front());
        }
        if let Some((first, count)) = back.grant {
            let more = Seed::new(first, count).map_err(|_| "tickets that reach past the end of any area")?;
            let all = self.tickets.len() + self.used.len() + count as usize;
            if all > MAX_TICKETS || more.record_size() != self.record_size {
                return Err("tickets that a stream does not have");
            }
            if more.destination() != self.host {
                return Err("tickets that lead to another host");
            }
            self.tickets.extend(more.tickets());
        }
        if back.stop {
            self.lose(PeerLoss::Abandoned);
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, loss: PeerLoss) {
        self.lost = self.lost.or(Some(loss));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hamlyn::ticket::TicketFlags;

    fn granted_by(host: u32) -> Result<(), &'static str> {
        let flags = TicketFlags::default();
        let first = Ticket { destination: 5, slot: 2, metadata_index: 3, key: 4, base: 0, length: 6, flags };
        let mut tickets = Tickets { record_size: 6, host, ..Tickets::default() };
        tickets.take_in(0, &Return { released: 0, grant: Some((first, 2)), stop: false }.to_metadata().0)
    }

    #[test]
    fn granted_tickets_lead_to_the_receiver_alone() {
        assert_eq!(granted_by(5), Ok(()));
        assert_eq!(granted_by(6), Err("tickets that lead to another host"));
    }
}
