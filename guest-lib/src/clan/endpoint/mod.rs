//! Endpoints (section 3.1): Tripwires, a queue of DMA requests and a queue of messages, identified
//! by a host and a port.

mod fault;
mod message;
mod state;
mod wait;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::dma::{CLAN_MAX_REQUESTS, CLAN_MIN_REQUESTS, CLAN_REQUEST_SIZE};
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::uapi::{CLAN_DRIVERS_DMA, ClanEndpoint, ClanPeer, ClanSend};
use hamlyn_abi::family::link::HAMLYN_NO_HOST;
use hamlyn_sys::Access;
use rustix::io::Errno;

pub use self::fault::{Fault, FaultReason};
pub use self::message::{MESSAGE_SIZE, Message, MessageKind};
pub(super) use self::state::State;
#[cfg(test)]
pub(super) use self::state::bits_of;

use super::attachment::{Attachment, Object};
use super::descriptor::Descriptor;
use super::dma::{self, Dma};
use super::tripwire::{Places, Tripwire, Watch};
use super::window::Window;
use crate::core::device::is;
use crate::core::loss::PeerLoss;
use crate::core::polling::{Poller, Polling};
use crate::error::{Error, Result, at_most};

/// Default capacity of the DMA queue, in requests.
const REQUESTS: u32 = 64;

/// The address of an endpoint, for sending and receiving messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The host id.
    pub host: u32,
    /// The port at that host, 1 to 65,535.
    pub port: u32,
}

/// `host:port`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers =
            text.split_once(':').and_then(|(host, port)| Some((host.parse().ok()?, port.parse().ok()?)));
        let (host, port) = numbers.ok_or(Error::Invalid("an address is a host id, a colon, and a port"))?;
        at_most("port", u64::from(port), 0xffff)?;
        Ok(Self { host, port })
    }
}

/// Builds an endpoint.
#[derive(Debug, Clone)]
#[must_use]
pub struct EndpointBuilder {
    card: Arc<dyn Attachment>,
    argument: ClanEndpoint,
    polling: Polling,
}

impl EndpointBuilder {
    pub(super) fn new(card: &Arc<dyn Attachment>) -> Self {
        let argument = ClanEndpoint {
            tripwires: CLAN_MAX_TRIPWIRES,
            requests: REQUESTS,
            events: CLAN_NO_EVENTS,
            ..ClanEndpoint::default()
        };
        Self { card: card.clone(), argument, polling: Polling::default() }
    }

    /// Sets the port. The default, 0, selects any free port. Ports below 1,024 require
    /// `CAP_NET_BIND_SERVICE`.
    pub fn port(mut self, port: u32) -> Self {
        self.argument.port = port;
        self
    }

    /// Sets the number of Tripwires, 0 to 32. The default is 32.
    pub fn tripwires(mut self, tripwires: u32) -> Self {
        self.argument.tripwires = tripwires;
        self
    }

    /// Sets the capacity of the DMA queue: 16 to 1,024 requests, a power of two. The default is 64.
    pub fn requests(mut self, requests: u32) -> Self {
        self.argument.requests = requests;
        self
    }

    /// Makes the driver program the DMA engine instead of this process, as with the paper's card
    /// (section 3.4). Only for comparison.
    pub fn drivers_dma(mut self, drivers: bool) -> Self {
        self.argument.flags = if drivers { CLAN_DRIVERS_DMA } else { 0 };
        self
    }

    /// Sets how long a wait polls before it sleeps (section 4.3; the paper's library polls for up
    /// to 15 us).
    pub fn polling(mut self, polling: Polling) -> Self {
        self.polling = polling;
        self
    }

