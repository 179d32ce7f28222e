//! The four designs side by side, from one run: the same things of each card, in turn
//! (docs/performance.md).

mod designs;
mod run;

use crate::engine::run::Benchmark;

/// What is measured of all cards together.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "",
    check: |_| Err("the comparison has no figures".to_owned()),
    measure: run::measure,
    parts: None,
};
