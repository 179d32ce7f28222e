//! The SHRIMP card's model: how its nodes are found, and what its users share.

use hamlyn_abi::shrimp::identity::{SHRIMP_ABI_VERSION, SHRIMP_MODEL};
use hamlyn_abi::shrimp::uapi::SHRIMP_MAX_OBJECTS;

use crate::core::model::{Model, Shared};

/// The SHRIMP card's model.
#[derive(Debug)]
pub enum Shrimp {}

impl Model for Shrimp {
    const NUMBER: u32 = SHRIMP_MODEL;
    const NAME: &'static str = "shrimp";
    const VERSION: u32 = SHRIMP_ABI_VERSION;
    const SHARED: &'static [Shared] = &[
        Shared {
            object: "receive buffers",
            remedy: "take some back, here or in another process: a card has no more",
            limit: |_| SHRIMP_MAX_OBJECTS,
        },
        Shared {
            object: "mapped send buffers",
            remedy: "drop some, here or in another process: a card has no more, nor a receive buffer more than 256",
            limit: |_| SHRIMP_MAX_OBJECTS,
        },
    ];
}
