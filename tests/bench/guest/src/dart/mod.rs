//! Both ends of what is measured of DART cards, hosts 0 and 1. From the bottom up, each file
//! knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `ends` | two processes, each with a connection to the other's endpoint |
//! | `deposits` | round trips of 32 bytes |
//! | `questions` | remote reads, and other questions that a card answers by itself |
//! | `paging` | reads of pages that the card knows, that it has forgotten, and that are not there |
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
    /// Sends back what deposit-ping sends
    DepositEcho(deposits::Options),
    /// Measures round trips of 32 bytes (DART, section 3)
    DepositPing(deposits::Options),
    /// Has the registers and the memory that question-ask asks about
    QuestionHold,
    /// Measures questions that the other host's card answers (DART, sections 2 and 3)
    QuestionAsk(questions::Options),
    /// Has the pages that paging-read reads
    PagingHold(paging::Options),
    /// Measures reads of pages that are there or not (DART, section 3)
    PagingRead(paging::Options),
    /// Has a barrier, and half of its nodes
    BarrierKeep(barriers::Options),
    /// Has the other half, and measures how long one of them waits (DART, section 2)
    BarrierMeet(barriers::Options),
    /// Looks at what block-send sends
    BlockSink(blocks::Options),
    /// Measures one-way bandwidth (DART, section 3)
    BlockSend(blocks::Options),
    /// Takes what filter-send sends
    FilterTake(filtering::Options),
    /// Sends messages that the other host hears of, or not (DART, section 1)
    FilterSend(filtering::Options),
}

impl Role {
    /// Plays it.
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
