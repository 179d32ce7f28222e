//! A fake network of CLAN cards and their drivers for tests: a thread plays the cards. It finds
//! writes by comparing memory. So its Tripwires fire only for changes of memory, including those by
//! the owner.

mod card;
mod endpoint;
mod net;
mod serving;
mod state;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hamlyn_sys::{Access, Mapping};

use super::card::Card;
pub(super) use net::Net;

/// Memory that can be mapped any number of times.
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

/// Opens one card at each of `N` hosts.
pub(super) fn cards<const N: usize>() -> (Arc<Net>, [Card; N]) {
    let net = Net::start();
    let cards = std::array::from_fn(|host| net.open(host as u32));
    (net, cards)
}
