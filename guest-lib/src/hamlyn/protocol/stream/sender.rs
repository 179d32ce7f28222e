//! The sending end of a stream.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;

use super::tickets::{Tickets, WAY_BACK};
use super::wire::{Head, Last};
use crate::core::loss::PeerLoss;
use crate::core::watch::{GRACE, Watch};
use crate::error::{Error, GivenBack, Result, at_most};
use crate::hamlyn::manager::{Arrived, Buffer, Look, Manager, Pause, Place, Ready, ReceiverClass, Sent};
use crate::hamlyn::request::Message;
use crate::hamlyn::seed::Seed;
use crate::hamlyn::send_buffer::Piece;
use crate::hamlyn::terminus::{Handle, Source};
use crate::hamlyn::ticket::Ticket;

/// The longest record that is coalesced, in bytes: what a seed says is not to decide how much
/// memory that takes.
const MAX_COALESCED: usize = 64 * 1024;
/// What a sender is out of when only its receiver can help.
const TICKETS: &str = "tickets of the stream";

/// The sending end. It may go to another thread.
///
/// Dropped without [`StreamSender::close`], it tells the receiver, which then gets
/// [`PeerLoss::Abandoned`]; what was not flushed is lost.
#[derive(Debug)]
pub struct StreamSender {
    shared: Arc<Shared>,
    manager: Manager,
    record_size: usize,
    /// What is being coalesced, and how much of it there is.
    coalesced: Option<Buffer>,
    filled: usize,
    /// Requests that the card has not finished with.
    under_way: VecDeque<Handle>,
    accepted: u64,
    timeout: Option<Duration>,
    closed: bool,
    /// The connection that it is part of, if any.
    watch: Option<Arc<Watch>>,
}

#[derive(Debug)]
struct Shared {
    /// Where returns arrive, and the ticket for it.
    way_back: Place,
    ticket: Ticket,
    state: Mutex<Tickets>,
}

