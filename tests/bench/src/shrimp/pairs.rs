//! The machines.

use hamlyn_lab::Snoop;

use crate::engine::machines::Pair;

/// The card snoops their processors' stores. That is impossible with hardware virtualisation.
pub(crate) const SNOOPED: Pair = Pair { snoop: Snoop::Yes, optional: true, ..Pair::of("shrimp") };
/// They store to window pages; their QEMU has no plugin.
pub(crate) const WINDOW: Pair = Pair { snoop: Snoop::No, ..Pair::of("shrimp") };
/// Machines with Hamlyn cards, and with the alternatives to any card.
pub(crate) const HAMLYN: Pair = Pair::of("hamlyn").with_peers();

/// The pairs with SHRIMP cards: the label for their way of stores, and the programs' option.
pub(crate) const WAYS: [(&str, &str, Pair); 2] =
    [("snooped", "snoop", SNOOPED), ("by window", "window", WINDOW)];
