//! The card's end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use hamlyn_door::Listener;
use hamlyn_fabric::bell::{Bell, End, Heard, Socket};
use hamlyn_fabric::index::ConsumerIndex;
use hamlyn_fabric::memory::Sealed;
use hamlyn_fabric::ring::RingError;
use thiserror::Error;

use crate::layout::{Layout, Size};
use crate::live;
use crate::store::{RECORD_BYTES, RecordError, Store};
use crate::welcome::{refuse, welcome};

/// Why a plugin's session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Ended {
    /// It hung up, or the card ended it.
    #[error("the machine's stores are seen no more: {0}")]
    Left(End),
    /// Its ring makes no sense.
    #[error("the machine's stores are seen no more: {0}")]
    Ring(#[from] RingError),
    /// Not a whole number of stores is there.
    #[error(
        "the machine's stores are seen no more: {0} bytes are in the ring (a multiple of {RECORD_BYTES})"
    )]
    Part(u64),
    /// A record makes no sense.
    #[error("the machine's stores are seen no more: {0}")]
    Record(#[from] RecordError),
}

/// A page that cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("page {page} cannot be watched (limit {limit})")]
pub struct PageError {
    /// Which.
    pub page: u64,
    /// How many there are.
    pub limit: u64,
}

/// What a card watches of its machine's memory, and the stores to it. One plugin at a time tells of
/// them.
#[derive(Debug)]
pub struct Snoop {
    size: Size,
    /// The truth: the memory that is shared has a copy.
    bits: Vec<u64>,
    /// How many bits are set.
    watched: u64,
    /// The word that tells a plugin of changes.
    watch: u64,
    session: Option<Session>,
}

/// A plugin that is there.
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
    /// Nothing is watched yet, and no plugin is there.
    pub fn create(pages: u64, records: u64) -> io::Result<Snoop> {
        let size = Size { pages, records };
        size.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Snoop { size, bits: vec![0; size.bit_words()], watched: 0, watch: 0, session: None })
    }

    /// How much can be watched, and how many stores can wait.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Lets the plugins in that wait at a listener of messages: the first if there is none yet. The
    /// others are refused. True: one has come. For a process that serves this machine alone, as
    /// closing a plugin's socket may block: who serves others gives it to a porter, and then to
    /// [`Snoop::admit`].
    pub fn accept(&mut self, listener: &Listener) -> io::Result<bool> {
        let mut come = false;
        while let Some(socket) = listener.accept()? {
            // It fails if the plugin has left again.
            come |= self.admit(socket).unwrap_or(false);
        }
        Ok(come)
    }

    /// Lets in who is at the other end of a socket, unless there is a plugin that has not hung up:
    /// then it is refused, and the result is false. Of one that has hung up, what it still had to
    /// tell is lost. Never blocks.
    pub fn admit(&mut self, socket: impl Into<Socket>) -> io::Result<bool> {
        let socket = socket.into();
        if self.bell().is_some() {
            refuse(socket.as_fd(), "another plugin tells of this machine's stores already");
            return Ok(false);
        }
        self.attach(socket).map(|()| true)
    }

    /// Lets in who is at the other end of a socket, in place of whoever was there. Each gets memory
    /// of its own, which nobody knows who was there before. Never blocks.
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

    /// Ends the session of a plugin, if one is there.
    pub fn dismiss(&mut self) {
        self.session = None;
    }

    /// Whether a plugin is there.
    pub fn is_attached(&self) -> bool {
        self.session.is_some()
    }

    /// Whether stores to a page are to be told. A store that is made after this is told if
    /// [`Snoop::is_live`] says so.
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
            // Who sees the change sees the bit.
            session.layout.watch().store(self.watch, Ordering::Release);
        }
        Ok(())
    }

    /// Whether a page's stores are to be told. False beyond the last.
    pub fn is_watched(&self, page: u64) -> bool {
        let word = usize::try_from(page / 64).ok().and_then(|word| self.bits.get(word));
        word.is_some_and(|bits| bits >> (page % 64) & 1 != 0)
    }

    /// Whether stores to all that is watched are told from now on. It takes until the machine's
    /// next interrupt after something is watched for the first time; the bell rings then.
    pub fn is_live(&mut self) -> bool {
        let Some(session) = &mut self.session else { return false };
        session.live = live::is_live(&session.layout);
        session.live && session.ended.is_none()
    }

    /// The next store, in the order of all processors. It may be to a page that has not been
    /// watched for a moment. After an error there is no plugin; another may come.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Store>, Ended> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let next = session.next(self.size);
        if next.is_err() {
            self.session = None;
        }
        next
    }

    /// Declares that the card sleeps for want of stores. True: wait for the bell. False: there is
    /// something to see, in [`Snoop::next`] or [`Snoop::is_live`].
    pub fn sleep(&mut self) -> bool {
        // Without a plugin there is nothing to wake up for.
        self.session.as_mut().is_none_or(Session::sleep)
    }

    /// Readable when the plugin woke the card, or is gone: then call [`Snoop::hear`]. None once it
    /// was heard that it is gone.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        let session = self.session.as_ref().filter(|session| session.ended.is_none());
        session.map(|session| session.bell.as_fd())
    }

    /// Hears the bell: the first thing to do after waking, before a look at the stores. That a
    /// plugin is gone is what [`Snoop::next`] says once its last stores are taken.
    pub fn hear(&mut self) {
        let Some(session) = self.session.as_mut().filter(|session| session.ended.is_none()) else { return };
        if let Heard::End(end) = session.bell.hear() {
            // What it left behind is no more than the ring holds, whatever its process still
            // writes.
            session.ended = Some((Ended::Left(end), self.size.records));
        }
    }
}

/// Writes the bits of 64 pages to where a plugin sees them.
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
        // An error is told by `next`.
        let empty = self.ring.sleep().unwrap_or(false);
        empty && self.ended.is_none() && live::is_live(&self.layout) == self.live
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
