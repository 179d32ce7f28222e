//! Completion of requests: handles, and waits for requests and for room in the work queue.

use std::os::fd::AsFd;
use std::time::Duration;

use super::Terminus;
use crate::error::Result;
use crate::hamlyn::work_queue::WorkQueue;

impl Terminus {
    /// Waits until the card has completed every posted request. Use it before a process ends, for
    /// example, because its unsent messages would be abandoned. Busy-polls for a while, then
    /// sleeps.
    ///
    /// # Errors
    /// [`crate::Error::System`]. The handles report which requests were refused.
    pub fn finish(&self) -> Result<()> {
        self.finish_within(None)
    }

    /// As [`Terminus::finish`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`Terminus::finish`].
    pub fn finish_timeout(&self, timeout: Duration) -> Result<()> {
        self.finish_within(Some(timeout))
    }

    fn finish_within(&self, timeout: Option<Duration>) -> Result<()> {
        let idle = || self.inner.observe().queue.is_idle().then_some(());
        let last = |queue: &WorkQueue| Some(queue.posted());
        self.inner.wait_for("completion of all requests", timeout, last, idle)
    }

    /// Waits until the card has completed the request at a position ([`Handle::request`],
    /// [`crate::InFlightError`]), and so all requests before it. Busy-polls for a while, then
    /// sleeps.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn wait_completed(&self, request: u64) -> Result<()> {
        self.wait_completed_within(request, None)
    }

    /// As [`Terminus::wait_completed`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`Terminus::wait_completed`].
    pub fn wait_completed_timeout(&self, request: u64, timeout: Duration) -> Result<()> {
        self.wait_completed_within(request, Some(timeout))
    }

    pub(crate) fn wait_completed_within(&self, request: u64, timeout: Option<Duration>) -> Result<()> {
        let done = || (self.completed() >= request).then_some(());
        self.inner.wait_for("completion of what was sent", timeout, |_| Some(request), done)
    }

    /// Waits until the card has completed half of the requests in flight. For callers that found no
    /// room for a request ([`crate::Error::WouldBlock`], [`crate::InFlightError`]). Returns at
    /// once if nothing is in flight.
    ///
    /// # Errors
    /// The errors of [`Terminus::wait_completed`].
    pub fn wait_progress(&self) -> Result<()> {
        self.wait_progress_within(None)
    }

    /// As [`Terminus::wait_progress`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`Terminus::wait_progress`].
    pub fn wait_progress_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_progress_within(Some(timeout))
    }

    pub(crate) fn wait_progress_within(&self, timeout: Option<Duration>) -> Result<()> {
        self.inner.half_way().map_or(Ok(()), |request| self.wait_completed_within(request, timeout))
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
    /// [`crate::Error::System`]; [`crate::Error::Unsupported`] if the driver or card has no wake-up
    /// for this.
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
        self.inner.attachment().terminus_file(self.number())
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
    context: u64,
}

impl Handle {
    pub(super) fn new(terminus: &Terminus, request: u64, context: u64) -> Self {
        Self { terminus: terminus.clone(), request, context }
    }

    /// Returns the word that the caller gave to the message
    /// ([`Message::context`](crate::Message::context)), or 0.
    #[must_use]
    pub fn context(&self) -> u64 {
        self.context
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
    /// [`crate::RefusedError`] if the card refused the request.
    pub fn is_complete(&self) -> Result<bool> {
        self.outcome().map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    /// Waits until the card has completed the request. Busy-polls for a while, then sleeps.
    ///
    /// # Errors
    /// The errors of [`Handle::is_complete`]; [`crate::Error::System`].
    pub fn wait(&self) -> Result<()> {
        self.wait_within(None)
    }

    /// As [`Handle::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`Handle::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_within(Some(timeout))
    }

    pub(crate) fn wait_within(&self, timeout: Option<Duration>) -> Result<()> {
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
