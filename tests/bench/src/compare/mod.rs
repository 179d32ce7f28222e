//! Compares the four designs in one run: the same measurements of each card, in turn
//! (docs/performance.md).

mod designs;
mod run;

use crate::engine::run::Benchmark;

/// The benchmark of all cards together.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "",
    check: |_| Err("the comparison has no figures".to_owned()),
    measure: run::measure,
    parts: None,
};