impl StreamSender {
    /// Makes the sending end from a receiver's seed.
    ///
    /// # Errors
    /// Those of [`crate::SlotBuilder::create`] and, if the manager takes another notification queue
    /// for it, [`crate::Card::create_queue`]; [`Error::LinkDown`].
    pub fn from_seed(manager: &Manager, seed: &Seed) -> Result<Self> {
        let mut way_back = Place::create(manager, WAY_BACK, 0)?;
        let ticket = way_back.ticket(0)?;
        let (tickets, record_size) = (seed.tickets().collect(), seed.record_size());
        let state = Tickets { tickets, record_size, host: seed.destination(), ..Tickets::default() };
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| {
            way_back.open_for(shared.clone());
            Shared { way_back, ticket, state: Mutex::new(state) }
        });
        Ok(Self {
            shared,
            manager: manager.clone(),
            record_size: record_size as usize,
            coalesced: None,
            filled: 0,
            under_way: VecDeque::new(),
            accepted: 0,
            timeout: None,
            closed: false,
            watch: None,
        })
    }

    pub(super) fn set_watch(&mut self, watch: Arc<Watch>) {
        self.watch = Some(watch);
    }

    /// From now on [`Manager::ready`] names this token when the receiver or the card has made room,
    /// or the stream has ended.
    pub fn set_token(&mut self, token: u64) {
        self.shared.lock().token = Some(token);
    }

    /// Whether an error of a `try_` call says that only the receiver can make room. If not, the
    /// card has more to do than there is room for: this host or the network is busy, or a
    /// receiver's card is. [`Manager::ready`] tells of either.
    #[must_use]
    pub fn waits_for_receiver(error: &Error) -> bool {
        matches!(error, Error::WouldBlock { object: TICKETS, .. })
    }

    /// How long sending and flushing may wait. `None`, as at first, waits for ever.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Returns the bytes of the records that the receiver has not released, as far as is known; a
    /// record that is not full counts as one.
    pub(crate) fn unreleased(&self) -> u64 {
        self.shared.lock().used.len() as u64 * self.record_size as u64
    }

    /// How many bytes the stream has accepted, coalesced ones as well.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Sends bytes: copies them to where records are coalesced. Full records go at once, the rest
    /// with a later call. While the receiver has no room, it waits.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and [`StreamSender::accepted`] says how far it got;
    /// [`Error::PeerLost`]; [`Error::Refused`].
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut sent = 0;
        self.block(|stream| {
            while sent < bytes.len() {
                sent += stream.try_send(&bytes[sent..])?;
            }
            Ok(())
        })
    }

    /// Like [`StreamSender::send`], but accepts only as many bytes as there is room for now. How
    /// many.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is room for none; [`Error::PeerLost`], [`Error::Refused`].
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut accepted = 0;
        while accepted < bytes.len() {
            match self.coalesce(&bytes[accepted..]) {
                Ok(length) => accepted += length,
                Err(Error::WouldBlock { .. }) if accepted > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(accepted)
    }

    /// Sends a buffer as it is: the card gathers from it, in as many records as it takes. What was
    /// coalesced goes first.
    ///
    /// # Errors
    /// Those of [`StreamSender::send`], and the buffer is given back. Some of its bytes may have
    /// been sent, as [`StreamSender::accepted`] says: those cannot be changed while the card
    /// gathers from them ([`Error::InFlight`]).
    pub fn send_buffer(&mut self, buffer: Buffer) -> Result<Sent, GivenBack<Buffer>> {
        let (mut offset, mut last) = (0, None);
        let end = buffer.len();
        let whole = self.block(|stream| {
            stream.try_flush()?;
            stream.post_buffer(&buffer, &mut offset, end, &mut last)
        });
        match whole {
            Ok(()) => Ok(Sent::new(buffer, last)),
            Err(error) => {
                self.under_way.extend(last);
                Err(GivenBack::new(error, buffer))
            }
        }
    }

    /// Like [`StreamSender::send_buffer`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is no room for all of it: nothing of it is sent then (unless
    /// other threads take the room at this moment, when [`StreamSender::accepted`] says how much).
    /// [`Error::OutOfRange`] for a buffer that takes more records than a work queue has entries;
    /// one that takes more than the receiver has finds room by [`StreamSender::send_buffer`] alone.
    /// [`Error::PeerLost`], [`Error::Refused`]. The buffer is given back.
    pub fn try_send_buffer(&mut self, buffer: Buffer) -> Result<Sent, GivenBack<Buffer>> {
        let (mut offset, mut last) = (0, None);
        match self
            .try_room_for(buffer.len())
            .and_then(|()| self.post_buffer(&buffer, &mut offset, buffer.len(), &mut last))
        {
            Ok(()) => Ok(Sent::new(buffer, last)),
            Err(error) => {
                self.under_way.extend(last);
                Err(GivenBack::new(error, buffer))
            }
        }
    }

    /// Sends a part of a buffer, which is lent only: the card gathers from these bytes until
    /// [`Buffer::wait_idle`] or the handle of the last record says that it has finished, and they
    /// cannot be written to before. So one buffer goes to several peers. None for an empty part.
    ///
    /// # Errors
    /// Those of [`StreamSender::send`]; some of the bytes may have been sent, as
    /// [`StreamSender::accepted`] says. [`Error::PastEnd`] for the part.
    pub fn send_from(&mut self, buffer: &Buffer, part: Range<usize>) -> Result<Option<Handle>> {
        buffer.part(part.clone())?;
        let (mut offset, mut last) = (part.start, None);
        let whole = self.block(|stream| {
            stream.try_flush()?;
            stream.post_buffer(buffer, &mut offset, part.end, &mut last)
        });
        match whole {
            Ok(()) => Ok(last),
            Err(error) => {
                self.under_way.extend(last);
                Err(error)
            }
        }
    }

    /// Like [`StreamSender::send_from`], but sends only as many records as there is room for now.
    /// How many bytes that were; so it goes on behind them.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is room for none; [`Error::PastEnd`], [`Error::PeerLost`],
    /// [`Error::Refused`].
    pub fn try_send_from(&mut self, buffer: &Buffer, part: Range<usize>) -> Result<usize> {
        buffer.part(part.clone())?;
        self.try_flush()?;
        let (mut offset, mut last) = (part.start, None);
        let posted = self.post_buffer(buffer, &mut offset, part.end, &mut last);
        self.under_way.extend(last);
        match posted {
            Err(error) if !(error.is_would_block() && offset > part.start) => Err(error),
            _ => Ok(offset.max(part.start) - part.start),
        }
    }

    /// Sends all that was coalesced. While the receiver has no room, it waits.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::PeerLost`], [`Error::Refused`].
    pub fn flush(&mut self) -> Result<()> {
        self.block(Self::try_flush)
    }

    /// Like [`StreamSender::flush`], but does not wait. Behind [`StreamSender::try_close`] there is
    /// nothing left to flush.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::PeerLost`], [`Error::Refused`].
    pub fn try_flush(&mut self) -> Result<()> {
        if self.closed {
            // What there was went with the end.
            return self.collect();
        }
        if self.filled == 0 {
            return self.check();
        }
        self.send_coalesced(None)
    }

    /// Closes the stream gracefully (section 6.4): flushes, tells the receiver that no more comes,
    /// and waits until all of it is on its way. It never waits for the receiver.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::PeerLost`], [`Error::Refused`]: the receiver may not have all.
    pub fn close(mut self, timeout: Option<Duration>) -> Result<()> {
        self.timeout = timeout;
        self.block(Self::try_close)
    }

    /// Like [`StreamSender::close`], but does not wait. It is closed once this has succeeded; until
    /// then it is to be called again, and nothing more can be sent.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] until all is on its way; [`Error::PeerLost`], [`Error::Refused`].
    pub fn try_close(&mut self) -> Result<()> {
        if !self.closed {
            self.send_coalesced(Some(Last::Closed))?;
            self.closed = true;
        }
        self.collect()?;
        match self.under_way.len() as u32 {
            0 => Ok(()),
            limit => {
                let error = Error::WouldBlock { object: "requests of the stream", limit };
                self.note(&error);
                Err(error)
            }
        }
    }

    /// Ends the stream for a reason that somebody else has learned of, for example the operating
    /// system (section 6.3).
    ///
    /// Who sleeps in [`StreamSender::send`] finds out within a second; at once, if the manager has
    /// a [`crate::Waker`].
    pub fn peer_lost(&self, loss: PeerLoss) {
        let token = {
            let mut state = self.shared.lock();
            state.lose(loss);
            state.token
        };
        self.manager.look_again(token);
    }

    /// Whether a buffer of so many bytes could go now, whole, behind what was coalesced, which goes
    /// first.
    fn try_room_for(&mut self, length: usize) -> Result<()> {
        let records = length.div_ceil(self.record_size);
        at_most("records of a buffer", records as u64, HAMLYN_WORK_QUEUE_USABLE.into())?;
        self.try_flush()?;
        if !self.shared.lock().may_send_so_many(records) {
            self.manager.poll_all()?;
        }
        let state = self.shared.lock();
        if !state.may_send_so_many(records) {
            return Err(Error::WouldBlock { object: TICKETS, limit: state.all_tickets() });
        }
        drop(state);
        self.manager.terminus().check_room(records).inspect_err(|error| self.note(error))
    }

    /// Posts what is left of a buffer from `offset` to `end`, as far as there is room. `last` is
    /// its last request.
    fn post_buffer(
        &mut self,
        buffer: &Buffer,
        offset: &mut usize,
        end: usize,
        last: &mut Option<Handle>,
    ) -> Result<()> {
        while *offset < end {
            let length = self.record_size.min(end - *offset);
            let handle = self.post(buffer.piece(*offset, length)?.into(), length, None)?;
            buffer.sent_by(&handle);
            self.under_way.extend(last.replace(handle));
            self.accepted += length as u64;
            *offset += length;
        }
        Ok(())
    }

    /// Takes some bytes into the record that is being filled; a full one goes first. How many.
    fn coalesce(&mut self, bytes: &[u8]) -> Result<usize> {
        self.check()?;
        let full = self.record_size.min(MAX_COALESCED);
        if self.filled == full {
            self.send_coalesced(None)?;
        }
        let buffer = match &mut self.coalesced {
            Some(buffer) => buffer,
            None => {
                let buffer = self.manager.allocate(full).inspect_err(|error| self.note(error))?;
                self.coalesced.insert(buffer)
            }
        };
        let length = bytes.len().min(full - self.filled);
        buffer.write(self.filled, &bytes[..length])?;
        self.filled += length;
        self.accepted += length as u64;
        if self.filled == full {
            // If there is no room for it now, a later call sends it.
            match self.send_coalesced(None) {
                Err(Error::WouldBlock { .. }) => {}
                result => result?,
            }
        }
        Ok(length)
    }

    /// Sends what was coalesced as a record, an empty one if nothing was. The next is coalesced
    /// elsewhere: the card may still gather.
    fn send_coalesced(&mut self, last: Option<Last>) -> Result<()> {
        let length = self.filled;
        let handle = match self.coalesced.take() {
            None => self.post(Source::Bytes(&[]), 0, last)?,
            Some(buffer) => match buffer.piece(0, length).and_then(|piece: Piece<'_>| {
                // The borrow ends with the posting.
                self.post(piece.into(), length, last)
            }) {
                Ok(handle) => {
                    buffer.sent_by(&handle);
                    handle
                }
                Err(error) => {
                    self.coalesced = Some(buffer);
                    return Err(error);
                }
            },
        };
        self.under_way.push_back(handle);
        self.filled = 0;
        Ok(())
    }

    /// Posts a record if it has a ticket and the work queue has room.
    fn post(&mut self, data: Source<'_>, length: usize, last: Option<Last>) -> Result<Handle> {
        self.check()?;
        if !self.shared.lock().may_send(last) {
            self.manager.poll_all()?;
        }
        let mut state = self.shared.lock();
        let limit = state.all_tickets();
        let ticket = match state.tickets.front() {
            Some(ticket) if state.may_send(last) => *ticket,
            _ => return Err(Error::WouldBlock { object: TICKETS, limit }),
        };
        let way_back = (state.next == 0).then_some(self.shared.ticket);
        let (number, taken_in) = (state.next, state.taken_in as u32);
        let head = Head { number, length: length as u32, taken_in, way_back, last };
        let (metadata, size) = head.to_metadata();
        let message = Message::to(&ticket).metadata(&metadata[..size]);
        let sent = self.manager.terminus().try_send(&message, data);
        let handle = sent.inspect_err(|error| self.manager.fell_behind(state.token, error))?;
        state.next += 1;
        state.tickets.pop_front();
        state.used.push_back(ticket);
        Ok(handle)
    }

    /// [`Manager::ready`] names this one once the card has finished with requests, if that is what
    /// is missing.
    fn note(&self, error: &Error) {
        self.manager.fell_behind(self.shared.lock().token, error);
    }

    /// Forgets requests that the card has finished with.
    fn collect(&mut self) -> Result<()> {
        while let Some(handle) = self.under_way.front() {
            if !handle.is_complete()? {
                break;
            }
            self.under_way.pop_front();
        }
        Ok(())
    }

    /// Whether the stream goes on.
    fn check(&mut self) -> Result<()> {
        self.collect()?;
        if self.closed {
            return Err(Error::Closed("the stream"));
        }
        let lost = self.shared.lock().lost;
        let lost = lost.or_else(|| self.watch.as_ref()?.loss(Duration::ZERO));
        lost.map_or(Ok(()), |loss| Err(Error::PeerLost(loss)))
    }

    /// Tries until it is done: sleeps until a return comes, or, if that is not what is missing,
    /// until the card has finished with requests.
    fn block(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let (manager, timeout) = (self.manager.clone(), self.timeout);
        manager.wait_for("room in the stream", timeout, |_| match attempt(self) {
            Ok(()) => Ok(Look::Break(())),
            Err(error @ Error::WouldBlock { .. }) => {
                let limit = self.watch.is_some().then_some(GRACE);
                Ok(Look::Continue(Pause { limit, for_card: !Self::waits_for_receiver(&error) }))
            }
            Err(error) => Err(error),
        })
    }
}

