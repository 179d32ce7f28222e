//! What is measured of CLAN cards (docs/performance.md). From the bottom up, each file knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `watched` | what an access costs that passes armed Tripwires |
//! | `choice` | what `--figure` may name |
//! | `run` | all of it |

mod choice;
mod run;
mod watched;

use crate::engine::run::Benchmark;

/// What CLAN cards bring.
pub const BENCHMARK: Benchmark =
    Benchmark { figures: "watched", check: choice::check, measure: run::measure, parts: None };
