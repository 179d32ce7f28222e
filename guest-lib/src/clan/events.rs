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
use super::endpoint::{Core, Endpoint};
use super::tripwire::Tripwire;
use crate::core::waiting::{Deadline, poll_for, slept, slice};
use crate::error::{Error, Result, at_most};

/// Something that has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// What the source was registered with.
    pub token: u64,
    /// What has happened.
    pub what: What,
}

/// What has happened, once or more often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// The Tripwire of this number has fired.
    Tripwire(u32),
    /// A DMA request has ended that is not quiet.
    Dma,
    /// There is a message.
    Message,
    /// There was a fault.
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

/// Which events of an endpoint are wanted, besides those of its Tripwires.
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

    /// As the card is told.
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

/// What happens to any number of endpoints, in one queue of this process' memory: the card writes
/// it, and to take an event costs no system call, however many endpoints there are.
///
/// A source has at most one event in the queue that is not taken, however often it happens
/// meanwhile. So who takes one then looks at all there is: takes messages until there are none,
/// clears the Tripwire before he looks at its memory.
///
/// [`AsFd`] is what `poll(2)`, `epoll(7)`, `mio` and (feature `tokio`) [`super::asynchronous`] wait
/// for: it is readable while a queue of the same open card is not empty; one card has one queue for
/// that. Take events until there are none before you wait.
#[derive(Debug)]
pub struct EventQueue {
    // Dropped first: nothing is written to the memory any more.
    open: Open,
    memory: Arc<Mapping>,
    records: u32,
    /// How many were taken, modulo 2^32.
    taken: u32,
    file: OwnedFd,
    sources: HashMap<u32, Source>,
    /// Of what had happened before it was registered.
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
        let file = card.file().as_fd().try_clone_to_owned();
        let file = file.map_err(Error::system("have the card's file once more"))?;
        let (sources, early) = (HashMap::new(), VecDeque::new());
        Ok(Self { open, memory, records, taken: 0, file, sources, early })
    }

    /// Has an endpoint's events come here from now on, with this token, and those of before as far
    /// as they are not looked at yet. What it was registered for before, apart from Tripwires, is
    /// forgotten.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an endpoint of another open card; [`Error::System`], if the queue has
    /// no room for more sources, too.
    pub fn register(&mut self, endpoint: &Endpoint, interest: Interest, token: u64) -> Result<()> {
        let core = endpoint.core();
        let source = self.attach(core)?;
        source.tokens.retain(|what, _| matches!(what, What::Tripwire(_)));
        source.tokens.extend(interest.wants().map(|what| (what, token)));
        // The card makes an event of each bit that is set. A message or fault that was taken left
        // its bit; one that was not is found below.
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

    /// Has a Tripwire's firing come here as an event from now on, with this token. The Tripwire is
    /// enabled, and its endpoint's events come here, too; those that nobody registered for are
    /// passed over.
    ///
    /// # Errors
    /// Those of [`EventQueue::register`]; [`Error::Tripwire`] if the card refuses.
    pub fn register_tripwire(&mut self, tripwire: &mut Tripwire, token: u64) -> Result<()> {
        let what = What::Tripwire(tripwire.number());
        self.attach(tripwire.core())?.tokens.insert(what, token);
        tripwire.set_event(true)?;
        if tripwire.test() != 0 {
            self.early.push_back(Event { token, what });
        }
        Ok(())
    }

    /// Has no more events of a Tripwire. The Tripwire stays enabled.
    ///
    /// # Errors
    /// [`Error::Tripwire`] if the card does not answer.
    pub fn unregister_tripwire(&mut self, tripwire: &mut Tripwire) -> Result<()> {
        if let Some(source) = self.sources.get_mut(&tripwire.core().number()) {
            source.tokens.remove(&What::Tripwire(tripwire.number()));
        }
        tripwire.set_event(false)
    }

    /// Has no more events of an endpoint, those of its Tripwires included.
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

    /// The source that an endpoint is. Its number may have been that of one that is closed.
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

    /// Takes the next event, if there is one. It makes no system call.
    #[allow(clippy::should_implement_trait, reason = "another look may find one after there was none")]
    pub fn next(&mut self) -> Option<Event> {
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

    /// Takes a record. What it stands for is to be looked at behind it.
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

    /// What a record means to who registered its source, if anybody did who is still there.
    fn meant(&self, record: &ClanEvent) -> Option<Event> {
        let what = What::of(record)?;
        let source = self.sources.get(&record.endpoint)?;
        let token = *source.tokens.get(&what)?;
        (source.core.strong_count() != 0).then_some(Event { token, what })
    }

    /// Takes the next event; looks for it for as long as `polling`, then gives up (section 5.3: up
    /// to 15 us).
    pub fn poll(&mut self, polling: Duration) -> Option<Event> {
        poll_for(polling, || Ok(self.next())).ok().flatten()
    }

    /// Takes the next event; sleeps until there is one.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card has gone.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Event> {
        let deadline = Deadline::new(timeout);
        loop {
            if let Some(event) = self.next() {
                return Ok(event);
            }
            let left = deadline.check("event")?;
            let mut wait =
                ClanEventsWait { timeout_ns: slice(left), queue: self.open.number, taken: self.taken };
            slept(self.open.card.wait_for_events(&mut wait))?;
        }
    }

    /// Makes sure that the file tells of the next event, to who is told only of changes (`mio`,
    /// `epoll` with `EPOLLET`). True if there is one already: then take it instead of waiting.
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
