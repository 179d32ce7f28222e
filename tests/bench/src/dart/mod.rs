//! What is measured of DART cards, beside the other cards and what people would use instead
//! (docs/performance.md). From the bottom up, each file knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `labs` | machines with DART cards |
//! | `deposits` | goal 15: a deposit of 32 bytes |
//! | `questions` | goal 16: remote read, fetch and increment, compare and swap |
//! | `barriers` | barriers of 2 to 16 |
//! | `filtering` | goal 17: what a message costs the receiving host |
//! | `paging` | reads of pages that are known, forgotten, never touched, swapped out |
//! | `blocks` | one-way bandwidth, in cells |
//! | `alone` | what messages cost the cards alone |
//! | `choice` | what `--figure` may name |
//! | `run` | all of it |

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

/// What DART cards bring.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "deposits, questions, barriers, filtering, paging, blocks, alone",
    check: choice::check,
    measure: run::measure,
    parts: None,
};
