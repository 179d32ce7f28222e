//! The state of a terminus that its clones, handles and send buffers share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hamlyn_abi::hamlyn::request::{HAMLYN_SEND_BUFFERS, HamlynGather};
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;

use super::uses::Uses;
use crate::core::polling::{Poller, nap_until};
use crate::error::{Error, Result};
use crate::hamlyn::attach::{Attachment, TerminusParts};
use crate::hamlyn::request::Request;
use crate::hamlyn::work_queue::WorkQueue;

/// What a timeout error names when the work queue is full.
pub(super) const ROOM: &str = "room in the work queue";

/// Distance beyond the last posted request of a request that will not be reached soon.
const FAR: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct TerminusInner {
    attachment: Arc<dyn Attachment>,
    parts: TerminusParts,
    packet_size: u32,
    poller: Poller,
    state: Mutex<State>,
    /// Number of posted requests, modulo 2^32.
    posted: AtomicU32,
    /// A caller waits for a report of room ([`TerminusInner::take_room`]).
    behind: AtomicBool,
}

/// State that the threads of a terminus share.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) queue: WorkQueue,
    pub(crate) uses: Uses,
    /// One bit per send-buffer tag: set while it is in use.
    tags: u32,
    /// Number of completed requests when a non-waiting caller found no room.
    behind: Option<u64>,
}

/// Requests that are being posted. The terminus is locked, so handles must not be dropped
/// meanwhile.
#[derive(Debug)]
pub(super) struct Posting<'a> {
    inner: &'a TerminusInner,
    state: MutexGuard<'a, State>,
    /// The work queue's tail behind what was put.
    tail: Option<u32>,
}

impl Posting<'_> {
    /// Stores a request into the work queue, if there is room. Returns its position. If
    /// `is_watched`, its result is kept for a handle.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        request: &Request<'_>,
        gathered: &[HamlynGather],
        is_watched: bool,
    ) -> Option<u64> {
        let (inner, state) = (self.inner, &mut *self.state);
        if !gathered.is_empty() || state.queue.next_entry().is_none() {
            inner.take_in(state);
        }
        let Some(entry) = state.queue.next_entry() else {
            inner.fall_behind(state);
            return None;
        };
        request.store(&inner.parts.window, entry);
        let (position, tail) = state.queue.post(is_watched);
        for piece in gathered {
            state.uses.add(piece, position);
        }
        self.tail = Some(tail);
        Some(position)
    }

    /// Shows the card what was put, by one store and one barrier. Returns whether the doorbell must
    /// be rung.
    #[inline(always)]
    pub(super) fn publish(self) -> bool {
        let Some(tail) = self.tail else { return false };
        self.inner.posted.store(tail, Ordering::Relaxed);
        self.inner.parts.window.publish_request(tail)
    }
}

impl TerminusInner {
    pub(super) fn create(attachment: &Arc<dyn Attachment>, packet_size: u32, weight: u32) -> Result<Self> {
        let parts = attachment.create_terminus(weight)?;
        Ok(Self {
            attachment: attachment.clone(),
            parts,
            packet_size,
            poller: Poller::default(),
            state: Mutex::default(),
            posted: AtomicU32::new(0),
            behind: AtomicBool::new(false),
        })
    }

    pub(crate) fn attachment(&self) -> &Arc<dyn Attachment> {
        &self.attachment
    }

    pub(crate) fn number(&self) -> u32 {
        self.parts.terminus
    }

    pub(super) fn packet_size(&self) -> u32 {
        self.packet_size
    }

    pub(super) fn ring(&self) -> Result<()> {
        self.parts.doorbell.ring()
    }

    #[cold]
    pub(super) fn post_when_possible(
        &self,
        request: &Request<'_>,
        gathered: &[HamlynGather],
    ) -> Result<(u64, bool)> {
        self.wait_for(ROOM, None, WorkQueue::half_way, || self.try_post(request, gathered, true))
    }

    /// Posts the request if there is room. Returns its position, and whether the doorbell must be
    /// rung. If `is_watched`, its result is kept for a handle.
    #[inline(always)]
    pub(super) fn try_post(
        &self,
        request: &Request<'_>,
        gathered: &[HamlynGather],
        is_watched: bool,
    ) -> Option<(u64, bool)> {
        let mut posting = self.posting();
        let position = posting.put(request, gathered, is_watched)?;
        Some((position, posting.publish()))
    }

    /// Begins to post requests that share a store of the queue's tail.
    #[inline(always)]
    pub(super) fn posting(&self) -> Posting<'_> {
        Posting { inner: self, state: self.lock(), tail: None }
    }

    /// Returns whether this number of requests can be posted now. Takes no lock.
    #[inline]
    pub(crate) fn has_room(&self, requests: u32) -> bool {
        let under_way = self.posted.load(Ordering::Relaxed).wrapping_sub(self.parts.status.completed());
        under_way <= HAMLYN_WORK_QUEUE_USABLE - requests
    }

    /// Returns the number of requests that the card has refused, modulo 2^32.
    pub(crate) fn refused(&self) -> u32 {
        self.parts.status.refused()
    }

    /// Locks the state and updates it with what the card has written.
    pub(crate) fn observe(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        self.take_in(&mut state);
        state
    }

    fn take_in(&self, state: &mut State) {
        let status = &self.parts.status;
        let result = |number| (status.reason(number), status.fetched(number));
        if state.queue.observe(status.completed(), result) {
            state.uses.release(state.queue.completed());
        }
    }

    pub(super) fn take_tag(&self) -> Result<u32> {
        let mut state = self.observe();
        // Requests in flight name their buffer by its tag, also if the buffer is gone.
        let is_free = |tag: &u32| state.tags & (1 << tag) == 0 && !state.uses.has(*tag);
        let Some(tag) = (0..HAMLYN_SEND_BUFFERS).find(is_free) else {
            let remedy = "drop a send buffer, or take another terminus";
            return Err(Error::Exhausted { object: "send-buffer tags", limit: HAMLYN_SEND_BUFFERS, remedy });
        };
        state.tags |= 1 << tag;
        Ok(tag)
    }

    pub(crate) fn return_tag(&self, tag: u32) {
        self.lock().tags &= !(1 << tag);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
                // An older driver cannot wake this process.
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

impl Drop for TerminusInner {
    fn drop(&mut self) {
        // Fails if the card is gone; then there is no terminus to destroy.
        let _ = self.attachment.destroy_terminus(self.parts.terminus);
    }
}
