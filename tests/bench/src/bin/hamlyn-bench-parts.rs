//! Criterion benchmarks of the components, for `./scripts/bench`.

fn main() -> anyhow::Result<()> {
    hamlyn_bench::parts()
}
