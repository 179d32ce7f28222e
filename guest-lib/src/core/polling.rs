//! How a waiter divides its time between polling memory and sleeping.
//!
//! A sleep costs an interrupt and two context switches: some 20 us on a fast host, some 500 us on a
//! slow or busy one. Polling finds the awaited thing at once, and costs a processor. [`Poller`]
//! chooses as Linux's halt polling does: the time that it polls doubles while waits are short, and
//! drops to zero after a wait that took longer than a limit.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::thread::sched_yield;

use crate::core::waiting::Deadline;
use crate::error::Result as LibraryResult;

/// The shortest window that polls.
const SHORTEST: Duration = Duration::from_micros(20);
/// Number of sleeps after which a waiter polls for the whole limit, in case only the wake-ups took
/// long. The number doubles after each such poll that finds nothing, up to the second value.
const FIRST_PROBE: u32 = 16;
const RAREST_PROBE: u32 = 1024;
/// The most polls between two reads of the clock, and the time after which it is read again at each
/// poll: some callers' polls take long.
const LOOKS: u32 = 32;
const SLOW: Duration = Duration::from_micros(5);
/// How often a polling waiter yields its processor: what it waits for may be the work of another
/// process of the same processor. A message that comes sooner costs no system call.
const YIELD: Duration = Duration::from_micros(50);
/// Number of yields before a waiter that cannot be woken starts to nap.
const YIELDS_BEFORE_NAP: u32 = 1000;
const NAP: Duration = Duration::from_micros(50);

/// The longest time that a waiter polls memory before it sleeps.
///
/// Within this limit a waiter adapts to what it waits for. The time that it polls doubles while
/// waits are short. After a wait that took longer than the limit, it sleeps at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    limit: Duration,
}

impl Polling {
    /// Sleeps at once if there is nothing: frees the processor, and costs a wake-up for each wait.
    pub const NEVER: Self = Self::up_to(Duration::ZERO);
    /// Polls for up to a second: for the lowest latency, with a processor for each waiter. Only a
    /// waiter that sleeps notices the loss of its peer and a [`crate::Waker`], so both come up to a
    /// second late.
    pub const MOST: Self = Self::up_to(Duration::from_secs(1));

    /// Polls for at most `limit` in each wait.
    #[must_use]
    pub const fn up_to(limit: Duration) -> Self {
        Self { limit }
    }
}

impl Default for Polling {
    /// Polls for up to 1 ms, about the time of a sleep and a wake-up on a slow or busy host.
    fn default() -> Self {
        Self::up_to(Duration::from_millis(1))
    }
}

/// The waiting policy of one object, shared by the threads that wait at it.
#[derive(Debug)]
#[doc(hidden)]
pub struct Poller {
    /// The limit, and how long the next wait polls, in nanoseconds.
    limit: AtomicU64,
    window: AtomicU64,
    /// Length of the last waits that found nothing, in nanoseconds: each may be a part of a longer
    /// one.
    missed: AtomicU64,
    /// Number of sleeps since the last wait that polling ended, or since the last probe.
    sleeps: AtomicU32,
    /// Number of sleeps at which the next probe is due.
    probe: AtomicU32,
    /// The wait of an event loop, which sleeps elsewhere.
    armed: Mutex<Option<Wait>>,
}

/// A wait that polling has not ended so far.
#[derive(Debug, Clone, Copy)]
struct Wait {
    begun: Instant,
    is_probe: bool,
}

impl Default for Poller {
    fn default() -> Self {
        Self::new(Polling::default())
    }
}

impl Poller {
    #[must_use]
    pub fn new(polling: Polling) -> Self {
        Self {
            limit: AtomicU64::new(nanoseconds(polling.limit)),
            window: AtomicU64::new(nanoseconds(polling.limit)),
            missed: AtomicU64::new(0),
            sleeps: AtomicU32::new(0),
            probe: AtomicU32::new(FIRST_PROBE),
            armed: Mutex::default(),
        }
    }

