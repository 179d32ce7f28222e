//! A net of CLAN cards and their drivers without either, for tests: a thread does what cards do. It
//! finds by comparison what was written, so a Tripwire of its fires for changes of memory alone,
//! those of its owner's too.

mod card;
mod endpoint;
mod net;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hamlyn_sys::{Access, Mapping};

use super::card::Card;
pub(super) use net::Net;

/// Memory that may be mapped any number of times.
#[derive(Debug, Clone)]
struct Pages {
    file: Arc<OwnedFd>,
    mapping: Arc<Mapping>,
}

impl Pages {
    fn new(length: usize) -> Self {
        let length = length.next_multiple_of(4096);
        let file = rustix::fs::memfd_create("clan-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, length as u64).unwrap();
        let mapping = Arc::new(Mapping::of_file(&file, 0, length, Access::ReadWrite).unwrap());
        Self { file: Arc::new(file), mapping }
    }

    fn map(&self, offset: u64, length: usize, access: Access) -> Mapping {
        Mapping::of_file(&self.file, offset, length, access).unwrap()
    }
}

/// Open cards of so many hosts, one of each.
pub(super) fn cards<const N: usize>() -> (Arc<Net>, [Card; N]) {
    let net = Net::start();
    let cards = std::array::from_fn(|host| net.open(host as u32));
    (net, cards)
}
