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

/// How a stream's buffers are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// The longest record, in bytes, 1 to 1 GiB.
    pub record_size: u32,
    /// Buffers to begin with, 2 to 65,536. One is kept for the end of the stream.
    pub records: u32,
    /// The most that there may become, while the application holds on to all of them.
    pub max_records: u32,
}

impl Default for StreamOptions {
    /// 16 buffers of 16 KiB, and up to 256.
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

/// The receiving end. It may go to another thread; within one, records are borrowed from it.
///
/// Dropped before the sender has closed, it tells the sender, which then gets
/// [`PeerLoss::Abandoned`].
#[derive(Debug)]
pub struct StreamReceiver {
    shared: Arc<Shared>,
    manager: Manager,
    options: StreamOptions,
    /// The connection that it is part of, if any.
    watch: Option<Arc<Watch>>,
    /// For `std::io::Read`: how much of the oldest record has been read.
    read: usize,
}

#[derive(Debug)]
struct Shared(Mutex<Records>);

impl StreamReceiver {
    /// Makes the receiving end, with [`StreamOptions::default`].
    ///
    /// # Errors
    /// Those of [`StreamReceiver::create_with`].
    pub fn create(manager: &Manager) -> Result<Self> {
        Self::create_with(manager, StreamOptions::default())
    }

    /// Makes the receiving end.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] and [`Error::Invalid`] for the options; those of
    /// [`crate::Card::create_area`], [`crate::SlotBuilder::create`] and, if the manager takes
    /// another notification queue for it, [`crate::Card::create_queue`].
    pub fn create_with(manager: &Manager, options: StreamOptions) -> Result<Self> {
        options.check()?;
        let place = Place::create(manager, options.records, options.record_size as usize)?;
        Ok(Self::over(manager, options, place))
    }

    /// Makes the receiving end in an area of the caller's ([`crate::Card::lend`], or a
    /// [`crate::Card::create_area`]'s), of `record_size` bytes for each of `records` at least:
    /// records arrive there. It makes no more buffers by itself unless `max_records` is larger.
    /// Once the receiver is dropped, the area can be taken back, when no [`Record`] is left.
    ///
    /// # Errors
    /// Those of [`StreamReceiver::create_with`]; [`Error::PastEnd`] for an area that is too short.
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

    /// What the one sender is made from. Two that grow from it are in each other's way, and the
    /// stream ends with [`PeerLoss::Violation`] or stalls.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn make_seed(&self) -> Result<Seed> {
        let first = self.shared.lock().places[0].ticket(0)?;
        Ok(Seed::new(first, self.options.records)?)
    }

    /// The next record, if it has come. `None`: the sender has closed, and all was received.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if nothing has come; [`Error::PeerLost`], once, behind all that came
    /// in order, and `None` from then on; [`Error::Overrun`].
    pub fn try_receive(&self) -> Result<Option<Record<'_>>> {
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

    /// The next record; waits for it: looks at memory for a while, then sleeps. A time-out of
    /// `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and those of [`StreamReceiver::try_receive`] but [`Error::WouldBlock`].
    pub fn receive(&self, timeout: Option<Duration>) -> Result<Option<Record<'_>>> {
        self.manager.wait_for("record", timeout, |about_to_sleep| self.look(about_to_sleep))
    }

    /// A record that was received and not released.
    #[must_use]
    pub fn record(&self, number: u64) -> Option<Record<'_>> {
        let state = self.shared.lock();
        if number < state.received { state.record(number) } else { None }
    }

    /// Frees all records up to and including `up_to`, and so lets the sender go on. Who holds a
    /// [`Record`] cannot call this.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a record that was not received; [`Error::System`] if the card
    /// cannot be woken: the records are released all the same.
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

    /// Ends the stream for a reason that somebody else has learned of, for example the operating
    /// system (section 6.3). What has come in order is still received; then [`Error::PeerLost`].
    /// Nothing changes if the stream has already ended, or the sender's last record has come.
    ///
    /// Who sleeps in [`StreamReceiver::receive`] finds out within a second; at once, if the manager
    /// has a [`crate::Waker`].
    pub fn peer_lost(&self, loss: PeerLoss) {
        let token = {
            let mut state = self.shared.lock();
            state.lose(loss);
            state.token
        };
        self.manager.look_again(token);
    }

    /// From now on [`Manager::ready`] names this token when a record has come, or the stream has
    /// ended.
    pub fn set_token(&mut self, token: u64) {
        self.shared.lock().token = Some(token);
    }

    /// Of a [`super::StreamPair`]: what is readable once the connection has ended, for `poll(2)`,
    /// `mio`, `tokio` and the like, beside the manager's file. Whoever is woken by it calls
    /// [`StreamReceiver::peer_ended`].
    #[must_use]
    pub fn peer_file(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref()?.file()
    }

    /// Of a [`super::StreamPair`]: whether the connection has ended, and how long it takes at most
    /// until [`StreamReceiver::try_receive`] says so, for what the peer has sent may come behind
    /// the operating system's word. A loop calls that again then; the sender says so at once.
    #[must_use]
    pub fn peer_ended(&self) -> Option<Duration> {
        self.watch.as_ref()?.grace()
    }

    /// What there is for who waits. If there is nothing, sees to it that the sender can send, and,
    /// if there is time for it, that it is alive.
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

    /// Makes as many buffers again if the application holds on to all that there are.
    fn grow(&self, state: &mut Records) {
        let more = state.buffers.min(self.options.max_records.saturating_sub(state.buffers));
        let held = state.received == state.count && state.released == state.told;
        if more == 0 || !held || !state.is_starving() || !state.grants.is_empty() {
            return;
        }
        let Ok(mut place) = Place::create(&self.manager, more, self.options.record_size as usize) else {
            // The manager or the card has no more; the stream goes on when the application releases
            // some.
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
    /// Copies bytes that have come, as many as there are and `to` has room for, and releases what
    /// was read whole. How many; 0 if the sender has closed, and all was read. Not beside
    /// [`StreamReceiver::receive`]: one or the other.
    ///
    /// # Errors
    /// Those of [`StreamReceiver::try_receive`] and [`StreamReceiver::release`].
    pub fn try_read(&mut self, to: &mut [u8]) -> Result<usize> {
        self.read_with(to, Self::try_receive)
    }

    /// Fills `to`, as [`StreamReceiver::try_read`] does, and waits for what is missing. How much:
    /// less only if the sender has closed. A time-out of `None` waits for ever.
    ///
    /// # Errors
    /// Those of [`StreamReceiver::receive`] and [`StreamReceiver::release`], if nothing was read;
    /// else they come with the next call.
    pub fn read_exact_or_end(&mut self, to: &mut [u8], timeout: Option<Duration>) -> Result<usize> {
        let start = Instant::now();
        let mut filled = 0;
        while filled < to.len() {
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            match self.read_with(&mut to[filled..], |stream| stream.receive(left)) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(_) if filled > 0 => {
                    // It is told once, and now nobody is listening.
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
    /// Copies; waits for ever if nothing is there. Releases what has been read.
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        Ok(self.read_with(to, |stream| stream.receive(None))?)
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(watch) = self.watch.as_ref().filter(|_| state.is_finished()) {
            watch.finish();
        }
        // Best effort: the sender also learns of it from who watches processes.
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
