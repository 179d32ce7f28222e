//! What a card's module says of its model, so that any card's node can be opened and its errors be
//! told.

use std::fmt::Debug;

use hamlyn_abi::uapi::HamlynQuery;

/// A model of the family.
pub trait Model: Debug + Send + Sync + 'static {
    /// Its `HAMLYN_MODEL_*`.
    const NUMBER: u32;
    /// Its name: its nodes are `/dev/<name>N`.
    const NAME: &'static str;
    /// The version of its contract that this library was written for: major in the upper half,
    /// minor in the lower.
    const VERSION: u32;
    /// What users share of a card of this model besides connections: at most three kinds, by their
    /// `HAMLYN_SHARE_*`.
    const SHARED: &'static [Shared];
}

/// A kind of thing that users share.
#[derive(Debug)]
pub struct Shared {
    /// What it is called, in the plural.
    pub object: &'static str,
    /// How to have more of them.
    pub remedy: &'static str,
    /// How many the card has, by what it says of itself.
    pub limit: fn(&HamlynQuery) -> u32,
}
