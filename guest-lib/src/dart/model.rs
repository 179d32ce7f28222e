//! The DART card's model: how its nodes are found, and what its users share.

use hamlyn_abi::dart::identity::{DART_ABI_VERSION, DART_MODEL};
use hamlyn_abi::dart::uapi::DartQuery;

use crate::core::model::{Model, Shared};

/// The DART card's model.
#[derive(Debug)]
pub enum Dart {}

impl Model for Dart {
    const NUMBER: u32 = DART_MODEL;
    const NAME: &'static str = "dart";
    const VERSION: u32 = DART_ABI_VERSION;
    const SHARED: &'static [Shared] = &[
        Shared {
            object: "connections and endpoints",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --connections)",
            limit: |card| card.of_card::<DartQuery>().map_or(0, |own| own.connections),
        },
        Shared {
            object: "address registers",
            remedy: "drop banks, here or in another process, or give the card more (hamlyn card --registers)",
            limit: |card| card.of_card::<DartQuery>().map_or(0, |own| own.registers),
        },
        Shared {
            object: "queues",
            remedy: "drop some, here or in another process, or give the card more (hamlyn card --queues)",
            limit: |card| card.of_card::<DartQuery>().map_or(0, |own| own.queues),
        },
    ];
}
