//! A SHRIMP card, open.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::family::link::HAMLYN_NO_HOST;
use hamlyn_abi::shrimp::entry::SHRIMP_IN_NODES;
use hamlyn_abi::shrimp::identity::{SHRIMP_ABI_VERSION, SHRIMP_MODEL};
use hamlyn_abi::shrimp::statistics::ShrimpStatistic;
use hamlyn_abi::shrimp::uapi::{SHRIMP_MAX_OBJECTS, SHRIMP_POLICY_PAGED, SHRIMP_POLICY_PINNED, ShrimpQuery};

use super::handle::Handle;
use super::own_memory::OwnMemory;
use super::receive_buffer::ReceiveBuffer;
use super::send_buffer::{Mode, SendBuffer};
use super::shared::Shared;
use crate::core::attach::CardAttachment;
use crate::core::card;
use crate::core::device::Node;
use crate::core::model;
use crate::error::{Result, at_most};

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "SHRIMP_CARD";
/// The card to open if nothing is said.
const DEFAULT: &str = "/dev/shrimp0";

/// The SHRIMP card's model.
#[derive(Debug)]
pub enum Shrimp {}

impl model::Model for Shrimp {
    const NUMBER: u32 = SHRIMP_MODEL;
    const NAME: &'static str = "shrimp";
    const VERSION: u32 = SHRIMP_ABI_VERSION;
    const SHARED: &'static [model::Shared] = &[
        model::Shared {
            object: "receive buffers",
            remedy: "take some back, here or in another process: a card has no more",
            limit: |_| SHRIMP_MAX_OBJECTS,
        },
        model::Shared {
            object: "mapped send buffers",
            remedy: "drop some, here or in another process: a card has no more, nor a receive buffer more than 256",
            limit: |_| SHRIMP_MAX_OBJECTS,
        },
    ];
}

/// An open SHRIMP card: what is made with it is this process' own, and goes with it. It has
/// listeners and connections as any card has them, by which processes find each other and hand on
/// their [`Handle`]s: [`Card::listen`], [`Card::connect`], [`Card::connect_any`].
pub type Card = card::Card<Node<Shrimp>>;

/// What a card is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CardInfo {
    /// Its host id, or none while its link is down.
    pub host: Option<u32>,
    /// Version of the card's contract: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Entries of its page table (section 4), one for each page of this machine's memory.
    pub pages: u32,
    /// Columns of the mesh (section 3).
    pub columns: u32,
    /// Bytes of each of its FIFOs.
    pub fifo: u32,
    /// Whether it sees this machine's stores (section 3.1); otherwise the library stores by window
    /// pages.
    pub snoops: bool,
    /// Ports of the switch: host ids are below it. None while the link is down.
    pub ports: Option<u32>,
}

impl Card {
    /// Opens `/dev/shrimpN`.
    ///
    /// # Errors
    /// [`crate::Error::System`] if it cannot be opened; [`crate::Error::OtherModel`] if that is
    /// another model's card.
    pub fn open(number: u32) -> Result<Self> {
        Node::open_number(number).map(Arc::new).map(Self::attached)
    }

    /// Opens the card whose node the environment variable `SHRIMP_CARD` names, else `/dev/shrimp0`.
    ///
    /// # Errors
    /// Those of [`Card::open`].
    pub fn open_default() -> Result<Self> {
        let node = std::env::var(ENVIRONMENT).unwrap_or_else(|_| DEFAULT.to_owned());
        Node::open(Path::new(&node)).map(Arc::new).map(Self::attached)
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
        let own = query.of_card::<ShrimpQuery>().unwrap_or_default();
        Ok(CardInfo {
            host: (query.host != HAMLYN_NO_HOST).then_some(query.host),
            abi_version: query.abi_version,
            pages: own.pages,
            columns: own.columns,
            fifo: own.fifo,
            snoops: own.snoops != 0,
            ports: (query.ports != 0).then_some(query.ports),
        })
    }