impl std::io::Write for StreamSender {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut taken = 0;
        let attempt = |stream: &mut Self| stream.try_send(bytes).map(|accepted| taken = accepted);
        self.block(attempt)?;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(StreamSender::flush(self)?)
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.as_ref().filter(|_| self.closed && self.under_way.is_empty()) {
            watch.finish();
        }
        if !self.closed {
            // Best effort: the receiver also learns of it from who watches processes.
            let _ = self.post(Source::Bytes(&[]), 0, Some(Last::Abandoned));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tickets> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiverClass for Shared {
    fn process_arrival(&self, arrival: &Arrived<'_>, ready: &mut Ready) {
        let Some((entry, metadata)) = self.way_back.arrived(arrival) else { return };
        let mut state = self.lock();
        ready.add(state.token);
        if let Err(violation) = state.take_in(entry, &metadata) {
            state.lose(PeerLoss::Violation(violation));
        }
        // The receiver uses it again only when it has been told that this one was taken in. One
        // that is no receiver of ours has no more to say.
        if state.lost.is_none() {
            self.way_back.reopen(entry);
        }
    }

    fn arrivals_lost(&self, ready: &mut Ready) {
        let mut state = self.lock();
        ready.add(state.token);
        state.lose(PeerLoss::Overrun);
    }
}
