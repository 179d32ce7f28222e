//! How cards of a model are made, told so that command lines, tables and tests can be made of it.

use std::error::Error;
use std::ops::RangeInclusive;

use thiserror::Error;

use crate::card::Card;

/// A model of the family. A card's crate has one as a constant, and a catalogue names that.
#[derive(Debug)]
pub struct Model {
    /// What people type.
    pub name: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What a person may choose about a card.
    pub settings: &'static [Setting],
    /// How its packets are cut and joined on their way, if they can be.
    pub bursts: Option<Bursts>,
    /// Makes a card as chosen: see [`Choice::make`].
    pub make: fn(&Choice) -> Result<Box<dyn Card + Send>, MakeError>,
}

/// How packets are cut and joined by whoever they pass: their bytes without the fabric's header. It
/// is known to be a packet of the model's protocol, and nothing else of it.
#[derive(Debug, Clone, Copy)]
pub struct Bursts {
    /// See [`Cut`].
    pub cut: Cut,
    /// See [`Join`].
    pub join: Join,
}

/// Makes two packets of one that is longer than so many bytes. The first is not, and both in this
/// order are to the receiver what the one is. `None`: this one cannot be cut so.
pub type Cut = fn(&[u8], usize) -> Option<(Vec<u8>, Vec<u8>)>;

/// Makes one packet of two, of so many bytes at most, that is to the receiver what both are.
/// `None`: the second does not follow the first, or they would be longer.
pub type Join = fn(&[u8], &[u8], usize) -> Option<Vec<u8>>;

/// A number that a person may choose about a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name, which is also that of the flag: `packet-size`.
    pub name: &'static str,
    /// What it counts: `BYTES`.
    pub unit: &'static str,
    /// What it is, with its limits.
    pub about: &'static str,
    /// What it is if nobody chooses.
    pub default: u32,
}

impl Setting {
    /// The one that all cards have: see [`Choice::handshake_ms`].
    pub const HANDSHAKE: Setting = Setting {
        name: "handshake",
        unit: "MS",
        about: "How long the host may go without keeping the card's handshake before the card discards what \
                arrives, in milliseconds: 100 to 600000, or 0 for ever",
        default: 8000,
    };
}

/// Why a card was not made.
pub type MakeError = Box<dyn Error + Send + Sync>;

/// A setting that a model does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("model {model} has no {setting}")]
pub struct NoSetting {
    /// The model.
    pub model: &'static str,
    /// The setting.
    pub setting: &'static str,
}

/// A value that is outside of its setting's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what} {value} is out of range ({least} to {most})")]
struct OutOfRange {
    what: &'static str,
    value: u32,
    least: u32,
    most: u32,
}

/// A value that has to be a multiple of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what} {value} is not a multiple of {unit}")]
struct Uneven {
    what: &'static str,
    value: u32,
    unit: u32,
}

/// A model, and what a person chose about a card of it.
#[derive(Debug, Clone)]
pub struct Choice {
    model: &'static Model,
    /// By the settings' names.
    chosen: Vec<(&'static str, u32)>,
}

impl Choice {
    /// All as the model has it by default.
    pub fn of(model: &'static Model) -> Self {
        Self { model, chosen: Vec::new() }
    }

    /// Which model.
    pub fn model(&self) -> &'static Model {
        self.model
    }

    /// Chooses a value. What values make sense, the card says when it is made.
    pub fn set(&mut self, setting: &'static str, value: u32) -> Result<(), NoSetting> {
        self.get(setting)?;
        self.chosen.retain(|(name, _)| *name != setting);
        self.chosen.push((setting, value));
        Ok(())
    }

    /// Chooses a value for who has not chosen any, if the model has such a setting.
    pub fn suggest(&mut self, setting: &'static str, value: u32) {
        if self.get(setting).is_ok() && self.chosen.iter().all(|(name, _)| *name != setting) {
            self.chosen.push((setting, value));
        }
    }

    /// The value of a setting.
    pub fn get(&self, setting: &'static str) -> Result<u32, NoSetting> {
        let known = self.model.settings.iter().find(|known| known.name == setting);
        let default = known.ok_or(NoSetting { model: self.model.name, setting })?.default;
        let chosen = self.chosen.iter().find(|(name, _)| *name == setting);
        Ok(chosen.map_or(default, |(_, value)| *value))
    }

    /// The value of a setting that has limits; errors call it `what`.
    pub fn in_range(
        &self,
        setting: &'static str,
        what: &'static str,
        limits: RangeInclusive<u32>,
    ) -> Result<u32, MakeError> {
        let value = self.get(setting)?;
        if limits.contains(&value) {
            return Ok(value);
        }
        let (least, most) = limits.into_inner();
        Err(OutOfRange { what, value, least, most }.into())
    }

    /// The same, and a multiple of `unit`.
    pub fn multiple_in_range(
        &self,
        setting: &'static str,
        what: &'static str,
        unit: u32,
        limits: RangeInclusive<u32>,
    ) -> Result<u32, MakeError> {
        let value = self.in_range(setting, what, limits)?;
        if value % unit == 0 { Ok(value) } else { Err(Uneven { what, value, unit }.into()) }
    }

    /// Milliseconds that the host may go without keeping the card's handshake; 0 for ever.
    pub fn handshake_ms(&self) -> Result<u32, MakeError> {
        match self.get(Setting::HANDSHAKE.name)? {
            0 => Ok(0),
            _ => self.in_range(Setting::HANDSHAKE.name, "handshake period in ms", 100..=600_000),
        }
    }

    /// Makes a card, at power-on.
    pub fn make(&self) -> Result<Box<dyn Card + Send>, MakeError> {
        (self.model.make)(self)
    }
}
