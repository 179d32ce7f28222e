//! Asynchronous event queues (section 3.5).

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::endpoint::{
    CLAN_BIT_FAULT, CLAN_BIT_MESSAGE, CLAN_INTERESTED_IN_DMA, CLAN_INTERESTED_IN_FAULTS,
    CLAN_INTERESTED_IN_MESSAGES,
};
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::uapi::{ClanEvents, ClanEventsOf, ClanEventsWait};
use hamlyn_sys::{Access, Mapping, barrier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zerocopy::{FromBytes, IntoBytes};

use super::attachment::{Attachment, Object};
use super::endpoint::Endpoint;
use super::endpoint::core::Core;
use super::tripwire::Tripwire;
use crate::core::attach::file_of;
use crate::core::polling::{Poller, Polling, poll_until};
use crate::core::waiting::{slept, slice};
use crate::error::{Error, Result, at_most};

/// An event in an event queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// The token with which the source was registered.
    pub token: u64,
    /// What happened.
    pub what: What,
}

/// The kind of an event, which may have happened once or several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// The Tripwire with this number has fired.
    Tripwire(u32),
    /// A DMA request that is not quiet has completed.
    Dma,
    /// A message has arrived.
    Message,
    /// A fault has occurred.
    Fault,
}

impl What {
    fn of(event: &ClanEvent) -> Option<Self> {
        match event.kind {
            CLAN_EVENT_TRIPWIRE => Some(What::Tripwire(event.detail)),
            CLAN_EVENT_DMA => Some(What::Dma),
            CLAN_EVENT_MESSAGE => Some(What::Message),
            CLAN_EVENT_FAULT => Some(What::Fault),
            _ => None,
        }
    }
}

/// Selects an endpoint's events, besides those of its Tripwires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Interest {
    /// [`What::Dma`].
    pub dma: bool,
    /// [`What::Message`].
    pub messages: bool,
    /// [`What::Fault`].
    pub faults: bool,
}

impl Interest {
    /// All of them.
    pub const ALL: Self = Self { dma: true, messages: true, faults: true };

    /// Returns the mask in the card's format.
    fn mask(self) -> u32 {
        let all = [
            (self.dma, CLAN_INTERESTED_IN_DMA),
            (self.messages, CLAN_INTERESTED_IN_MESSAGES),
            (self.faults, CLAN_INTERESTED_IN_FAULTS),
        ];
        all.into_iter().fold(0, |mask, (wanted, bit)| if wanted { mask | bit } else { mask })
    }

    fn wants(self) -> impl Iterator<Item = What> {
        let all = [(self.dma, What::Dma), (self.messages, What::Message), (self.faults, What::Fault)];
        all.into_iter().filter_map(|(wanted, what)| wanted.then_some(what))
    }
}

/// A queue of the events of any number of endpoints, in memory of this process. The card writes it.
/// Taking an event needs no system call, however many endpoints there are.
///
/// A source has at most one pending event in the queue, however often it happens meanwhile. So
/// after taking an event, handle everything that is there: take messages until there are none, and
/// clear the Tripwire before reading its memory.
///
/// [`AsFd`] returns the file to wait for with `poll(2)`, `epoll(7)`, `mio` and (feature `tokio`)
/// `super::asynchronous`. It is readable while the queue is not empty. Take events until there are
/// none before waiting.
#[derive(Debug)]
pub struct EventQueue {
    // Dropped first: afterwards the card does not write to the memory.
    open: Open,
    memory: Arc<Mapping>,
    records: u32,
    /// Number of events taken, modulo 2^32.
    taken: u32,
    poller: Arc<Poller>,
    file: OwnedFd,
    sources: HashMap<u32, Source>,
    /// Events of conditions that existed before their source was registered.
    early: VecDeque<Event>,
}

#[derive(Debug)]
struct Source {
    core: Weak<Core>,
    tokens: HashMap<What, u64>,
}

