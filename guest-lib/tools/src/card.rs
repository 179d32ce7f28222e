//! Which card a tool is about.

use hamlyn::Card;

use crate::Outcome;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CardOption {
    /// The card: a device, or "vfio-user:" and the path of a card's socket [default: $HAMLYN_CARD, else /dev/hamlyn0]
    #[arg(short = 'd', long, env = "HAMLYN_CARD", hide_env = true, value_name = "CARD")]
    card: Option<String>,
}

impl CardOption {
    /// The card that was named, by option or environment.
    pub(crate) fn name(&self) -> Option<&str> {
        self.card.as_deref()
    }

    /// Opens it.
    pub(crate) fn open(&self) -> Outcome<Card> {
        Ok(self.name().map_or_else(Card::open_default, Card::open)?)
    }
}
