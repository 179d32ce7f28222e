//! Measurements of DART cards, compared with the other cards and the alternatives to a card
//! (docs/performance.md). The files are listed from the bottom up; each file uses only those above
//! it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `labs` | machines with DART cards |
//! | `deposits` | goal 15: a deposit of 32 bytes |
//! | `questions` | goal 16: remote read, fetch and increment, compare and swap |
//! | `barriers` | barriers of 2 to 16 |
//! | `filtering` | goal 17: the cost of a message to the receiving host |
//! | `paging` | reads of pages that are cached, evicted, never touched, swapped out |
//! | `blocks` | one-way bandwidth, in cells |
//! | `alone` | the cost of messages to the cards alone |
//! | `choice` | the names that `--figure` accepts |
//! | `run` | runs all of it |

mod alone;
mod barriers;
mod blocks;
mod choice;
mod deposits;
mod filtering;
mod labs;
mod paging;
mod questions;
mod run;

use crate::engine::run::Benchmark;

/// The benchmark of DART cards.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "deposits, questions, barriers, filtering, paging, blocks, alone",
    check: choice::check,
    measure: run::measure,
    parts: None,
};
