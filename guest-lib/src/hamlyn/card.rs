//! A Hamlyn card, however it is accessed.

use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::uapi::HamlynSramQuery;

use hamlyn_sys::Mapping;

use crate::core::card;
use crate::core::lend::{self, Lendable};
use crate::error::{Error, GivenBack, Result, at_most};
use crate::hamlyn::attach::Attachment;
use crate::hamlyn::device::DeviceAttachment;
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::notification::NotificationQueue;
use crate::hamlyn::slot::SlotBuilder;
use crate::hamlyn::terminus::Terminus;

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "HAMLYN_CARD";
/// The card to open by default.
const DEFAULT: &str = "/dev/hamlyn0";
/// Prefix of the names of vfio-user sockets.
const SOCKET: &str = "vfio-user:";

/// An open Hamlyn card.
pub type Card = card::Card<dyn Attachment>;

/// Properties and resource counts of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CardInfo {
    /// Host id, or `None` while the link is down.
    pub host: Option<u32>,
    /// Version of the card's ABI: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Maximum data in a packet, in bytes.
    pub packet_size: u32,
    /// Size of the card's memory, in bytes.
    pub sram_size: u32,
    /// Free bytes of the card's memory. `None` if the card or driver is too old to report it.
    pub sram_free: Option<u32>,
    /// Number of send termini.
    pub termini: u32,
    /// Number of slots.
    pub slots: u32,
    /// Number of notification queues.
    pub queues: u32,
    /// Number of interrupt vectors.
    pub vectors: u32,
    /// Number of switch ports: host ids are below it. `None` while the link is down, or if the card
    /// or driver is too old to report it.
    pub ports: Option<u32>,
}

impl Card {
    /// Opens a card: `/dev/hamlynN` through the driver, or `vfio-user:` and the path of a card's
    /// socket, with no VM.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be reached, [`Error::Incompatible`] if it is not a Hamlyn
    /// card.
    pub fn open(name: &str) -> Result<Self> {
        match name.strip_prefix(SOCKET) {
            #[cfg(feature = "socket")]
            Some(path) => {
                let attachment = crate::hamlyn::socket::SocketAttachment::connect(Path::new(path))?;
                Ok(Self::attached(Arc::new(attachment)))
            }
            #[cfg(not(feature = "socket"))]
            Some(_) => Err(Error::Unsupported("built without the feature for vfio-user sockets")),
            None => Ok(Self::attached(Arc::new(DeviceAttachment::open(Path::new(name))?))),
        }
    }

    /// Opens the card that the environment variable `HAMLYN_CARD` names, or `/dev/hamlyn0` if it is
    /// not set.
    ///
    /// # Errors
    /// The errors of [`Card::open`].
    pub fn open_default() -> Result<Self> {
        Self::open(&std::env::var(ENVIRONMENT).unwrap_or_else(|_| DEFAULT.to_owned()))
    }

    /// Returns the card's current properties.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn info(&self) -> Result<CardInfo> {
        let query = self.attachment().query()?;
        Ok(CardInfo {
            host: (query.host != ULN_NO_HOST).then_some(query.host),
            abi_version: query.abi_version,
            packet_size: query.packet_size,
            sram_size: query.sram_size,
            sram_free: query.of_card::<HamlynSramQuery>().filter(|own| own.room != 0).map(|own| own.free),
            termini: query.termini,
            slots: query.slots,
            queues: query.queues,
            vectors: query.vectors,
            ports: (query.ports != 0).then_some(query.ports),
        })
    }

    /// Creates a send terminus. Busy termini get equal shares of the link (section 2.3).
    ///
    /// # Errors
    /// [`Error::Exhausted`] if the card has none left, [`Error::System`].
    pub fn create_terminus(&self) -> Result<Terminus> {
        self.create_terminus_weighted(1)
    }

    /// Creates a send terminus with a weight from 1 to [`Terminus::MAX_WEIGHT`]. While both are
    /// busy, it gets `weight` times the share of a terminus of weight 1. These are the priorities
    /// that section 2.3 leaves open. In a guest, a weight over 1 requires `CAP_SYS_NICE`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Invalid`] for a weight of 0, [`Error::Exhausted`],
    /// [`Error::System`].
    pub fn create_terminus_weighted(&self, weight: u32) -> Result<Terminus> {
        if weight == 0 {
            return Err(Error::Invalid("a terminus of weight 0 would never send"));
        }
        at_most("terminus weight", weight.into(), Terminus::MAX_WEIGHT.into())?;
        Terminus::create(self.attachment(), self.attachment().query()?.packet_size, weight)
    }

    /// Creates a notification queue of 2 to 65,536 entries.
    ///
    /// # Errors
    /// [`Error::Exhausted`], [`Error::System`].
    pub fn create_queue(&self, entries: u32) -> Result<NotificationQueue> {
        NotificationQueue::create(self.attachment(), entries)
    }

    /// Creates a zeroed message area of 1 byte to 1 GiB.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::OutOfRange`].
    pub fn create_area(&self, length: usize) -> Result<MessageArea> {
        self.attachment().allocate(length).map(MessageArea::new)
    }

    /// Makes a message area from the caller's own memory: a `Vec<u8>`, a `Box<[u8]>`, or another
    /// crate's mapping. Nothing is copied; messages arrive directly in that memory. The library
    /// owns it until [`MessageArea::take_back`], so no code can read plain bytes that the card
    /// writes to. Meanwhile use [`MessageArea::cells`].
    ///
    /// In a guest any bytes are accepted. A card that is attached to through its socket requires
    /// whole pages of private memory. It replaces them with pages of a file at the same address,
    /// until the area is dropped.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Invalid`] for zero bytes, [`Error::Unsupported`],
    /// [`Error::System`]. On error the memory is given back.
    pub fn lend<T: Lendable>(&self, memory: T) -> Result<MessageArea, GivenBack<T>> {
        lend::lend(&**self.attachment(), memory).map(MessageArea::new)
    }

    /// Like [`Card::lend`], for memory that is already mapped
    /// ([`crate::attach::Mapping::promised`]). For other languages.
    ///
    /// # Errors
    /// The errors of [`Card::lend`]. On error the mapping is given back.
    pub fn lend_mapping(&self, mapping: Mapping) -> Result<MessageArea, GivenBack<Mapping>> {
        match lend::check(mapping.length()) {
            Ok(()) => self.attachment().lend(mapping).map(MessageArea::new),
            Err(error) => Err(GivenBack::new(error, mapping)),
        }
    }

    /// Registers an area: its pages are pinned, and counted against the limit on locked memory,
    /// once for all slots and send buffers that are created over it from now on, and until the last
    /// of them and of the area's clones is dropped. Otherwise, each slot and send buffer pins and
    /// counts its own. Has no effect if the area is registered already, or if the card was opened
    /// by its socket (it has all memory of its users anyway).
    ///
    /// # Errors
    /// [`Error::Locked`] if the limit is too low, [`Error::Unsupported`] if the driver is too old,
    /// [`Error::System`].
    pub fn register(&self, area: &MessageArea) -> Result<()> {
        area.register(self.attachment())
    }

    /// Starts building a slot over an area of this card.
    #[must_use]
    pub fn slot<'a>(&'a self, area: &'a MessageArea) -> SlotBuilder<'a> {
        SlotBuilder::new(self.attachment(), area)
    }

    /// Returns the card's counters, in order.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn statistics(&self) -> Result<Vec<(Statistic, u64)>> {
        let statistics = self.attachment().statistics()?;
        Ok(Statistic::ALL.into_iter().zip(statistics.values).collect())
    }
}
