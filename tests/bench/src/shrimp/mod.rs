//! What is measured of SHRIMP cards, beside Hamlyn's and what people would use instead
//! (docs/performance.md). From the bottom up, each file knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `labs` | machines whose stores are seen, machines whose stores are not, and Hamlyn's |
//! | `flags` | goal 10: a flag's round trip |
//! | `updates` | bandwidth of deliberate update |
//! | `stores` | what merging saves |
//! | `bystanders` | what snooping costs programs that do not communicate |
//! | `choice` | what `--figure` may name |
//! | `run` | all of it |

mod bystanders;
mod choice;
mod flags;
mod labs;
mod run;
mod stores;
mod updates;

use crate::engine::run::Benchmark;

/// What SHRIMP cards bring.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "flags, updates, stores, bystanders",
    check: choice::check,
    measure: run::measure,
    parts: None,
};
