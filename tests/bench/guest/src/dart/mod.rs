//! Both ends of the DART card measurements, on hosts 0 and 1. The files are listed from the bottom
//! up; each file uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `ends` | two processes, each with a connection to the other's endpoint |
//! | `deposits` | round trips of 32 bytes |
//! | `questions` | remote reads, and other questions that a card answers by itself |
//! | `paging` | reads of pages whose translation is cached, evicted, or missing |
//! | `barriers` | barriers of several nodes |
//! | `blocks` | one-way bandwidth |
//! | `filtering` | messages that disturb the receiving host more or less |

mod barriers;
mod blocks;
mod deposits;
mod ends;
mod filtering;
mod paging;
mod questions;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange through DART cards.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Sends back the messages of deposit-ping
    DepositEcho(deposits::Options),
    /// Measures round trips of 32 bytes (DART, section 3)
    DepositPing(deposits::Options),
    /// Holds the registers and the memory that question-ask asks about
    QuestionHold,
    /// Measures questions that the other host's card answers (DART, sections 2 and 3)
    QuestionAsk(questions::Options),
    /// Holds the pages that paging-read reads
    PagingHold(paging::Options),
    /// Measures reads of present and absent pages (DART, section 3)
    PagingRead(paging::Options),
    /// Keeps a barrier and runs half of its nodes
    BarrierKeep(barriers::Options),
    /// Runs the other half, and measures how long one node waits (DART, section 2)
    BarrierMeet(barriers::Options),
    /// Checks the data that block-send sends
    BlockSink(blocks::Options),
    /// Measures one-way bandwidth (DART, section 3)
    BlockSend(blocks::Options),
    /// Takes the messages that filter-send sends
    FilterTake(filtering::Options),
    /// Sends messages with or without a notification of the receiving host (DART, section 1)
    FilterSend(filtering::Options),
}

impl Role {
    /// Runs this role.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Role::DepositEcho(options) => deposits::echo(&options),
            Role::DepositPing(options) => deposits::ping(&options),
            Role::QuestionHold => questions::hold(),
            Role::QuestionAsk(options) => questions::ask(&options),
            Role::PagingHold(options) => paging::hold(&options),
            Role::PagingRead(options) => paging::read(&options),
            Role::BarrierKeep(options) => barriers::keep(&options),
            Role::BarrierMeet(options) => barriers::meet(&options),
            Role::BlockSink(options) => blocks::sink(&options),
            Role::BlockSend(options) => blocks::send(&options),
            Role::FilterTake(options) => filtering::take(&options),
            Role::FilterSend(options) => filtering::send(&options),
        }
    }
}
