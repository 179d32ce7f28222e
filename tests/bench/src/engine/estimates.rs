//! Criterion's measurements of the components alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use criterion::Criterion;
use hamlyn_host::catalogue::{self, Model};
use serde_json::Value;

use crate::engine::copies;
use crate::engine::effort::Effort;
use crate::engine::exchange::words;
use crate::engine::goals::{number, text};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::rings;
use crate::engine::scratch;
use crate::engine::site::HostProgram;

/// Names the model to measure, for the program that measures components. Its command line belongs
/// to criterion.
const MODEL: &str = "HAMLYN_BENCH_MODEL";

/// Returns the model that the environment requests, or the default one.
pub fn asked_for() -> anyhow::Result<&'static Model> {
    match std::env::var(MODEL) {
        Ok(name) => Ok(catalogue::find(&name)?),
        Err(_) => Ok(catalogue::default()),
    }
}

/// Runs every benchmark of the components, the card's first, with criterion's command line. Both
/// `cargo bench` and the benchmark's own program start this.
pub fn run(card: impl FnOnce(&mut Criterion) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    card(&mut criterion)?;
    copies::benchmark(&mut criterion)?;
    rings::benchmark(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// Criterion's result for one benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    /// The median, in nanoseconds.
    ns: f64,
    /// Packets of one run.
    packets: Option<f64>,
    /// Bytes of one run.
    bytes: Option<f64>,
}

/// All results, by name: `delivery/64 bytes`.
#[derive(Debug, Clone, Default)]
pub struct Estimates(BTreeMap<String, Estimate>);

/// Runs a model's benchmarks and reads criterion's results.
pub fn measure(model: &Model, effort: Effort, progress: &Progress) -> anyhow::Result<Estimates> {
    progress.step("criterion's benchmarks");
    let folder = scratch::folder()?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.with_file_name("hamlyn-bench-parts");
    let times = effort.pick(
        "--warm-up-time 0.2 --measurement-time 0.6 --sample-size 20",
        "--warm-up-time 1 --measurement-time 4 --sample-size 100",
    );
    let (folder_name, program) = (folder.path().display(), program.display());
    let line =
        format!("CRITERION_HOME={folder_name} {MODEL}={} {program} --bench --noplot {times}", model.name);
    HostProgram::start(Path::new("/usr/bin/env"), &words(&line), None)?.finish_text()?;
    let mut estimates = BTreeMap::new();
    read(folder.path(), &mut estimates)?;
    Ok(Estimates(estimates))
}

/// Reads a folder of results. Every benchmark has a folder with a subfolder `new` that holds two
/// files.
fn read(folder: &Path, estimates: &mut BTreeMap<String, Estimate>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.context("cannot read a folder of criterion's")?.path();
        if path.join("new/estimates.json").is_file() {
            let json = |name: &str| -> anyhow::Result<Value> {
                let file = path.join("new").join(name);
                let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", file.display()))
            };
            let (name, estimate) = estimate(&json("benchmark.json")?, &json("estimates.json")?)?;
            estimates.insert(name, estimate);
        } else if path.is_dir() {
            read(&path, estimates)?;
        }
    }
    Ok(())
}

fn estimate(benchmark: &Value, found: &Value) -> anyhow::Result<(String, Estimate)> {
    let name = benchmark["full_id"].as_str().context("a benchmark without a name")?;
    let ns = found["median"]["point_estimate"].as_f64().with_context(|| format!("{name} has no median"))?;
    let throughput = &benchmark["throughput"];
    let (packets, bytes) = (throughput["Elements"].as_f64(), throughput["Bytes"].as_f64());
    Ok((name.to_owned(), Estimate { ns, packets, bytes }))
}

impl Estimates {
    /// Returns the time of one run in microseconds, or none if it was not measured.
    pub(crate) fn us(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|estimate| estimate.ns / 1e3)
    }
}

#[cfg(test)]
impl Estimates {
    /// Builds estimates from these times, in nanoseconds.
    pub(crate) fn of(times: &[(&str, f64)]) -> Self {
        let estimate = |ns| Estimate { ns, packets: None, bytes: None };
        Self(times.iter().map(|(name, ns)| ((*name).to_owned(), estimate(*ns))).collect())
    }
}

impl Estimate {
    fn packets(&self) -> Option<f64> {
        self.packets.map(|packets| packets * 1e3 / self.ns)
    }

    fn megabytes(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes * 1e3 / self.ns)
    }
}

/// Shows all results. `paper` has the measurements of the model's paper.
pub fn table(estimates: &Estimates, paper: &str) -> Table {
    let note = format!(
        "Medians by criterion (cargo bench -p hamlyn-bench), each in one thread with nothing to wait for. The card's \
        ports are memory; a ring is one copy in, the switch another. {paper}"
    );
    Table::new(
        "The parts by themselves",
        &note,
        &estimates.0,
        &[
            ("", &|(name, _)| (*name).clone()),
            ("ns", &|(_, estimate)| number(estimate.ns)),
            ("million packets/s", &|(_, estimate)| text(estimate.packets())),
            ("MB/s", &|(_, estimate)| text(estimate.megabytes())),
        ],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn criterions_files_are_read() {
        let benchmark =
            |throughput: Value| json!({ "full_id": "memcpy/4096 bytes", "throughput": throughput });
        let found = json!({ "median": { "point_estimate": 100.0 } });
        let (name, estimate) = super::estimate(&benchmark(json!({ "Bytes": 4096 })), &found).unwrap();
        assert_eq!(
            (name.as_str(), estimate.megabytes(), estimate.packets()),
            ("memcpy/4096 bytes", Some(40960.0), None)
        );
        let (_, estimate) = super::estimate(&benchmark(json!({ "Elements": 1 })), &found).unwrap();
        assert_eq!((estimate.megabytes(), estimate.packets()), (None, Some(10.0)));
        assert!(super::estimate(&json!({}), &found).is_err());
    }
}
