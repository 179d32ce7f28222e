//! A distributed barrier: no participant leaves a round before all have entered it. Built on group
//! receive, as section 2.5 suggests.
//!
//! Each participant has a slot with metadata only. To enter a round it sends every other
//! participant an empty message, which spends that sender's share of the counter ([`Share`]). When
//! all others have done so, the accumulator has wrapped to zero. The participant gets *one*
//! notification, however many participants there are.
//!
//! Two metadata entries alternate. A participant may be one round ahead, because it may leave a
//! round before others have noticed that they may. It is never two rounds ahead: to leave the next
//! round it needs a message from each participant, and those are sent only after leaving this
//! round. So when an entry is reused, two rounds later, all its messages have been counted.
//!
//! A fabric that reorders may complete the next round's entry before this round's; the entry tells
//! the two apart. For the same reason at most two notifications are pending at any time, and a
//! queue of two entries does not overrun.
//!
//! A round of *n* participants costs each one *n* - 1 requests of 64 bytes and *n* - 1 packets in
//! each direction. It also costs one notification and at most one interrupt. It takes the one-way
//! time of one message from the last participant that enters.

use std::time::{Duration, Instant};

use crate::core::polling::Polling;
use crate::error::{Error, Result, at_most};
use crate::hamlyn::card::Card;
use crate::hamlyn::group::Share;
use crate::hamlyn::notification::NotificationQueue;
use crate::hamlyn::slot::Slot;
use crate::hamlyn::terminus::{Handle, Terminus};
use crate::hamlyn::ticket::Ticket;

/// Number of metadata entries, and of rounds that may be in progress.
const ROUNDS: u32 = 2;

/// A place at a barrier whose other participants are not known yet. The caller must exchange the
/// tickets.
#[derive(Debug)]
pub struct Entrance {
    slot: Slot,
    queue: NotificationQueue,
}

impl Entrance {
    /// Creates a place.
    ///
    /// # Errors
    /// The errors of [`Card::create_area`], [`Card::create_queue`] and
    /// [`crate::SlotBuilder::create`].
    pub fn create(card: &Card) -> Result<Self> {
        // A slot has at least one byte; this one is never written.
        let area = card.create_area(1)?;
        let queue = card.create_queue(ROUNDS)?;
        let slot = card.slot(&area).metadata_entries(ROUNDS).queue(&queue).create()?;
        Ok(Self { slot, queue })
    }

    /// Returns the ticket that all other participants need.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self) -> Result<Ticket> {
        self.slot.ticket(0)?.part(0, 0)
    }

    /// Joins the barrier of the participants with these tickets. All must use the same order; this
    /// participant's own ticket is at `index`. It sends its messages through `terminus`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `index` does not exist, or if there are more tickets than a group
    /// can have.
    pub fn join(self, terminus: Terminus, tickets: &[Ticket], index: usize) -> Result<Barrier> {
        if index >= tickets.len() {
            let (value, limit) = (index as u64, (tickets.len() as u64).saturating_sub(1));
            return Err(Error::OutOfRange { object: "barrier index", value, limit });
        }
        at_most("barrier participants", tickets.len() as u64, Share::MAX_PARTS as u64)?;
        let messages = (0..ROUNDS).map(|entry| messages(tickets, index, entry)).collect::<Result<_>>()?;
        let Self { slot, queue } = self;
        Ok(Barrier {
            slot,
            queue,
            terminus,
            messages,
            round: 0,
            sent: 0,
            last: None,
            whole: [false; ROUNDS as usize],
        })
    }
}

/// Returns the shares that participant `index` sends to each of the others in rounds that use this
/// metadata entry.
fn messages(tickets: &[Ticket], index: usize, entry: u32) -> Result<Vec<Share>> {
    let others = tickets.iter().enumerate().filter(|(other, _)| *other != index);
    others
        .map(|(other, ticket)| {
            let metadata_index = ticket.metadata_index.saturating_add(entry);
            let whole = Share::whole(Ticket { metadata_index, length: 0, ..*ticket })?;
            // The receiver itself does not share its counter.
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
    /// For each entry, the shares to send to the others.
    messages: Vec<Vec<Share>>,
    /// Number of rounds that this participant has left.
    round: u64,
    /// Number of other participants that this round's message has been sent to.
    sent: usize,
    last: Option<Handle>,
    /// For each entry, whether all others have entered the round that uses it.
    whole: [bool; ROUNDS as usize],
}

impl Barrier {
    /// Sets how long [`Barrier::wait`] polls before it sleeps.
    pub fn set_polling(&self, polling: Polling) {
        self.queue.set_polling(polling);
    }

    /// Returns the number of rounds that this participant has left.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.round
    }

    /// Enters the next round, and leaves it when all others have entered it. Busy-polls for a
    /// while, then sleeps.
    ///
    /// # Errors
    /// Those of [`Terminus::send`] and [`NotificationQueue::recv`]. Call again to continue the
    /// wait, except after [`crate::OverrunError`]: a sender that is not a correct participant sent
    /// messages.
    pub fn wait(&mut self) -> Result<()> {
        self.wait_within(None)
    }

    /// As [`Barrier::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the round stays entered and the barrier stays usable; call again to
    /// continue the wait. A participant that died never arrives, and then the barrier cannot be
    /// used again. Those of [`Barrier::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<()> {
        self.wait_within(Some(timeout))
    }

    fn wait_within(&mut self, timeout: Option<Duration>) -> Result<()> {
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
            let arrived = self.queue.recv_within(left()).map_err(timed_out(timeout))?;
            if let Some(whole) =
                self.slot.entry_of(&arrived).and_then(|entry| self.whole.get_mut(entry as usize))
            {
                *whole = true;
            }
        }
        // Do not leave with messages in the work queue: they would be abandoned if the terminus
        // were destroyed now.
        if let Some(handle) = &self.last {
            handle.wait_within(left()).map_err(timed_out(timeout))?;
        }
        (self.whole[entry], self.sent, self.last) = (false, 0, None);
        self.round += 1;
        Ok(())
    }
}

/// Replaces what a timeout error names.
fn timed_out(timeout: Option<Duration>) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::TimedOut { .. } => {
            Error::TimedOut { what: "other participants", after: timeout.unwrap_or_default() }
        }
        error => error,
    }
}
