//! Measurements of express memory (docs/express.md): channels between the hosts of Hamlyn cards,
//! compared with the same ring in unprotected memory, and with the alternatives to a card. The
//! files are listed from the bottom up; each file uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `pairs` | machines with express memory |
//! | `trips` | goals 18 and 21: round trips of 16 bytes, both ends awake or asleep |
//! | `streams` | goals 19 and 20: messages one way |
//! | `table` | all results in one table |
//! | `idle` | goal 22: a sleeping program costs nothing |

mod idle;
mod pairs;
mod streams;
mod table;
mod trips;

use crate::engine::benchmark::Benchmark;
use crate::engine::experiment::Experiment;

/// The benchmark of channels.
pub const BENCHMARK: Benchmark = Benchmark {
    names: &["trips", "streams", "idle"],
    unknown: "nothing of channels is called so",
    experiments: &[shown(trips::TRIPS), shown(streams::STREAMS), idle::IDLE],
    parts: None,
};

/// Shows all measurements of channels together.
const fn shown(experiment: Experiment) -> Experiment {
    let heading = "Express memory, beside others";
    Experiment { heading, tables: |tracks| vec![table::table(tracks)], ..experiment }
}
