//! Demo of the DART card: its operations without software, and the few interrupts of the host.

use std::io::{Write, stdout};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::channel::{self, Carrier};
use super::show::{Hints, Show};
use super::stage::Stage;
use super::{DemoArgs, find_drivers, start};
use crate::table;
use hamlyn_lab::{Lab, SELDOM_PROBES, SWAP};

/// Demo, self-test and hints of the DART card.
pub(super) static SHOW: Show = Show {
    scenes: show,
    self_test: "dart self-test",
    exercises: &["dart-driver trespass", "dart-driver remap"],
    hints: Hints {
        first: "dart keep counter",
        does: "has a counter in a register of its card",
        second: "dart join counter",
        asks: "adds to it, by fetch and increment",
        more: &["dart keep log", "dart keep queue", "dart keep rpc", "hamlyn-ping", "hamlyn-perf"],
    },
};

/// An operation of processes in vm1 on memory and registers of vm0. Names are those of the program
/// `dart`.
struct Scene {
    title: &'static str,
    operation: &'static str,
    /// Number of processes, and operations of each.
    others: usize,
    count: u64,
    /// Largest number of interrupts that it may cause in vm0.
    limit: Option<u64>,
}

const SCENES: [Scene; 8] = [
    Scene {
        title: "32 bytes deposited, and back",
        operation: "hello",
        others: 1,
        count: 1000,
        limit: Some(0),
    },
    Scene {
        title: "fetch and increment, by 3 processes",
        operation: "counter",
        others: 3,
        count: 300,
        limit: Some(0),
    },
    Scene { title: "remote append, by 3 processes", operation: "log", others: 3, count: 300, limit: Some(0) },
    Scene {
        title: "64 events, delayed until it suits",
        operation: "delayed",
        others: 1,
        count: 64,
        limit: Some(1),
    },
    Scene { title: "64 events, immediate", operation: "immediate", others: 1, count: 64, limit: None },
    Scene {
        title: "an exception: software multiplies",
        operation: "exception",
        others: 1,
        count: 1,
        limit: None,
    },
    Scene { title: "32 pages never touched", operation: "swapped", others: 1, count: 32, limit: None },
    Scene { title: "attempts that are refused", operation: "trespass", others: 1, count: 1, limit: None },
];

/// A line of the final table.
struct Row {
    title: String,
    /// Result of vm0's program.
    counted: Value,
    /// Median time of an operation, in nanoseconds.
    median: Option<f64>,
}

fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let stage = Stage::new();
    let lab = start(&stage, args, &args.machine.layout(2))?;
    stage.step("find the card's driver in both machines", |_| find_drivers(&lab, "dart"))?;
    for vm in lab.vms() {
        vm.run_as(0, ["sh", "-c", SELDOM_PROBES])?.finish_text()?;
    }
    lab.vm(0).run_as(0, ["sh", "-c", SWAP])?.finish_text().context("vm0 has no swap space")?;
    let (mut rows, mut refused) = (Vec::new(), Value::Null);
    for scene in SCENES {
        let count = if scene.operation == "hello" { args.count } else { scene.count };
        let (kept, joined) = stage.step(scene.title, |_| scene.play(&lab, count))?;
        if scene.operation == "trespass" {
            refused = joined["refused"].clone();
        }
        for counted in kept {
            let title = match counted["were"].as_str() {
                Some(were) => format!("{} pages {were}", scene.count),
                None => scene.title.to_owned(),
            };
            rows.push(Row { title, counted, median: joined["p50_ns"].as_f64() });
        }
    }
    let trips = channel::round_trips(&stage, &lab, &[Carrier::Card], args.count)?;
    lab.check().context("after the last message")?;
    let trips = channel::lines(&trips).join("\n");
    write!(stdout(), "\n{}\n{trips}\n\n{}", counts(&rows), refusals(&refused))?;
    Ok(())
}

impl Scene {
    /// Returns each result of vm0's program, and the result of the last program in vm1.
    fn play(&self, lab: &Lab, count: u64) -> anyhow::Result<(Vec<Value>, Value)> {
        let (count, others) = (count.to_string(), self.others.to_string());
        let words = |role| ["dart", role, self.operation, "--count", &count, "--others", &others];
        let mut home = lab.vm(0).run(words("keep"))?;
        let listening: Value = home.answer()?;
        ensure!(listening.get("error").is_none(), "the program in vm0 says {listening}");
        let guests = (0..self.others).map(|_| lab.vm(1).run(words("join")));
        let guests = guests.collect::<anyhow::Result<Vec<_>>>()?;
        let mut joined = Value::Null;
        for mut guest in guests {
            joined = guest.finish()?.pop().context("a program in vm1 said nothing of its result")?;
        }
        let kept = home.finish()?;
        ensure!(!kept.is_empty(), "the program in vm0 said nothing of its result");
        for counted in &kept {
            let interrupts = counted["interrupts"].as_u64().context("it has counted no interrupts")?;
            let limit = self.limit.unwrap_or(u64::MAX);
            ensure!(interrupts <= limit, "{}: vm0 had {interrupts} interrupts (limit {limit})", self.title);
        }
        Ok((kept, joined))
    }
}

/// Returns the table of what vm0's card did, and of the interrupts of its host.
fn counts(rows: &[Row]) -> String {
    let heads = ["At vm0's card", "messages", "primitives", "misses", "interrupts", "half in at most"];
    let lines = rows.iter().map(|row| {
        let [messages, primitives, misses, interrupts] =
            ["executed", "primitives", "misses", "interrupts"].map(|name| row.counted[name].to_string());
        let median = row.median.map_or(String::new(), |median| format!("{:.1} us", median / 1e3));
        [row.title.clone(), messages, primitives, misses, interrupts, median]
    });
    text(std::iter::once(heads.map(str::to_owned)).chain(lines))
}

/// Returns the table of attempts and of the reasons for their refusal.
fn refusals(refused: &Value) -> String {
    let heads = ["Attempts of vm1's", "refused: nothing has changed, and both hosts are told"];
    let all = refused.as_object().into_iter().flatten();
    let lines = all.map(|(what, why)| [what.clone(), why.as_str().unwrap_or_default().to_owned()]);
    table::text_lines(std::iter::once(heads.map(str::to_owned)).chain(lines)).join("\n") + "\n"
}

fn text<const COLUMNS: usize>(rows: impl Iterator<Item = [String; COLUMNS]>) -> String {
    table::lines(rows).join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_shows_counts_and_refusals() {
        let counted = json!({ "executed": 301, "primitives": 302, "misses": 7, "interrupts": 0 });
        let rows = [Row { title: "remote append".to_owned(), counted, median: Some(41_250.0) }];
        let table = counts(&rows);
        let line = table.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line, "remote append 301 302 7 0 41.2 us");
        let refused = refusals(&json!({ "read": "the connection may not" }));
        let line = refused.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line, "read the connection may not");
    }

    #[test]
    fn silent_operations_allow_no_interrupts() {
        let silent = SCENES.iter().filter(|scene| scene.limit == Some(0)).map(|scene| scene.operation);
        assert_eq!(silent.collect::<Vec<_>>(), ["hello", "counter", "log"]);
    }
}
