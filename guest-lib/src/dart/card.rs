//! An open DART card.

use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::dart::uapi::DartQuery;
use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_sys::Mapping;

use super::attachment::Attachment;
use super::bank::Bank;
use super::connection::ConnectionBuilder;
use super::endpoint::Endpoint;
use super::model::Dart;
use super::queue::{Queue, Urgency};
use crate::core::card;
use crate::core::device::Node;
use crate::core::lend::Lendable;
use crate::error::{GivenBack, Result};

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "DART_CARD";
/// The card to open if [`ENVIRONMENT`] is not set.
const DEFAULT: &str = "/dev/dart0";

/// An open DART card. Objects created with it belong to this process and are closed with the card.
/// An object may use another only if both were created with the same open card or its clones.
pub type Card = card::Card<dyn Attachment>;

/// Properties of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CardInfo {
    /// The card's host id; `None` while its link is down.
    pub host: Option<u32>,
    /// Version of the card's contract: the upper half is the major version, the lower half the
    /// minor.
    pub abi_version: u32,
    /// Number of connections available to processes.
    pub connections: u32,
    /// Number of endpoints available to processes.
    pub endpoints: u32,
    /// Number of address registers.
    pub registers: u32,
    /// Number of program entries in total.
    pub program: u32,
    /// Number of queues.
    pub queues: u32,
    /// Number of page translations that the card caches.
    pub tlb: u32,
    /// Number of cells that a connection may have in flight.
    pub window: u32,
    /// Number of switch ports: host ids are below it. `None` while the link is down.
    pub ports: Option<u32>,
}

impl Card {
    /// Opens `/dev/dartN`.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the device cannot be opened; [`crate::Error::OtherModel`] if it
    /// is a card of another model.
    pub fn open(number: u32) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Dart>::open_number(number)?)))
    }

    /// Opens the card with this device node.
    ///
    /// # Errors
    /// Same as [`Card::open`].
    pub fn open_path(node: &Path) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Dart>::open(node)?)))
    }

    /// Opens the card whose device node is in the environment variable `DART_CARD`, or `/dev/dart0`
    /// if the variable is not set.
    ///
    /// # Errors
    /// Same as [`Card::open`].
    pub fn open_default() -> Result<Self> {
        Self::open_path(Path::new(&std::env::var(ENVIRONMENT).unwrap_or_else(|_| DEFAULT.to_owned())))
    }

    /// Returns the card's host id; `None` while its link is down.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn host(&self) -> Result<Option<u32>> {
        Ok(self.info()?.host)
    }

    /// Returns the card's current properties.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn info(&self) -> Result<CardInfo> {
        let query = self.attachment().query()?;
        let own = query.of_card::<DartQuery>().unwrap_or_default();
        Ok(CardInfo {
            host: (query.host != ULN_NO_HOST).then_some(query.host),
            abi_version: query.abi_version,
            connections: own.connections,
            endpoints: own.endpoints,
            registers: own.registers,
            program: own.program,
            queues: own.queues,
            tlb: own.tlb,
            window: own.window,
            ports: (query.ports != 0).then_some(query.ports),
        })
    }

    /// Returns the card's counters with their names, in the card's order.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn statistics(&self) -> Result<Vec<(&'static str, u64)>> {
        let statistics = self.attachment().statistics()?;
        Ok(DartStatistic::NAMES.into_iter().zip(statistics.values).collect())
    }

    /// Opens an endpoint (section 3) over `length` bytes of new, zeroed memory. Pages are only
    /// allocated when they are touched.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if `length` is zero; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if no endpoint is free; [`crate::Error::System`].
    pub fn endpoint(&self, length: usize) -> Result<Endpoint> {
        Endpoint::open(self.attachment(), length)
    }

    /// Opens an endpoint over the application's own memory. The memory is lent to the library until
    /// [`Endpoint::take_back`], and must start at a multiple of 4.
    ///
    /// # Errors
    /// Same as [`Card::endpoint`]; [`crate::Error::Misaligned`]. The error returns the memory.
    pub fn endpoint_over<T: Lendable>(&self, memory: T) -> Result<Endpoint, GivenBack<T>> {
        Endpoint::over(self.attachment(), memory)
    }

    /// Opens an endpoint over memory whose owner makes the promises of [`Mapping::promised`]. The
    /// owner gets the memory back when the endpoint is dropped.
    ///
    /// # Errors
    /// Same as [`Card::endpoint_over`].
    pub fn endpoint_over_mapping(&self, mapping: Mapping) -> Result<Endpoint> {
        Endpoint::over_mapping(self.attachment(), mapping)
    }

    /// Opens a bank of 1 to 1,024 address registers and 0 to 256 program entries.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::Invalid`]; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if none are free; [`crate::Error::System`].
    pub fn bank(&self, registers: u32, entries: u32) -> Result<Bank> {
        Bank::open(self.attachment(), registers, entries)
    }

    /// Opens a queue with room for `records` records: 16 to 65,536, a power of two.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::Invalid`]; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if no queue is free; [`crate::Error::System`].
    pub fn queue(&self, records: u32, urgency: Urgency) -> Result<Queue> {
        Queue::open(self.attachment(), records, urgency)
    }

    /// Returns a builder for a connection with this endpoint and bank.
    pub fn connection(&self, endpoint: &Endpoint, bank: &Bank) -> ConnectionBuilder {
        ConnectionBuilder::new(self.attachment(), endpoint, bank)
    }
}
