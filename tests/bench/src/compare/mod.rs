//! Compares the four designs in one run: the same measurements of each card, in turn
//! (docs/performance.md).

mod designs;

use crate::engine::benchmark::Benchmark;

/// The benchmark of all cards together.
pub const BENCHMARK: Benchmark = Benchmark {
    names: &[],
    unknown: "the comparison has no figures",
    experiments: &[designs::TRIPS, designs::STREAMS],
    parts: None,
};
