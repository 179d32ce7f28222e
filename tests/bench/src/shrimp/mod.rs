//! Measurements of SHRIMP cards, compared with Hamlyn cards and the alternatives to a card
//! (docs/performance.md). The files are listed from the bottom up; each file uses only those above
//! it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `labs` | machines with snooped stores, machines without, and Hamlyn's |
//! | `flags` | goal 10: a flag's round trip |
//! | `updates` | bandwidth of deliberate update |
//! | `stores` | the benefit of merging |
//! | `bystanders` | the cost of snooping to programs that do not communicate |
//! | `choice` | the names that `--figure` accepts |
//! | `run` | runs all of it |

mod bystanders;
mod choice;
mod flags;
mod labs;
mod run;
mod stores;
mod updates;

use crate::engine::run::Benchmark;

/// The benchmark of SHRIMP cards.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "flags, updates, stores, bystanders",
    check: choice::check,
    measure: run::measure,
    parts: None,
};
