//! The report in machine-readable formats.

use std::fmt::Write;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};

use super::{Results, Table};
use crate::engine::foreign::Peer;
use crate::engine::goals::{Goal, number};
use crate::engine::plot::{Curve, Figure, Point};
use crate::engine::track::Track;

/// Returns all results as one object.
pub(super) fn json(results: &Results) -> Value {
    let facts: serde_json::Map<String, Value> =
        results.facts.rows.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let figure = |figure: &Figure| {
        let curve = |curve: &Curve| {
            let points: Vec<Value> =
                curve.points.iter().map(|p| json!({ "x": p.x, "y": p.y, "p99": p.high })).collect();
            json!({ "label": curve.label, "paper": curve.paper, "points": points })
        };
        let curves: Vec<Value> = figure.curves.iter().map(curve).collect();
        json!({ "name": figure.key, "title": figure.title, "answers": figure.answers, "note": figure.note, "x": figure.x.0, "y": figure.y.0, "curves": curves })
    };
    json!({
        "run": facts,
        "goals": results.goals.iter().map(Goal::json).collect::<Vec<_>>(),
        "figures": results.figures.iter().map(figure).collect::<Vec<_>>(),
        "peers": results.peers.iter().map(peer).collect::<Vec<_>>(),
        "tables": results.others.iter().map(Table::json).collect::<Vec<_>>(),
        "measured": results.tracks().map(track).collect::<Vec<_>>(),
    })
}

fn peer(peer: &Peer) -> Value {
    json!({ "name": peer.name, "round_trip_us": peer.round_trip_us(), "rounds_us": peer.rounds_us, "commands": peer.commands })
}

fn track(track: &Track) -> Value {
    json!({
        "name": track.name,
        "commands": track.commands,
        "latency_us": track.latency(),
        "round_medians_us": track.medians_us(),
        "bytes_per_second": track.rate(),
        "cpu_us_per_message": track.cpu_us(),
        "cards_and_switch_cpu_us_per_message": track.watched_us().map(|times| times[0]),
        "machines_cpu_us_per_message": track.watched_us().map(|times| times[1]),
        "doorbells_per_message": track.counted(0, "doorbells"),
        "interrupts_per_message": track.counted(0, "interrupts"),
        "failure": track.failure,
    })
}

