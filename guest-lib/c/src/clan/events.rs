//! Asynchronous event queues.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::time::Duration;

use hamlyn::clan::{Event, EventQueue, Interest, What};

use super::card::clan_card;
use super::endpoint::clan_endpoint;
use super::tripwire::clan_tripwire;
use crate::call::{Failure, waited};
use crate::exported::{Out, exported};

/// A Tripwire has fired.
pub const CLAN_EVENT_TRIPWIRE: u32 = 1;
/// A DMA request that is not quiet has ended.
pub const CLAN_EVENT_DMA: u32 = 2;
/// A message has arrived, or the peer has ended: check the connection.
pub const CLAN_EVENT_MESSAGE: u32 = 3;
/// A fault has occurred.
pub const CLAN_EVENT_FAULT: u32 = 4;

/// For clan_events_register: reports ends of DMA requests.
pub const CLAN_INTEREST_DMA: u32 = 1;
/// For clan_events_register: reports messages.
pub const CLAN_INTEREST_MESSAGES: u32 = 2;
/// For clan_events_register: reports faults.
pub const CLAN_INTEREST_FAULTS: u32 = 4;

/// Events of any number of endpoints, in one queue in this process' memory (section 3.5). The card
/// writes the queue; taking an event makes no system call. A source has at most one event in the
/// queue, however often the event occurs. So after you take an event, process everything that its
/// source has pending. One thread at a time may use it.
pub struct clan_events(pub(crate) EventQueue);

/// An event that has occurred one or more times.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_event {
    /// The token with which the source was registered.
    pub token: u64,
    /// One of the CLAN_EVENT_ constants.
    pub what: u32,
    /// For a Tripwire's event, the Tripwire's number at its endpoint; else 0.
    pub tripwire: u32,
    /// Reserved for future use: zeros.
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

exported! {
/// Opens an event queue with room for `records` records: 16 to 65536, a power of two. Each source
/// needs one: three for each endpoint, and one for each Tripwire that the endpoint was opened with.
fn clan_events_create(card: &clan_card, records: u32, events: Out<Box<clan_events>>) {
    events.store(clan_events(card.0.events(records)?))
}

/// Releases an event queue. NULL is a no-op.
fn clan_events_destroy(events: Box<clan_events>);

/// Returns a file descriptor for poll(2) and similar calls, owned by the library. It is readable
/// while a queue of the same open card is not empty. Take events until there are none before you
/// wait.
fn clan_events_fd(events: &clan_events) {
    events.0.as_raw_fd()
}

/// Registers an endpoint: its events of the kinds in `interest` come to this queue from now on,
/// with this token. So do earlier events that were not processed yet. `interest` combines
/// CLAN_INTEREST_DMA, CLAN_INTEREST_MESSAGES and CLAN_INTEREST_FAULTS. This replaces the endpoint's
/// previous registration, except for its Tripwires.
fn clan_events_register(events: &mut clan_events, endpoint: &clan_endpoint, interest: u32, token: u64) {
    if interest & !(CLAN_INTEREST_DMA | CLAN_INTEREST_MESSAGES | CLAN_INTEREST_FAULTS) != 0 {
        return Err(Failure::argument(format!("interest {interest:#x} is unknown")));
    }
    let is_in = |bit| interest & bit != 0;
    let interest = Interest {
        dma: is_in(CLAN_INTEREST_DMA),
        messages: is_in(CLAN_INTEREST_MESSAGES),
        faults: is_in(CLAN_INTEREST_FAULTS),
    };
    events.0.register(&endpoint.0, interest, token)?
}

/// Registers a Tripwire: its firing comes to this queue as an event from now on, with this token.
/// This enables the Tripwire. Its endpoint's events come to this queue too; those without a
/// registration are skipped.
fn clan_events_register_tripwire(events: &mut clan_events, tripwire: &mut clan_tripwire, token: u64) {
    events.0.register_tripwire(&mut tripwire.0, token)?
}

/// Unregisters an endpoint and its Tripwires.
fn clan_events_unregister(events: &mut clan_events, endpoint: &clan_endpoint) {
    events.0.unregister(&endpoint.0)?
}

/// Unregisters a Tripwire, which stays enabled.
fn clan_events_unregister_tripwire(events: &mut clan_events, tripwire: &mut clan_tripwire) {
    events.0.unregister_tripwire(&mut tripwire.0)?
}

/// Takes the next event.
fn clan_events_next(events: &mut clan_events, event: Out<clan_event>, timeout_ms: c_int) {
    event.store(waited!(timeout_ms, events.0 => recv / recv_timeout())?)
}

/// Takes the next event. Polls for up to `polling_us` microseconds (section 5.3: up to 15), and
/// does not sleep. Fails with -EAGAIN if there is none.
fn clan_events_poll(events: &mut clan_events, polling_us: u32, event: Out<clan_event>) {
    let found = events.0.poll(Duration::from_micros(polling_us.into()));
    event.store(found.ok_or_else(|| Failure::nothing_yet("event"))?)
}

/// Arms clan_events_fd for the next event, for edge-triggered use (EPOLLET). Returns 1 if there
/// already is an event: take it instead of waiting. Otherwise returns 0.
fn clan_events_arm(events: &mut clan_events) {
    events.0.arm()?
}
}
