//! What a program and a card's process say to each other about faults: one message each way, JSON.

use serde::{Deserialize, Serialize};

use crate::engine::Tally;

/// Version of the messages.
pub const VERSION: u32 = 1;
/// Longest message in bytes.
pub const LONGEST: usize = 64 << 10;

/// What a program asks of a card's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// The cards that it is about: all, or this one.
    pub card: Option<String>,
    /// New rules as text, which replace the earlier ones. No rules end all faults. `None` only
    /// asks.
    pub rules: Option<String>,
    /// Seed of the new rules.
    pub seed: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Why the request was refused. Nothing has changed then.
    pub refusal: Option<String>,
    /// The cards that the request was about.
    pub cards: Vec<CardFaults>,
}

/// The rules of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardFaults {
    /// Its name.
    pub card: String,
    /// Its seed.
    pub seed: u64,
    /// Its rules: those before the request, if it has new ones.
    pub rules: Vec<Tally>,
}
