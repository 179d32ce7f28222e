//! `hamlyn-bench-paths MODEL COUNT`: sends `COUNT` messages on each path of a model's benchmark,
//! for callgrind to count.

use anyhow::Context;
use hamlyn_bench::BENCHMARKS;
use hamlyn_host::catalogue;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let model = catalogue::find(&words.next().context("which model?")?)?;
    let count = words.next().context("how many messages?")?;
    let count = count.parse().context("the number of messages is invalid")?;
    (BENCHMARKS.of(model)?.parts()?.walk)(count)
}
