//! `hamlyn-bench-paths COUNT`: sends and receives so many messages by each of the library's paths, for callgrind to count.

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let count = std::env::args().nth(1).context("how many messages?")?;
    hamlyn_bench::one_process::walk_paths(count.parse().context("that is no number of messages")?)
}
