//! The receiving end of a stream.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::records::{Record, Records};
use crate::core::loss::PeerLoss;
use crate::core::watch::{GRACE, Watch};
use crate::error::{Error, Result, at_most, inside};
use crate::hamlyn::manager::{Arrived, Look, Manager, Pause, Place, Ready, ReceiverClass};
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::seed::Seed;

/// Options for a stream's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// Maximum record length in bytes, 1 to 1 GiB.
    pub record_size: u32,
    /// Initial number of buffers, 2 to 65,536. One is reserved for the end of the stream.
    pub records: u32,
    /// Maximum number of buffers; more are created while the application holds all of them.
    pub max_records: u32,
}

impl Default for StreamOptions {
    /// 16 buffers of 16 KiB, and up to 256 buffers.
    fn default() -> Self {
        Self { record_size: 16 * 1024, records: 16, max_records: 256 }
    }
}

impl StreamOptions {
    fn check(&self) -> Result<()> {
        if self.records < 2 || self.record_size == 0 {
            return Err(Error::Invalid("a stream has at least 2 records, of a byte each"));
        }
        at_most("records of a stream", self.records.into(), Seed::MAX_TICKETS.into())
    }
}

/// The receiving end. It may move to another thread; within one thread, records are borrowed from
/// it.
///
/// If it is dropped before the sender has closed, the sender is notified and gets
/// [`PeerLoss::Abandoned`].
#[derive(Debug)]
pub struct StreamReceiver {
    shared: Arc<Shared>,
    manager: Manager,
    options: StreamOptions,
    /// The connection that the stream is part of, if any.
    watch: Option<Arc<Watch>>,
    /// For `std::io::Read`: number of bytes of the oldest record that have been read.
    read: usize,
}

#[derive(Debug)]
struct Shared(Mutex<Records>);

impl StreamReceiver {
    /// Creates the receiving end, with [`StreamOptions::default`].
    ///
    /// # Errors
    /// The errors of [`StreamReceiver::create_with`].
    pub fn create(manager: &Manager) -> Result<Self> {
        Self::create_with(manager, StreamOptions::default())
    }

    /// Creates the receiving end.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] and [`Error::Invalid`] for the options; the errors of
    /// [`crate::Card::create_area`], [`crate::SlotBuilder::create`] and, if the manager needs
    /// another notification queue for it, [`crate::Card::create_queue`].
    pub fn create_with(manager: &Manager, options: StreamOptions) -> Result<Self> {
        options.check()?;
        let place = Place::create(manager, options.records, options.record_size as usize)?;
        Ok(Self::over(manager, options, place))
    }

    /// Creates the receiving end in an area of the caller ([`crate::Card::lend`] or
    /// [`crate::Card::create_area`]). The area needs at least `record_size` bytes for each of
    /// `records`; records arrive there. More buffers are created only if `max_records` is larger
    /// than `records`. Once the receiver is dropped and no [`Record`] is left, the area can be
    /// taken back.
    ///
    /// # Errors
    /// The errors of [`StreamReceiver::create_with`]; [`Error::PastEnd`] if the area is too short.
    pub fn create_in(manager: &Manager, area: &MessageArea, options: StreamOptions) -> Result<Self> {
        options.check()?;
        let needed = u64::from(options.records) * u64::from(options.record_size);
        inside("message area", 0, needed, area.len() as u64)?;
        let place = Place::create_in(manager, area, options.records, options.record_size as usize)?;
        Ok(Self::over(manager, options, place))
    }

