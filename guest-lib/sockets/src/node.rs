//! This machine's card, and which addresses belong to the fabric.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hamlyn::channel::{Card, Options, is_device_of_card};

use crate::{environment, foreign};

/// How long the addresses of this machine's devices are believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long the kernel may look for a neighbour that it has just heard of.
const LOOKUP: Duration = Duration::from_millis(1);

static NODE: Mutex<Option<Node>> = Mutex::new(None);
/// Another thread of the parent had the lock at the fork, so it stays locked in this child.
static IS_LOST: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Default)]
struct Node {
    /// `None` inside if there is none, or it could not be opened.
    card: Option<Option<Card>>,
    addresses: Vec<Ipv4Addr>,
    looked: Option<Instant>,
}

/// A child without a node has connections by TCP alone.
fn with<T: Default>(act: impl FnOnce(&mut Node) -> T) -> T {
    if IS_LOST.load(Ordering::Relaxed) {
        return T::default();
    }
    act(NODE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Node::default))
}

/// Returns whether this is an address of a network device over a card.
pub(crate) fn is_own(address: Ipv4Addr) -> bool {
    with(|node| {
        if node.looked.is_none_or(|looked| looked.elapsed() > BELIEVED) {
            node.addresses = foreign::addresses(is_device_of_card);
            node.looked = Some(Instant::now());
        }
        node.addresses.contains(&address)
    })
}

/// Returns the card, opened at the first call.
pub(crate) fn card() -> Option<Card> {
    with(|node| node.card.get_or_insert_with(|| Card::open_any().ok()).clone())
}

/// Returns the host that a connection's other end is on.
pub(crate) fn host_of(peer: SocketAddrV4) -> Option<u32> {
    card()?.host_at(*peer.ip(), LOOKUP)
}

/// The name of a connection for its connecting end.
pub(crate) fn name_of(connecting: SocketAddrV4, accepting: SocketAddrV4) -> String {
    format!("tcp/{connecting}-{accepting}")
}

/// Options of every channel.
pub(crate) fn options() -> Options {
    let (mut options, environment) = (Options::default(), environment::get());
    (options.capacity, options.by_card) = (environment.ring, environment.by_card);
    options
}

/// In a child: forgets the parent's card. Returns whether there may have been one.
pub(crate) fn forget() -> bool {
    let Ok(mut node) = NODE.try_lock() else {
        IS_LOST.store(true, Ordering::Relaxed);
        return true;
    };
    let had = node.as_ref().is_some_and(|node| matches!(node.card, Some(Some(_))));
    std::mem::forget(node.take());
    had
}
