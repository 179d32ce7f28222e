//! Measurements of express memory (docs/express.md): channels between the hosts of Hamlyn cards,
//! compared with the same ring in unprotected memory, and with the alternatives to a card. The
//! files are listed from the bottom up; each file uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `labs` | machines with express memory |
//! | `trips` | goals 18 and 21: round trips of 16 bytes, both ends awake or asleep |
//! | `streams` | goals 19 and 20: messages one way |
//! | `table` | all results in one table |
//! | `choice` | the names that `--figure` accepts |
//! | `run` | runs all of it, and goal 22: a sleeping program costs nothing |

mod choice;
mod labs;
mod run;
mod streams;
mod table;
mod trips;

use crate::engine::run::Benchmark;

/// The benchmark of channels.
pub const BENCHMARK: Benchmark =
    Benchmark { figures: "trips, streams, idle", check: choice::check, measure: run::measure, parts: None };
