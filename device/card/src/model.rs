//! Descriptions of card models, from which command lines, tables and tests are generated.

use std::error::Error;
use std::ops::RangeInclusive;

use thiserror::Error;

use crate::card::Card;

/// A model of the family. Each card's crate exports one as a constant, and the catalogue lists it.
#[derive(Debug)]
pub struct Model {
    /// Name on the command line.
    pub name: &'static str,
    /// The publication.
    pub paper: &'static str,
    /// What the model does, in one line.
    pub about: &'static str,
    /// What the user can configure.
    pub settings: &'static [Setting],
    /// How its packets are split and joined on their way, if that is possible.
    pub bursts: Option<Bursts>,
    /// Makes a card with these settings: see [`Choice::make`].
    pub make: fn(&Choice) -> Result<Box<dyn Card + Send>, MakeError>,
}

/// How components between the cards split and join packets. The functions get the bytes without the
/// fabric's header. A packet is known to belong to the model's protocol, but nothing else about it
/// is known.
#[derive(Debug, Clone, Copy)]
pub struct Bursts {
    /// See [`Cut`].
    pub cut: Cut,
    /// See [`Join`].
    pub join: Join,
}

/// Splits a packet that is longer than the given number of bytes in two. The first part is not
/// longer than that, and the receiver treats both parts, in this order, like the original. Returns
/// `None` if this packet cannot be split there.
pub type Cut = fn(&[u8], usize) -> Option<(Vec<u8>, Vec<u8>)>;

/// Joins two packets into one of at most the given number of bytes. The receiver treats the result
/// like both packets. Returns `None` if the second does not follow the first, or the result would
/// be too long.
pub type Join = fn(&[u8], &[u8], usize) -> Option<Vec<u8>>;

/// A numeric setting of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Name of the setting and of its flag: `packet-size`.
    pub name: &'static str,
    /// Unit: `BYTES`.
    pub unit: &'static str,
    /// Description, with the limits.
    pub about: &'static str,
    /// Default value.
    pub default: u32,
}

impl Setting {
    /// The setting that all cards have: see [`Choice::handshake_ms`].
    pub const HANDSHAKE: Setting = Setting {
        name: "handshake",
        unit: "MS",
        about: "How long the host may go without keeping the card's handshake before the card discards what \
                arrives, in milliseconds: 100 to 600000, or 0 for no limit",
        default: 8000,
    };
}

/// Why a card could not be made.
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

/// A value outside the limits of its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what} {value} is out of range ({least} to {most})")]
struct OutOfRange {
    what: &'static str,
    value: u32,
    least: u32,
    most: u32,
}

/// A value that must be a multiple of `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what} {value} is not a multiple of {unit}")]
struct Uneven {
    what: &'static str,
    value: u32,
    unit: u32,
}

/// A model and the settings chosen for one card.
#[derive(Debug, Clone)]
pub struct Choice {
    model: &'static Model,
    /// Name and value of each setting.
    chosen: Vec<(&'static str, u32)>,
}

impl Choice {
    /// Chooses the defaults of `model`.
    pub fn of(model: &'static Model) -> Self {
        Self { model, chosen: Vec::new() }
    }

    /// Returns the model.
    pub fn model(&self) -> &'static Model {
        self.model
    }

    /// Returns the name and value of each setting that was set.
    pub fn chosen(&self) -> &[(&'static str, u32)] {
        &self.chosen
    }

    /// Sets a value. The value itself is checked when the card is made.
    pub fn set(&mut self, setting: &'static str, value: u32) -> Result<(), NoSetting> {
        self.get(setting)?;
        self.chosen.retain(|(name, _)| *name != setting);
        self.chosen.push((setting, value));
        Ok(())
    }

    /// Sets a value unless the user has set one, if the model has this setting.
    pub fn suggest(&mut self, setting: &'static str, value: u32) {
        if self.get(setting).is_ok() && self.chosen.iter().all(|(name, _)| *name != setting) {
            self.chosen.push((setting, value));
        }
    }

    /// Returns the value of a setting.
    pub fn get(&self, setting: &'static str) -> Result<u32, NoSetting> {
        let known = self.model.settings.iter().find(|known| known.name == setting);
        let default = known.ok_or(NoSetting { model: self.model.name, setting })?.default;
        let chosen = self.chosen.iter().find(|(name, _)| *name == setting);
        Ok(chosen.map_or(default, |(_, value)| *value))
    }

    /// Returns the value of a setting and checks it against `limits`. Errors call the setting
    /// `what`.
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

    /// Like [`Choice::in_range`], but the value must also be a multiple of `unit`.
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

    /// Returns how long the host may go without restarting the card's handshake timer, in
    /// milliseconds; 0 means without limit.
    pub fn handshake_ms(&self) -> Result<u32, MakeError> {
        match self.get(Setting::HANDSHAKE.name)? {
            0 => Ok(0),
            _ => self.in_range(Setting::HANDSHAKE.name, "handshake period in ms", 100..=600_000),
        }
    }

    /// Makes a card in its power-on state.
    pub fn make(&self) -> Result<Box<dyn Card + Send>, MakeError> {
        (self.model.make)(self)
    }
}
