//! Criterion benchmarks of the components: `cargo bench -p hamlyn-bench`.

fn main() -> anyhow::Result<()> {
    hamlyn_bench::parts()
}
