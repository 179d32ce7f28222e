//! The benchmark: cards between real machines, compared with the alternatives to a card, in one run
//! on one host.
//!
//! [`engine`] has the common part of all cards. Each card's own part is in a folder next to it,
//! with a line in this file. [`compare`] compares the cards, and [`express`] measures traffic that
//! uses no card. [`programs`] runs programs of Debian's over the network device.

pub mod clan;
pub mod compare;
pub mod dart;
pub mod engine;
#[cfg(test)]
mod every_figure;
pub mod express;
pub mod hamlyn;
pub mod programs;
pub mod shrimp;

use hamlyn_host::catalogue::PerModel;

use crate::engine::benchmark::Benchmark;

/// All benchmarks: a line for each model that has one.
pub static BENCHMARKS: PerModel<Benchmark> = PerModel::new(
    "benchmark",
    &[
        ("hamlyn", crate::hamlyn::BENCHMARK),
        ("shrimp", crate::shrimp::BENCHMARK),
        ("clan", crate::clan::BENCHMARK),
        ("dart", crate::dart::BENCHMARK),
    ],
);

/// Runs criterion's benchmarks of the components: of the model that the environment names, of rings
/// and switch, and of copies.
pub fn parts() -> anyhow::Result<()> {
    let benchmark = BENCHMARKS.of(engine::estimates::asked_for()?)?;
    engine::estimates::run(benchmark.parts()?.benchmark)
}