#[derive(Debug)]
struct Open {
    card: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.close(Object::Events, self.number);
    }
}

impl EventQueue {
    pub(super) fn open(card: &Arc<dyn Attachment>, records: u32) -> Result<Self> {
        at_most("records of an event queue", records.into(), CLAN_MAX_EVENTS.into())?;
        if records < CLAN_MIN_EVENTS || !records.is_power_of_two() {
            return Err(Error::Invalid("an event queue has 16 to 65536 records, a power of two"));
        }
        let mut opened = ClanEvents { records, ..ClanEvents::default() };
        card.open_events(&mut opened)?;
        let open = Open { card: card.clone(), number: opened.queue };
        let length = (CLAN_EVENTS_HEAD + records * CLAN_EVENT_SIZE) as usize;
        let memory = card.map_pages("event queue", opened.memory_offset, length, Access::ReadWrite)?;
        let file = file_of(&**card, opened.memory_offset, &card.file())?;
        let (sources, early) = (HashMap::new(), VecDeque::new());
        Ok(Self { open, memory, records, taken: 0, poller: Arc::default(), file, sources, early })
    }

    /// Routes an endpoint's events to this queue from now on, with this token. Earlier events are
    /// included if they were not handled yet. Replaces an earlier registration of the endpoint,
    /// except that of its Tripwires.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the endpoint belongs to another open card; [`Error::System`], also if
    /// the queue has no room for more sources.
    pub fn register(&mut self, endpoint: &Endpoint, interest: Interest, token: u64) -> Result<()> {
        let core = endpoint.core();
        let source = self.attach(core)?;
        source.tokens.retain(|what, _| matches!(what, What::Tripwire(_)));
        source.tokens.extend(interest.wants().map(|what| (what, token)));
        // The card creates an event for each bit that is set. A message or fault that was taken
        // leaves its bit set; one that was not taken is found below.
        core.state().clear(1 << CLAN_BIT_MESSAGE | 1 << CLAN_BIT_FAULT);
        core.state().set_interest(interest.mask());
        let news = [(core.has_message(), What::Message), (core.has_fault(), What::Fault)];
        for (_, what) in news.into_iter().filter(|(is_there, _)| *is_there) {
            if interest.wants().any(|wanted| wanted == what) {
                self.early.push_back(Event { token, what });
            }
        }
        Ok(())
    }

    /// Routes a Tripwire's events to this queue from now on, with this token. The Tripwire is
    /// enabled. Its endpoint's events are routed here too; those without a registration are
    /// discarded.
    ///
    /// # Errors
    /// Same as [`EventQueue::register`]; [`crate::clan::TripwireError`] if the card refuses.
    pub fn register_tripwire(&mut self, tripwire: &mut Tripwire, token: u64) -> Result<()> {
        let what = What::Tripwire(tripwire.number());
        self.attach(tripwire.core())?.tokens.insert(what, token);
        tripwire.set_event(true)?;
        if tripwire.test() != 0 {
            self.early.push_back(Event { token, what });
        }
        Ok(())
    }

    /// Stops the events of a Tripwire. The Tripwire stays enabled.
    ///
    /// # Errors
    /// [`crate::clan::TripwireError`] if the card does not answer.
    pub fn unregister_tripwire(&mut self, tripwire: &mut Tripwire) -> Result<()> {
        if let Some(source) = self.sources.get_mut(&tripwire.core().number()) {
            source.tokens.remove(&What::Tripwire(tripwire.number()));
        }
        tripwire.set_event(false)
    }

