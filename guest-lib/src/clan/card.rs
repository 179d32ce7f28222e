//! An open CLAN card.

use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::clan::aperture::CLAN_GROUPS;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::clan::uapi::ClanQuery;
use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_sys::Mapping;

use super::aperture::Aperture;
use super::attachment::Attachment;
use super::endpoint::{Endpoint, EndpointBuilder};
use super::events::EventQueue;
use super::model::Clan;
use super::rights::Rights;
use crate::core::card;
use crate::core::device::Node;
use crate::core::lend::Lendable;
use crate::error::{GivenBack, Result, at_most};

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "CLAN_CARD";
/// The card to open if [`ENVIRONMENT`] is not set.
const DEFAULT: &str = "/dev/clan0";

/// An open CLAN card. Objects created with it belong to this process and are closed with the card.
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
    /// Number of apertures available to processes.
    pub apertures: u32,
    /// Number of window pages available to processes.
    pub window_pages: u32,
    /// Number of endpoints available to processes, and of event queues.
    pub endpoints: u32,
    /// Number of Tripwires of all endpoints together (section 2.5).
    pub tripwires: u32,
    /// Maximum payload of a packet, in bytes.
    pub burst: u32,
    /// Number of words that a host may have in flight to another host (section 2.2).
    pub credits: u32,
    /// Number of switch ports: host ids are below it. `None` while the link is down.
    pub ports: Option<u32>,
}

impl Card {
    /// Opens `/dev/clanN`.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the device cannot be opened; [`crate::Error::OtherModel`] if it
    /// is a card of another model.
    pub fn open(number: u32) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Clan>::open_number(number)?)))
    }

    /// Opens the card with this device node.
    ///
    /// # Errors
    /// Same as [`Card::open`].
    pub fn open_path(node: &Path) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Clan>::open(node)?)))
    }

    /// Opens the card whose device node is in the environment variable `CLAN_CARD`, or `/dev/clan0`
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
        let own = query.of_card::<ClanQuery>().unwrap_or_default();
        Ok(CardInfo {
            host: (query.host != ULN_NO_HOST).then_some(query.host),
            abi_version: query.abi_version,
            apertures: own.apertures,
            window_pages: own.window_pages,
            endpoints: own.endpoints,
            tripwires: own.tripwires,
            burst: own.burst,
            credits: own.credits,
            ports: (query.ports != 0).then_some(query.ports),
        })
    }

    /// Returns the card's counters with their names, in the card's order.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn statistics(&self) -> Result<Vec<(&'static str, u64)>> {
        let statistics = self.attachment().statistics()?;
        Ok(ClanStatistic::NAMES.into_iter().zip(statistics.values).collect())
    }

    /// Opens an aperture (section 3.2) over `length` bytes of new, zeroed memory: 1 byte to 1 GiB.
    ///
    /// An aperture of at most 1 KiB has no pages of its own. It shares pages with other memory of
    /// this process, which peers cannot reach. Therefore, many short apertures use few pages.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`]; [`crate::Error::Invalid`] if `length` is 0;
    /// [`crate::Error::Locked`]; [`crate::Error::Exhausted`] or [`crate::Error::Quota`] if no
    /// aperture is free; [`crate::Error::System`].
    pub fn aperture(&self, length: usize, rights: Rights) -> Result<Aperture> {
        Aperture::open(self.attachment(), length, rights)
    }

    /// Opens an aperture over the application's own memory. The memory is lent to the library until
    /// [`Aperture::take_back`], and must start at a multiple of 8.
    ///
    /// # Errors
    /// Same as [`Card::aperture`]; [`crate::Error::Misaligned`]. The error returns the memory.
    pub fn aperture_over<T: Lendable>(&self, memory: T, rights: Rights) -> Result<Aperture, GivenBack<T>> {
        Aperture::over(self.attachment(), memory, rights)
    }

    /// Opens an aperture over memory whose owner makes the promises of [`Mapping::promised`]. The
    /// owner gets the memory back when the aperture is dropped.
    ///
    /// # Errors
    /// Same as [`Card::aperture_over`].
    pub fn aperture_over_mapping(&self, mapping: Mapping, rights: Rights) -> Result<Aperture> {
        Aperture::over_mapping(self.attachment(), mapping, rights)
    }

    /// Opens an aperture that is a member of a group (multicast, section 2.5). A write to the group
    /// with this key goes to the member of each host. Writers name the group with
    /// [`super::Descriptor::of_group`].
    ///
    /// # Errors
    /// Same as [`Card::aperture`]; [`crate::Error::System`] with `EADDRINUSE` if the group already
    /// has a member at this host.
    pub fn join_group(&self, group: u32, key: u64, length: usize) -> Result<Aperture> {
        at_most("group", group.into(), u64::from(CLAN_GROUPS) - 1)?;
        Aperture::join(self.attachment(), group, key, length)
    }

    /// Opens an endpoint (section 3.1) on any free port, with the defaults of [`EndpointBuilder`].
    ///
    /// # Errors
    /// Same as [`EndpointBuilder::open`].
    pub fn endpoint(&self) -> Result<Endpoint> {
        self.endpoint_builder().open()
    }

    /// Returns a builder for an endpoint.
    pub fn endpoint_builder(&self) -> EndpointBuilder {
        EndpointBuilder::new(self.attachment())
    }

    /// Opens an event queue (section 3.5) with room for `records` records: 16 to 65,536, a power of
    /// two. Each source of events needs one record: three for each endpoint, and one for each
    /// Tripwire.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`]; [`crate::Error::Exhausted`] or [`crate::Error::Quota`] if no
    /// event queue is free; [`crate::Error::System`].
    pub fn events(&self, records: u32) -> Result<EventQueue> {
        EventQueue::open(self.attachment(), records)
    }
}
