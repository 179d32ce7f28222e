//! The machines, and cards for programs of the host.

use crate::engine::machines::{Layout, Pair};

const HAMLYN: Pair = Pair::of("hamlyn");

/// One process for cards and switch, pinned to cores like its machines. The peers' devices are
/// here, and the cards have room for the channels of all clients of the server.
pub(crate) const FABRIC: Pair = Pair { card_args: "--queues 1024 --termini 128", ..HAMLYN.with_peers() };
/// One process that stays awake. It polls for 100 ms before it sleeps, which is longer than a peer
/// may have to wait for a core. The handshake with the hosts is off, because its trapped stores
/// depend on time instead of messages (goal 5).
pub(crate) const AWAKE: Pair = Pair { card_args: "--spin 100000 --handshake 0", ..HAMLYN.unpinned() };
/// A process for each card, and one for the switch.
pub(crate) const SEPARATE: Pair = Pair { layout: Layout::Separate, ..HAMLYN };
/// One process, and the largest packets, of which a long message needs the fewest: for bandwidth
/// alone, which pinning does not improve (docs/performance.md).
pub(crate) const WIDE: Pair = Pair { card_args: "--packet-size 65536", ..HAMLYN.unpinned() };

/// The default packet size of cards, which is also that of the paper's prototype.
pub(crate) const USUAL_PACKET: u32 = 4096;
/// The largest packets, in bytes.
pub(crate) const WIDE_PACKET: u32 = 65536;

/// Returns the machines for a packet size of the figures.
pub(crate) const fn packets(size: u32) -> Pair {
    let card_args = match size {
        USUAL_PACKET => return FABRIC,
        WIDE_PACKET => return WIDE,
        256 => "--packet-size 256",
        512 => "--packet-size 512",
        1024 => "--packet-size 1024",
        2048 => "--packet-size 2048",
        8192 => "--packet-size 8192",
        16384 => "--packet-size 16384",
        32768 => "--packet-size 32768",
        _ => panic!("no figure has packets of this size"),
    };
    Pair { card_args, ..HAMLYN }
}

/// Returns cards of one fabric process for programs of the host.
pub(crate) const fn on_host(host_cards: usize) -> Pair {
    Pair { host_cards, optional: true, ..HAMLYN.unpinned() }
}
