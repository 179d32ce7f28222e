//! Measurements of SHRIMP cards, compared with Hamlyn cards and the alternatives to a card
//! (docs/performance.md). The files are listed from the bottom up; each file uses only those above
//! it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `pairs` | machines with snooped stores, machines without, and Hamlyn's |
//! | `flags` | goal 10: a flag's round trip |
//! | `updates` | bandwidth of deliberate update |
//! | `stores` | the benefit of merging |
//! | `bystanders` | the cost of snooping to programs that do not communicate |

mod bystanders;
mod flags;
mod pairs;
mod stores;
mod updates;

use crate::engine::benchmark::Benchmark;

/// The benchmark of SHRIMP cards.
pub const BENCHMARK: Benchmark = Benchmark {
    names: &["flags", "updates", "stores", "bystanders"],
    unknown: "nothing of SHRIMP's is called so",
    experiments: &[flags::FLAGS, bystanders::BYSTANDERS, updates::UPDATES, stores::STORES],
    parts: None,
};
