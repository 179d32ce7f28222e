//! The machines.

use crate::engine::machines::Pair;

/// One user may have all of a card, because a server with a thousand connections needs it.
pub(crate) const CLAN: Pair = Pair { share_all: true, ..Pair::of("clan") };
/// Cards that do not join (section 5.2).
pub(crate) const UNJOINED: Pair = Pair { card_args: "--join 0", ..Pair::of("clan") };
/// SHRIMP cards, whose stores go to window pages like CLAN's.
pub(crate) const SHRIMP: Pair = Pair::other("shrimp");
/// Hamlyn cards, and the devices that are the alternatives to any card.
pub(crate) const HAMLYN: Pair = Pair::of("hamlyn").with_peers();
