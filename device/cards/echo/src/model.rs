//! The echo card's entry in a catalogue of models.

use hamlyn_abi::echo::registers::ECHO_MAX_MAILBOXES;
use hamlyn_card::card::Card;
use hamlyn_card::model::{Choice, MakeError, Model, Setting};

use super::EchoCard;

/// The echo card.
pub static MODEL: Model = Model {
    name: "echo",
    paper: "none: docs/new-card.md builds it",
    about: "A card to learn from: mailboxes, and nothing else",
    settings: &[
        Setting { name: "mailboxes", unit: "N", about: "Mailboxes: 2 to 32", default: 32 },
        Setting::HANDSHAKE,
    ],
    bursts: None,
    make,
};

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    let mailboxes = choice.in_range("mailboxes", "number of mailboxes", 2..=ECHO_MAX_MAILBOXES)?;
    let handshake = choice.handshake_ms()?;
    Ok(Box::new(EchoCard::new(mailboxes, handshake)))
}
