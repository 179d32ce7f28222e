//! Sleeping on an object of a card. A sleeper sets the object's `armed` word, checks once more, and
//! is woken by the interrupt handler.
//!
//! A word may have several sleepers. If the card keeps a count for the object, as for the requests
//! of a terminus, a second word holds the awaited number: the least that any sleeper waits for.
//! When the card has fired, all sleepers check again and rearm.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hamlyn_abi::family::sleep::*;
use hamlyn_sys::{Mapping, barrier};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// The part of a window that contains these words.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    mapping: Arc<Mapping>,
    /// Offset of the vectors' pending words.
    pending: usize,
}

/// Offsets of an object's words, in bytes from the start of that part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub(crate) armed: usize,
    pub(crate) wanted: Option<usize>,
}

/// The card's counter for an object, modulo 2^32.
pub(crate) trait Count: Debug + Send + Sync {
    fn count(&self) -> u32;
}

impl Control {
    pub(crate) fn new(mapping: Mapping, pending: u32) -> Self {
        Self { mapping: Arc::new(mapping), pending: pending as usize }
    }

    pub(crate) fn clear_pending(&self, vector: u32) {
        let pending = self.pending + (vector * ULN_PENDING_STRIDE) as usize;
        self.mapping.store_u32(pending, 0);
        barrier::before_queue_check();
    }

    fn armed(&self, words: Words) -> u32 {
        self.mapping.load_u32_acquire(words.armed)
    }
}

impl Words {
    /// Returns an offset that is unique to the object.
    pub(crate) fn place(self) -> usize {
        self.armed
    }
}

/// State of the sleepers of one object.
#[derive(Debug)]
pub(crate) struct Sleeper {
    words: Words,
    control: Control,
    /// Set if the card keeps a count for the object.
    count: Option<Arc<dyn Count>>,
    /// Readable once the card has fired for a poller that armed it.
    file: Arc<OwnedFd>,
    /// Guards the words against other threads of this process. The card changes only an `armed`
    /// word that is YES.
    state: Mutex<State>,
    fired: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of sleeping threads.
    asleep: u32,
    /// Whether the file is polled, and the count that the poller waits for.
    polled: bool,
    polled_for: Option<u32>,
    /// The least number that is waited for, while the word is armed.
    least: Option<u32>,
    /// The card's process has ended, so no wake-up can come.
    gone: bool,
}

/// Returns `ENODEV`, which the driver returns to waiters of a removed card.
fn gone() -> io::Error {
    Errno::NODEV.into()
}

