//! The parts by themselves, as criterion measures them: goal 9.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use criterion::Criterion;
use serde_json::Value;

use crate::effort::Effort;
use crate::exchange::words;
use crate::fabric_parts;
use crate::goals::{Goal, Need, number};
use crate::parts::{self, Copies, Delivery};
use crate::progress::Progress;
use crate::report::Table;
use crate::scratch;
use crate::site::HostProgram;

/// Runs every benchmark of the parts, as the command line says: what `cargo bench` and our own program start.
pub fn run() -> anyhow::Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    parts::benchmark(&mut criterion)?;
    parts::memcpy(&mut criterion)?;
    fabric_parts::benchmark(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// What criterion says about one of them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    /// The median, in nanoseconds.
    ns: f64,
    /// Packets of one run.
    packets: Option<f64>,
    /// Bytes of one run.
    bytes: Option<f64>,
}

/// All of them, by name: `delivery/64 bytes`.
#[derive(Debug, Clone, Default)]
pub struct Estimates(BTreeMap<String, Estimate>);

/// Runs them and reads what criterion found.
pub fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<Estimates> {
    progress.step("criterion's benchmarks");
    let folder = scratch::folder()?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.with_file_name("hamlyn-bench-parts");
    let times = effort.pick(
        "--warm-up-time 0.2 --measurement-time 0.6 --sample-size 20",
        "--warm-up-time 1 --measurement-time 4 --sample-size 100",
    );
    let line =
        format!("CRITERION_HOME={} {} --bench --noplot {times}", folder.path().display(), program.display());
    HostProgram::start(Path::new("/usr/bin/env"), &words(&line), None)?.finish_text()?;
    let mut estimates = BTreeMap::new();
    read(folder.path(), &mut estimates)?;
    Ok(Estimates(estimates))
}

/// Every benchmark has a folder, and in it `new` with two files.
fn read(folder: &Path, estimates: &mut BTreeMap<String, Estimate>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.context("cannot read a folder of criterion's")?.path();
        if path.join("new/estimates.json").is_file() {
            let json = |name: &str| -> anyhow::Result<Value> {
                let file = path.join("new").join(name);
                let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", file.display()))
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
    /// What one run of this takes, in microseconds; none if it was not measured.
    pub(crate) fn us(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|estimate| estimate.ns / 1e3)
    }
}

#[cfg(test)]
impl Estimates {
    /// These, in nanoseconds.
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

/// What goal 9 is about, round by round: card and copies in turn.
#[derive(Debug, Default)]
pub struct Turns {
    /// 64-byte packets, in million a second.
    small: Vec<f64>,
    /// 4 KiB packets, in MB/s.
    large: Vec<f64>,
    /// Copies of 4 KiB, in MB/s.
    copied: Vec<f64>,
}

/// Delivers packets and copies as many bytes, in turn.
pub fn turns(effort: Effort) -> anyhow::Result<Turns> {
    const SMALL: u64 = 1 << 20;
    const LARGE: u64 = 1 << 16;
    let mut turns = Turns::default();
    let (mut small, mut large) = (Delivery::create(64, 1)?, Delivery::create(4096, 16)?);
    let mut copies = Copies::create(4096)?;
    let rate = |count: u64, bytes: u64, time: Duration| (count * bytes) as f64 / time.as_secs_f64() / 1e6;
    for round in 0..=effort.pick(9, 25) {
        // Before the first one processor and memory are cold.
        let share = if round == 0 { 8 } else { 1 };
        let packets = rate(SMALL / share, 1, small.run(SMALL / share)?);
        let [mut delivered, mut copied] = [0.0; 2];
        // As often one comes first as the other.
        for card in [round % 2 == 0, round % 2 != 0] {
            if card {
                delivered = rate(LARGE / share, 4096, large.run(LARGE / share)?);
            } else {
                copied = rate(LARGE / share, 4096, copies.run(LARGE / share)?);
            }
        }
        if round > 0 {
            turns.small.push(packets);
            turns.large.push(delivered);
            turns.copied.push(copied);
        }
    }
    small.finish()?;
    large.finish()?;
    Ok(turns)
}

/// Goal 9.
pub fn goals(turns: &Turns) -> Vec<Goal> {
    let (small, large) =
        ("card logic: 64-byte packets delivered", "card logic: 4 KiB packets of 64 KiB messages");
    vec![
        Goal::in_rounds(9, small, "million/s", &turns.small, Need::AtLeast(10.0)),
        Goal::beside(9, large, "MB/s", &turns.large, ("memcpy", &turns.copied), Need::RatioAtLeast(0.8)),
    ]
}

/// All of them.
pub fn table(estimates: &Estimates) -> Table {
    let row = |(name, estimate): (&String, &Estimate)| {
        let text = |value: Option<f64>| value.map_or_else(String::new, number);
        vec![name.clone(), number(estimate.ns), text(estimate.packets()), text(estimate.megabytes())]
    };
    Table {
        title: "The parts by themselves".to_owned(),
        note: "Medians by criterion (cargo bench -p hamlyn-bench), each in one thread with nothing to wait for. The card's \
            ports are memory; a ring is one copy in, the switch another. What a packet took the paper's interface \
            processor: 12.5 us (section 4.2)."
            .to_owned(),
        head: ["", "ns", "million packets/s", "MB/s"].map(str::to_owned).to_vec(),
        rows: estimates.0.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::goals::Verdict;

    #[test]
    fn a_ratio_is_that_of_one_round() {
        let turns = Turns { small: vec![9.0, 20.0], large: vec![80.0, 40.0], copied: vec![100.0, 50.0] };
        let goals = goals(&turns);
        assert_eq!(goals[0].verdict(), Verdict::WithinNoise);
        assert_eq!((goals[1].ratio(), goals[1].verdict()), (Some(0.8), Verdict::Met));
    }

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