    /// Changes the limit for later waits.
    pub(crate) fn set(&self, polling: Polling) {
        if polling.limit == self.limit() {
            return;
        }
        self.begin_anew();
        self.limit.store(nanoseconds(polling.limit), Ordering::Relaxed);
        self.window.store(nanoseconds(polling.limit), Ordering::Relaxed);
    }

    fn begin_anew(&self) {
        self.missed.store(0, Ordering::Relaxed);
        self.sleeps.store(0, Ordering::Relaxed);
        self.probe.store(FIRST_PROBE, Ordering::Relaxed);
    }

    fn limit(&self) -> Duration {
        Duration::from_nanos(self.limit.load(Ordering::Relaxed))
    }

    /// Polls for as long as has paid off lately, but not longer than `timeout`. On failure the
    /// caller sleeps, and keeps the returned [`Asleep`] until it has found what it waits for.
    pub(crate) fn poll<T>(
        &self,
        timeout: Option<Duration>,
        look: impl FnMut() -> Option<T>,
    ) -> Result<T, Asleep<'_>> {
        self.poll_once(timeout, look).map_err(|wait| Asleep { poller: self, wait, has_found: false })
    }

    /// Polls, then sleeps, until `look` finds something in `state`. `sleep` gets the time left, and
    /// may return early. `what` names the awaited thing in the error.
    pub(crate) fn wait<S: ?Sized, T>(
        &self,
        state: &mut S,
        what: &'static str,
        timeout: Option<Duration>,
        mut look: impl FnMut(&mut S) -> Option<T>,
        mut sleep: impl FnMut(&mut S, Option<Duration>) -> LibraryResult<()>,
    ) -> LibraryResult<T> {
        let deadline = Deadline::new(timeout);
        let asleep = match self.poll(timeout, || look(state)) {
            Ok(found) => return Ok(found),
            Err(asleep) => asleep,
        };
        loop {
            if let Some(found) = look(state) {
                asleep.found();
                return Ok(found);
            }
            sleep(state, deadline.check(what)?)?;
        }
    }

    /// Polls for an event loop, before it arms a file and sleeps elsewhere. Its next call of this
    /// ends that wait. `came` tells whether what the loop waits for has come since the last call.
    /// Returns whether it is there now.
    pub fn poll_before_arming(&self, came: bool, mut look: impl FnMut() -> bool) -> bool {
        let armed = || self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, found) = (armed().take(), look());
        if let Some(wait) = before {
            self.slept(wait, came || found);
        }
        if found {
            return true;
        }
        let wait = self.poll_once(None, || look().then_some(())).err();
        *armed() = wait;
        wait.is_none()
    }

    fn poll_once<T>(
        &self,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Wait> {
        if let Some(found) = look() {
            if self.missed.load(Ordering::Relaxed) != 0 {
                self.missed.store(0, Ordering::Relaxed);
            }
            return Ok(found);
        }
        let begun = Instant::now();
        let (window, is_probe) = self.window(timeout);
        if let Some(found) = look_until(begun, timeout.map_or(window, |limit| limit.min(window)), look) {
            if is_probe {
                self.widen(begun.elapsed());
            }
            self.begin_anew();
            return Ok(found);
        }
        Err(Wait { begun, is_probe })
    }

    /// Returns how long to poll, and whether this is longer than the last waits suggest. A wait
    /// that is too short for that does not probe.
    fn window(&self, timeout: Option<Duration>) -> (Duration, bool) {
        let (limit, window) = (self.limit(), Duration::from_nanos(self.window.load(Ordering::Relaxed)));
        let is_due = self.sleeps.load(Ordering::Relaxed) >= self.probe.load(Ordering::Relaxed);
        let is_probe = is_due && timeout.is_none_or(|timeout| timeout >= limit);
        if is_probe { (limit, true) } else { (window, false) }
    }

    /// Polls for twice this time from now on, within the limit.
    fn widen(&self, took: Duration) {
        let window = (took * 2).max(SHORTEST).min(self.limit());
        self.window.store(nanoseconds(window), Ordering::Relaxed);
    }

    /// Adapts to a wait that ended with a sleep. Waits that have found nothing count as one, with
    /// the next that finds something or once they are longer than the limit together.
    fn slept(&self, wait: Wait, has_found: bool) {
        let missed = Duration::from_nanos(self.missed.load(Ordering::Relaxed));
        let took = missed + wait.begun.elapsed();
        let is_long = took > self.limit();
        let is_over = has_found || is_long;
        self.missed.store(if is_over { 0 } else { nanoseconds(took) }, Ordering::Relaxed);
        if !is_over && !wait.is_probe {
            return;
        }
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        if wait.is_probe {
            let next = (self.probe.load(Ordering::Relaxed) * 2).min(RAREST_PROBE);
            self.probe.store(next, Ordering::Relaxed);
            self.sleeps.store(0, Ordering::Relaxed);
        }
        let window = Duration::from_nanos(self.window.load(Ordering::Relaxed));
        if is_long {
            self.window.store(0, Ordering::Relaxed);
        } else if has_found {
            self.widen(window);
        }
    }
}

