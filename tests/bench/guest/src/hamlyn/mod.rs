//! Both ends of the Hamlyn card measurements. The files are listed from the bottom up; each file
//! uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `tickets` | tickets of both ends |
//! | `idle` | things that must cost nothing |
//! | `card` | round trips by the library |
//! | `card_stream` | one-way bandwidth |
//! | `raw` | round trips without the library |
//! | `null_card` | a card that does nothing |
//! | `software` | a program's own time per message |

mod card;
mod card_stream;
mod idle;
mod null_card;
mod raw;
mod software;
mod tickets;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange through Hamlyn cards.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Sends back the messages of card-ping
    CardEcho(card::Options),
    /// Measures round trips through cards
    CardPing(card::Options),
    /// Measures messages of a process to itself (Figure 10)
    CardLoopback(card::Options),
    /// Receives and checks the data that card-send sends
    CardSink(card_stream::Options),
    /// Measures one-way bandwidth through cards
    CardSend(card_stream::Options),
    /// Measures the bandwidth of a process to itself (Figure 10)
    CardSendSelf(card_stream::Options),
    /// Sends back the messages of raw-ping
    RawEcho(raw::Options),
    /// Measures round trips through cards without the library (Table 4)
    RawPing(raw::Options),
    /// Measures a program's own time per message, with a card that does nothing (Table 4)
    Software(software::Options),
    /// Sleeps for a message that never comes, and prints the processor time that this took
    CardDoze(idle::DozeOptions),
}

impl Role {
    /// Runs this role.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Role::CardEcho(options) => card::echo(&options),
            Role::CardPing(options) => card::ping(&options),
            Role::CardLoopback(options) => card::loopback(&options),
            Role::CardSink(options) => card_stream::sink(&options),
            Role::CardSend(options) => card_stream::send(&options),
            Role::CardSendSelf(options) => card_stream::send_self(&options),
            Role::RawEcho(options) => raw::echo(&options),
            Role::RawPing(options) => raw::ping(&options),
            Role::Software(options) => software::run(&options),
            Role::CardDoze(options) => idle::doze(&options),
        }
    }
}
