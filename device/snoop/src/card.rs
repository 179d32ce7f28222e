//! The card's end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use hamlyn_door::Listener;
use hamlyn_fabric::RingError;
use hamlyn_fabric::bell::{Bell, End, Heard, Socket};
use hamlyn_fabric::index::ConsumerIndex;
use hamlyn_fabric::memory::Sealed;
use thiserror::Error;

use crate::layout::{Layout, Size};
use crate::live;
use crate::store::{RECORD_BYTES, RecordError, Store};
use crate::welcome::{refuse, welcome};

/// Why a plugin's session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Ended {
    /// The plugin hung up, or the card ended the session.
    #[error("the machine's stores are seen no more: {0}")]
    Left(End),
    /// The ring's state is invalid.
    #[error("the machine's stores are seen no more: {0}")]
    Ring(#[from] RingError),
    /// The ring does not hold a whole number of stores.
    #[error(
        "the machine's stores are seen no more: {0} bytes are in the ring (a multiple of {RECORD_BYTES})"
    )]
    Part(u64),
    /// A record is invalid.
    #[error("the machine's stores are seen no more: {0}")]
    Record(#[from] RecordError),
}

/// The error for a page that cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("page {page} cannot be watched (limit {limit})")]
pub struct PageError {
    /// The page.
    pub page: u64,
    /// Number of pages.
    pub limit: u64,
}

/// The pages that a card watches in its machine's memory, and the stores to them. One plugin at a
/// time reports them.
#[derive(Debug)]
pub struct Snoop {
    size: Size,
    /// Bit map of watched pages. The shared memory has a copy of it.
    bits: Vec<u64>,
    /// Number of set bits.
    watched: u64,
    /// The word that notifies a plugin of changes.
    watch: u64,
    session: Option<Session>,
}

/// A plugin's session.
#[derive(Debug)]
struct Session {
    layout: Layout,
    ring: ConsumerIndex<Layout>,
    bell: Bell,
    /// Whether it was live when the card last looked.
    live: bool,
    /// How it ended, and how many of its last stores may still be taken.
    ended: Option<(Ended, u64)>,
}

