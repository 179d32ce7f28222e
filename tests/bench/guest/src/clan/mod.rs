//! Both ends of the CLAN card measurements. The files are listed from the bottom up; each file uses
//! only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `ends` | two processes, each with a window to the other's aperture |
//! | `outgoing` | the sending side, by stores or by DMA |
//! | `words` | a word's round trip, and a load across the network |
//! | `arrivals` | how fast a message arrives |
//! | `transfers` | one-way bandwidth |
//! | `endpoints` | the cost of endpoints, opened or reused |

mod arrivals;
mod endpoints;
mod ends;
mod outgoing;
mod transfers;
mod words;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange through CLAN cards.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Stores back the words that word-ping stores
    WordEcho(words::Options),
    /// Measures a word's round trip by programmed I/O (CLAN, section 5.2)
    WordPing(words::Options),
    /// Holds the word that word-load loads
    WordHold,
    /// Measures loads across the network (CLAN, section 2.1)
    WordLoad(words::LoadOptions),
    /// Sends the messages that arrival-watch watches
    ArrivalSend(arrivals::Options),
    /// Measures how long a requested message takes to arrive (CLAN, section 5.2)
    ArrivalWatch(arrivals::Options),
    /// Checks the data that transfer-send sends
    TransferSink(transfers::Options),
    /// Measures one-way bandwidth (CLAN, section 5.3.2)
    TransferSend(transfers::Options),
    /// Measures the cost of getting an endpoint and its memory (CLAN, section 3.1)
    EndpointTake(endpoints::Options),
}

impl Role {
    /// Runs this role.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Role::WordEcho(options) => words::echo(&options),
            Role::WordPing(options) => words::ping(&options),
            Role::WordHold => words::hold(),
            Role::WordLoad(options) => words::load(&options),
            Role::ArrivalSend(options) => arrivals::send(&options),
            Role::ArrivalWatch(options) => arrivals::watch(&options),
            Role::TransferSink(options) => transfers::sink(&options),
            Role::TransferSend(options) => transfers::send(&options),
            Role::EndpointTake(options) => endpoints::take(&options),
        }
    }
}
