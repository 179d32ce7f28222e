//! The benchmark: cards between real machines, beside what people would use instead, in one run on
//! one host.
//!
//! [`engine`] has what all cards need; each card's own part is a folder beside it, and a line here.
//! [`compare`] has them side by side, and [`express`] what goes by no card.

pub mod clan;
pub mod compare;
pub mod dart;
pub mod engine;
pub mod express;
pub mod hamlyn;
pub mod shrimp;

use hamlyn_host::catalogue::PerModel;

use crate::engine::run::Benchmark;

/// The benchmarks that there are: a line for each model that has one.
pub static BENCHMARKS: PerModel<Benchmark> = PerModel::new(
    "benchmark",
    &[
        ("hamlyn", crate::hamlyn::BENCHMARK),
        ("shrimp", crate::shrimp::BENCHMARK),
        ("clan", crate::clan::BENCHMARK),
        ("dart", crate::dart::BENCHMARK),
    ],
);

/// Criterion's benchmarks of the parts: of the model that the environment names, of rings and
/// switch, and copies.
pub fn parts() -> anyhow::Result<()> {
    let benchmark = BENCHMARKS.of(engine::estimates::asked_for()?)?;
    engine::estimates::run(benchmark.parts()?.benchmark)
}
