//! Asynchronous event queues.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

use hamlyn::clan::{Event, EventQueue, Interest, What};

use super::card::clan_card;
use super::endpoint::clan_endpoint;
use super::tripwire::clan_tripwire;
use crate::call::{Failure, at_once, call, free, given, store, timeout};

/// A Tripwire has fired.
pub const CLAN_EVENT_TRIPWIRE: u32 = 1;
/// A DMA request has ended that is not quiet.
pub const CLAN_EVENT_DMA: u32 = 2;
/// A message has arrived, or the peer has ended: check the connection.
pub const CLAN_EVENT_MESSAGE: u32 = 3;
/// There was a fault.
pub const CLAN_EVENT_FAULT: u32 = 4;

/// For clan_events_register: ends of DMA requests are wanted.
pub const CLAN_INTEREST_DMA: u32 = 1;
/// Messages are.
pub const CLAN_INTEREST_MESSAGES: u32 = 2;
/// Faults are.
pub const CLAN_INTEREST_FAULTS: u32 = 4;

/// What happens to any number of endpoints, in one queue of this process' memory (section 3.5): the
/// card writes it, and to take an event is no system call. A source has at most one event in it
/// that is not taken, however often it happens; so who takes one then looks at all there is. One
/// thread at a time may use it.
pub struct clan_events(pub(crate) EventQueue);

/// Something that has happened, once or more often.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_event {
    /// What the source was registered with.
    pub token: u64,
    /// CLAN_EVENT_TRIPWIRE or another.
    pub what: u32,
    /// Of a Tripwire's event, its number at its endpoint; else 0.
    pub tripwire: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 4],
}

impl From<Event> for clan_event {
    fn from(event: Event) -> Self {
        let (what, tripwire) = match event.what {
            What::Tripwire(number) => (CLAN_EVENT_TRIPWIRE, number),
            What::Dma => (CLAN_EVENT_DMA, 0),
            What::Message => (CLAN_EVENT_MESSAGE, 0),
            What::Fault => (CLAN_EVENT_FAULT, 0),
        };
        Self { token: event.token, what, tripwire, reserved: [0; 4] }
    }
}

/// Opens an event queue with room for so many records, 16 to 65536, a power of two: one for each
/// source, which are three for each endpoint and one for each Tripwire that it was opened with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_create(
    card: Option<&clan_card>,
    records: u32,
    events: Option<&mut MaybeUninit<Box<clan_events>>>,
) -> c_int {
    call(|| {
        let to = given(events, "events")?;
        store(to, Box::new(clan_events(given(card, "card")?.0.events(records)?)))
    })
}

/// Lets an event queue go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_destroy(events: Option<Box<clan_events>>) {
    free(events);
}

/// A file descriptor for poll(2) and the like, which stays the library's: readable while a queue of
/// the same open card is not empty. Take events until there are none before you wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_fd(events: Option<&clan_events>) -> c_int {
    call(|| Ok(given(events, "events")?.0.as_raw_fd()))
}

/// Has an endpoint's events come here from now on, with this token, and those of before as far as
/// they are not looked at yet: of CLAN_INTEREST_DMA, CLAN_INTEREST_MESSAGES and
/// CLAN_INTEREST_FAULTS. What it was registered for before, apart from Tripwires, is forgotten.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_register(
    events: Option<&mut clan_events>,
    endpoint: Option<&clan_endpoint>,
    interest: u32,
    token: u64,
) -> c_int {
    call(|| {
        let (events, endpoint) = (&mut given(events, "events")?.0, &given(endpoint, "endpoint")?.0);
        if interest & !(CLAN_INTEREST_DMA | CLAN_INTEREST_MESSAGES | CLAN_INTEREST_FAULTS) != 0 {
            return Err(Failure::argument(format!("interest {interest:#x} is unknown")));
        }
        let is_in = |bit| interest & bit != 0;
        let interest = Interest {
            dma: is_in(CLAN_INTEREST_DMA),
            messages: is_in(CLAN_INTEREST_MESSAGES),
            faults: is_in(CLAN_INTEREST_FAULTS),
        };
        Ok(events.register(endpoint, interest, token).map(|()| 0)?)
    })
}

/// Has a Tripwire's firing come here as an event from now on, with this token. The Tripwire is
/// enabled, and its endpoint's events come here, too; those that nobody registered for are passed
/// over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_register_tripwire(
    events: Option<&mut clan_events>,
    tripwire: Option<&mut clan_tripwire>,
    token: u64,
) -> c_int {
    call(|| {
        let (events, tripwire) = (&mut given(events, "events")?.0, given(tripwire, "tripwire")?);
        Ok(events.register_tripwire(&mut tripwire.0, token).map(|()| 0)?)
    })
}

/// Has no more events of an endpoint, those of its Tripwires included.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_unregister(
    events: Option<&mut clan_events>,
    endpoint: Option<&clan_endpoint>,
) -> c_int {
    call(|| {
        let (events, endpoint) = (&mut given(events, "events")?.0, given(endpoint, "endpoint")?);
        Ok(events.unregister(&endpoint.0).map(|()| 0)?)
    })
}

/// Has no more events of a Tripwire, which stays enabled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_unregister_tripwire(
    events: Option<&mut clan_events>,
    tripwire: Option<&mut clan_tripwire>,
) -> c_int {
    call(|| {
        let (events, tripwire) = (&mut given(events, "events")?.0, given(tripwire, "tripwire")?);
        Ok(events.unregister_tripwire(&mut tripwire.0).map(|()| 0)?)
    })
}

/// Takes the next event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_next(
    events: Option<&mut clan_events>,
    event: Option<&mut MaybeUninit<clan_event>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (events, to) = (&mut given(events, "events")?.0, given(event, "event")?);
        store(to, at_once(timeout_ms, events.wait(timeout(timeout_ms)))?.into())
    })
}

/// Takes the next event; looks for it for as many microseconds (section 5.3: up to 15) and does not
/// sleep. -EAGAIN if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_poll(
    events: Option<&mut clan_events>,
    polling_us: u32,
    event: Option<&mut MaybeUninit<clan_event>>,
) -> c_int {
    call(|| {
        let (events, to) = (&mut given(events, "events")?.0, given(event, "event")?);
        let found = events.poll(Duration::from_micros(polling_us.into()));
        store(to, found.ok_or_else(|| Failure::nothing_yet("event"))?.into())
    })
}

/// Makes sure that clan_events_fd tells of the next event, to who is told only of changes
/// (EPOLLET). Returns 1 if there is one already: then take it instead of waiting; else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_events_arm(events: Option<&mut clan_events>) -> c_int {
    call(|| Ok(given(events, "events")?.0.arm()?.into()))
}
