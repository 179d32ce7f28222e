//! Selection of a tool's card, of any model.

use std::fs;
use std::path::Path;

use hamlyn::channel::Card;

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
    pub(crate) fn open(&self) -> Outcome<Card> {
        match self.name() {
            Some(name) => open(name),
            None => open(all_cards()?.first().map_or("/dev/hamlyn0", String::as_str)),
        }
    }
}

/// Opens a card of any model; its driver reports the model.
pub(crate) fn open(name: &str) -> Outcome<Card> {
    Ok(Card::open(Path::new(name))?)
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
