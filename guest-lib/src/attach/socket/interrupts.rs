//! Interrupts by eventfd, and the driver's interrupt handler as a thread.
//!
//! Who sleeps stores `armed`, looks again and sleeps; the handler clears `pending` before it looks at the queues.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hamlyn_abi::hamlyn::registers::{HAMLYN_MAX_VECTORS, HAMLYN_VECTOR_LINK, HAMLYN_VECTOR_QUEUE};
use hamlyn_abi::hamlyn::window::{
    HAMLYN_ARMED_FIRED, HAMLYN_ARMED_NO, HAMLYN_ARMED_STRIDE, HAMLYN_ARMED_YES, HAMLYN_PENDING_STRIDE,
    HAMLYN_QUEUE_CONTROL_ARMED, HAMLYN_QUEUE_CONTROL_PENDING,
};
use hamlyn_sys::{Mapping, barrier};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};

use super::client::Client;
use crate::polling::Polling;

/// How soon who sleeps looks by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The words of the queue control area.
#[derive(Debug, Clone)]
pub(super) struct QueueControl(Arc<Mapping>);

impl QueueControl {
    pub(super) fn new(mapping: Mapping) -> Self {
        Self(Arc::new(mapping))
    }

    /// How many queues and vectors the mapping has words for.
    pub(super) fn queues(&self) -> u32 {
        let armed = self.0.length().saturating_sub(HAMLYN_QUEUE_CONTROL_ARMED as usize);
        (armed / HAMLYN_ARMED_STRIDE as usize) as u32
    }

    fn clear_pending(&self, vector: u32) {
        let pending = HAMLYN_QUEUE_CONTROL_PENDING + vector * HAMLYN_PENDING_STRIDE;
        self.0.store_u32(pending as usize, 0);
        barrier::before_queue_check();
    }

    /// True if the card had fired, which no handler has seen yet: whoever it was for is to be woken.
    fn arm(&self, queue: u32) -> bool {
        let fired = self.has_fired(queue);
        self.0.store_u32(armed(queue), HAMLYN_ARMED_YES);
        barrier::before_sleep_check();
        fired
    }

    fn disarm(&self, queue: u32) {
        self.0.store_u32(armed(queue), HAMLYN_ARMED_NO);
    }

    fn has_fired(&self, queue: u32) -> bool {
        self.0.load_u32_acquire(armed(queue)) == HAMLYN_ARMED_FIRED
    }
}

fn armed(queue: u32) -> usize {
    (HAMLYN_QUEUE_CONTROL_ARMED + queue * HAMLYN_ARMED_STRIDE) as usize
}

/// What sleepers of a queue sleep on.
#[derive(Debug)]
pub(super) struct Sleeper {
    queue: u32,
    wake: Arc<OwnedFd>,
    control: QueueControl,
    /// Guards the armed word against others of this process: the card alone changes YES, and nothing else.
    word: Mutex<()>,
}

impl Sleeper {
    fn new(queue: u32, control: QueueControl) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Self { queue, wake, control, word: Mutex::default() })
    }

    /// The file that becomes readable once the queue has fired.
    pub(super) fn file(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    /// Arms the queue; true if `look` finds that there is no need.
    ///
    /// Threads that share a queue share its file and its armed word. Whoever takes the signal back or disarms, and then
    /// does not sleep, gives the signal: another sleeper has to look, and to arm again.
    pub(super) fn arm(&self, look: impl Fn() -> bool) -> io::Result<bool> {
        if look() {
            return Ok(true);
        }
        {
            let _word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
            drain(&self.wake)?;
            if self.control.arm(self.queue) {
                self.signal()?;
            }
        }
        let ready = look();
        if ready {
            self.stay_awake()?;
        }
        Ok(ready)
    }

    fn stay_awake(&self) -> io::Result<()> {
        let _word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        self.control.disarm(self.queue);
        self.signal()
    }

    /// An interrupt has come: wakes who sleeps, if the queue has fired.
    fn interrupted(&self) -> io::Result<()> {
        let _word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        if self.control.has_fired(self.queue) {
            self.control.disarm(self.queue);
            self.signal()?;
        }
        Ok(())
    }

    fn signal(&self) -> io::Result<()> {
        write(&*self.wake, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    /// Sleeps until `look` finds something or the time-out has passed.
    pub(super) fn wait(&self, timeout: Option<Duration>, look: impl Fn() -> bool) -> io::Result<()> {
        let start = Instant::now();
        loop {
            if self.arm(&look)? {
                return Ok(());
            }
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            // Another sleeper of the queue may have taken the signal back before this one could look.
            readable(&[&*self.wake], Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN))))?;
            if look() {
                return Ok(());
            }
            if left.is_some_and(|left| left.is_zero()) {
                return self.stay_awake();
            }
        }
    }
}

