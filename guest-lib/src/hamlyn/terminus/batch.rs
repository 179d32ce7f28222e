//! Several requests with one store of the work queue's tail, and at most one doorbell.

use std::time::Duration;

use super::inner::ROOM;
use super::{Handle, Source, Terminus, no_room};
use crate::core::waiting::Deadline;
use crate::error::Result;
use crate::hamlyn::request::Message;

impl Terminus {
    /// Sends several messages, in this order. They share a store of the work queue's tail, a
    /// barrier and a doorbell, as far as the 63 work-queue entries suffice; for more it waits.
    /// Returns a handle of each.
    ///
    /// ```no_run
    /// # fn example(terminus: hamlyn::Terminus, ticket: hamlyn::Ticket) -> hamlyn::Result<()> {
    /// use hamlyn::Message;
    ///
    /// let message = |place: u32| Message::to(&ticket).offset(place).context(place.into());
    /// let batch = [(message(0), b"one".into()), (message(64), b"two".into())];
    /// for handle in terminus.send_batch(&batch)? {
    ///     handle.wait()?;
    ///     println!("the message at {} is sent", handle.context());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Terminus::send`]. If a message is wrong, none is sent.
    pub fn send_batch(&self, batch: &[(Message<'_>, Source<'_>)]) -> Result<Vec<Handle>> {
        self.send_batch_within(batch, None)
    }

    /// Like [`Terminus::send_batch`], but does not wait. Returns the handles of the messages that
    /// there was room for: the first of the batch.
    ///
    /// # Errors
    /// [`crate::Error::WouldBlock`] if all work-queue entries are in use; those of
    /// [`Terminus::send_batch`].
    pub fn try_send_batch(&self, batch: &[(Message<'_>, Source<'_>)]) -> Result<Vec<Handle>> {
        self.check_batch(batch)?;
        let mut handles = Vec::new();
        self.post_batch(batch, &mut handles)?;
        if handles.is_empty() && !batch.is_empty() { Err(no_room()) } else { Ok(handles) }
    }

    /// Like [`Terminus::send_batch`], but waits for at most `timeout`. Returns the handles of the
    /// messages that there was room for by then: the first of the batch.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`] if there was no room for any; those of [`Terminus::send_batch`].
    pub fn send_batch_timeout(
        &self,
        batch: &[(Message<'_>, Source<'_>)],
        timeout: Duration,
    ) -> Result<Vec<Handle>> {
        self.send_batch_within(batch, Some(timeout))
    }

    fn send_batch_within(
        &self,
        batch: &[(Message<'_>, Source<'_>)],
        timeout: Option<Duration>,
    ) -> Result<Vec<Handle>> {
        self.check_batch(batch)?;
        let (deadline, mut handles) = (Deadline::new(timeout), Vec::with_capacity(batch.len()));
        loop {
            self.post_batch(&batch[handles.len()..], &mut handles)?;
            if handles.len() == batch.len() {
                return Ok(handles);
            }
            let has_room = || (self.inner.observe().queue.room() > 0).then_some(());
            match self.inner.wait_for(ROOM, deadline.left(), |queue| queue.half_way(), has_room) {
                Err(error) if error.is_timed_out() && !handles.is_empty() => return Ok(handles),
                waited => waited?,
            }
        }
    }

    /// Checks all messages, so that a wrong one is found before any is sent.
    fn check_batch(&self, batch: &[(Message<'_>, Source<'_>)]) -> Result<()> {
        batch.iter().try_for_each(|(message, source)| self.with_request(message, *source, |_, _| Ok(())))
    }

    /// Posts the messages that there is room for, and appends their handles.
    fn post_batch(&self, batch: &[(Message<'_>, Source<'_>)], handles: &mut Vec<Handle>) -> Result<()> {
        let mut posting = self.inner.posting();
        let mut post = |message: &Message<'_>, source| {
            self.with_request(message, source, |request, gathered| Ok(posting.put(request, gathered, true)))
        };
        let mut posted = Ok(());
        for (message, source) in batch {
            match post(message, *source) {
                Ok(Some(request)) => handles.push(Handle::new(self, request, message.context_word())),
                Ok(None) => break,
                Err(error) => {
                    posted = Err(error);
                    break;
                }
            }
        }
        // What was put is in the queue, whatever came after it.
        if posting.publish() {
            self.inner.ring()?;
        }
        posted
    }
}
