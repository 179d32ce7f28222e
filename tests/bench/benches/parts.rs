//! Criterion's benchmarks of the parts: `cargo bench -p hamlyn-bench`.

fn main() -> anyhow::Result<()> {
    hamlyn_bench::parts()
}
