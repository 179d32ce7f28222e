//! Reports as tables for people.

use std::io::{self, Write};

use hamlyn_host::stat::Report;
use serde_json::Value;

use crate::table;

/// Prints one table for each process. If there are reports from `ago` seconds before, also prints
/// the change per second.
///
/// Counters that are zero are omitted, unless `zeros` is set.
pub(super) fn print(
    out: &mut impl Write,
    reports: &[Report],
    zeros: bool,
    before: &[Report],
    ago: f64,
) -> io::Result<()> {
    for report in reports {
        writeln!(out, "{} (pid {})", report.name, report.pid)?;
        let earlier = before.iter().find(|old| old.pid == report.pid).map(|old| flatten(&old.counters));
        let mut lines = flatten(&report.counters);
        // A host id of 0 is valid, so it is always shown.
        let is_host = |name: &str| name.rsplit('.').next() == Some("host");
        lines.retain(|(name, value)| zeros || is_host(name) || value.as_u64() != Some(0));
        let rows = lines.iter().map(|(name, value)| {
            let old = earlier.iter().flatten().find(|(old, _)| old == name).map(|(_, value)| value);
            let grown = value.as_f64().zip(old.and_then(Value::as_f64)).map(|(new, old)| new - old);
            let change = grown.filter(|grown| *grown > 0.0).map(|grown| format!("{:.1}/s", grown / ago));
            [name.clone(), text(value), change.unwrap_or_default()]
        });
        for line in table::lines(rows) {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the leaves of nested objects and arrays, named by their path: `card.refused_key`,
/// `ports.0.packets`.
pub(in crate::commands) fn flatten(value: &Value) -> Vec<(String, Value)> {
    let mut leaves = Vec::new();
    walk("", value, &mut leaves);
    leaves
}

fn walk(path: &str, value: &Value, leaves: &mut Vec<(String, Value)>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| walk(&below(key), value, leaves)),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| walk(&below(&index.to_string()), value, leaves));
        }
        leaf => leaves.push((path.to_owned(), leaf.clone())),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(packets: u64) -> Report {
        let counters =
            json!({ "packets": packets, "card": { "refused_key": 1 }, "ports": [{ "dropped": 0 }] });
        Report { kind: "card".into(), name: "card0".into(), pid: 7, counters }
    }

    #[test]
    fn nested_counters_are_named_by_their_path() {
        let names: Vec<String> = flatten(&report(5).counters).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["card.refused_key", "packets", "ports.0.dropped"]);
    }

    #[test]
    fn second_report_shows_change_per_second() {
        let mut out = Vec::new();
        print(&mut out, &[report(30)], true, &[report(10)], 2.0).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("card0 (pid 7)\n"), "{out}");
        let packets = out.lines().find(|line| line.contains("packets")).unwrap();
        assert!(packets.ends_with("10.0/s"), "{out}");
        assert_eq!(out.matches("/s").count(), 1, "{out}");
        assert!(out.contains("ports.0.dropped"), "{out}");
    }

    #[test]
    fn zeros_are_shown_only_on_request() {
        let mut out = Vec::new();
        print(&mut out, &[report(30)], false, &[], 1.0).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("card.refused_key") && !out.contains("ports.0.dropped"), "{out}");
    }
}
