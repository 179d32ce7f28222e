//! The machines.

use crate::engine::machines::Pair;

pub(crate) const DART: Pair = Pair::of("dart");
/// Their connections allow more cells in flight: the maximum.
pub(crate) const WIDE: Pair = Pair { card_args: "--window 65536", ..DART };
/// Machines with Hamlyn cards, and with the alternatives to any card.
pub(crate) const HAMLYN: Pair = Pair::other("hamlyn").with_peers();
pub(crate) const SHRIMP: Pair = Pair::other("shrimp");
pub(crate) const CLAN: Pair = Pair::other("clan");
