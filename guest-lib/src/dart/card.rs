//! A DART card, open.

use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::dart::identity::{DART_ABI_VERSION, DART_MODEL};
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::dart::uapi::DartQuery;
use hamlyn_abi::family::link::HAMLYN_NO_HOST;
use hamlyn_sys::Mapping;

use super::attachment::Attachment;
use super::bank::Bank;
use super::connection::ConnectionBuilder;
use super::endpoint::Endpoint;
use super::queue::{Queue, Urgency};
use crate::core::card;
use crate::core::device::Node;
use crate::core::lend::Lendable;
use crate::core::model;
use crate::error::{GivenBack, Result};

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "DART_CARD";
/// The card to open if nothing is said.
const DEFAULT: &str = "/dev/dart0";

/// The DART card's model.
#[derive(Debug)]
pub enum Dart {}

impl model::Model for Dart {
    const NUMBER: u32 = DART_MODEL;
    const NAME: &'static str = "dart";
    const VERSION: u32 = DART_ABI_VERSION;
    const SHARED: &'static [model::Shared] = &[
        model::Shared {
            object: "connections and endpoints",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --connections)",
            limit: |card| card.of_card::<DartQuery>().map_or(0, |own| own.connections),
        },
        model::Shared {
            object: "address registers",
            remedy: "drop banks, here or in another process, or give the card more (hamlyn card --registers)",
            limit: |card| card.of_card::<DartQuery>().map_or(0, |own| own.registers),
        },
        model::Shared {
            object: "queues",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --queues)",
            limit: |card| card.of_card::<DartQuery>().map_or(0, |own| own.queues),
        },
    ];
}

/// An open DART card: what is made with it is this process' own, and goes with it. An object may
/// use another only if both were made with the same open card, or with clones of it.
pub type Card = card::Card<dyn Attachment>;

/// What a card is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CardInfo {
    /// Its host id, or none while its link is down.
    pub host: Option<u32>,
    /// Version of the card's contract: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Connections that processes may have.
    pub connections: u32,
    /// Endpoints that processes may have.
    pub endpoints: u32,
    /// Address registers.
    pub registers: u32,
    /// Entries of all programs.
    pub program: u32,
    /// Queues.
    pub queues: u32,
    /// Translations of pages that the card keeps.
    pub tlb: u32,
    /// Cells that a connection may have on their way.
    pub window: u32,
    /// Ports of the switch: host ids are below it. None while the link is down.
    pub ports: Option<u32>,
}

impl Card {
    /// Opens `/dev/dartN`.
    ///
    /// # Errors
    /// [`crate::Error::System`] if it cannot be opened; [`crate::Error::OtherModel`] if that is
    /// another model's card.
    pub fn open(number: u32) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Dart>::open_number(number)?)))
    }

    /// Opens the card whose node this is.
    ///
    /// # Errors
    /// Those of [`Card::open`].
    pub fn open_path(node: &Path) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Dart>::open(node)?)))
    }

    /// Opens the card whose node the environment variable `DART_CARD` names, else `/dev/dart0`.
    ///
    /// # Errors
    /// Those of [`Card::open`].
    pub fn open_default() -> Result<Self> {
        Self::open_path(Path::new(&std::env::var(ENVIRONMENT).unwrap_or_else(|_| DEFAULT.to_owned())))
    }

    /// The card's host id; `None` while its link is down.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn host(&self) -> Result<Option<u32>> {
        Ok(self.info()?.host)
    }

    /// Describes the card as it is now.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn info(&self) -> Result<CardInfo> {
        let query = self.attachment().query()?;
        let own = query.of_card::<DartQuery>().unwrap_or_default();
        Ok(CardInfo {
            host: (query.host != HAMLYN_NO_HOST).then_some(query.host),
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

    /// The card's counters, by name and in their order.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn statistics(&self) -> Result<Vec<(&'static str, u64)>> {
        let statistics = self.attachment().statistics()?;
        Ok(DartStatistic::NAMES.into_iter().zip(statistics.values).collect())
    }

    /// Opens an endpoint (section 3) over `length` bytes of new memory, zeroed, none of which is
    /// there before it is touched.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for no bytes; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if there is none left; [`crate::Error::System`].
    pub fn endpoint(&self, length: usize) -> Result<Endpoint> {
        Endpoint::open(self.attachment(), length)
    }

    /// Opens an endpoint over memory of the application's own, which is lent to the library until
    /// [`Endpoint::take_back`]. It begins at a multiple of 4.
    ///
    /// # Errors
    /// Those of [`Card::endpoint`]; [`crate::Error::Misaligned`]. The memory is given back.
    pub fn endpoint_over<T: Lendable>(&self, memory: T) -> Result<Endpoint, GivenBack<T>> {
        Endpoint::over(self.attachment(), memory)
    }

    /// The same over memory whose owner promises what [`Mapping::promised`] says; it is his again
    /// when the endpoint is dropped.
    ///
    /// # Errors
    /// Those of [`Card::endpoint_over`].
    pub fn endpoint_over_mapping(&self, mapping: Mapping) -> Result<Endpoint> {
        Endpoint::over_mapping(self.attachment(), mapping)
    }

    /// Opens a bank of address registers, 1 to 1,024, and entries of programs, 0 to 256.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::Invalid`]; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if there are none left; [`crate::Error::System`].
    pub fn bank(&self, registers: u32, entries: u32) -> Result<Bank> {
        Bank::open(self.attachment(), registers, entries)
    }

    /// Opens a queue with room for so many records, 16 to 65,536, a power of two.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::Invalid`]; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if there is none left; [`crate::Error::System`].
    pub fn queue(&self, records: u32, urgency: Urgency) -> Result<Queue> {
        Queue::open(self.attachment(), records, urgency)
    }

    /// A connection that is to be opened with these.
    pub fn connection(&self, endpoint: &Endpoint, bank: &Bank) -> ConnectionBuilder {
        ConnectionBuilder::new(self.attachment(), endpoint, bank)
    }
}
