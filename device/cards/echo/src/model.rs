//! The model as a catalogue has it.

use hamlyn_abi::echo::registers::ECHO_MAX_MAILBOXES;
use hamlyn_card::card::Card;
use hamlyn_card::model::{Choice, MakeError, Model, Setting};
use thiserror::Error;

use super::EchoCard;

/// The echo card.
pub static MODEL: Model = Model {
    name: "echo",
    paper: "none: docs/new-card.md builds it",
    about: "A card to learn from: mailboxes, and nothing else",
    settings: &[
        Setting { name: "mailboxes", unit: "N", about: "Mailboxes: 1 to 32", default: 16 },
        Setting {
            name: "handshake",
            unit: "MS",
            about: "How long the host may go without keeping the card's handshake before the card discards what \
                    arrives, in milliseconds: 100 to 600000, or 0 for ever",
            default: 8000,
        },
    ],
    bursts: None,
    make,
};

#[derive(Debug, Error)]
#[error("{what} {value} is out of range ({least} to {most})")]
struct OutOfRange {
    what: &'static str,
    value: u32,
    least: u32,
    most: u32,
}

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    let in_range = |name, what, least, most| {
        let value = choice.get(name)?;
        let possible = (least..=most).contains(&value);
        if possible { Ok(value) } else { Err(MakeError::from(OutOfRange { what, value, least, most })) }
    };
    let mailboxes = in_range("mailboxes", "number of mailboxes", 1, ECHO_MAX_MAILBOXES)?;
    let handshake = match choice.get("handshake")? {
        0 => 0,
        _ => in_range("handshake", "handshake period in ms", 100, 600_000)?,
    };
    Ok(Box::new(EchoCard::new(mailboxes, handshake)))
}