    /// Opens the endpoint.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Invalid`]; [`Error::Exhausted`] or [`Error::Quota`] if no
    /// endpoint is free; [`Error::System`], also if the port is in use (`EBUSY`).
    pub fn open(&self) -> Result<Endpoint> {
        let mut opened = self.argument;
        at_most("port", opened.port.into(), 0xffff)?;
        at_most("Tripwires of an endpoint", opened.tripwires.into(), CLAN_MAX_TRIPWIRES.into())?;
        at_most("DMA requests", opened.requests.into(), CLAN_MAX_REQUESTS.into())?;
        if opened.requests < CLAN_MIN_REQUESTS || !opened.requests.is_power_of_two() {
            return Err(Error::Invalid("a queue of DMA requests has room for 16 to 1024, a power of two"));
        }
        self.card.open_endpoint(&mut opened)?;
        let open = Open { card: self.card.clone(), number: opened.endpoint };
        let length = (CLAN_STATE_SIZE + opened.requests * CLAN_REQUEST_SIZE) as usize;
        let memory = self.card.map_pages("endpoint", opened.memory_offset, length, Access::ReadWrite)?;
        let size = CLAN_ENDPOINT_SIZE as usize;
        let page = self.card.map_pages("endpoint's page", opened.page_offset, size, Access::Write)?;
        Ok(Endpoint(Arc::new(Core {
            open,
            port: opened.port,
            state: State::new(memory, page, opened.requests),
            poller: Poller::new(self.polling),
            tripwires: Mutex::new(Places::new(opened.tripwires)),
            faults_seen: AtomicU32::new(0),
            used_as: AtomicU32::new(0),
            messages: Mutex::new(0),
            dma: Mutex::new(dma::Queue::new(opened.requests, opened.flags & CLAN_DRIVERS_DMA != 0)),
        })))
    }
}

/// An open endpoint. Clones refer to the same endpoint. It is closed when all clones, windows and
/// Tripwires are dropped; its peer is then notified.
#[derive(Debug, Clone)]
pub struct Endpoint(Arc<Core>);

/// The part of an endpoint that its windows, Tripwires and DMA requests share.
#[derive(Debug)]
pub(super) struct Core {
    // Dropped first. After the close, the card does not write to the memory, and no request uses an
    // aperture.
    open: Open,
    port: u32,
    state: State,
    poller: Poller,
    tripwires: Mutex<Places>,
    faults_seen: AtomicU32,
    /// Number of the endpoint's current use. Faults of earlier uses are not reported to this one.
    used_as: AtomicU32,
    /// Number of messages taken.
    messages: Mutex<u32>,
    dma: Mutex<dma::Queue>,
}

#[derive(Debug)]
struct Open {
    card: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.close(Object::Endpoint, self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub(super) fn card(&self) -> &Arc<dyn Attachment> {
        &self.open.card
    }

    pub(super) fn number(&self) -> u32 {
        self.open.number
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn dma(&self) -> MutexGuard<'_, dma::Queue> {
        lock(&self.dma)
    }

    pub(super) fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.tripwires)
    }

    /// Returns the last fault if the fault count differs from `before`, to explain why a load
    /// returned all ones. It may be the fault of another access: only the last one is known, and
    /// the load's fault may have preceded it.
    pub(super) fn fault_since(&self, before: u32) -> Option<Fault> {
        let (count, fault) = self.last_fault();
        fault.filter(|_| count != before)
    }

    /// Returns the number of faults and the last fault.
    pub(super) fn last_fault(&self) -> (u32, Option<Fault>) {
        self.state.fault(self.used_as.load(Ordering::Acquire))
    }

    /// Begins another use of the endpoint: later faults of earlier accesses are not reported.
    pub(super) fn begin_use(&self) {
        let number = self.used_as.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        self.state.begin_use(number);
    }

    pub(super) fn faults(&self) -> u32 {
        self.state.faults()
    }

    pub(super) fn take_fault(&self) -> Option<Fault> {
        let (count, fault) = self.last_fault();
        let seen = self.faults_seen.swap(count, Ordering::AcqRel);
        fault.filter(|_| count != seen)
    }

    /// Returns whether there is a message that the owner has not taken yet.
    pub(super) fn has_message(&self) -> bool {
        self.state.message(*lock(&self.messages)).is_some()
    }

    pub(super) fn has_fault(&self) -> bool {
        let (count, fault) = self.last_fault();
        fault.is_some() && count != self.faults_seen.load(Ordering::Acquire)
    }

    pub(super) fn try_message(&self) -> Option<Message> {
        let mut taken = lock(&self.messages);
        let message = Message::of(&self.state.message(*taken)?);
        *taken = taken.wrapping_add(1);
        self.state.messages_taken(*taken);
        Some(message)
    }

    pub(super) fn send(&self, to: Address, kind: MessageKind, data: &[u8; MESSAGE_SIZE]) -> Result<()> {
        let (data, endpoint) = (message::words(data), self.number());
        let mut send = ClanSend { endpoint, host: to.host, port: to.port, kind: kind.number(), data };
        self.card().send(&mut send).map_err(|error| match error {
            Error::System { source, .. } if is(&source, Errno::HOSTUNREACH) => {
                Error::PeerLost(PeerLoss::Host)
            }
            error => error,
        })
    }

    pub(super) fn set_peer(&self, peer: Option<Address>) -> Result<()> {
        let (host, port) = peer.map_or((0, 0), |peer| (peer.host, peer.port));
        self.card().set_peer(&mut ClanPeer { endpoint: self.number(), host, port, reserved: 0 })
    }
}