impl Snoop {
    /// Creates it with no watched page and no plugin.
    pub fn create(pages: u64, records: u64) -> io::Result<Snoop> {
        let size = Size { pages, records };
        size.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Snoop { size, bits: vec![0; size.bit_words()], watched: 0, watch: 0, session: None })
    }

    /// Returns how many pages can be watched, and how many stores can wait.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Admits the first plugin that waits at a message listener, if there is none yet, and refuses
    /// the others. Returns whether one was admitted. Only for a process that serves this machine
    /// alone, because closing a plugin's socket may block. A process that serves others gives the
    /// socket to a porter, and then to [`Snoop::admit`].
    pub fn accept(&mut self, listener: &Listener) -> io::Result<bool> {
        let mut come = false;
        while let Some(socket) = listener.accept()? {
            // Fails if the plugin has already left.
            come |= self.admit(socket).unwrap_or(false);
        }
        Ok(come)
    }

    /// Admits the peer of a socket, unless there is a plugin that has not hung up; in that case
    /// refuses it and returns false. Discards unread stores of a plugin that has hung up. Never
    /// blocks.
    pub fn admit(&mut self, socket: impl Into<Socket>) -> io::Result<bool> {
        let socket = socket.into();
        if self.bell().is_some() {
            refuse(socket.as_fd(), "another plugin tells of this machine's stores already");
            return Ok(false);
        }
        self.attach(socket).map(|()| true)
    }

    /// Admits the peer of a socket, in place of any earlier plugin. Each plugin gets memory of its
    /// own, which no earlier plugin has access to. Never blocks.
    pub fn attach(&mut self, socket: impl Into<Socket>) -> io::Result<()> {
        let memory = Sealed::new("hamlyn-snoop", self.size.bytes())?;
        let layout = Layout::new(memory.region.clone(), self.size);
        for (word, bits) in self.bits.iter().enumerate() {
            show(&layout, word, *bits);
        }
        layout.watch().store(self.watch, Ordering::Release);
        let bell = welcome(socket, &memory, self.size)?;
        let ring = ConsumerIndex::new(layout.clone(), self.size.capacity(), 0);
        self.session = Some(Session { layout, ring, bell, live: false, ended: None });
        Ok(())
    }

    /// Ends the session of a plugin, if there is one.
    pub fn dismiss(&mut self) {
        self.session = None;
    }

    /// Returns whether there is a plugin.
    pub fn is_attached(&self) -> bool {
        self.session.is_some()
    }

    /// Sets whether stores to a page are reported. If [`Snoop::is_live`] returns true afterwards,
    /// all later stores are reported.
    pub fn watch(&mut self, page: u64, on: bool) -> Result<(), PageError> {
        if page >= self.size.pages {
            return Err(PageError { page, limit: self.size.pages });
        }
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if (self.bits[word] & bit != 0) == on {
            return Ok(());
        }
        self.bits[word] ^= bit;
        self.watched = if on { self.watched + 1 } else { self.watched - 1 };
        let changes = (self.watch >> 1).wrapping_add(1);
        self.watch = changes << 1 | u64::from(self.watched > 0);
        if let Some(session) = &self.session {
            show(&session.layout, word, self.bits[word]);
            // A plugin that sees the change also sees the bit.
            session.layout.watch().store(self.watch, Ordering::Release);
        }
        Ok(())
    }

    /// Returns whether stores to a page are to be reported. Returns false beyond the last page.
    pub fn is_watched(&self, page: u64) -> bool {
        let word = usize::try_from(page / 64).ok().and_then(|word| self.bits.get(word));
        word.is_some_and(|bits| bits >> (page % 64) & 1 != 0)
    }

    /// Returns whether stores to all watched pages are reported from now on. When the first page is
    /// watched, this takes until the machine's next interrupt; then the bell rings.
    pub fn is_live(&mut self) -> bool {
        let Some(session) = &mut self.session else { return false };
        session.live = live::is_live(&session.layout);
        session.live && session.ended.is_none()
    }

    /// Returns the next store, in the order of all processors. It may be to a page that is no
    /// longer watched, for a short time. After an error there is no plugin; another one may be
    /// admitted.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Store>, Ended> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let next = session.next(self.size);
        if next.is_err() {
            self.session = None;
        }
        next
    }

    /// Announces that the card sleeps until there are stores. True: wait for the bell. False: there
    /// is news in [`Snoop::next`] or [`Snoop::is_live`].
    pub fn sleep(&mut self) -> bool {
        // Without a plugin nothing can wake the card.
        self.session.as_mut().is_none_or(Session::sleep)
    }

    /// Returns a descriptor that is readable when the plugin woke the card, or is gone; then call
    /// [`Snoop::hear`]. Returns `None` once `hear` has detected that the plugin is gone.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        let session = self.session.as_ref().filter(|session| session.ended.is_none());
        session.map(|session| session.bell.as_fd())
    }

    /// Reads the bell. Call this first after waking, before looking at the stores. If the plugin is
    /// gone, [`Snoop::next`] reports that after its last stores.
    pub fn hear(&mut self) {
        let Some(session) = self.session.as_mut().filter(|session| session.ended.is_none()) else { return };
        if let Heard::End(end) = session.bell.hear() {
            // At most a full ring of its stores is taken, whatever its process still writes.
            session.ended = Some((Ended::Left(end), self.size.records));
        }
    }
}

/// Copies the bits of 64 pages to the shared memory.
fn show(layout: &Layout, word: usize, bits: u64) {
    if let Some(shown) = layout.bits(word) {
        shown.store(bits, Ordering::Relaxed);
    }
}

impl Session {
    fn next(&mut self, size: Size) -> Result<Option<Store>, Ended> {
        if let Some((ended, left)) = &mut self.ended {
            *left = left.checked_sub(1).ok_or(*ended)?;
        }
        let available = self.ring.available()?;
        if available % RECORD_BYTES as u64 != 0 {
            return Err(Ended::Part(available));
        }
        if available == 0 {
            return self.ended.map_or(Ok(None), |(ended, _)| Err(ended));
        }
        let mut record = [0; RECORD_BYTES];
        self.layout.record(self.ring.position()).copy_to(&mut record);
        let store = Store::parse(record, size.pages)?;
        if self.ring.release(RECORD_BYTES as u64) {
            self.bell.ring();
        }
        Ok(Some(store))
    }

    fn sleep(&mut self) -> bool {
        // `next` reports an error.
        let empty = self.ring.sleep().unwrap_or(false);
        empty && self.ended.is_none() && live::is_live(&self.layout) == self.live
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
