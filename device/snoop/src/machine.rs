//! The machine's end, inside its QEMU.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hamlyn_fabric::RingError;
use hamlyn_fabric::bell::{Bell, Heard};
use hamlyn_fabric::index::{Name, ProducerIndex, Words};
use rustix::event::{PollFd, PollFlags, poll};

use crate::layout::Layout;
use crate::live;
use crate::store::PAGE;
use crate::store::{RECORD_BYTES, Store};
use crate::welcome::{ConnectError, connect};

/// Maximum time for a card to admit a machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A machine that reports its stores to a card. All its processors share this.
#[derive(Debug)]
pub struct Machine {
    layout: Layout,
    bell: Bell,
    /// One processor at a time reports, so the lock defines the order of all stores.
    ring: Mutex<ProducerIndex<Layout>>,
    /// The card has hung up, or its ring is invalid.
    gone: AtomicBool,
}

impl Machine {
    /// Connects to the card that listens at `path`. Blocks for at most 10 seconds.
    pub fn connect(path: &Path) -> Result<Machine, ConnectError> {
        let (layout, bell) = connect(path, PATIENCE)?;
        let ring = Mutex::new(ProducerIndex::new(layout.clone(), layout.size.capacity()));
        Ok(Machine { layout, bell, ring, gone: AtomicBool::new(false) })
    }

    /// Returns a number that changes with the watched pages. It is odd if any page is watched.
    #[inline]
    pub fn watch(&self) -> u64 {
        self.layout.watch().load(Ordering::Acquire)
    }

    /// Returns whether the card watches any page.
    pub fn is_any_watched(&self) -> bool {
        live::is_any(self.watch()) && !self.is_gone()
    }

    /// Returns whether the card watches this guest-physical address.
    pub fn is_watched(&self, address: u64) -> bool {
        let page = address / PAGE;
        let word = usize::try_from(page / 64).ok().and_then(|word| self.layout.bits(word));
        word.is_some_and(|bits| bits.load(Ordering::Relaxed) >> (page % 64) & 1 != 0)
    }

    /// Returns whether the card is gone. Stores reported after that are dropped.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Checks whether the card is gone. Otherwise that is noticed only when the ring is full.
    pub fn look(&self) {
        // The lock ensures that no processor waits for the bell meanwhile.
        let _ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Heard::End(_) = self.bell.hear() {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    /// Announces that stores are reported from now on.
    pub fn begin(&self) {
        live::begin(&self.layout);
        self.wake();
    }

    /// Tries to stop reporting. Returns false if stores must still be reported, because something
    /// is watched.
    pub fn end(&self) -> bool {
        if self.is_gone() || live::end(&self.layout) {
            return true;
        }
        // The card may have looked while the machine was not live.
        self.wake();
        false
    }

    /// Reports a store of 1 to 16 bytes in one page. Blocks while the ring is full, which stalls
    /// the processor. Does nothing once the card is gone.
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

    /// Returns the memory, for tests that write arbitrary values to it.
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

    /// Waits for the bell. Signals that QEMU sends to the processor's thread do not end the wait.
    fn wait(&self) -> Result<(), End> {
        let mut bell = [PollFd::new(&self.bell, PollFlags::IN)];
        // Fails if a signal arrived; then the bell has no news yet.
        let _ = poll(&mut bell, None);
        match self.bell.hear() {
            Heard::End(_) => Err(End),
            Heard::Ring | Heard::Nothing => Ok(()),
        }
    }

    /// Wakes the card if it sleeps, as a new store would.
    fn wake(&self) {
        self.layout.fence_between_store_and_look();
        if Words::load(&self.layout, Name::ConsumerSleeps, Ordering::Relaxed) != 0 {
            self.bell.ring();
        }
    }
}

/// The card is gone, or the ring is invalid.
struct End;

impl From<RingError> for End {
    fn from(_: RingError) -> End {
        End
    }
}
