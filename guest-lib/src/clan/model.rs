//! The CLAN card's model: how its nodes are found, and what its users share.

use hamlyn_abi::clan::identity::{CLAN_ABI_VERSION, CLAN_MODEL};
use hamlyn_abi::clan::uapi::ClanQuery;

use crate::core::model::{Model, Shared};

/// The CLAN card's model.
#[derive(Debug)]
pub enum Clan {}

impl Model for Clan {
    const NUMBER: u32 = CLAN_MODEL;
    const NAME: &'static str = "clan";
    const VERSION: u32 = CLAN_ABI_VERSION;
    const SHARED: &'static [Shared] = &[
        Shared {
            object: "apertures",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --apertures)",
            limit: |card| card.of_card::<ClanQuery>().map_or(0, |own| own.apertures),
        },
        Shared {
            object: "window pages",
            remedy: "drop windows, here or in another process, or give the card more (hamlyn card --window-pages)",
            limit: |card| card.of_card::<ClanQuery>().map_or(0, |own| own.window_pages),
        },
        Shared {
            object: "endpoints and event queues",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --endpoints)",
            limit: |card| card.of_card::<ClanQuery>().map_or(0, |own| own.endpoints),
        },
    ];
}