    fn over(manager: &Manager, options: StreamOptions, mut place: Place) -> Self {
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| {
            place.open_for(shared.clone());
            let state = Records { places: vec![place], buffers: options.records, ..Records::default() };
            Shared(Mutex::new(state))
        });
        Self { shared, manager: manager.clone(), options, watch: None, read: 0 }
    }

    /// Returns the seed for the only sender. If two senders are created from it, they collide, and
    /// the stream stalls or ends with [`PeerLoss::Violation`].
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn make_seed(&self) -> Result<Seed> {
        let first = self.shared.lock().places[0].ticket(0)?;
        Ok(Seed::new(first, self.options.records)?)
    }

    /// Returns the next record, if it has arrived. Returns `None` if the sender has closed and
    /// everything was received.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if nothing has arrived; [`Error::PeerLost`], once, after everything
    /// that arrived in order, then `None` from then on; [`crate::OverrunError`].
    pub fn try_recv(&self) -> Result<Option<Record<'_>>> {
        if let Some(next) = self.shared.lock().next()? {
            return Ok(next);
        }
        self.manager.poll_all()?;
        match self.look(true)? {
            Look::Break(next) => Ok(next),
            Look::Continue(_) => {
                Err(Error::WouldBlock { object: "buffers of the stream", limit: self.shared.lock().buffers })
            }
        }
    }

    /// Waits for the next record and returns it. Busy-polls for a while, then sleeps.
    ///
    /// # Errors
    /// The errors of [`StreamReceiver::try_recv`] except [`Error::WouldBlock`].
    pub fn recv(&self) -> Result<Option<Record<'_>>> {
        self.recv_within(None)
    }

    /// As [`StreamReceiver::recv`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamReceiver::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Record<'_>>> {
        self.recv_within(Some(timeout))
    }

    fn recv_within(&self, timeout: Option<Duration>) -> Result<Option<Record<'_>>> {
        self.manager.wait_for("record", timeout, |about_to_sleep| self.look(about_to_sleep))
    }

    /// Returns a record that was received and not released.
    #[must_use]
    pub fn record(&self, number: u64) -> Option<Record<'_>> {
        let state = self.shared.lock();
        if number < state.received { state.record(number) } else { None }
    }

    /// Frees all records up to and including `up_to`, so that the sender can continue. The borrow
    /// checker prevents this call while a [`Record`] is held.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a record that was not received; [`Error::System`] if the card
    /// cannot be woken. The records are released even then.
    pub fn release(&mut self, up_to: u64) -> Result<()> {
        let mut state = self.shared.lock();
        if up_to >= state.received {
            let limit = state.received.saturating_sub(1);
            return Err(Error::OutOfRange { object: "record", value: up_to, limit });
        }
        if up_to >= state.released {
            self.read = 0;
        }
        state.release(up_to);
        state.return_tickets(&self.manager).map(drop)
    }

    /// Ends the stream for a reason that the caller has learned, for example from the operating
    /// system (section 6.3). Everything that has arrived in order can still be received; then
    /// [`Error::PeerLost`] follows. Does nothing if the stream has already ended, or the sender's
    /// last record has arrived.
    ///
    /// A caller that sleeps in [`StreamReceiver::recv`] notices within a second; at once, if the
    /// manager has a [`crate::Waker`].
    pub fn peer_lost(&self, loss: PeerLoss) {
        let token = {
            let mut state = self.shared.lock();
            state.lose(loss);
            state.token
        };
        self.manager.look_again(token);
    }

    /// Sets the token that [`Manager::ready`] returns when a record has arrived, or the stream has
    /// ended.
    pub fn set_token(&mut self, token: u64) {
        self.shared.lock().token = Some(token);
    }

    /// For a stream of a [`super::StreamPair`]: returns a file that is readable once the connection
    /// has ended. Use it with `poll(2)`, `mio`, `tokio` and the like, in addition to the manager's
    /// file. When it becomes readable, call [`StreamReceiver::peer_ended`].
    #[must_use]
    pub fn peer_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_ref()?.file())
    }

    /// For a stream of a [`super::StreamPair`]: returns `Some` if the connection has ended, with
    /// the maximum time until [`StreamReceiver::try_recv`] reports it. The delay is needed
    /// because the peer's last data may arrive after the operating system's notice. A loop calls
    /// `try_recv` again after that time. The sender reports the end at once.
    #[must_use]
    pub fn peer_ended(&self) -> Option<Duration> {
        self.watch.as_ref()?.grace()
    }

    /// Returns what a waiting caller can have. If there is nothing, makes sure that the sender can
    /// send. If about to sleep, also checks that the sender is alive.
    fn look(&self, about_to_sleep: bool) -> Result<Look<Option<Record<'_>>>> {
        let mut state = self.shared.lock();
        if let Some(next) = state.next()? {
            return Ok(Look::Break(next));
        }
        let watch = self.watch.as_ref().filter(|_| about_to_sleep);
        if let Some(loss) = watch.and_then(|watch| watch.loss(GRACE)) {
            state.lose(loss);
            if let Some(next) = state.next()? {
                return Ok(Look::Break(next));
            }
        }
        self.grow(&mut state);
        let blocked = state.return_tickets(&self.manager)?;
        Ok(Look::Continue(Pause { limit: self.watch.is_some().then_some(GRACE), for_card: blocked }))
    }

    /// Watches the connection. From now on the sender is known to be on this host.
    pub(super) fn set_watch(&mut self, watch: Arc<Watch>, host: u32) {
        self.watch = Some(watch);
        self.shared.lock().expect_from(host);
    }

    /// Doubles the number of buffers if the application holds all existing ones.
    fn grow(&self, state: &mut Records) {
        let more = state.buffers.min(self.options.max_records.saturating_sub(state.buffers));
        let held = state.received == state.count && state.released == state.told;
        if more == 0 || !held || !state.is_starving() || !state.grants.is_empty() {
            return;
        }
        let Ok(mut place) = Place::create(&self.manager, more, self.options.record_size as usize) else {
            // The manager or the card has no more. The stream continues when the application
            // releases some.
            return;
        };
        let Ok(first) = place.ticket(0) else { return };
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        place.open_for(shared);
        state.places.push(place);
        state.buffers += more;
        state.grants.push_back((first, more));
    }
}

