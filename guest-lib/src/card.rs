//! A card, however it is reached.

use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::family::link::HAMLYN_NO_HOST;
use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::attach::{Attachment, DeviceAttachment, Mapping};
use crate::error::{Error, GivenBack, Result, at_most};
use crate::lend::{self, Lendable};
use crate::message_area::MessageArea;
use crate::notification::NotificationQueue;
use crate::slot::SlotBuilder;
use crate::terminus::Terminus;

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "HAMLYN_CARD";
/// The card to open if nothing is said.
const DEFAULT: &str = "/dev/hamlyn0";
/// What names of vfio-user sockets start with.
const SOCKET: &str = "vfio-user:";

/// An open card: one protection domain. What is created from it is its own.
///
/// Cheap to clone; it is closed when the last clone and the last of what was created from it are dropped.
#[derive(Debug, Clone)]
pub struct Card {
    attachment: Arc<dyn Attachment>,
}

/// What a card is and how much of everything it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CardInfo {
    /// Its host id, or none while its link is down.
    pub host: Option<u32>,
    /// Version of the card's contract: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// The most data in a packet, in bytes.
    pub packet_size: u32,
    /// The card's memory, in bytes.
    pub sram_size: u32,
    /// Send termini.
    pub termini: u32,
    /// Slots.
    pub slots: u32,
    /// Notification queues.
    pub queues: u32,
    /// Interrupt vectors.
    pub vectors: u32,
    /// Ports of the switch: host ids are below it. None while the link is down, or if the card or driver is too old to know.
    pub ports: Option<u32>,
}

/// Results of a card's self-tests: none, or what failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelfTest {
    /// Register access.
    pub access: Option<&'static str>,
    /// DMA.
    pub dma: Option<&'static str>,
    /// Interrupts: the vector that did not arrive.
    pub interrupt: Option<u32>,
}

impl SelfTest {
    /// Whether all passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.access.is_none() && self.dma.is_none() && self.interrupt.is_none()
    }
}

impl Card {
    /// Opens a card: `/dev/hamlynN` through the driver, or `vfio-user:` and the path of a card's socket, with no VM.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be reached, [`Error::Incompatible`] if it is something else.
    pub fn open(name: &str) -> Result<Self> {
        match name.strip_prefix(SOCKET) {
            #[cfg(feature = "socket")]
            Some(path) => {
                let attachment = crate::attach::SocketAttachment::connect(Path::new(path))?;
                Ok(Self::attached(Arc::new(attachment)))
            }
            #[cfg(not(feature = "socket"))]
            Some(_) => Err(Error::Unsupported("built without the feature for vfio-user sockets")),
            None => Ok(Self::attached(Arc::new(DeviceAttachment::open(Path::new(name))?))),
        }
    }

    /// Opens the card that the environment variable `HAMLYN_CARD` names, else `/dev/hamlyn0`.
    ///
    /// # Errors
    /// Those of [`Card::open`].
    pub fn open_default() -> Result<Self> {
        Self::open(&std::env::var(ENVIRONMENT).unwrap_or_else(|_| DEFAULT.to_owned()))
    }

    /// A card reached in a way of one's own.
    #[must_use]
    pub fn attached(attachment: Arc<dyn Attachment>) -> Self {
        Self { attachment }
    }

    /// Describes the card as it is now.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn info(&self) -> Result<CardInfo> {
        let query = self.attachment.query()?;
        Ok(CardInfo {
            host: (query.host != HAMLYN_NO_HOST).then_some(query.host),
            abi_version: query.abi_version,
            packet_size: query.packet_size,
            sram_size: query.sram_size,
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

    /// Creates a send terminus that gets `weight` times the share of one of weight 1 while both are busy: the priorities
    /// that section 2.3 leaves open. From 1 to [`Terminus::MAX_WEIGHT`]. In a guest a weight over 1 takes `CAP_SYS_NICE`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Invalid`] for a weight of 0, [`Error::Exhausted`], [`Error::System`].
    pub fn create_terminus_weighted(&self, weight: u32) -> Result<Terminus> {
        if weight == 0 {
            return Err(Error::Invalid("a terminus of weight 0 would never send"));
        }
        at_most("terminus weight", weight.into(), Terminus::MAX_WEIGHT.into())?;
        Terminus::create(&self.attachment, self.attachment.query()?.packet_size, weight)
    }

    /// Creates a notification queue of 2 to 65,536 entries.
    ///
    /// # Errors
    /// [`Error::Exhausted`], [`Error::System`].
    pub fn create_queue(&self, entries: u32) -> Result<NotificationQueue> {
        NotificationQueue::create(&self.attachment, entries)
    }

    /// Creates a message area of 1 byte to 1 GiB, zeroed.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::OutOfRange`].
    pub fn create_area(&self, length: usize) -> Result<MessageArea> {
        self.attachment.allocate(length).map(MessageArea::new)
    }

    /// Makes a message area of memory of the caller's own: a `Vec<u8>`, a `Box<[u8]>`, another crate's mapping. Nothing is
    /// copied, and what arrives is in that memory. It is the library's until [`MessageArea::take_back`], so nobody can look at
    /// plain bytes that the card writes to; meanwhile there are [`MessageArea::cells`].
    ///
    /// In a guest any bytes do. A card that is attached to by its socket takes whole pages of private memory: it gets pages of a
    /// file at the same place, until the area goes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Invalid`] for no bytes, [`Error::Unsupported`], [`Error::System`]; and the memory is given
    /// back.
    pub fn lend<T: Lendable>(&self, memory: T) -> Result<MessageArea, GivenBack<T>> {
        lend::lend(&self.attachment, memory).map(MessageArea::new)
    }

    /// [`Card::lend`] for memory that is mapped already, for other languages ([`crate::attach::Mapping::promised`]).
    ///
    /// # Errors
    /// Those of [`Card::lend`], and the mapping is given back.
    pub fn lend_mapping(&self, mapping: Mapping) -> Result<MessageArea, GivenBack<Mapping>> {
        match lend::check(mapping.length()) {
            Ok(()) => self.attachment.lend(mapping).map(MessageArea::new),
            Err(error) => Err(GivenBack::new(error, mapping)),
        }
    }

    /// A slot over an area of this card, to be described further.
    #[must_use]
    pub fn slot<'a>(&'a self, area: &'a MessageArea) -> SlotBuilder<'a> {
        SlotBuilder::new(self, area)
    }

    /// The card's counters, in their order.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn statistics(&self) -> Result<Vec<(Statistic, u64)>> {
        let statistics = self.attachment.statistics()?;
        Ok(Statistic::ALL.into_iter().zip(statistics.values).collect())
    }

    /// Waits until the card has done with every packet that it had begun to check. After it, what was taken away before it
    /// (an entry's key or bounds, section 2.7) is gone for certain. It goes through the driver.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn settle(&self) -> Result<()> {
        // Any command does: the card carries it out between two packets.
        self.attachment.statistics().map(drop)
    }

    /// Runs the self-tests of access, DMA and interrupts. In a guest that takes `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn self_test(&self) -> Result<SelfTest> {
        let results = self.attachment.self_test()?;
        Ok(SelfTest {
            access: (results.access != 0)
                .then_some("the scratch register does not answer with the complement"),
            dma: match results.dma {
                0 => None,
                1 => Some("the card refused"),
                2 => Some("the bytes are wrong: is guest memory shared with the card (share=on)?"),
                _ => Some("unknown failure"),
            },
            interrupt: results.interrupt.checked_sub(1),
        })
    }

    pub(crate) fn attachment(&self) -> &Arc<dyn Attachment> {
        &self.attachment
    }
}
