//! Completion of requests: handles, room in the work queue, and sleeping until the card has
//! completed requests.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{State, Terminus, TerminusInner};
use crate::core::polling::nap_until;
use crate::error::{Error, Result};
use crate::hamlyn::work_queue::WorkQueue;

/// What a timeout error names when the work queue is full.
pub(super) const ROOM: &str = "room in the work queue";

/// Distance beyond the last posted request of a request that will not be reached soon.
const FAR: u64 = 1 << 30;

impl Terminus {
    /// Waits until the card has completed every posted request. Use it before a process ends, for
    /// example, because its unsent messages would be abandoned. Busy-polls for a while, then
    /// sleeps. `None` waits forever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::System`]. The handles report which requests were refused.
    pub fn finish(&self, timeout: Option<Duration>) -> Result<()> {
        let idle = || self.inner.observe().queue.is_idle().then_some(());
        let last = |queue: &WorkQueue| Some(queue.posted());
        self.inner.wait_for("completion of all requests", timeout, last, idle)
    }

    /// Waits until the card has completed the request at a position ([`Handle::request`],
    /// [`Error::InFlight`]), and so all requests before it. Busy-polls for a while, then sleeps.
    /// `None` waits forever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::System`].
    pub fn wait_completed(&self, request: u64, timeout: Option<Duration>) -> Result<()> {
        let done = || (self.completed() >= request).then_some(());
        self.inner.wait_for("completion of what was sent", timeout, |_| Some(request), done)
    }

    /// Waits until the card has completed half of the requests in flight. For callers that found no
    /// room for a request ([`Error::WouldBlock`], [`Error::InFlight`]). Returns at once if nothing
    /// is in flight.
    ///
    /// # Errors
    /// The errors of [`Terminus::wait_completed`].
    pub fn wait_progress(&self, timeout: Option<Duration>) -> Result<()> {
        self.inner.half_way().map_or(Ok(()), |request| self.wait_completed(request, timeout))
    }

