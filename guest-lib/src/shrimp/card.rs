//! An open SHRIMP card.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_abi::shrimp::entry::SHRIMP_IN_NODES;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic;
use hamlyn_abi::shrimp::uapi::{SHRIMP_POLICY_PAGED, SHRIMP_POLICY_PINNED, ShrimpQuery};

use super::handle::Handle;
use super::model::Shrimp;
use super::own_memory::OwnMemory;
use super::receive_buffer::ReceiveBuffer;
use super::send_buffer::{Mode, SendBuffer};
use super::shared::Shared;
use crate::core::attach::CardAttachment;
use crate::core::card;
use crate::core::device::Node;
use crate::error::{Result, at_most};

/// Environment variable that names the card to open.
const ENVIRONMENT: &str = "SHRIMP_CARD";
/// The card to open if [`ENVIRONMENT`] is not set.
const DEFAULT: &str = "/dev/shrimp0";

/// An open SHRIMP card. Objects created with it belong to this process and are closed with the
/// card. Like all cards, it has listeners and connections, by which processes find each other and
/// pass on their [`Handle`]s: [`Card::listen`], [`Card::connect`], [`Card::connect_any`].
pub type Card = card::Card<Node<Shrimp>>;

/// Properties of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CardInfo {
    /// The card's host id; `None` while its link is down.
    pub host: Option<u32>,
    /// Version of the card's contract: the upper half is the major version, the lower half the
    /// minor.
    pub abi_version: u32,
    /// Number of entries of the card's page table (section 4), one for each page of this machine's
    /// memory.
    pub pages: u32,
    /// Number of columns of the mesh (section 3).
    pub columns: u32,
    /// Size of each of its FIFOs in bytes.
    pub fifo: u32,
    /// Whether the card sees this machine's stores (section 3.1). Otherwise the library stores
    /// through window pages.
    pub snoops: bool,
    /// Number of switch ports: host ids are below it. `None` while the link is down.
    pub ports: Option<u32>,
}

impl Card {
    /// Opens `/dev/shrimpN`.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the device cannot be opened; [`crate::Error::OtherModel`] if it
    /// is a card of another model.
    pub fn open(number: u32) -> Result<Self> {
        Node::open_number(number).map(Arc::new).map(Self::attached)
    }

    /// Opens the card whose device node is in the environment variable `SHRIMP_CARD`, or
    /// `/dev/shrimp0` if the variable is not set.
    ///
    /// # Errors
    /// Same as [`Card::open`].
    pub fn open_default() -> Result<Self> {
        let node = std::env::var(ENVIRONMENT).unwrap_or_else(|_| DEFAULT.to_owned());
        Node::open(Path::new(&node)).map(Arc::new).map(Self::attached)
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
        let own = query.of_card::<ShrimpQuery>().unwrap_or_default();
        Ok(CardInfo {
            host: (query.host != ULN_NO_HOST).then_some(query.host),
            abi_version: query.abi_version,
            pages: own.pages,
            columns: own.columns,
            fifo: own.fifo,
            snoops: own.snoops != 0,
            ports: (query.ports != 0).then_some(query.ports),
        })
    }

