//! The machine's end, inside its QEMU.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hamlyn_fabric::bell::{Bell, Heard};
use hamlyn_fabric::index::{Name, ProducerIndex, Words};
use hamlyn_fabric::ring::RingError;
use rustix::event::{PollFd, PollFlags, poll};

use crate::layout::{Layout, PAGE};
use crate::live;
use crate::store::{RECORD_BYTES, Store};
use crate::welcome::{ConnectError, connect};

/// How long a card may take to let a machine in.
const PATIENCE: Duration = Duration::from_secs(10);

/// A machine whose card is told of its stores. All its processors share this.
#[derive(Debug)]
pub struct Machine {
    layout: Layout,
    bell: Bell,
    /// One processor at a time tells: the order of all is the order in which they have this.
    ring: Mutex<ProducerIndex<Layout>>,
    /// The card has hung up, or its ring makes no sense.
    gone: AtomicBool,
}

impl Machine {
    /// Asks the card that listens at `path` what it wants to know. Blocks, 10 seconds at most.
    pub fn connect(path: &Path) -> Result<Machine, ConnectError> {
        let (layout, bell) = connect(path, PATIENCE)?;
        let ring = Mutex::new(ProducerIndex::new(layout.clone(), layout.size.capacity()));
        Ok(Machine { layout, bell, ring, gone: AtomicBool::new(false) })
    }

    /// A number that changes with what is watched. It is odd if anything is.
    #[inline]
    pub fn watch(&self) -> u64 {
        self.layout.watch().load(Ordering::Acquire)
    }

    /// Whether the card wants to know of any store.
    pub fn is_any_watched(&self) -> bool {
        live::is_any(self.watch()) && !self.is_gone()
    }

    /// Whether the card wants to know of stores to this guest-physical address.
    pub fn is_watched(&self, address: u64) -> bool {
        let page = address / PAGE;
        let word = usize::try_from(page / 64).ok().and_then(|word| self.layout.bits(word));
        word.is_some_and(|bits| bits.load(Ordering::Relaxed) >> (page % 64) & 1 != 0)
    }

    /// Whether the card is gone. What is told then goes nowhere.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Looks whether the card is gone. Otherwise that is noticed only when the ring is full.
    pub fn look(&self) {
        // Nobody waits for the bell meanwhile.
        let _ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Heard::End(_) = self.bell.hear() {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    /// Says that stores are told from now on.
    pub fn begin(&self) {
        live::begin(&self.layout);
        self.wake();
    }

    /// Wants to tell no more. False: something is watched, so it has to.
    pub fn end(&self) -> bool {
        if self.is_gone() || live::end(&self.layout) {
            return true;
        }
        // The card may have looked while it was not live.
        self.wake();
        false
    }

    /// Tells of a store of 1 to 16 bytes that lie in one page. Waits while the ring is full: so
    /// long the processor stands still. What is told after the card is gone is dropped.
    pub fn tell(&self, processor: u32, address: u64, bytes: &[u8]) {
        if self.is_gone() {
            return;
        }
        let record = Store::new(processor, address, bytes).to_record();
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(End) = self.append(&mut ring, &record) {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    /// The memory, for tests that write to it what they like.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> Layout {
        self.layout.clone()
    }

    fn append(&self, ring: &mut ProducerIndex<Layout>, record: &[u8; RECORD_BYTES]) -> Result<(), End> {
        while !ring.has_room(RECORD_BYTES as u64)? {
            if ring.sleep()? {
                self.wait()?;
            }
        }
        self.layout.record(ring.position()).copy_from(record);
        if ring.publish(RECORD_BYTES as u64) {
            self.bell.ring();
        }
        Ok(())
    }

    /// Waits for the bell. QEMU's signals to the processor's thread do not end that.
    fn wait(&self) -> Result<(), End> {
        let mut bell = [PollFd::new(&self.bell, PollFlags::IN)];
        // It fails if a signal came: then there is nothing to hear yet.
        let _ = poll(&mut bell, None);
        match self.bell.hear() {
            Heard::End(_) => Err(End),
            Heard::Ring | Heard::Nothing => Ok(()),
        }
    }

    /// Wakes the card if it sleeps, as it does when a store comes.
    fn wake(&self) {
        self.layout.fence_between_store_and_look();
        if Words::load(&self.layout, Name::ConsumerSleeps, Ordering::Relaxed) != 0 {
            self.bell.ring();
        }
    }
}

/// The card is gone, or makes no sense.
struct End;

impl From<RingError> for End {
    fn from(_: RingError) -> End {
        End
    }
}