/// Returns a row for each quantity.
pub(super) fn csv(results: &Results) -> anyhow::Result<String> {
    let mut rows = vec![
        ["name", "samples", "min_us", "p50_us", "p90_us", "p99_us", "p99.9_us", "max_us", "bytes_per_second"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for track in results.tracks() {
        let mut row = vec![track.name.clone()];
        match track.latency() {
            Some(l) => {
                row.push(l.count.to_string());
                row.extend([l.min, l.p50, l.p90, l.p99, l.p999, l.max].map(|value| format!("{value:.3}")));
            }
            None => row.extend(vec![String::new(); 7]),
        }
        row.push(track.rate().map_or_else(String::new, |rate| format!("{rate:.0}")));
        rows.push(row);
    }
    table(rows)
}

/// Returns a row for each point of each curve.
pub(super) fn figures_csv(figures: &[Figure]) -> anyhow::Result<String> {
    let mut rows = vec![["figure", "answers", "curve", "x", "y", "p99"].map(str::to_owned).to_vec()];
    for figure in figures {
        for curve in &figure.curves {
            let row = |point: &Point| {
                let high = point.high.map_or_else(String::new, |high| format!("{high:.3}"));
                let [x, y] = [point.x.to_string(), format!("{:.3}", point.y)];
                vec![figure.key.to_owned(), figure.answers.to_owned(), curve.label.clone(), x, y, high]
            };
            rows.extend(curve.points.iter().map(row));
        }
    }
    table(rows)
}

fn table(rows: Vec<Vec<String>>) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.iter().try_for_each(|row| writer.write_record(row)).context("cannot write a table")?;
    let bytes = writer.into_inner().map_err(|error| anyhow!("cannot write a table: {error}"))?;
    Ok(String::from_utf8(bytes)?)
}

/// Returns the goals as a table in Markdown, for docs/performance.md.
pub(super) fn goals_markdown(goals: &[Goal]) -> String {
    let mut out =
        "| goal | what | figure | beside | ratio | spread | asked for | |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    for goal in goals {
        let cells = [
            goal.number.to_string(),
            goal.what.clone(),
            goal.value_text(),
            goal.peer_text(),
            goal.ratio_text(),
            goal.spread_text(),
            goal.need_text(),
            goal.verdict().text().to_owned(),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

/// Returns everything else as tables in Markdown, including the plots' points: for documents as
/// well.
pub(super) fn tables_markdown(others: &[Table], figures: &[Figure]) -> String {
    let tables = others.iter().map(|table| (&table.title[..], table.head.clone(), table.rows.clone()));
    let points = figures.iter().map(|figure| {
        let head = [format!("{}; {}", figure.x.0, figure.y.0)];
        let head = head.into_iter().chain(figure.curves.iter().map(|curve| curve.label.clone())).collect();
        (figure.title, head, rows_of(figure))
    });
    let mut out = String::new();
    for (title, head, rows) in tables.chain(points) {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let _ = write!(out, "## {title}\n\n{}|{}\n", line(&head), "---|".repeat(head.len()));
        rows.iter().for_each(|row| out.push_str(&line(row)));
        out.push('\n');
    }
    out
}

/// Returns a row for each position on a figure's horizontal axis, with each curve's value there.
fn rows_of(figure: &Figure) -> Vec<Vec<String>> {
    let mut places: Vec<f64> =
        figure.curves.iter().flat_map(|curve| &curve.points).map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let row = |x: &f64| {
        let at = |curve: &Curve| {
            let point = curve.points.iter().find(|point| point.x.total_cmp(x).is_eq());
            point.map_or_else(String::new, |point| number(point.y))
        };
        [x.to_string()].into_iter().chain(figure.curves.iter().map(at)).collect()
    };
    places.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Need;
    use crate::engine::plot::Scale;

    #[test]
    fn a_goal_is_a_row() {
        let goal = Goal::own(6, "idle", "%", Some(0.5), Need::AtMost(1.0));
        let text = goals_markdown(&[goal]);
        assert_eq!(text.lines().last(), Some("| 6 | idle | 0.5 % |  |  |  | at most 1 % | met |"));
    }

    #[test]
    fn point_is_a_row_with_quoted_curve_name() {
        let points = vec![Point { x: 16.0, y: 56.25, high: None }];
        let curves = vec![Curve::ours("a, \"b\"", points)];
        let axis = ("", Scale::Log);
        let (key, answers, note) = ("figure-7", "Figure 7", String::new());
        let figure = Figure { key, title: "", answers, note, x: axis, y: axis, curves };
        let text = figures_csv(&[figure]).unwrap();
        assert_eq!(text.lines().last(), Some("figure-7,Figure 7,\"a, \"\"b\"\"\",16,56.250,"));
    }

    #[test]
    fn curves_share_rows_at_common_points() {
        let point = |x, y| Point { x, y, high: None };
        let curves = vec![
            Curve::ours("card", vec![point(4.0, 1.5), point(16.0, 6.0)]),
            Curve::ours("TCP", vec![point(16.0, 9.0)]),
        ];
        let [x, y] = ["bytes", "MB/s"].map(|name| (name, Scale::Log));
        let figure = Figure { key: "", title: "By size", answers: "", note: String::new(), x, y, curves };
        let other =
            Table::new("Costs", "", ["a"], &[("what", &|row| (*row).into()), ("ns", &|_| "2".into())]);
        let text = tables_markdown(&[other], &[figure]);
        assert!(text.starts_with("## Costs\n\n| what | ns |\n|---|---|\n| a | 2 |\n\n"), "{text}");
        assert!(
            text.ends_with("| bytes; MB/s | card | TCP |\n|---|---|---|\n| 4 | 1.5 |  |\n| 16 | 6 | 9 |\n\n"),
            "{text}"
        );
    }
}
