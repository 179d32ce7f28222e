//! Descriptions of card models, for opening nodes and for error messages.

use std::fmt::Debug;

use hamlyn_abi::uapi::UlnQuery;

/// A model of the family.
pub trait Model: Debug + Send + Sync + 'static {
    /// The model's `*_MODEL`.
    const NUMBER: u32;
    /// The model's name: its nodes are `/dev/<name>N`.
    const NAME: &'static str;
    /// Version of the model's ABI that this library was written for: major in the upper half, minor
    /// in the lower.
    const VERSION: u32;
    /// Resources that users share on a card of this model, besides connections: at most three
    /// kinds, indexed by `ULN_SHARE_*`.
    const SHARED: &'static [Shared];
}

/// A kind of resource that users share.
#[derive(Debug)]
pub struct Shared {
    /// Name of the resource, in the plural.
    pub object: &'static str,
    /// How to get more of it.
    pub remedy: &'static str,
    /// Returns the number of the card's resources of this kind.
    pub limit: fn(&UlnQuery) -> u32,
}
