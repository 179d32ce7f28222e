//! What a process tells a reader when a trace begins. The rings' memory comes with it, in the order
//! of the cards.

use std::collections::BTreeMap;

use hamlyn_card::card::Region;
use serde::{Deserialize, Serialize};

/// Version of [`Hello`] and of the records.
pub const VERSION: u32 = 2;

/// The message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// Reason for which the process refuses the trace. `cards` is empty then.
    pub refusal: Option<String>,
    /// Its cards.
    pub cards: Vec<CardName>,
}

/// A card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardName {
    /// Name of its socket: `card0`.
    pub name: String,
    /// Its model's name.
    pub model: String,
    /// Its host id, if it has a link.
    pub host: Option<u16>,
    /// Names of its counters, in order.
    pub counters: Vec<String>,
    /// What its BARs contain, beside the registers.
    pub regions: Vec<RegionName>,
    /// Its settings that were set; the others have their defaults.
    pub settings: BTreeMap<String, u32>,
}

/// An array of parts of a BAR: see [`Region`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionName {
    /// Index of the BAR.
    pub bar: u8,
    /// Name of a part.
    pub name: String,
    /// Offset of the first part in the BAR, in bytes.
    pub start: u64,
    /// Size of a part in bytes.
    pub size: u64,
    /// Number of parts.
    pub count: u64,
}

impl From<&Region> for RegionName {
    fn from(region: &Region) -> Self {
        let Region { bar, name, start, size, count } = *region;
        RegionName { bar, name: name.into(), start, size, count }
    }
}

impl RegionName {
    /// Returns the number of the part that has this place, and the offset in it.
    #[must_use]
    pub fn part(&self, bar: u8, offset: u64) -> Option<(u64, u64)> {
        let inside = offset.checked_sub(self.start).filter(|_| bar == self.bar)?;
        let part = inside.checked_div(self.size).filter(|part| *part < self.count)?;
        Some((part, inside % self.size))
    }
}
