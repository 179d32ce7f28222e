//! Interrupts by eventfd. The driver's interrupt handler is a thread, which clears `pending` before
//! it looks for sleepers to wake.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hamlyn_abi::family::interrupts::{ULN_MAX_VECTORS, ULN_VECTOR_LINK};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, write};

use super::client::Client;
use super::sleeper::{Control, Count, Sleeper, Words, drain};
use crate::core::polling::nap_until;

/// First vector that belongs to the model.
const FIRST: u32 = ULN_VECTOR_LINK + 1;

/// Objects in use that callers can sleep on.
#[derive(Debug, Default)]
struct Sleepers {
    /// Sleepers and their vectors, by the offset of the sleeper's words.
    by_place: BTreeMap<usize, (u32, Arc<Sleeper>)>,
    /// The card's process has ended, so new sleepers must not sleep.
    lost: bool,
}

/// The interrupt handler. Dropping it stops the thread.
#[derive(Debug)]
pub(crate) struct Interrupts {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    control: Control,
    /// One eventfd for each vector, including the link's; the last one stops the thread.
    eventfds: Vec<OwnedFd>,
    /// Number of interrupts of each vector.
    arrivals: Vec<AtomicU32>,
    /// Readable once the link has changed.
    link: Arc<OwnedFd>,
    /// Hangs up when the card's process ends.
    card: OwnedFd,
    sleepers: Mutex<Sleepers>,
}

impl Interrupts {
    /// Gives the card an eventfd for each of its vectors, and starts the handler.
    pub(crate) fn start(client: &Client, control: Control, vectors: u32) -> io::Result<Self> {
        let vectors = vectors.min(ULN_MAX_VECTORS);
        let eventfds = (0..=vectors)
            .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
            .collect::<Result<Vec<_>, _>>()?;
        for (vector, eventfd) in (0..vectors).zip(&eventfds) {
            client.set_vector(vector, eventfd.as_fd())?;
        }
        let arrivals = (0..vectors).map(|_| AtomicU32::new(0)).collect();
        let link = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (card, sleepers) = (client.hang_up()?, Mutex::default());
        let shared = Arc::new(Shared { control, eventfds, arrivals, link, card, sleepers });
        let handler = shared.clone();
        let thread =
            std::thread::Builder::new().name("hamlyn-interrupt".into()).spawn(move || handler.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns a file that is readable once the link has changed.
    pub(crate) fn link(&self) -> Arc<OwnedFd> {
        self.shared.link.clone()
    }

    /// Returns the vector for the object with this number.
    pub(crate) fn vector_of(&self, index: u32) -> u32 {
        let others = self.vectors().saturating_sub(FIRST).max(1);
        FIRST + index % others
    }

    /// Starts to serve the object with this number; `count` is the card's counter for it, if any.
    pub(crate) fn add(
        &self,
        words: Words,
        index: u32,
        count: Option<Arc<dyn Count>>,
    ) -> io::Result<Arc<Sleeper>> {
        let sleeper = Arc::new(Sleeper::new(words, self.shared.control.clone(), count)?);
        let mut sleepers = self.shared.lock();
        sleepers.by_place.insert(words.place(), (self.vector_of(index), sleeper.clone()));
        if sleepers.lost {
            sleeper.lose_card();
        }
        Ok(sleeper)
    }

    /// Stops serving an object.
    pub(crate) fn remove(&self, sleeper: &Sleeper) {
        self.shared.lock().by_place.remove(&sleeper.words().place());
    }

    /// Returns whether vector `vector` arrives within a second after `raise` requests it.
    pub(crate) fn test(&self, vector: u32, raise: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        let Some(arrivals) = self.shared.arrivals.get(vector as usize) else { return Ok(false) };
        let before = arrivals.load(Ordering::Acquire);
        raise()?;
        let arrived = || (arrivals.load(Ordering::Acquire) != before).then_some(());
        Ok(nap_until(Some(Duration::from_secs(1)), arrived).is_some())
    }

    fn vectors(&self) -> u32 {
        self.shared.eventfds.len() as u32 - 1
    }
}

impl Shared {
    /// Runs until the last eventfd is signalled, or the card is gone.
    fn run(&self) {
        loop {
            let Ok(hung_up) = readable(&self.eventfds, &self.card) else { return };
            let fired: Vec<bool> =
                self.eventfds.iter().map(|eventfd| drain(eventfd).unwrap_or(false)).collect();
            for (vector, _) in (0..).zip(&fired).filter(|(_, fired)| **fired) {
                self.handle(vector);
            }
            if fired.last() == Some(&true) {
                return;
            }
            if hung_up {
                return self.lose_card();
            }
        }
    }

    /// Wakes all sleepers: a process that has ended cannot send interrupts.
    fn lose_card(&self) {
        let mut sleepers = self.lock();
        sleepers.lost = true;
        sleepers.by_place.values().for_each(|(_, sleeper)| sleeper.lose_card());
    }

    fn handle(&self, vector: u32) {
        let Some(arrivals) = self.arrivals.get(vector as usize) else { return };
        arrivals.fetch_add(1, Ordering::Release);
        self.control.clear_pending(vector);
        if vector == ULN_VECTOR_LINK {
            let _ = write(&self.link, &1_u64.to_ne_bytes());
        }
        for (_, sleeper) in self.lock().by_place.values().filter(|(of, _)| *of == vector) {
            sleeper.interrupted();
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

/// Blocks until one of the files is readable or the card's process has ended. Returns whether the
/// process has ended.
fn readable(files: &[OwnedFd], card: &OwnedFd) -> io::Result<bool> {
    let mut polled: Vec<_> = files.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
    // `poll` always reports a hang-up. Replies on this socket belong to the thread that sent the
    // request.
    polled.push(PollFd::new(card, PollFlags::empty()));
    loop {
        match poll(&mut polled, None) {
            Ok(_) => return Ok(polled.last().is_some_and(|card| !card.revents().is_empty())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
