//! Interface of a card model to channels ([`crate::channel`]): its cards.

use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hamlyn_abi::family::link::ULN_NO_HOST;

use crate::core::attach::CardAttachment;
use crate::core::card::Card;
use crate::core::connection::{Connecting, Found, Listener};
use crate::core::express::memory::RingMemory;
use crate::core::place::PAGE;
use crate::core::remote::Ends;
use crate::error::Result;

/// Largest ring that fits a CLAN card's aperture and a SHRIMP card's receive buffer.
const LARGEST_RING: u64 = (16 << 20) - PAGE as u64;

/// A card whose model carries channels.
pub(crate) trait Carrier: Debug + Send + Sync {
    /// Returns the model's name and number.
    fn model(&self) -> (&'static str, u32);

    /// Returns the card, for what is the same on every model.
    fn card(&self) -> &dyn AnyCard;

    /// Creates this end of a channel to a host.
    fn ends(&self, host: u32, capacity: u64) -> Result<Box<dyn Ends>>;

    /// Returns the size of the largest ring.
    fn largest_ring(&self) -> u64 {
        LARGEST_RING
    }
}

/// Pages of express memory.
#[derive(Debug)]
pub(crate) struct SharedPages {
    pub(crate) number: u32,
    pub(crate) key: u64,
    /// `None` if there are fewer than two pages.
    pub(crate) ring: Option<RingMemory>,
    /// Releases the pages when it is dropped.
    pub(crate) held: Box<dyn Debug + Send + Sync>,
}

/// What channels need of a card of any model.
pub(crate) trait AnyCard {
    fn host(&self) -> Result<Option<u32>>;
    fn hosts(&self) -> Result<Range<u32>>;
    fn find_within(&self, name: &str, timeout: Option<Duration>) -> Result<Found>;
    fn listen(&self, name: &str) -> Result<Listener>;
    fn listen_as_socket(&self, name: &str, socket: BorrowedFd<'_>) -> Result<Listener>;
    fn begin_connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Connecting>;
    /// Returns whether express memory is shared with the host.
    fn shares_memory(&self, host: u32) -> bool;
    fn create_area(&self, host: u32, length: usize) -> Result<SharedPages>;
    fn map_area(&self, host: u32, number: u32, key: u64) -> Result<SharedPages>;
}

impl<A: CardAttachment + ?Sized + 'static> AnyCard for Card<A> {
    fn host(&self) -> Result<Option<u32>> {
        let host = self.attachment().query()?.host;
        Ok((host != ULN_NO_HOST).then_some(host))
    }

    fn hosts(&self) -> Result<Range<u32>> {
        self.hosts()
    }

    fn find_within(&self, name: &str, timeout: Option<Duration>) -> Result<Found> {
        self.find_within(name, timeout)
    }

    fn listen(&self, name: &str) -> Result<Listener> {
        self.listen(name)
    }

    fn listen_as_socket(&self, name: &str, socket: BorrowedFd<'_>) -> Result<Listener> {
        self.listen_as_socket(name, socket)
    }

    fn begin_connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Connecting> {
        self.begin_connect(host, name, private)
    }

    fn shares_memory(&self, host: u32) -> bool {
        self.express(host).is_ok_and(|express| express.part > 0)
    }

    fn create_area(&self, host: u32, length: usize) -> Result<SharedPages> {
        let area = self.create_express_area(host, length)?;
        let (number, key, ring) = (area.number(), area.key(), RingMemory::of(&area));
        Ok(SharedPages { number, key, ring, held: Box::new(area) })
    }

    fn map_area(&self, host: u32, number: u32, key: u64) -> Result<SharedPages> {
        let view = self.map_express_area(host, number, key)?;
        Ok(SharedPages { number, key, ring: RingMemory::of(&view), held: Box::new(view) })
    }
}
