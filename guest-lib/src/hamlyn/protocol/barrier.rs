//! A distributed barrier: nobody leaves a round before all have entered it. Built on group receive,
//! as section 2.5 suggests.
//!
//! Each participant has a slot of no more than metadata. To enter a round it sends every other an
//! empty message that spends that sender's share of the counter ([`Share`]); when all others have
//! done so, the accumulator has come round and the participant gets *one* notification, however
//! many there are.
//!
//! Two metadata entries take turns. Somebody may be a round ahead, for it may leave a round before
//! others have noticed that they may, but never two: to leave the next round it needs a message
//! from each, and those come from participants that have left this one. So when an entry is used
//! again, two rounds later, all its messages have been counted. A fabric that reorders may complete
//! the next round's entry before this round's; both are kept apart by their entry. For the same
//! reason no more than two notifications wait at any time, and a queue of two entries is not
//! overrun.
//!
//! A round of *n* costs each participant *n* - 1 requests of 64 bytes, *n* - 1 packets in each
//! direction, one notification and at most one interrupt. It takes the time of one message one way
//! from the last that enters.

use std::time::{Duration, Instant};

use crate::core::polling::Polling;
use crate::error::{Error, Result, at_most};
use crate::hamlyn::card::Card;
use crate::hamlyn::group::Share;
use crate::hamlyn::notification::NotificationQueue;
use crate::hamlyn::slot::Slot;
use crate::hamlyn::terminus::{Handle, Terminus};
use crate::hamlyn::ticket::Ticket;

/// Metadata entries, and rounds that may be under way.
const ROUNDS: u32 = 2;

/// A place at a barrier whose other participants are not known yet. How their tickets travel is the
/// caller's affair.
#[derive(Debug)]
pub struct Entrance {
    slot: Slot,
    queue: NotificationQueue,
}

impl Entrance {
    /// Makes a place.
    ///
    /// # Errors
    /// Those of [`Card::create_area`], [`Card::create_queue`] and [`crate::SlotBuilder::create`].
    pub fn create(card: &Card) -> Result<Self> {
        // A slot has at least a byte; nobody writes it.
        let area = card.create_area(1)?;
        let queue = card.create_queue(ROUNDS)?;
        let slot = card.slot(&area).metadata_entries(ROUNDS).queue(&queue).create()?;
        Ok(Self { slot, queue })
    }

    /// The ticket that all other participants need.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self) -> Result<Ticket> {
        self.slot.ticket(0)?.part(0, 0)
    }

    /// Joins the barrier of those whose tickets these are, in an order on which all agree; this
    /// participant's own is number `index`. Its messages go out by `terminus`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there is no such number, or more tickets than a group can have.
    pub fn join(self, terminus: Terminus, tickets: &[Ticket], index: usize) -> Result<Barrier> {
        if index >= tickets.len() {
            let (value, limit) = (index as u64, (tickets.len() as u64).saturating_sub(1));
            return Err(Error::OutOfRange { object: "barrier index", value, limit });
        }
        at_most("barrier participants", tickets.len() as u64, Share::MAX_PARTS as u64)?;
        let messages = (0..ROUNDS).map(|entry| messages(tickets, index, entry)).collect::<Result<_>>()?;
        let Self { slot, queue } = self;
        let polling = Polling::default();
        Ok(Barrier {
            slot,
            queue,
            terminus,
            messages,
            polling,
            round: 0,
            sent: 0,
            last: None,
            whole: [false; ROUNDS as usize],
        })
    }
}

/// What participant `index` sends to each of the others in rounds that use this metadata entry.
fn messages(tickets: &[Ticket], index: usize, entry: u32) -> Result<Vec<Share>> {
    let others = tickets.iter().enumerate().filter(|(other, _)| *other != index);
    others
        .map(|(other, ticket)| {
            let metadata_index = ticket.metadata_index.saturating_add(entry);
            let whole = Share::whole(Ticket { metadata_index, length: 0, ..*ticket })?;
            // The receiver's own number is left out of those who share its counter.
            let mut shares = whole.split(tickets.len() - 1)?;
            Ok(shares.swap_remove(if index < other { index } else { index - 1 }))
        })
        .collect()
}

/// A participant of a barrier.
#[derive(Debug)]
pub struct Barrier {
    slot: Slot,
    queue: NotificationQueue,
    terminus: Terminus,
    /// For each entry, what goes to the others.
    messages: Vec<Vec<Share>>,
    polling: Polling,
    /// Rounds left.
    round: u64,
    /// How many of the others have been told that this round is entered.
    sent: usize,
    last: Option<Handle>,
    /// For each entry, whether all others have entered the round that uses it.
    whole: [bool; ROUNDS as usize],
}

impl Barrier {
    /// How often [`Barrier::wait`] looks before it sleeps.
    #[must_use]
    pub fn polling(self, polling: Polling) -> Self {
        Self { polling, ..self }
    }

    /// How many rounds it has left behind.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.round
    }

    /// Enters the next round, and leaves it when all others have entered it: looks at memory for a
    /// while, then sleeps. `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the round stays entered and the barrier usable; call again to wait on. A participant that died
    /// never comes, and then the barrier is of no more use. Other errors of [`Terminus::send`] and
    /// [`NotificationQueue::recv_block`] may be met by another call, too, except
    /// [`Error::Overrun`]: somebody sent what no participant would.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let entry = (self.round % u64::from(ROUNDS)) as usize;
        if self.messages[entry].is_empty() {
            self.round += 1;
            return Ok(());
        }
        let start = Instant::now();
        let left = || timeout.map(|limit| limit.saturating_sub(start.elapsed()));
        while let Some(share) = self.messages[entry].get(self.sent) {
            self.last = Some(self.terminus.send(&share.message(), &[])?);
            self.sent += 1;
        }
        while !self.whole[entry] {
            let arrived = self.queue.recv_block_with(self.polling, left()).map_err(timed_out(timeout))?;
            if let Some(whole) =
                self.slot.entry_of(&arrived).and_then(|entry| self.whole.get_mut(entry as usize))
            {
                *whole = true;
            }
        }
        // Not to leave with messages in the work queue: they would be abandoned if the terminus
        // went now.
        if let Some(handle) = &self.last {
            handle.wait(left()).map_err(timed_out(timeout))?;
        }
        (self.whole[entry], self.sent, self.last) = (false, 0, None);
        self.round += 1;
        Ok(())
    }
}

/// Names what was waited for.
fn timed_out(timeout: Option<Duration>) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::TimedOut { .. } => {
            Error::TimedOut { what: "other participants", after: timeout.unwrap_or_default() }
        }
        error => error,
    }
}