/// The queues in use, each with its vector.
type Sleepers = BTreeMap<u32, (u32, Arc<Sleeper>)>;

/// The interrupt handler. It stops when dropped.
#[derive(Debug)]
pub(super) struct Interrupts {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    control: QueueControl,
    /// An eventfd for each vector, the link's too; behind them the one that stops the thread.
    eventfds: Vec<OwnedFd>,
    /// How often each vector has arrived.
    arrivals: Vec<AtomicU32>,
    /// Readable once the link has changed.
    link: Arc<OwnedFd>,
    sleepers: Mutex<Sleepers>,
}

impl Interrupts {
    /// Gives the card an eventfd for each of its vectors and starts the handler.
    pub(super) fn start(client: &Client, control: QueueControl, vectors: u32) -> io::Result<Self> {
        let vectors = vectors.min(HAMLYN_MAX_VECTORS);
        let eventfds = (0..=vectors)
            .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
            .collect::<Result<Vec<_>, _>>()?;
        for (vector, eventfd) in (0..vectors).zip(&eventfds) {
            client.set_vector(vector, eventfd.as_fd())?;
        }
        let arrivals = (0..vectors).map(|_| AtomicU32::new(0)).collect();
        let link = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let shared = Arc::new(Shared { control, eventfds, arrivals, link, sleepers: Mutex::default() });
        let handler = shared.clone();
        let thread =
            std::thread::Builder::new().name("hamlyn-interrupt".into()).spawn(move || handler.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What is readable once the link has changed.
    pub(super) fn link(&self) -> Arc<OwnedFd> {
        self.shared.link.clone()
    }

    /// The vector that queue `queue` is to use.
    pub(super) fn vector_of(&self, queue: u32) -> u32 {
        let queue_vectors = self.vectors().saturating_sub(HAMLYN_VECTOR_QUEUE).max(1);
        HAMLYN_VECTOR_QUEUE + queue % queue_vectors
    }

    /// Begins to serve a queue.
    pub(super) fn add(&self, queue: u32) -> io::Result<Arc<Sleeper>> {
        let control = self.shared.control.clone();
        control.disarm(queue);
        let sleeper = Arc::new(Sleeper::new(queue, control)?);
        self.shared.lock().insert(queue, (self.vector_of(queue), sleeper.clone()));
        Ok(sleeper)
    }

    /// Serves a queue no more.
    pub(super) fn remove(&self, queue: u32) {
        self.shared.lock().remove(&queue);
    }

    /// Whether vector `vector` arrives within a second of `raise` asking the card for it.
    pub(super) fn test(&self, vector: u32, raise: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        let Some(arrivals) = self.shared.arrivals.get(vector as usize) else { return Ok(false) };
        let before = arrivals.load(Ordering::Acquire);
        raise()?;
        let arrived = || (arrivals.load(Ordering::Acquire) != before).then_some(());
        Ok(Polling::default().wait(Some(Duration::from_secs(1)), true, arrived).is_some())
    }

    fn vectors(&self) -> u32 {
        self.shared.eventfds.len() as u32 - 1
    }
}

impl Shared {
    /// The handler: until the last eventfd says stop.
    fn run(&self) {
        loop {
            let Ok(true) = readable(&self.eventfds.iter().collect::<Vec<_>>(), None) else { return };
            let fired: Vec<bool> =
                self.eventfds.iter().map(|eventfd| drain(eventfd).unwrap_or(false)).collect();
            for (vector, _) in (0..).zip(&fired).filter(|(_, fired)| **fired) {
                self.handle(vector);
            }
            if fired.last() == Some(&true) {
                return;
            }
        }
    }

    fn handle(&self, vector: u32) {
        let Some(arrivals) = self.arrivals.get(vector as usize) else { return };
        arrivals.fetch_add(1, Ordering::Release);
        self.control.clear_pending(vector);
        if vector == HAMLYN_VECTOR_LINK {
            let _ = write(&self.link, &1_u64.to_ne_bytes());
        }
        for (_, sleeper) in self.lock().values().filter(|(of, _)| *of == vector) {
            let _ = sleeper.interrupted();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        if let Some(stop) = self.shared.eventfds.last() {
            let _ = write(stop, &1_u64.to_ne_bytes());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes an eventfd's signal back. True if there was one.
pub(super) fn drain(eventfd: &OwnedFd) -> io::Result<bool> {
    match read(eventfd, &mut [0_u8; 8]) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps until one of the files is readable. False if the time-out passed first.
fn readable(files: &[&OwnedFd], timeout: Option<Duration>) -> io::Result<bool> {
    let mut polled: Vec<_> = files.iter().map(|file| PollFd::new(*file, PollFlags::IN)).collect();
    let timeout = timeout.map(Timespec::try_from).transpose().unwrap_or_default();
    loop {
        match poll(&mut polled, timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Waits until the queue is armed, as the card would find it.
    fn until_armed(control: &QueueControl) {
        let is_armed = || (control.0.load_u32_acquire(armed(0)) == HAMLYN_ARMED_YES).then_some(());
        Polling::default()
            .wait(Some(Duration::from_secs(10)), true, is_armed)
            .expect("somebody sleeps, unarmed");
    }

    #[test]
    fn who_stops_waiting_leaves_the_queue_armed_for_other_sleepers() {
        let control =
            QueueControl::new(Mapping::anonymous(HAMLYN_QUEUE_CONTROL_ARMED as usize + 64).unwrap());
        let sleeper = Sleeper::new(0, control.clone()).unwrap();
        let arrived = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope
                .spawn(|| sleeper.wait(Some(Duration::from_secs(20)), || arrived.load(Ordering::Acquire)));
            until_armed(&control);
            // Another thread gives up; a third finds what was meant for it between arming and sleeping.
            sleeper.wait(Some(Duration::ZERO), || false).unwrap();
            until_armed(&control);
            let looks = AtomicU32::new(0);
            assert!(sleeper.arm(|| looks.fetch_add(1, Ordering::Relaxed) == 1).unwrap());
            until_armed(&control);
            arrived.store(true, Ordering::Release);
            write(&*sleeper.file(), &1_u64.to_ne_bytes()).unwrap();
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn who_arms_before_the_handler_has_looked_wakes_whom_the_card_fired_for() {
        let control =
            QueueControl::new(Mapping::anonymous(HAMLYN_QUEUE_CONTROL_ARMED as usize + 64).unwrap());
        let sleeper = Sleeper::new(0, control.clone()).unwrap();
        assert!(!sleeper.arm(|| false).unwrap());
        let file = sleeper.file();
        let no_time = Some(Duration::ZERO);
        assert!(!readable(&[&*file], no_time).unwrap(), "nobody has fired");
        // The card fires for this sleeper; before the handler runs, another one arms for something else.
        control.0.store_u32(armed(0), HAMLYN_ARMED_FIRED);
        assert!(!sleeper.arm(|| false).unwrap());
        assert!(readable(&[&*file], no_time).unwrap(), "who slept looks again");
        assert_eq!(control.0.load_u32_acquire(armed(0)), HAMLYN_ARMED_YES, "and the other is armed");
    }
}