/// The bit for messages in [`Core::wait_until`].
pub(super) const MESSAGE: u64 = 1 << CLAN_BIT_MESSAGE;
/// The bit for faults.
pub(super) const FAULT: u64 = 1 << CLAN_BIT_FAULT;
/// The bit for DMA requests.
pub(super) const DMA: u64 = 1 << CLAN_BIT_DMA;

impl Endpoint {
    /// Returns the endpoint's number at this card.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number()
    }

    /// Returns the endpoint's port. Every process that knows the port and the host id may send to
    /// it.
    #[must_use]
    pub fn port(&self) -> u32 {
        self.0.port
    }

    /// Returns the address to which other endpoints send messages.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn address(&self) -> Result<Address> {
        match self.0.card().query()?.host {
            HAMLYN_NO_HOST => Err(Error::LinkDown),
            host => Ok(Address { host, port: self.port() }),
        }
    }

    /// Sets how long a wait polls before it sleeps, from now on.
    pub fn set_polling(&self, polling: Polling) {
        self.0.poller.set(polling);
    }

    /// Maps `length` bytes of an aperture, starting at `offset`, a multiple of 8: 1 byte to 8 MiB.
    /// The call does not check whether the aperture exists: if not, the first load or store causes
    /// a fault of this endpoint.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`], [`Error::OutOfRange`]; [`Error::Invalid`] if
    /// `length` is zero; [`Error::Exhausted`] or [`Error::Quota`] if no window pages are free;
    /// [`Error::System`].
    pub fn map(&self, descriptor: &Descriptor, offset: u64, length: usize) -> Result<Window> {
        Window::open(&self.0, descriptor, offset, length)
    }

    /// Sets a Tripwire and enables it.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if all Tripwires of the endpoint are in use; [`Error::Tripwire`] if the
    /// card refuses.
    pub fn tripwire(&self, watch: &Watch) -> Result<Tripwire> {
        Tripwire::set(&self.0, watch)
    }

    /// Returns the endpoint's queue of DMA requests.
    #[must_use]
    pub fn dma(&self) -> Dma {
        Dma::new(self.0.clone())
    }

    /// Sends a message of up to 40 bytes, padded with zeros. If it cannot be delivered, the driver
    /// sends a message back.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::PeerLost`] if the host does not exist; an error for which
    /// [`Error::is_would_block`] is true if there is no room now; [`Error::System`].
    pub fn send_message(&self, to: Address, kind: MessageKind, bytes: &[u8]) -> Result<()> {
        at_most("message length", bytes.len() as u64, MESSAGE_SIZE as u64)?;
        let mut data = [0; MESSAGE_SIZE];
        data[..bytes.len()].copy_from_slice(bytes);
        self.0.send(to, kind, &data)
    }

    /// Takes the next message, if there is one, without a system call.
    #[must_use]
    pub fn try_message(&self) -> Option<Message> {
        self.0.try_message()
    }

    /// Takes the next message; blocks until there is one.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card is gone.
    pub fn message(&self, timeout: Option<Duration>) -> Result<Message> {
        self.0.wait_until(MESSAGE, timeout, "message", || Ok(self.0.try_message()))
    }

    /// Returns the last fault, if there was one since the last call.
    #[must_use]
    pub fn take_fault(&self) -> Option<Fault> {
        self.0.take_fault()
    }

    /// Returns the number of faults, modulo 2^32.
    #[must_use]
    pub fn faults(&self) -> u32 {
        self.0.faults()
    }

    /// Blocks until a fault occurs and returns it.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card is gone.
    pub fn fault(&self, timeout: Option<Duration>) -> Result<Fault> {
        self.0.wait_until(FAULT, timeout, "fault", || Ok(self.0.take_fault()))
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}