    /// Makes [`Terminus::file`] readable once there is room in the work queue. Returns true if
    /// there already is; the file may then not become readable for it. After the work queue was
    /// full, the wake-up comes when half of it is free, not for each request.
    ///
    /// ```no_run
    /// # fn example(
    /// #     terminus: hamlyn::Terminus,
    /// #     ticket: hamlyn::Ticket,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// use hamlyn::Message;
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let file = terminus.file()?;
    /// for number in 0..1000 {
    ///     let message = Message::to(&ticket).word(number);
    ///     while let Err(error) = terminus.try_send(&message, b"one of many") {
    ///         if !error.is_would_block() {
    ///             return Err(error.into());
    ///         }
    ///         // An event loop would do other work meanwhile.
    ///         if !terminus.arm_room()? {
    ///             poll(&mut [PollFd::new(&file, PollFlags::IN)], None)?;
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::System`]; [`Error::Unsupported`] if the driver or card has no wake-up for this.
    pub fn arm_room(&self) -> Result<bool> {
        let wanted = {
            let state = self.inner.observe();
            state.queue.half_way().filter(|_| state.queue.room() == 0)
        };
        wanted.map_or(Ok(true), |wanted| self.inner.arm(wanted))
    }

    /// Returns a file descriptor for `poll(2)` and the like. It becomes readable once the condition
    /// of [`Terminus::arm_room`] or [`Handle::arm`] is met. A terminus is armed for one condition:
    /// arming it again replaces the previous one, and a [`crate::Manager`] arms its own terminus.
    /// Several termini and queues of the card may share the file: check the condition, and arm
    /// again before each wait.
    ///
    /// # Errors
    /// The errors of [`Terminus::arm_room`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.inner.attachment.terminus_file(self.number())
    }
}

impl TerminusInner {
    /// Waits until `look` returns a value. Busy-polls for a while, then sleeps until the card has
    /// completed the request that `wanted` returns. If `wanted` returns `None`, there is nothing to
    /// wait for.
    pub(crate) fn wait_for<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        wanted: impl Fn(&WorkQueue) -> Option<u64>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let start = Instant::now();
        let timed_out = || Error::TimedOut { what, after: timeout.unwrap_or_default() };
        let asleep = match self.poller.poll(timeout, &mut look) {
            Ok(found) => return Ok(found),
            Err(_) if timeout.is_some_and(|limit| limit.is_zero()) => return Err(timed_out()),
            Err(asleep) => asleep,
        };
        loop {
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            let wanted = wanted(&self.observe().queue);
            match wanted.map_or(Ok(()), |wanted| self.sleep(wanted, left)) {
                // With an older driver, or in a simulation, there is no wake-up.
                Err(Error::Unsupported(_)) => {
                    return nap_until(left, look).ok_or_else(timed_out);
                }
                slept => slept?,
            }
            if let Some(found) = look() {
                asleep.found();
                return Ok(found);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(timed_out());
            }
        }
    }

    /// Sleeps until the card has completed the request at a position. May return early.
    fn sleep(&self, request: u64, timeout: Option<Duration>) -> Result<()> {
        self.attachment.wait_terminus(self.parts.terminus, request as u32, timeout)
    }

    /// Makes the file readable once the card has completed the request at a position. Returns true
    /// if it already has.
    pub(crate) fn arm(&self, request: u64) -> Result<bool> {
        self.attachment.arm_terminus(self.parts.terminus, request as u32)
    }

    /// Disarms the file: arms it for a request that will not be reached soon.
    pub(crate) fn disarm(&self) -> Result<()> {
        let last = self.observe().queue.posted();
        self.arm(last + FAR).map(drop)
    }

    /// Records that a caller found no room, or lacked another resource that the card frees when it
    /// completes requests.
    pub(crate) fn note_behind(&self) {
        let mut state = self.observe();
        self.fall_behind(&mut state);
    }

    pub(super) fn fall_behind(&self, state: &mut State) {
        state.behind.get_or_insert(state.queue.completed());
        self.behind.store(true, Ordering::SeqCst);
    }

    /// Returns the request that a caller waiting for room sleeps for ([`WorkQueue::half_way`]).
    pub(crate) fn half_way(&self) -> Option<u64> {
        self.observe().queue.half_way()
    }

    /// If a caller waits for room, returns the request that must complete first.
    pub(crate) fn behind(&self) -> Option<u64> {
        if !self.behind.load(Ordering::SeqCst) {
            return None;
        }
        let state = self.observe();
        state.behind.map(|_| state.queue.half_way().unwrap_or(state.queue.completed()))
    }

    /// Returns true if the card has completed requests since a caller found no room. The condition
    /// is reported once.
    pub(crate) fn take_room(&self) -> bool {
        if !self.behind.load(Ordering::Acquire) {
            return false;
        }
        let mut state = self.observe();
        let since = state.behind.filter(|since| state.queue.completed() > *since || state.queue.is_idle());
        if since.is_some() {
            state.behind = None;
            self.behind.store(false, Ordering::Release);
        }
        since.is_some()
    }
}

/// A request in flight. It shows when the work-queue entry and buffers may be used again (sections
/// 2.3 and 3.2).
///
/// If the handle is dropped, the message is still sent. A refusal is remembered while the handle
/// lives.
#[derive(Debug)]
pub struct Handle {
    terminus: Terminus,
    request: u64,
}

impl Handle {
    pub(super) fn new(terminus: &Terminus, request: u64) -> Self {
        Self { terminus: terminus.clone(), request }
    }

    /// Returns the request's position among the terminus' requests; the first is 1.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Returns true if the card has completed the request: it is sent, and its buffers may be used
    /// again.
    ///
    /// # Errors
    /// [`Error::Refused`] if the card refused the request.
    pub fn is_complete(&self) -> Result<bool> {
        self.outcome().map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    /// Waits until the card has completed the request. Busy-polls for a while, then sleeps. `None`
    /// waits forever.
    ///
    /// # Errors
    /// The errors of [`Handle::is_complete`]; [`Error::TimedOut`], [`Error::System`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        self.wait_for("completion of a request", timeout, Self::outcome)
    }

    /// Makes [`Terminus::file`] readable once the card has completed the request. Returns true if
    /// it already has; the file may then not become readable for it.
    ///
    /// ```no_run
    /// # fn example(
    /// #     terminus: hamlyn::Terminus,
    /// #     handle: hamlyn::Handle,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// while !handle.arm()? {
    ///     poll(&mut [PollFd::new(&terminus.file()?, PollFlags::IN)], None)?;
    /// }
    /// assert!(handle.is_complete()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Terminus::arm_room`].
    pub fn arm(&self) -> Result<bool> {
        Ok(self.outcome().is_some() || self.terminus.inner.arm(self.request)?)
    }

    pub(crate) fn wait_for<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        look: impl Fn(&Self) -> Option<Result<T>>,
    ) -> Result<T> {
        let wanted = |_: &WorkQueue| Some(self.request);
        self.terminus.inner.wait_for(what, timeout, wanted, || look(self))?
    }

    /// Returns the word that the request fetched, or `None` if the request is not complete yet.
    pub(crate) fn fetched(&self) -> Option<Result<u64>> {
        self.terminus.inner.observe().queue.fetched(self.request)
    }

    fn outcome(&self) -> Option<Result<()>> {
        self.terminus.inner.observe().queue.outcome(self.request)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.terminus.inner.lock().queue.forget(self.request);
    }
}