/// A wait that polling did not end. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the wait ends when this is dropped"]
pub(crate) struct Asleep<'a> {
    poller: &'a Poller,
    wait: Wait,
    has_found: bool,
}

impl Asleep<'_> {
    /// Ends the wait: what the caller waited for is there.
    pub(crate) fn found(mut self) {
        self.has_found = true;
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.poller.slept(self.wait, self.has_found);
    }
}

/// Polls until `look` returns a value or `limit` has passed since `begun`.
fn look_until<T>(begun: Instant, limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let (mut elapsed, mut yielded, mut looks) = (begun.elapsed(), Duration::ZERO, 1);
    while elapsed < limit {
        // Once for several looks: an emulated processor leaves its inner loop for it.
        std::hint::spin_loop();
        for _ in 0..looks {
            if let Some(found) = look() {
                return Some(found);
            }
        }
        let before = std::mem::replace(&mut elapsed, begun.elapsed());
        looks = if elapsed - before > SLOW { 1 } else { (looks * 2).min(LOOKS) };
        if elapsed - yielded >= YIELD {
            sched_yield();
            yielded = elapsed;
        }
    }
    None
}

/// Polls until `look` returns a value or the timeout (`None`: never) has expired, and yields the
/// processor in between. Never sleeps.
pub(crate) fn poll_until<T>(timeout: Option<Duration>, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    look().or_else(|| look_until(Instant::now(), timeout.unwrap_or(Duration::MAX), look))
}