    /// The card's counters, by name and in their order.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn statistics(&self) -> Result<Vec<(&'static str, u64)>> {
        let statistics = self.attachment().statistics()?;
        Ok(ShrimpStatistic::NAMES.into_iter().zip(statistics.values).collect())
    }

    /// Makes a receive buffer of 1 byte to 16 MiB, zeroed, that processes of these hosts may map
    /// theirs to; [`Card::hosts`] has all hosts that there can be. Its pages stay in memory (the
    /// simplest policy of section 4.4), and count against what the process may lock.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`]; [`crate::Error::Invalid`] for no bytes or no hosts;
    /// [`crate::Error::LinkDown`]; [`crate::Error::Locked`]; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if there is none left; [`crate::Error::System`].
    pub fn export(&self, length: usize, hosts: impl IntoIterator<Item = u32>) -> Result<ReceiveBuffer> {
        ReceiveBuffer::export(self.attachment(), length, nodes(hosts)?, SHRIMP_POLICY_PINNED)
    }

    /// The same, but the machine may use the pages for something else when it is short of memory
    /// (the second policy of section 4.4): then whoever has mapped them stores no more, their
    /// content goes to swap space if there is any, and all is undone when a process at either end
    /// wants a page. A page that is mapped out as well, as those of [`Card::share`], stays.
    ///
    /// All of it counts against what the process may lock, as all of it may be in use at once. From
    /// 2 MiB on the kernel may have it in huge pages, which leave as a whole or not at all.
    ///
    /// # Errors
    /// Those of [`Card::export`]; [`crate::Error::System`] with `EINVAL` if the driver is of before
    /// this.
    pub fn export_paged(&self, length: usize, hosts: impl IntoIterator<Item = u32>) -> Result<ReceiveBuffer> {
        ReceiveBuffer::export(self.attachment(), length, nodes(hosts)?, SHRIMP_POLICY_PAGED)
    }

    /// Makes a receive buffer of a range of the program's own memory, up to 16 MiB with what is
    /// before it in its page. Its bytes stay as they are until a host stores to them. Its pages
    /// stay in memory, as those of [`Card::export`].
    ///
    /// # Errors
    /// Those of [`Card::export`]; [`crate::Error::PastEnd`] for bytes that the memory has not;
    /// [`crate::Error::Misaligned`] for a start that is not a multiple of 4;
    /// [`crate::Error::Invalid`] for what would be a third part of a page, or is exported already.
    pub fn export_own(
        &self,
        memory: &OwnMemory,
        range: Range<usize>,
        hosts: impl IntoIterator<Item = u32>,
    ) -> Result<ReceiveBuffer> {
        ReceiveBuffer::over(self.attachment(), memory.span(range)?, nodes(hosts)?, SHRIMP_POLICY_PINNED)
    }

    /// Makes a send buffer of a range of the program's own memory, and maps it to the bytes of a
    /// receive buffer that begin at `offset`. Nothing but the range is mapped, so two send buffers,
    /// each to its own destination, may share a page where they touch. Its bytes stay as they are,
    /// and are not sent before they are stored again.
    ///
    /// The range begins at the same byte of a page as what it is mapped to ([`Handle::place`],
    /// section 3.2).
    ///
    /// # Errors
    /// Those of [`Card::map`]; [`super::MappingError::OtherPlace`],
    /// [`super::MappingError::Occupied`]; [`crate::Error::Misaligned`] for a start that is not a
    /// multiple of 4; [`crate::Error::Invalid`] for what would be a third part of a page.
    pub fn map_own(
        &self,
        memory: &OwnMemory,
        range: Range<usize>,
        handle: &Handle,
        offset: u64,
        mode: Mode,
    ) -> Result<SendBuffer> {
        SendBuffer::of_span(self.attachment(), &memory.span(range)?, handle, offset, mode)
    }

    /// The `map` of section 2: makes a send buffer of `length` bytes, zeroed, and maps it to those
    /// bytes of a receive buffer that begin at `offset`. It waits for the other host's operating
    /// system. Its pages stay in memory, too. The handle says which host that is: one that a peer
    /// passes on may name a third.
    ///
    /// Byte 0 of it arrives at byte `offset` of the receive buffer. Where that lies in a page is
    /// the library's affair: it makes the mapping begin where the page does, so that a page never
    /// needs a third part (section 3.2).
    ///
    /// # Errors
    /// [`super::MappingError`] if the other host refuses; [`crate::Error::PastEnd`] for bytes that
    /// the receive buffer has not; [`crate::Error::OutOfRange`]; [`crate::Error::Invalid`] for no
    /// bytes; [`crate::Error::Locked`], [`crate::Error::Exhausted`], [`crate::Error::Quota`],
    /// [`crate::Error::System`].
    pub fn map(&self, handle: &Handle, offset: u64, length: usize, mode: Mode) -> Result<SendBuffer> {
        SendBuffer::map(self.attachment(), handle, offset, length, mode)
    }

    /// Memory that this process has together with one of another host (section 4.1): a receive
    /// buffer of this process' own, which is mapped to the other's, as long. The other does the
    /// same with this one's handle: complementary mappings.
    ///
    /// # Errors
    /// Those of [`Card::map`]; [`crate::Error::Invalid`] if the two are not of one length.
    pub fn share(&self, own: ReceiveBuffer, other: &Handle, mode: Mode) -> Result<Shared> {
        Shared::new(self.attachment(), own, other, mode)
    }
}

/// A bit for each host.
fn nodes(hosts: impl IntoIterator<Item = u32>) -> Result<u64> {
    let mut nodes = 0;
    for host in hosts {
        at_most("host id", host.into(), u64::from(SHRIMP_IN_NODES) - 1)?;
        nodes |= 1 << host;
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_bits_and_those_that_have_none_are_refused() {
        assert_eq!(nodes([0, 3, 63]).unwrap(), 1 | 1 << 3 | 1 << 63);
        assert_eq!(nodes(0..64).unwrap(), u64::MAX);
        assert_eq!(nodes([64]).unwrap_err().to_string(), "host id 64 is out of range (limit 63)");
    }
}
