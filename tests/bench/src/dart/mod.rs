//! Measurements of DART cards, compared with the other cards and the alternatives to a card
//! (docs/performance.md). The files are listed from the bottom up; each file uses only those above
//! it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `pairs` | machines with DART cards, and with the cards for comparison |
//! | `deposits` | goal 15: a deposit of 32 bytes |
//! | `questions` | goal 16: remote read, fetch and increment, compare and swap |
//! | `barriers` | barriers of 2 to 16 |
//! | `filtering` | goal 17: the cost of a message to the receiving host |
//! | `paging` | reads of pages that are cached, evicted, never touched, swapped out |
//! | `blocks` | one-way bandwidth, in cells |
//! | `alone` | the cost of messages to the cards alone |

mod alone;
mod barriers;
mod blocks;
mod deposits;
mod filtering;
mod paging;
mod pairs;
mod questions;

use crate::engine::benchmark::Benchmark;

/// The benchmark of DART cards.
pub const BENCHMARK: Benchmark = Benchmark {
    names: &["deposits", "questions", "barriers", "filtering", "paging", "blocks", "alone"],
    unknown: "nothing of DART's is called so",
    experiments: &[
        deposits::DEPOSITS,
        questions::QUESTIONS,
        barriers::BARRIERS,
        filtering::FILTERING,
        paging::PAGING,
        blocks::BLOCKS,
        alone::ALONE,
    ],
    parts: None,
};
