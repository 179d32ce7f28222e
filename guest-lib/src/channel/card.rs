//! A card of any model.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::core::connection::{Connecting, Found, Listener};
use crate::core::device::Node;
use crate::core::model::Model;
use crate::error::{Error, Result};
use crate::hamlyn::channel::Termini;
use crate::hamlyn::device::Hamlyn;
use crate::{clan, dart, shrimp};

/// An open card of any model that has channels. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Card(pub(super) Kind);

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Hamlyn(crate::Card, Arc<Termini>),
    Shrimp(shrimp::Card),
    Clan(clan::Card),
    Dart(dart::Card),
}

/// Environment variables that name a card's node, in the order in which they are checked.
const VARIABLES: [&str; 4] = ["HAMLYN_CARD", "SHRIMP_CARD", "CLAN_CARD", "DART_CARD"];
/// Models, in the order in which nodes are searched.
const MODELS: [&str; 4] = [Hamlyn::NAME, shrimp::Shrimp::NAME, clan::Clan::NAME, dart::Dart::NAME];

/// Calls a method that exists for all models.
macro_rules! with {
    ($card:expr, $name:ident => $call:expr) => {
        match &$card.0 {
            $crate::channel::card::Kind::Hamlyn($name, _) => $call,
            $crate::channel::card::Kind::Shrimp($name) => $call,
            $crate::channel::card::Kind::Clan($name) => $call,
            $crate::channel::card::Kind::Dart($name) => $call,
        }
    };
}
pub(super) use with;

impl Card {
    /// Opens the card that `HAMLYN_CARD`, `SHRIMP_CARD`, `CLAN_CARD` or `DART_CARD` names, in that
    /// order. Otherwise opens the first node in `/dev`, ordered by model and number.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no card; those of [`Card::open`].
    pub fn open_any() -> Result<Self> {
        let named = VARIABLES.iter().find_map(|name| std::env::var_os(name).map(PathBuf::from));
        match named.or_else(first_node) {
            Some(node) => Self::open(&node),
            None => Err(Error::Unsupported("this machine has no card: is the driver loaded?")),
        }
    }

    /// Opens the card at `node`.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be opened; [`Error::OtherModel`] if the card's model has no
    /// channels.
    pub fn open(node: &Path) -> Result<Self> {
        let model = match crate::Card::open(&node.display().to_string()) {
            Ok(card) => return Ok(Self::from(card)),
            Err(Error::OtherModel { model, .. }) => model,
            Err(error) => return Err(error),
        };
        Ok(Self(match model {
            clan::Clan::NUMBER => Kind::Clan(clan::Card::open_path(node)?),
            dart::Dart::NUMBER => Kind::Dart(dart::Card::open_path(node)?),
            // This also refuses models that have no channels.
            _ => Kind::Shrimp(shrimp::Card::attached(Arc::new(Node::open(node)?))),
        }))
    }

    /// Returns the model's name: "hamlyn", "shrimp", "clan" or "dart".
    #[must_use]
    pub fn model(&self) -> &'static str {
        match &self.0 {
            Kind::Hamlyn(..) => Hamlyn::NAME,
            Kind::Shrimp(_) => shrimp::Shrimp::NAME,
            Kind::Clan(_) => clan::Clan::NAME,
            Kind::Dart(_) => dart::Dart::NAME,
        }
    }

    /// Returns the model's number.
    pub(super) fn number(&self) -> u32 {
        match &self.0 {
            Kind::Hamlyn(..) => Hamlyn::NUMBER,
            Kind::Shrimp(_) => shrimp::Shrimp::NUMBER,
            Kind::Clan(_) => clan::Clan::NUMBER,
            Kind::Dart(_) => dart::Dart::NUMBER,
        }
    }

    /// Returns the card's host id; `None` while its link is down.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn host(&self) -> Result<Option<u32>> {
        match &self.0 {
            Kind::Hamlyn(card, _) => Ok(card.info()?.host),
            Kind::Shrimp(card) => card.host(),
            Kind::Clan(card) => card.host(),
            Kind::Dart(card) => card.host(),
        }
    }

    /// Returns the range of possible host ids.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn hosts(&self) -> Result<Range<u32>> {
        with!(self, card => card.hosts())
    }

    /// Returns the hosts that have a listener of this name. Waits for answers for at most
    /// `timeout`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the name is too long; [`Error::System`].
    pub fn find(&self, name: &str, timeout: Option<Duration>) -> Result<Found> {
        with!(self, card => card.find(name, timeout))
    }

    pub(super) fn listen(&self, name: &str) -> Result<Listener> {
        with!(self, card => card.listen(name))
    }

    pub(super) fn begin_connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Connecting> {
        with!(self, card => card.begin_connect(host, name, private))
    }
}

impl From<crate::Card> for Card {
    fn from(card: crate::Card) -> Self {
        Self(Kind::Hamlyn(card, Arc::default()))
    }
}

impl From<shrimp::Card> for Card {
    fn from(card: shrimp::Card) -> Self {
        Self(Kind::Shrimp(card))
    }
}

impl From<clan::Card> for Card {
    fn from(card: clan::Card) -> Self {
        Self(Kind::Clan(card))
    }
}

impl From<dart::Card> for Card {
    fn from(card: dart::Card) -> Self {
        Self(Kind::Dart(card))
    }
}

fn first_node() -> Option<PathBuf> {
    let names = fs::read_dir("/dev").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    first_among(names).map(|name| Path::new("/dev").join(name))
}

fn first_among(names: impl Iterator<Item = String>) -> Option<String> {
    let rank = |name: &str| {
        MODELS.iter().enumerate().find_map(|(model, prefix)| {
            let number: u32 = name.strip_prefix(prefix)?.parse().ok()?;
            Some((model, number))
        })
    };
    names.filter_map(|name| Some((rank(&name)?, name))).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_node_is_by_model_and_number() {
        let first = |names: &[&str]| first_among(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(first(&["dart0", "clan10", "clan2", "tty1", "hamlynx"]).as_deref(), Some("clan2"));
        assert_eq!(first(&["shrimp1", "hamlyn3"]).as_deref(), Some("hamlyn3"));
        assert_eq!(first(&["echo0", "clan"]), None);
    }
}
