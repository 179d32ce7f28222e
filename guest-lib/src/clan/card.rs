//! A CLAN card, open.

use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::clan::aperture::CLAN_GROUPS;
use hamlyn_abi::clan::identity::{CLAN_ABI_VERSION, CLAN_MODEL};
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::clan::uapi::ClanQuery;
use hamlyn_abi::family::link::HAMLYN_NO_HOST;
use hamlyn_sys::Mapping;

use super::aperture::{Aperture, Rights};
use super::attachment::Attachment;
use super::endpoint::{Endpoint, EndpointBuilder};
use super::events::EventQueue;
use crate::core::card;
use crate::core::device::Node;
use crate::core::lend::Lendable;
use crate::core::model;
use crate::error::{GivenBack, Result, at_most};

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "CLAN_CARD";
/// The card to open if nothing is said.
const DEFAULT: &str = "/dev/clan0";

/// The CLAN card's model.
#[derive(Debug)]
pub enum Clan {}

impl model::Model for Clan {
    const NUMBER: u32 = CLAN_MODEL;
    const NAME: &'static str = "clan";
    const VERSION: u32 = CLAN_ABI_VERSION;
    const SHARED: &'static [model::Shared] = &[
        model::Shared {
            object: "apertures",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --apertures)",
            limit: |card| card.of_card::<ClanQuery>().map_or(0, |own| own.apertures),
        },
        model::Shared {
            object: "window pages",
            remedy: "drop windows, here or in another process, or give the card more (hamlyn card --window-pages)",
            limit: |card| card.of_card::<ClanQuery>().map_or(0, |own| own.window_pages),
        },
        model::Shared {
            object: "endpoints and event queues",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --endpoints)",
            limit: |card| card.of_card::<ClanQuery>().map_or(0, |own| own.endpoints),
        },
    ];
}

/// An open CLAN card: what is made with it is this process' own, and goes with it. An object may
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
    /// Apertures that processes may have.
    pub apertures: u32,
    /// Window pages that processes may have.
    pub window_pages: u32,
    /// Endpoints, and event queues, that processes may have.
    pub endpoints: u32,
    /// Tripwires of all endpoints together (section 2.5).
    pub tripwires: u32,
    /// The most bytes of data in a packet.
    pub burst: u32,
    /// Words that a host may have on their way to another (section 2.2).
    pub credits: u32,
    /// Ports of the switch: host ids are below it. None while the link is down.
    pub ports: Option<u32>,
}

impl Card {
    /// Opens `/dev/clanN`.
    ///
    /// # Errors
    /// [`crate::Error::System`] if it cannot be opened; [`crate::Error::OtherModel`] if that is
    /// another model's card.
    pub fn open(number: u32) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Clan>::open_number(number)?)))
    }

    /// Opens the card whose node this is.
    ///
    /// # Errors
    /// Those of [`Card::open`].
    pub fn open_path(node: &Path) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::<Clan>::open(node)?)))
    }

    /// Opens the card whose node the environment variable `CLAN_CARD` names, else `/dev/clan0`.
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
        let own = query.of_card::<ClanQuery>().unwrap_or_default();
        Ok(CardInfo {
            host: (query.host != HAMLYN_NO_HOST).then_some(query.host),
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

    /// The card's counters, by name and in their order.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn statistics(&self) -> Result<Vec<(&'static str, u64)>> {
        let statistics = self.attachment().statistics()?;
        Ok(ClanStatistic::NAMES.into_iter().zip(statistics.values).collect())
    }

    /// Opens an aperture (section 3.2) over `length` bytes of new memory, 1 byte to 1 GiB, zeroed.
    /// Up to 1 KiB it has no pages of its own, but lies among the other memory of this process, of
    /// which nobody reaches a byte: many short apertures touch few pages.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`]; [`crate::Error::Invalid`] for no bytes;
    /// [`crate::Error::Locked`]; [`crate::Error::Exhausted`] or [`crate::Error::Quota`] if there is
    /// none left; [`crate::Error::System`].
    pub fn aperture(&self, length: usize, rights: Rights) -> Result<Aperture> {
        Aperture::open(self.attachment(), length, rights)
    }

    /// Opens an aperture over memory of the application's own, which is lent to the library until
    /// [`Aperture::take_back`]. It begins at a multiple of 8.
    ///
    /// # Errors
    /// Those of [`Card::aperture`]; [`crate::Error::Misaligned`]. The memory is given back.
    pub fn aperture_over<T: Lendable>(&self, memory: T, rights: Rights) -> Result<Aperture, GivenBack<T>> {
        Aperture::over(self.attachment(), memory, rights)
    }

    /// The same over memory whose owner promises what [`Mapping::promised`] says; it is his again
    /// when the aperture is dropped.
    ///
    /// # Errors
    /// Those of [`Card::aperture_over`].
    pub fn aperture_over_mapping(&self, mapping: Mapping, rights: Rights) -> Result<Aperture> {
        Aperture::over_mapping(self.attachment(), mapping, rights)
    }

    /// Opens an aperture that is a member of a group (multicast, section 2.5): what anybody writes
    /// to the group under this key is written to each host's member.
    /// [`super::Descriptor::of_group`] names the group to who writes.
    ///
    /// # Errors
    /// Those of [`Card::aperture`]; [`crate::Error::System`] with `EADDRINUSE` if the group has a
    /// member at this host.
    pub fn join_group(&self, group: u32, key: u64, length: usize) -> Result<Aperture> {
        at_most("group", group.into(), u64::from(CLAN_GROUPS) - 1)?;
        Aperture::join(self.attachment(), group, key, length)
    }

    /// Opens an endpoint (section 3.1) on any port that is free, with what [`EndpointBuilder`] has
    /// if nothing is said.
    ///
    /// # Errors
    /// Those of [`EndpointBuilder::open`].
    pub fn endpoint(&self) -> Result<Endpoint> {
        self.endpoint_builder().open()
    }

    /// An endpoint that is to be opened.
    pub fn endpoint_builder(&self) -> EndpointBuilder {
        EndpointBuilder::new(self.attachment())
    }

    /// Opens an event queue (section 3.5) with room for so many records, 16 to 65,536, a power of
    /// two: one for each source of events, which are three for each endpoint and one for each
    /// Tripwire.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`]; [`crate::Error::Exhausted`] or [`crate::Error::Quota`] if
    /// there is none left; [`crate::Error::System`].
    pub fn events(&self, records: u32) -> Result<EventQueue> {
        EventQueue::open(self.attachment(), records)
    }
}
