//! Selection of a tool's card, of any model.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hamlyn::attach::{self, Model, Node};
use hamlyn::clan::{self, Clan};
use hamlyn::dart::{self, Dart};
use hamlyn::echo::{self, Echo};
use hamlyn::shrimp::{self, Shrimp};
use hamlyn::{Card, Error, FIND_TIMEOUT, Found};

use crate::Outcome;

/// Models by their node names, in the order in which the default card is searched.
const MODELS: [&str; 5] = ["hamlyn", "shrimp", "clan", "dart", "echo"];

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CardOption {
    /// Card to use: a device of any model, or "vfio-user:" and the path of a Hamlyn card's socket
    /// [default: $HAMLYN_CARD, else /dev/hamlyn0, else the first card of another model]
    #[arg(short = 'd', long, env = "HAMLYN_CARD", hide_env = true, value_name = "CARD")]
    card: Option<String>,
}

impl CardOption {
    /// Returns the card named by option or environment.
    pub(crate) fn name(&self) -> Option<&str> {
        self.card.as_deref()
    }

    /// Opens the card for channels.
    pub(crate) fn open(&self) -> Outcome<hamlyn::channel::Card> {
        let card = match self.name() {
            Some(name) => AnyCard::open(name)?,
            None => AnyCard::open(all_cards()?.first().map_or("/dev/hamlyn0", String::as_str))?,
        };
        Ok(match card {
            AnyCard::Hamlyn(card) => card.into(),
            AnyCard::Shrimp(card) => card.into(),
            AnyCard::Clan(card) => card.into(),
            AnyCard::Dart(card) => card.into(),
            AnyCard::Echo(card) => card.into(),
        })
    }
}

/// A card of any model that the tools support.
pub(crate) enum AnyCard {
    Hamlyn(Card),
    Shrimp(shrimp::Card),
    Clan(clan::Card),
    Dart(dart::Card),
    Echo(echo::Card),
}

impl AnyCard {
    /// Opens a card; its driver reports the model.
    pub(crate) fn open(name: &str) -> Outcome<Self> {
        match Card::open(name) {
            Err(Error::OtherModel { model: Shrimp::NUMBER, .. }) => Ok(Self::Shrimp(node(name)?)),
            Err(Error::OtherModel { model: Clan::NUMBER, .. }) => {
                Ok(Self::Clan(clan::Card::open_path(Path::new(name))?))
            }
            Err(Error::OtherModel { model: Dart::NUMBER, .. }) => {
                Ok(Self::Dart(dart::Card::open_path(Path::new(name))?))
            }
            Err(Error::OtherModel { model: Echo::NUMBER, .. }) => Ok(Self::Echo(node(name)?)),
            card => Ok(Self::Hamlyn(card?)),
        }
    }

    /// Returns the hosts that have a listener of a name.
    pub(crate) fn find(&self, name: &str) -> hamlyn::Result<Found> {
        match self {
            Self::Hamlyn(card) => card.find(name, Some(FIND_TIMEOUT)),
            Self::Shrimp(card) => card.find(name, Some(FIND_TIMEOUT)),
            Self::Clan(card) => card.find(name, Some(FIND_TIMEOUT)),
            Self::Dart(card) => card.find(name, Some(FIND_TIMEOUT)),
            Self::Echo(card) => card.find(name, Some(FIND_TIMEOUT)),
        }
    }
}

fn node<M: Model>(name: &str) -> hamlyn::Result<attach::Card<Node<M>>> {
    Ok(attach::Card::attached(Arc::new(Node::open(Path::new(name))?)))
}

/// Returns the machine's cards as device paths, ordered by model and number.
pub(crate) fn all_cards() -> Outcome<Vec<String>> {
    let names = fs::read_dir("/dev")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(cards_among(names))
}

/// Returns the cards among devices with these names.
fn cards_among(names: impl Iterator<Item = String>) -> Vec<String> {
    let place = |name: &str| {
        MODELS.iter().enumerate().find_map(|(model, prefix)| {
            let number: u32 = name.strip_prefix(prefix)?.parse().ok()?;
            Some((model, number))
        })
    };
    let mut cards: Vec<(usize, u32)> = names.filter_map(|name| place(&name)).collect();
    cards.sort_unstable();
    cards.iter().map(|(model, number)| format!("/dev/{}{number}", MODELS[*model])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_listed_by_model_and_number() {
        let names =
            ["hamlyn10", "shrimp1", "tty1", "hamlyn2", "hamlyn", "hamlynx", "echo0", "hamlyn0", "shrimp0"];
        let found = cards_among(names.map(str::to_owned).into_iter());
        let nodes = ["hamlyn0", "hamlyn2", "hamlyn10", "shrimp0", "shrimp1", "echo0"];
        assert_eq!(found, nodes.map(|node| format!("/dev/{node}")));
    }
}