    /// Returns the card's counters with their names, in the card's order.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn statistics(&self) -> Result<Vec<(&'static str, u64)>> {
        let statistics = self.attachment().statistics()?;
        Ok(ShrimpStatistic::NAMES.into_iter().zip(statistics.values).collect())
    }

    /// Exports a zeroed receive buffer of 1 byte to 16 MiB, to which processes of these hosts may
    /// map send buffers. [`Card::hosts`] returns all possible hosts. The buffer's pages are pinned
    /// (the simplest policy of section 4.4), and count against the process' limit of locked memory.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`]; [`crate::Error::Invalid`] if there are no bytes or no hosts;
    /// [`crate::Error::LinkDown`]; [`crate::Error::Locked`]; [`crate::Error::Exhausted`] or
    /// [`crate::Error::Quota`] if no export is free; [`crate::Error::System`].
    pub fn export(&self, length: usize, hosts: impl IntoIterator<Item = u32>) -> Result<ReceiveBuffer> {
        ReceiveBuffer::export(self.attachment(), length, nodes(hosts)?, SHRIMP_POLICY_PINNED)
    }

    /// Exports a receive buffer like [`Card::export`], but the machine may reclaim its pages when
    /// it is short of memory (the second policy of section 4.4).
    ///
    /// Before pages are reclaimed, remote stores to them are stopped. Their contents go to swap
    /// space if there is any. Everything is restored when a process at either end needs a page.
    /// Pages that are mapped out as well, like those of [`Card::share`], stay in memory.
    ///
    /// The whole buffer counts against the process' limit of locked memory, because all of it may
    /// be in use at once. A buffer of 2 MiB or more may be in huge pages, which are reclaimed as a
    /// whole or not at all.
    ///
    /// # Errors
    /// Same as [`Card::export`]; [`crate::Error::System`] with `EINVAL` if the driver is too old.
    pub fn export_paged(&self, length: usize, hosts: impl IntoIterator<Item = u32>) -> Result<ReceiveBuffer> {
        ReceiveBuffer::export(self.attachment(), length, nodes(hosts)?, SHRIMP_POLICY_PAGED)
    }

    /// Exports a range of the program's own memory as a receive buffer. The range may have up to 16
    /// MiB, including the bytes before it in its page. Its bytes are unchanged until a host stores
    /// to them. Its pages are pinned, like those of [`Card::export`].
    ///
    /// # Errors
    /// Same as [`Card::export`]; [`crate::Error::PastEnd`] if the range is outside the memory;
    /// [`crate::Error::Misaligned`] if its start is not a multiple of 4; [`crate::Error::Invalid`]
    /// if it would be a third part of a page, or is exported already.
    pub fn export_own(
        &self,
        memory: &OwnMemory,
        range: Range<usize>,
        hosts: impl IntoIterator<Item = u32>,
    ) -> Result<ReceiveBuffer> {
        ReceiveBuffer::over(self.attachment(), memory.span(range)?, nodes(hosts)?, SHRIMP_POLICY_PINNED)
    }

    /// Maps a range of the program's own memory as a send buffer to the bytes of a receive buffer
    /// that begin at `offset`. Only the range is mapped. So two adjacent send buffers with
    /// different destinations may share a page. Its bytes are unchanged, and are only sent when
    /// they are stored again.
    ///
    /// The range must begin at the same offset in a page as its destination ([`Handle::place`],
    /// section 3.2).
    ///
    /// # Errors
    /// Same as [`Card::map`]; [`super::MappingError::OtherPlace`],
    /// [`super::MappingError::Occupied`]; [`crate::Error::Misaligned`] if the start is not a
    /// multiple of 4; [`crate::Error::Invalid`] if the range would be a third part of a page.
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

    /// The `map` of section 2: creates a zeroed send buffer of `length` bytes, and maps it to the
    /// bytes of a receive buffer that begin at `offset`. Blocks until the other host's operating
    /// system answers. The pages are pinned, too. The handle determines the host: a handle from a
    /// peer may name a third host.
    ///
    /// Byte 0 of the buffer arrives at byte `offset` of the receive buffer. The library handles
    /// page offsets: the mapping begins at the start of the page, so a page never needs a third
    /// part (section 3.2).
    ///
    /// # Errors
    /// [`super::MappingError`] if the other host refuses; [`crate::Error::PastEnd`] if the bytes
    /// are outside the receive buffer; [`crate::Error::OutOfRange`]; [`crate::Error::Invalid`] if
    /// `length` is zero; [`crate::Error::Locked`], [`crate::Error::Exhausted`],
    /// [`crate::Error::Quota`], [`crate::Error::System`].
    pub fn map(&self, handle: &Handle, offset: u64, length: usize, mode: Mode) -> Result<SendBuffer> {
        SendBuffer::map(self.attachment(), handle, offset, length, mode)
    }

    /// Shares memory with a process of another host (section 4.1): maps this process' receive
    /// buffer to the other's, which must have the same length. The other process does the same with
    /// this one's handle: complementary mappings.
    ///
    /// # Errors
    /// Same as [`Card::map`]; [`crate::Error::Invalid`] if the lengths differ.
    pub fn share(&self, own: ReceiveBuffer, other: &Handle, mode: Mode) -> Result<Shared> {
        Shared::new(self.attachment(), own, other, mode)
    }
}

/// Returns a mask with one bit for each host.
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
    fn host_mask_refuses_hosts_above_63() {
        assert_eq!(nodes([0, 3, 63]).unwrap(), 1 | 1 << 3 | 1 << 63);
        assert_eq!(nodes(0..64).unwrap(), u64::MAX);
        assert_eq!(nodes([64]).unwrap_err().to_string(), "host id 64 is out of range (limit 63)");
    }
}
