//! What is measured of express memory (docs/express.md): channels of Hamlyn cards' hosts, beside
//! the same ring in memory that nobody protects, and beside what people would use instead. From the
//! bottom up, each file knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `labs` | machines with express memory |
//! | `trips` | goals 18 and 21: round trips of 16 bytes, both ends awake or asleep |
//! | `streams` | goals 19 and 20: messages one way |
//! | `table` | all of it beside each other |
//! | `choice` | what `--figure` may name |
//! | `run` | all of it, and goal 22: what sleeps costs nothing |

mod choice;
mod labs;
mod run;
mod streams;
mod table;
mod trips;

use crate::engine::run::Benchmark;

/// What is measured of channels.
pub const BENCHMARK: Benchmark =
    Benchmark { figures: "trips, streams, idle", check: choice::check, measure: run::measure, parts: None };
