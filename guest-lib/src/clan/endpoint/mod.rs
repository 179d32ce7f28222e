//! Endpoints (section 3.1): Tripwires, a queue of DMA requests and a queue of messages, identified
//! by a host and a port.

mod address;
pub(super) mod core;
pub(crate) mod fault;
mod message;
mod places;
pub(super) mod state;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::dma::{CLAN_MAX_REQUESTS, CLAN_MIN_REQUESTS};
use hamlyn_abi::clan::endpoint::CLAN_MAX_TRIPWIRES;
use hamlyn_abi::clan::uapi::{CLAN_DRIVERS_DMA, ClanEndpoint};
use hamlyn_abi::family::link::ULN_NO_HOST;

pub use self::address::Address;
use self::core::{Core, FAULT, MESSAGE};
pub use self::fault::{Fault, FaultReason};
pub use self::message::{MESSAGE_SIZE, Message, MessageKind};

use super::attachment::Attachment;
use super::descriptor::Descriptor;
use super::dma::Dma;
use super::tripwire::{Tripwire, Watch};
use super::window::Window;
use crate::core::polling::Polling;
use crate::error::{Error, Result, at_most};

/// Default capacity of the DMA queue, in requests.
const REQUESTS: u32 = 64;

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
        let opened = self.argument;
        at_most("port", opened.port.into(), 0xffff)?;
        at_most("Tripwires of an endpoint", opened.tripwires.into(), CLAN_MAX_TRIPWIRES.into())?;
        at_most("DMA requests", opened.requests.into(), CLAN_MAX_REQUESTS.into())?;
        if opened.requests < CLAN_MIN_REQUESTS || !opened.requests.is_power_of_two() {
            return Err(Error::Invalid("a queue of DMA requests has room for 16 to 1024, a power of two"));
        }
        Core::open(&self.card, opened, self.polling).map(|core| Endpoint(Arc::new(core)))
    }
}

/// An open endpoint. Clones refer to the same endpoint. It is closed when all clones, windows and
/// Tripwires are dropped; its peer is then notified.
#[derive(Debug, Clone)]
pub struct Endpoint(Arc<Core>);

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
        self.0.port()
    }

    /// Returns the address to which other endpoints send messages.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn address(&self) -> Result<Address> {
        match self.0.card().query()?.host {
            ULN_NO_HOST => Err(Error::LinkDown),
            host => Ok(Address { host, port: self.port() }),
        }
    }

    /// Sets how long a wait polls before it sleeps, from now on.
    pub fn set_polling(&self, polling: Polling) {
        self.0.poller().set(polling);
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
    /// [`Error::Exhausted`] if all Tripwires of the endpoint are in use;
    /// [`crate::clan::TripwireError`] if the card refuses.
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
    pub fn try_recv_message(&self) -> Option<Message> {
        self.0.try_message()
    }

    /// Takes the next message; blocks until there is one.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn recv_message(&self) -> Result<Message> {
        self.recv_message_within(None)
    }

    /// As [`Endpoint::recv_message`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Endpoint::recv_message`].
    pub fn recv_message_timeout(&self, timeout: Duration) -> Result<Message> {
        self.recv_message_within(Some(timeout))
    }

    pub(super) fn recv_message_within(&self, timeout: Option<Duration>) -> Result<Message> {
        self.0.wait_until(MESSAGE, timeout, "message", || Ok(self.0.try_message()))
    }

    /// Returns the last fault, if there was one since the last call.
    #[must_use]
    pub fn try_recv_fault(&self) -> Option<Fault> {
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
    /// [`Error::System`] if the card is gone.
    pub fn recv_fault(&self) -> Result<Fault> {
        self.0.wait_until(FAULT, None, "fault", || Ok(self.0.take_fault()))
    }

    /// As [`Endpoint::recv_fault`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Endpoint::recv_fault`].
    pub fn recv_fault_timeout(&self, timeout: Duration) -> Result<Fault> {
        self.0.wait_until(FAULT, Some(timeout), "fault", || Ok(self.0.take_fault()))
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}
