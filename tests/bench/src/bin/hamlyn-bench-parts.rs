//! Criterion's benchmarks of the parts, for `./scripts/bench`.

fn main() -> anyhow::Result<()> {
    hamlyn_bench::parts()
}