impl Sleeper {
    pub(crate) fn new(words: Words, control: Control, count: Option<Arc<dyn Count>>) -> io::Result<Self> {
        control.mapping.store_u32(words.armed, ULN_ARMED_NO);
        let file = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Self { words, control, count, file, state: Mutex::default(), fired: Condvar::new() })
    }

    pub(crate) fn words(&self) -> Words {
        self.words
    }

    /// Returns the file that becomes readable once the card has fired.
    pub(crate) fn file(&self) -> Arc<OwnedFd> {
        self.file.clone()
    }

    /// Arms the file, which becomes readable once the card has fired. Returns `true` if `look`
    /// finds that there is no need. `wanted` is the count that `look` waits for, if any.
    pub(crate) fn arm(&self, wanted: Option<u32>, look: impl Fn() -> bool) -> io::Result<bool> {
        let mut state = self.lock();
        drain(&self.file)?;
        if look() {
            return Ok(true);
        }
        if state.gone {
            return Err(gone());
        }
        if state.asleep == 0 {
            // Forget what the file was armed for before.
            state.least = None;
        }
        self.arm_words(&mut state, wanted);
        (state.polled, state.polled_for) = (true, wanted);
        let ready = look();
        if ready {
            state.polled = false;
            self.disarm_if_alone(&mut state);
        }
        Ok(ready)
    }

    /// Sleeps until `look` returns `true` or the timeout has expired. Fails with `ENODEV` once the
    /// card's process has ended.
    pub(crate) fn wait(
        &self,
        wanted: Option<u32>,
        timeout: Option<Duration>,
        look: impl Fn() -> bool,
    ) -> io::Result<()> {
        let start = Instant::now();
        let mut state = self.lock();
        let mut outcome = Ok(());
        state.asleep += 1;
        while !look() {
            if state.gone {
                outcome = Err(gone());
                break;
            }
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            self.arm_words(&mut state, wanted);
            if look() {
                break;
            }
            state = self.sleep(state, left);
        }
        state.asleep -= 1;
        self.disarm_if_alone(&mut state);
        outcome
    }

    /// Wakes all sleepers, and makes later waits fail: the card's process has ended.
    pub(crate) fn lose_card(&self) {
        self.lock().gone = true;
        self.fired.notify_all();
        // Can only fail if the file was written to 2^64 times.
        let _ = write(&*self.file, &1_u64.to_ne_bytes());
    }

    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>, left: Option<Duration>) -> MutexGuard<'a, State> {
        match left {
            None => self.fired.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(left) => self.fired.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    /// Handles an interrupt: wakes the sleepers if the card has fired.
    pub(crate) fn interrupted(&self) {
        let mut state = self.lock();
        if self.control.armed(self.words) == ULN_ARMED_FIRED {
            self.wake(&mut state);
        }
    }

    /// Arms the card. Does the handler's work if the handler has not run yet.
    fn arm_words(&self, state: &mut State, wanted: Option<u32>) {
        if self.control.armed(self.words) == ULN_ARMED_FIRED {
            self.wake(state);
        }
        self.store_words(state, wanted);
    }

    fn store_words(&self, state: &mut State, wanted: Option<u32>) {
        let Control { mapping, .. } = &self.control;
        if let (Some(word), Some(wanted)) = (self.words.wanted, wanted) {
            if state.least.is_none_or(|least| (wanted.wrapping_sub(least) as i32) < 0) {
                mapping.store_u32(word, wanted);
                state.least = Some(wanted);
            }
        }
        // Stored second: the card reads the number after it has found this word.
        if self.control.armed(self.words) == ULN_ARMED_NO {
            mapping.store_u32_release(self.words.armed, ULN_ARMED_YES);
        }
        barrier::before_sleep_check();
    }

    /// Wakes all sleepers; each checks and rearms. The same is done for the file, which becomes
    /// readable only for its own number.
    fn wake(&self, state: &mut State) {
        self.disarm(state);
        self.fired.notify_all();
        if !state.polled {
            return;
        }
        if !self.has_reached(state.polled_for) {
            self.store_words(state, state.polled_for);
            if !self.has_reached(state.polled_for) {
                return;
            }
        }
        state.polled = false;
        // Can only fail if the file was written to 2^64 times.
        let _ = write(&*self.file, &1_u64.to_ne_bytes());
    }

    /// Returns whether the count has reached the number. Without a count, sleepers check for
    /// themselves.
    fn has_reached(&self, wanted: Option<u32>) -> bool {
        match (&self.count, wanted) {
            (Some(count), Some(wanted)) => count.count().wrapping_sub(wanted) as i32 >= 0,
            _ => true,
        }
    }

    /// Disarms if there is no sleeper or poller: the interrupt would be useless.
    fn disarm_if_alone(&self, state: &mut State) {
        if state.asleep == 0 && !state.polled {
            self.disarm(state);
        }
    }

    fn disarm(&self, state: &mut State) {
        self.control.mapping.store_u32(self.words.armed, ULN_ARMED_NO);
        state.least = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clears an eventfd. Returns whether it was signalled.
pub(crate) fn drain(eventfd: &OwnedFd) -> io::Result<bool> {
    match read(eventfd, &mut [0_u8; 8]) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::core::polling::nap_until;

    const QUEUE: Words = Words { armed: 64, wanted: None };
    const TERMINUS: Words = Words { armed: 4096, wanted: Some(4100) };

    fn control() -> Control {
        Control::new(Mapping::anonymous(8192).unwrap(), 0)
    }

    /// A count that the card keeps in the first word.
    #[derive(Debug)]
    struct First(Arc<Mapping>);

    impl Count for First {
        fn count(&self) -> u32 {
            self.0.load_u32_acquire(0)
        }
    }

    /// Blocks until the object is armed, as the card would see it.
    fn until_armed(control: &Control, words: Words) {
        let is_armed = || (control.armed(words) == ULN_ARMED_YES).then_some(());
        nap_until(Some(Duration::from_secs(10)), is_armed).expect("the sleeper arms the object");
    }

    /// Completes requests up to `to`, as the card does. Returns whether the card fires.
    fn complete(control: &Control, words: Words, status: &Mapping, to: u32) -> bool {
        status.store_u32_release(0, to);
        barrier::before_queue_check();
        let wanted = control.mapping.load_u32(words.wanted.unwrap());
        let fires = control.armed(words) == ULN_ARMED_YES && (to.wrapping_sub(wanted) as i32) >= 0;
        if fires {
            control.mapping.store_u32(words.armed, ULN_ARMED_FIRED);
        }
        fires
    }

    #[test]
    fn timed_out_waiter_keeps_queue_armed() {
        let (control, words) = (control(), QUEUE);
        let sleeper = Sleeper::new(words, control.clone(), None).unwrap();
        let arrived = AtomicU32::new(0);
        let patience = Some(Duration::from_secs(20));
        std::thread::scope(|scope| {
            scope.spawn(|| sleeper.wait(None, patience, || arrived.load(Ordering::Acquire) == 1).unwrap());
            until_armed(&control, words);
            // Another thread times out. A third finds its condition met between arming and
            // sleeping.
            sleeper.wait(None, Some(Duration::ZERO), || false).unwrap();
            until_armed(&control, words);
            let looks = AtomicU32::new(0);
            assert!(sleeper.arm(None, || looks.fetch_add(1, Ordering::Relaxed) == 1).unwrap());
            until_armed(&control, words);
            arrived.store(1, Ordering::Release);
            control.mapping.store_u32(words.armed, ULN_ARMED_FIRED);
            sleeper.interrupted();
        });
        assert_eq!(control.armed(words), ULN_ARMED_NO, "the sleepers are gone");
    }

    #[test]
    fn wait_fails_when_card_process_ends() {
        let (control, words) = (control(), QUEUE);
        let sleeper = Sleeper::new(words, control.clone(), None).unwrap();
        std::thread::scope(|scope| {
            let asleep = scope.spawn(|| sleeper.wait(None, None, || false));
            until_armed(&control, words);
            sleeper.lose_card();
            assert_eq!(asleep.join().unwrap().unwrap_err().raw_os_error(), Some(Errno::NODEV.raw_os_error()));
        });
        assert!(drain(&sleeper.file()).unwrap(), "a poller looks");
        assert!(sleeper.arm(None, || false).is_err() && sleeper.arm(None, || true).unwrap());
        sleeper.wait(None, None, || true).unwrap();
    }

    #[test]
    fn early_rearm_wakes_fired_sleeper() {
        let (control, words) = (control(), QUEUE);
        let sleeper = Sleeper::new(words, control.clone(), None).unwrap();
        assert!(!sleeper.arm(None, || false).unwrap());
        assert!(!drain(&sleeper.file()).unwrap(), "the card has not fired");
        // The card fires for this sleeper. Before the handler runs, another thread arms for
        // something else.
        control.mapping.store_u32(words.armed, ULN_ARMED_FIRED);
        assert!(!sleeper.arm(None, || false).unwrap());
        assert!(drain(&sleeper.file()).unwrap(), "the sleeper looks again");
        assert_eq!(control.armed(words), ULN_ARMED_YES, "and the other is armed");
    }

    /// Returns a terminus, with its status.
    fn terminus(control: &Control) -> (Words, Arc<Mapping>, Sleeper) {
        let status = Arc::new(Mapping::anonymous(4096).unwrap());
        let seen = Arc::new(First(status.clone()));
        (TERMINUS, status, Sleeper::new(TERMINUS, control.clone(), Some(seen)).unwrap())
    }

    #[test]
    fn least_number_wakes_and_others_rearm() {
        let control = control();
        let (words, status, sleeper) = terminus(&control);
        // Covers the wrap of the card's counter.
        let (near, far) = (u32::MAX, 3);
        status.store_u32(0, near - 5);
        let reached = |wanted: u32| sleeper.has_reached(Some(wanted));
        let patience = Some(Duration::from_secs(20));
        std::thread::scope(|scope| {
            let late = scope.spawn(|| sleeper.wait(Some(far), patience, || reached(far)).unwrap());
            until_armed(&control, words);
            assert!(!sleeper.arm(Some(near), || reached(near)).unwrap());
            assert!(!complete(&control, words, &status, near - 1), "not yet wanted");
            assert!(complete(&control, words, &status, near));
            sleeper.interrupted();
            assert!(drain(&sleeper.file()).unwrap());
            until_armed(&control, words);
            assert!(complete(&control, words, &status, far));
            sleeper.interrupted();
            late.join().unwrap();
        });
        assert!(reached(far) && !drain(&sleeper.file()).unwrap(), "the poller has been told");
    }

    #[test]
    fn file_is_readable_only_for_its_number() {
        let control = control();
        let (words, status, sleeper) = terminus(&control);
        let (near, far) = (5, 9);
        let reached = |wanted: u32| sleeper.has_reached(Some(wanted));
        let patience = Some(Duration::from_secs(20));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| sleeper.wait(Some(near), patience, || reached(near)).unwrap());
            until_armed(&control, words);
            assert!(!sleeper.arm(Some(far), || reached(far)).unwrap());
            assert!(complete(&control, words, &status, near));
            sleeper.interrupted();
            first.join().unwrap();
        });
        assert!(!drain(&sleeper.file()).unwrap(), "it was another's");
        assert!(complete(&control, words, &status, far), "it is armed still");
        sleeper.interrupted();
        assert!(drain(&sleeper.file()).unwrap());
        // Rearmed for a later number, the file does not become readable earlier.
        assert!(
            !sleeper.arm(Some(20), || reached(20)).unwrap()
                && !sleeper.arm(Some(30), || reached(30)).unwrap()
        );
        assert!(!complete(&control, words, &status, 20));
    }
}