impl StreamReceiver {
    /// Copies available bytes, up to the size of `to`, and releases records that were read
    /// completely. Returns the number of bytes; 0 if the sender has closed and everything was read.
    /// Do not mix with [`StreamReceiver::recv`]: use one or the other.
    ///
    /// # Errors
    /// The errors of [`StreamReceiver::try_recv`] and [`StreamReceiver::release`].
    pub fn try_read(&mut self, to: &mut [u8]) -> Result<usize> {
        self.read_with(to, Self::try_recv)
    }

    /// Fills `to` like [`StreamReceiver::try_read`], but waits for missing bytes. Returns the
    /// number of bytes, which is less than the size of `to` only if the sender has closed.
    ///
    /// # Errors
    /// The errors of [`StreamReceiver::recv`] and [`StreamReceiver::release`], if nothing was
    /// read. Otherwise the next call reports them.
    pub fn read_exact_or_end(&mut self, to: &mut [u8]) -> Result<usize> {
        self.read_exact_or_end_within(to, None)
    }

    /// As [`StreamReceiver::read_exact_or_end`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamReceiver::read_exact_or_end`].
    pub fn read_exact_or_end_timeout(&mut self, to: &mut [u8], timeout: Duration) -> Result<usize> {
        self.read_exact_or_end_within(to, Some(timeout))
    }

    fn read_exact_or_end_within(&mut self, to: &mut [u8], timeout: Option<Duration>) -> Result<usize> {
        let start = Instant::now();
        let mut filled = 0;
        while filled < to.len() {
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            match self.read_with(&mut to[filled..], |stream| stream.recv_within(left)) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(_) if filled > 0 => {
                    // The loss is reported only once, and this call does not return it.
                    self.shared.lock().loss_told = false;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn read_with(
        &mut self,
        to: &mut [u8],
        next: impl for<'a> Fn(&'a Self) -> Result<Option<Record<'a>>>,
    ) -> Result<usize> {
        loop {
            let oldest = self.shared.lock().released;
            let record = match self.record(oldest) {
                Some(record) => Some(record),
                None => next(self)?,
            };
            let Some(record) = record else { return Ok(0) };
            let length = to.len().min(record.len() - self.read);
            record.read(self.read, &mut to[..length])?;
            let whole = self.read + length == record.len();
            self.read += length;
            if whole {
                self.release(oldest)?;
            }
            if length > 0 || to.is_empty() {
                return Ok(length);
            }
        }
    }
}

impl std::io::Read for StreamReceiver {
    /// Copies bytes, and releases records that have been read. Waits forever if nothing is
    /// available.
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        Ok(self.read_with(to, |stream| stream.recv())?)
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(watch) = self.watch.as_ref().filter(|_| state.is_finished()) {
            watch.finish();
        }
        // Best effort: the sender also learns of it from the operating system's process watch.
        state.stop(&self.manager);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiverClass for Shared {
    fn process_arrival(&self, arrival: &Arrived<'_>, ready: &mut Ready) {
        let mut state = self.lock();
        ready.add(state.token);
        let arrived = state.places.iter().enumerate().find_map(|(index, place)| {
            let (entry, metadata) = place.arrived(arrival)?;
            Some((index, entry, metadata))
        });
        let Some((place, entry, metadata)) = arrived else { return };
        if let Err(violation) = state.record_arrived(place, entry, &metadata) {
            state.lose(PeerLoss::Violation(violation));
        }
    }

    fn arrivals_lost(&self, ready: &mut Ready) {
        let mut state = self.lock();
        ready.add(state.token);
        state.lose(PeerLoss::Overrun);
    }
}