/// Like [`poll_until`], for events that raise no interrupt and may take long: sleeps briefly
/// between polls after a while.
pub(crate) fn nap_until<T>(timeout: Option<Duration>, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    let mut yields = 0;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if timeout.is_some_and(|limit| begun.elapsed() >= limit) {
            return None;
        }
        if yields < YIELDS_BEFORE_NAP {
            sched_yield();
            yields += 1;
        } else {
            std::thread::sleep(NAP);
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough that no test takes as long.
    const LIMIT: Duration = Duration::from_secs(10);

    fn poller() -> Poller {
        Poller::new(Polling::up_to(LIMIT))
    }

    /// Returns a wait that began this long ago.
    fn wait(ago: Duration) -> Wait {
        Wait { begun: Instant::now().checked_sub(ago).unwrap(), is_probe: false }
    }

    fn window(poller: &Poller) -> Duration {
        poller.window(None).0
    }

    #[test]
    fn window_doubles_up_to_limit() {
        let poller = poller();
        assert_eq!(window(&poller), LIMIT, "the first wait polls");
        poller.slept(wait(2 * LIMIT), true);
        assert_eq!(window(&poller), Duration::ZERO, "a long wait ends polling");
        let mut expected = SHORTEST;
        for _ in 0..10 {
            poller.slept(wait(Duration::ZERO), true);
            assert_eq!(window(&poller), expected);
            expected *= 2;
        }
        poller.widen(LIMIT);
        assert_eq!(window(&poller), LIMIT);
    }

    #[test]
    fn waits_that_find_nothing_add_up() {
        let poller = poller();
        let miss = |time| poller.slept(wait(time), false);
        // A look without a timeout, as of an event loop, changes nothing.
        drop(poller.poll(Some(Duration::ZERO), || None::<()>).unwrap_err());
        miss(LIMIT / 2);
        assert_eq!((window(&poller), poller.sleeps.load(Ordering::Relaxed)), (LIMIT, 0));
        miss(LIMIT * 2 / 3);
        assert_eq!((window(&poller), poller.sleeps.load(Ordering::Relaxed)), (Duration::ZERO, 1));
        // Parts of one wait that is too long, the last of which finds something.
        miss(LIMIT / 2);
        poller.slept(wait(LIMIT * 2 / 3), true);
        assert_eq!(window(&poller), Duration::ZERO);
        // Something that comes between begins anew.
        miss(LIMIT / 2);
        poller.poll(None, || Some(())).unwrap();
        poller.slept(wait(LIMIT * 2 / 3), true);
        assert_eq!(window(&poller), SHORTEST);
    }

    #[test]
    fn probe_comes_after_many_sleeps() {
        let poller = poller();
        let sleep = |times| (0..times).for_each(|_| poller.slept(wait(2 * LIMIT), true));
        sleep(FIRST_PROBE - 1);
        assert_eq!(poller.window(None), (Duration::ZERO, false));
        sleep(1);
        assert_eq!(poller.window(None), (LIMIT, true));
        assert_eq!(poller.window(Some(LIMIT / 2)), (Duration::ZERO, false), "it is too short");
        // It finds nothing: the next comes after twice as many.
        poller.slept(Wait { is_probe: true, ..wait(2 * LIMIT) }, true);
        sleep(2 * FIRST_PROBE - 1);
        assert_eq!(poller.window(None), (Duration::ZERO, false));
        sleep(1);
        // It finds something: later waits poll.
        let mut looks = 0;
        let third = || {
            looks += 1;
            (looks == 3).then_some(())
        };
        poller.poll(None, third).unwrap();
        let (polls, is_probe) = poller.window(None);
        assert!(polls >= SHORTEST && !is_probe);
    }

    #[test]
    fn rare_probes_do_not_become_rarer() {
        let poller = poller();
        for _ in 0..20 {
            poller.slept(Wait { is_probe: true, ..wait(2 * LIMIT) }, false);
        }
        assert_eq!(poller.probe.load(Ordering::Relaxed), RAREST_PROBE);
    }

    #[test]
    fn never_looks_once() {
        let poller = Poller::new(Polling::NEVER);
        for _ in 0..100 {
            let mut looks = 0;
            let look = || {
                looks += 1;
                None::<()>
            };
            poller.poll(None, look).unwrap_err().found();
            assert_eq!(looks, 1);
        }
    }

    #[test]
    fn event_loop_ends_its_wait_with_next_call() {
        let poller = poller();
        assert!(poller.poll_before_arming(false, || true));
        *poller.armed.lock().unwrap() = Some(wait(2 * LIMIT));
        assert!(!poller.poll_before_arming(false, || false), "it was away for long, so it does not poll");
        assert!(!poller.poll_before_arming(false, || false), "it was woken for something else");
        assert_eq!(window(&poller), Duration::ZERO);
        assert!(!poller.poll_before_arming(true, || false));
        assert_eq!(window(&poller), SHORTEST, "it was away briefly");
        assert!(poller.poll_before_arming(false, || true));
        assert_eq!(window(&poller), SHORTEST * 2);
    }

    #[test]
    fn set_changes_limit() {
        let poller = poller();
        poller.set(Polling::NEVER);
        poller.slept(wait(Duration::ZERO), true);
        assert_eq!(window(&poller), Duration::ZERO);
        poller.set(Polling::up_to(LIMIT));
        assert_eq!(window(&poller), LIMIT);
    }

    #[test]
    fn poll_until_ends_with_timeout() {
        let mut looks = 0;
        let mut look = |last| {
            looks += 1;
            (looks == last).then_some(looks)
        };
        assert_eq!(poll_until(None, || look(100)), Some(100));
        assert_eq!(poll_until(Some(Duration::ZERO), || look(0)), None);
        assert_eq!(nap_until(Some(Duration::ZERO), || look(0)), None);
        assert_eq!(nap_until(None, || look(2000)), Some(2000));
    }
}