    /// Stops the events of an endpoint, including those of its Tripwires.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn unregister(&mut self, endpoint: &Endpoint) -> Result<()> {
        if self.sources.remove(&endpoint.number()).is_none() {
            return Ok(());
        }
        let mut argument = ClanEventsOf { endpoint: endpoint.number(), events: CLAN_NO_EVENTS };
        self.open.card.set_events(&mut argument)
    }

    /// Returns the source of an endpoint. A source with the same number may belong to an endpoint
    /// that was closed.
    fn attach(&mut self, core: &Arc<Core>) -> Result<&mut Source> {
        if !Arc::ptr_eq(core.card(), &self.open.card) {
            return Err(Error::Invalid("an event queue has events of endpoints of the same open card"));
        }
        let number = core.number();
        let known = self.sources.get(&number).is_some_and(|source| source.core.as_ptr() == Arc::as_ptr(core));
        if !known {
            core.state().set_interest(0);
            self.open.card.set_events(&mut ClanEventsOf { endpoint: number, events: self.open.number })?;
            self.sources.remove(&number);
        }
        let new = || Source { core: Arc::downgrade(core), tokens: HashMap::new() };
        Ok(self.sources.entry(number).or_insert_with(new))
    }

    /// Takes the next event, if there is one, without a system call.
    pub fn try_recv(&mut self) -> Option<Event> {
        if let Some(event) = self.early.pop_front() {
            return Some(event);
        }
        loop {
            let record = self.take()?;
            if let Some(event) = self.meant(&record) {
                return Some(event);
            }
        }
    }

    /// Takes a record. The caller must check what it stands for afterwards.
    fn take(&mut self) -> Option<ClanEvent> {
        let next = self.taken.wrapping_add(1);
        let at = (CLAN_EVENTS_HEAD + (self.taken & (self.records - 1)) * CLAN_EVENT_SIZE) as usize;
        let number = at + std::mem::offset_of!(ClanEvent, number);
        if self.memory.load_u32_acquire(number) != next {
            return None;
        }
        let mut event = ClanEvent::default();
        self.memory.read(at, event.as_mut_bytes());
        self.taken = next;
        self.memory.store_u32_release(CLAN_EVENTS_TAKEN as usize, next);
        barrier::before_queue_check();
        ClanEvent::read_from_bytes(event.as_bytes()).ok()
    }

    /// Converts a record to the event of its source; `None` if the source is not registered or its
    /// endpoint is closed.
    fn meant(&self, record: &ClanEvent) -> Option<Event> {
        let what = What::of(record)?;
        let source = self.sources.get(&record.endpoint)?;
        let token = *source.tokens.get(&what)?;
        (source.core.strong_count() != 0).then_some(Event { token, what })
    }

    /// Takes the next event, and polls for it for up to `polling` (section 5.3: up to 15 us).
    pub fn poll(&mut self, polling: Duration) -> Option<Event> {
        poll_until(Some(polling), || self.try_recv())
    }

    /// Sets how long [`EventQueue::recv`] polls before it sleeps.
    pub fn set_polling(&mut self, polling: Polling) {
        self.poller.set(polling);
    }

    /// Takes the next event. Polls for a while, then sleeps.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn recv(&mut self) -> Result<Event> {
        self.recv_within(None)
    }

    /// As [`EventQueue::recv`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`EventQueue::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Event> {
        self.recv_within(Some(timeout))
    }

    fn recv_within(&mut self, timeout: Option<Duration>) -> Result<Event> {
        let poller = self.poller.clone();
        poller.wait(self, "event", timeout, Self::try_recv, |events, left| {
            let (queue, taken) = (events.open.number, events.taken);
            let mut wait = ClanEventsWait { timeout_ns: slice(left), queue, taken };
            slept(events.open.card.wait_for_events(&mut wait))
        })
    }

    /// Arms the file for edge-triggered waiting (`mio`, `epoll` with `EPOLLET`), so that it signals
    /// the next event. Returns true if an event is already there: then take it instead of waiting.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&mut self) -> Result<bool> {
        if !self.early.is_empty() {
            return Ok(true);
        }
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&now)) {
            Ok(ready) => Ok(ready != 0),
            Err(errno) => Err(Error::system("ask whether there is an event")(errno.into())),
        }
    }
}

impl AsFd for EventQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for EventQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
