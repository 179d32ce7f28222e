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

/// Maximum length of a coalesced record, in bytes. The seed must not determine how much memory is
/// allocated.
const MAX_COALESCED: usize = 64 * 1024;
/// What a `WouldBlock` error names if only the receiver can make room.
const TICKETS: &str = "tickets of the stream";

/// The sending end. It may move to another thread.
///
/// If it is dropped without [`StreamSender::close`], the receiver is notified and gets
/// [`PeerLoss::Abandoned`]. Data that was not flushed is lost.
#[derive(Debug)]
pub struct StreamSender {
    shared: Arc<Shared>,
    manager: Manager,
    record_size: usize,
    /// The record that is being coalesced, and its current length.
    coalesced: Option<Buffer>,
    filled: usize,
    /// Requests that the card has not completed.
    under_way: VecDeque<Handle>,
    accepted: u64,
    write_timeout: Option<Duration>,
    closed: bool,
    /// The connection that the stream is part of, if any.
    watch: Option<Arc<Watch>>,
}

#[derive(Debug)]
struct Shared {
    /// The place where returns arrive, and the ticket for it.
    way_back: Place,
    ticket: Ticket,
    state: Mutex<Tickets>,
}

impl StreamSender {
    /// Creates the sending end from a receiver's seed.
    ///
    /// # Errors
    /// The errors of [`crate::SlotBuilder::create`] and, if the manager needs another notification
    /// queue for it, [`crate::Card::create_queue`]; [`Error::LinkDown`].
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
            write_timeout: None,
            closed: false,
            watch: None,
        })
    }

    pub(super) fn set_watch(&mut self, watch: Arc<Watch>) {
        self.watch = Some(watch);
    }

    /// Sets the token that [`Manager::ready`] returns when the receiver or the card has made room,
    /// or the stream has ended.
    pub fn set_token(&mut self, token: u64) {
        self.shared.lock().token = Some(token);
    }

    /// Returns true if an error of a `try_` call means that only the receiver can make room.
    /// Otherwise the card has more work than there is room for, because this host, the network or a
    /// receiver's card is busy. [`Manager::ready`] reports both.
    #[must_use]
    pub fn waits_for_receiver(error: &Error) -> bool {
        matches!(error, Error::WouldBlock { object: TICKETS, .. })
    }

    /// Sets how long each call of [`Write`](std::io::Write) may block, as
    /// [`std::net::TcpStream::set_write_timeout`] does. `None` is the default: without a limit.
    pub fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.write_timeout = timeout;
    }

    /// Returns the number of bytes that the stream has accepted, including coalesced ones.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Sends bytes by copying them into the record that is being coalesced. Full records are sent
    /// at once, the rest with a later call. Waits while the receiver has no room.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`crate::RefusedError`].
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_within(bytes, None)
    }

    /// As [`StreamSender::send`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`StreamSender::accepted`] then shows how many bytes were accepted.
    /// Those of [`StreamSender::send`].
    pub fn send_timeout(&mut self, bytes: &[u8], timeout: Duration) -> Result<()> {
        self.send_within(bytes, Some(timeout))
    }

    fn send_within(&mut self, bytes: &[u8], timeout: Option<Duration>) -> Result<()> {
        let mut sent = 0;
        self.block(timeout, |stream| {
            while sent < bytes.len() {
                sent += stream.try_send(&bytes[sent..])?;
            }
            Ok(())
        })
    }

    /// Like [`StreamSender::send`], but accepts only as many bytes as there is room for now.
    /// Returns their number.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if the ring has no room; [`Error::PeerLost`],
    /// [`crate::RefusedError`].
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

    /// Sends a buffer without copying: the card gathers from it, in as many records as it takes.
    /// Coalesced bytes are sent first.
    ///
    /// # Errors
    /// The errors of [`StreamSender::send`]. On error the buffer is given back. Some of its bytes
    /// may have been sent, as [`StreamSender::accepted`] shows. Those cannot be changed while the
    /// card gathers from them ([`crate::InFlightError`]).
    pub fn send_buffer(&mut self, buffer: Buffer) -> Result<Sent, GivenBack<Buffer>> {
        self.send_buffer_within(buffer, None)
    }

    /// As [`StreamSender::send_buffer`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamSender::send_buffer`].
    pub fn send_buffer_timeout(
        &mut self,
        buffer: Buffer,
        timeout: Duration,
    ) -> Result<Sent, GivenBack<Buffer>> {
        self.send_buffer_within(buffer, Some(timeout))
    }

    fn send_buffer_within(
        &mut self,
        buffer: Buffer,
        timeout: Option<Duration>,
    ) -> Result<Sent, GivenBack<Buffer>> {
        let (mut offset, mut last) = (0, None);
        let end = buffer.len();
        let whole = self.block(timeout, |stream| {
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
    /// The buffer is given back with one of these errors:
    ///
    /// - [`Error::WouldBlock`] if there is not enough room for all of it. Then none of it is sent,
    ///   unless other threads take the room at this moment; [`StreamSender::accepted`] then shows
    ///   how much was sent.
    /// - [`Error::OutOfRange`] if the buffer needs more records than a work queue has entries. If
    ///   it needs more than the receiver has, only [`StreamSender::send_buffer`] can send it.
    /// - [`Error::PeerLost`], [`crate::RefusedError`].
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

    /// Sends a part of a buffer, which is only borrowed. The card gathers from these bytes until
    /// [`Buffer::wait_idle`] or the handle of the last record reports completion, and they cannot
    /// be written before that. So one buffer can be sent to several peers. Returns `None` for an
    /// empty part.
    ///
    /// # Errors
    /// The errors of [`StreamSender::send`]; some of the bytes may have been sent, as
    /// [`StreamSender::accepted`] shows. [`Error::PastEnd`] if the part is not inside the buffer.
    pub fn send_from(&mut self, buffer: &Buffer, part: Range<usize>) -> Result<Option<Handle>> {
        self.send_from_within(buffer, part, None)
    }

    /// As [`StreamSender::send_from`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamSender::send_from`].
    pub fn send_from_timeout(
        &mut self,
        buffer: &Buffer,
        part: Range<usize>,
        timeout: Duration,
    ) -> Result<Option<Handle>> {
        self.send_from_within(buffer, part, Some(timeout))
    }

    fn send_from_within(
        &mut self,
        buffer: &Buffer,
        part: Range<usize>,
        timeout: Option<Duration>,
    ) -> Result<Option<Handle>> {
        buffer.part(part.clone())?;
        let (mut offset, mut last) = (part.start, None);
        let whole = self.block(timeout, |stream| {
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
    /// Returns the number of bytes sent; continue after them.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if the ring has no room; [`Error::PastEnd`], [`Error::PeerLost`],
    /// [`crate::RefusedError`].
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

    /// Sends all coalesced bytes. Waits while the receiver has no room.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`crate::RefusedError`].
    pub fn flush(&mut self) -> Result<()> {
        self.block(None, Self::try_flush)
    }

    /// As [`StreamSender::flush`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamSender::flush`].
    pub fn flush_timeout(&mut self, timeout: Duration) -> Result<()> {
        self.block(Some(timeout), Self::try_flush)
    }

    /// Like [`StreamSender::flush`], but does not wait. After [`StreamSender::try_close`] there is
    /// nothing left to flush.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::PeerLost`], [`crate::RefusedError`].
    pub fn try_flush(&mut self) -> Result<()> {
        if self.closed {
            // The coalesced bytes were sent with the end.
            return self.collect();
        }
        if self.filled == 0 {
            return self.check();
        }
        self.send_coalesced(None)
    }

    /// Closes the stream gracefully (section 6.4): flushes, notifies the receiver that no more data
    /// follows, and waits until everything is sent. Never waits for the receiver.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`crate::RefusedError`]: the receiver may not get everything.
    pub fn close(mut self) -> Result<()> {
        self.block(None, Self::try_close)
    }

    /// As [`StreamSender::close`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamSender::close`].
    pub fn close_timeout(mut self, timeout: Duration) -> Result<()> {
        self.block(Some(timeout), Self::try_close)
    }

    /// Like [`StreamSender::close`], but does not wait. The stream is closed once this has
    /// succeeded. Until then call it again; nothing more can be sent.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] until everything is sent; [`Error::PeerLost`],
    /// [`crate::RefusedError`].
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

    /// Ends the stream for a reason that the caller has learned, for example from the operating
    /// system (section 6.3).
    ///
    /// A caller that sleeps in [`StreamSender::send`] notices within a second; at once, if the
    /// manager has a [`crate::Waker`].
    pub fn peer_lost(&self, loss: PeerLoss) {
        let token = {
            let mut state = self.shared.lock();
            state.lose(loss);
            state.token
        };
        self.manager.look_again(token);
    }

    /// Fails if a buffer of this size could not be sent now as a whole, after the coalesced bytes.
    fn try_room_for(&mut self, length: usize) -> Result<()> {
        let records = length.div_ceil(self.record_size);
        at_most("records of a buffer", records as u64, HAMLYN_WORK_QUEUE_USABLE.into())?;
        self.try_flush()?;
        if !self.shared.lock().may_send_records(records) {
            self.manager.poll_all()?;
        }
        let state = self.shared.lock();
        if !state.may_send_records(records) {
            return Err(Error::WouldBlock { object: TICKETS, limit: state.all_tickets() });
        }
        drop(state);
        self.manager.terminus().check_room(records).inspect_err(|error| self.note(error))
    }

    /// Posts the rest of a buffer, from `offset` to `end`, as far as there is room. `last` is its
    /// last request.
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

    /// Copies some bytes into the record that is being filled; a full record is sent first. Returns
    /// the number of bytes.
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

    /// Sends the coalesced bytes as a record, or an empty one if there are none. The next record is
    /// coalesced in another buffer, because the card may still gather from this one.
    fn send_coalesced(&mut self, last: Option<Last>) -> Result<()> {
        let length = self.filled;
        let handle = match self.coalesced.take() {
            None => self.post(Source::Bytes(&[]), 0, last)?,
            Some(buffer) => match buffer.piece(0, length).and_then(|piece: Piece<'_>| {
                // The borrow ends when the request is posted.
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

    /// Posts a record if there is a ticket and the work queue has room.
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

    /// If the card lacks room, makes [`Manager::ready`] return this stream's token once the card
    /// has completed requests.
    fn note(&self, error: &Error) {
        self.manager.fell_behind(self.shared.lock().token, error);
    }

    /// Removes requests that the card has completed.
    fn collect(&mut self) -> Result<()> {
        while let Some(handle) = self.under_way.front() {
            if !handle.is_complete()? {
                break;
            }
            self.under_way.pop_front();
        }
        Ok(())
    }

    /// Fails if the stream has ended.
    fn check(&mut self) -> Result<()> {
        self.collect()?;
        if self.closed {
            return Err(Error::Closed("the stream"));
        }
        let lost = self.shared.lock().lost;
        let lost = lost.or_else(|| self.watch.as_ref()?.loss(Duration::ZERO));
        lost.map_or(Ok(()), |loss| Err(Error::PeerLost(loss)))
    }

    /// Retries until `attempt` succeeds. Sleeps until a return arrives or, if a return is not what
    /// is missing, until the card has completed requests.
    fn block(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let manager = self.manager.clone();
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
        self.block(self.write_timeout, attempt)?;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(self.block(self.write_timeout, Self::try_flush)?)
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.as_ref().filter(|_| self.closed && self.under_way.is_empty()) {
            watch.finish();
        }
        if !self.closed {
            // Best effort: the receiver also learns of it from the operating system's process
            // watch.
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
        // The receiver reuses the entry only after it has been notified that this return was taken
        // in. A peer that violated the protocol gets no further entry.
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
