//! `hamlyn-bench-paths COUNT`: so many messages by each of the library's paths, and so many packets by the card's, for callgrind to
//! count.

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let count = std::env::args().nth(1).context("how many messages?")?;
    let count = count.parse().context("that is no number of messages")?;
    hamlyn_bench::one_process::walk_paths(count)?;
    hamlyn_bench::parts::walk_paths(count)
}
