//! The page: one self-contained file. This file has the content, and the template has the layout.

use anyhow::Context;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::{Results, Table};
use crate::engine::foreign::Peer;
use crate::engine::goals::{Goal, Verdict, number};
use crate::engine::plot::{Figure, svg};
use crate::engine::stats::Latency;
use crate::engine::track::Track;

/// For a template with this file extension, the engine escapes all values.
const NAME: &str = "page.html";
const TEMPLATE: &str = include_str!("page.html");

/// A table with more rows is folded.
const LONG: usize = 20;

const TRIPS_HEAD: [&str; 15] = [
    "round trips, us",
    "samples",
    "min",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "rounds' p50",
    "CPU near",
    "CPU far",
    "CPU cards",
    "CPU machines",
    "doorbells",
    "interrupts",
];
const RATES_HEAD: [&str; 6] =
    ["one way", "MB/s", "CPU near, us", "CPU far, us", "CPU cards, us", "CPU machines, us"];

/// All values that the template shows.
#[derive(Serialize)]
struct Page<'a> {
    facts: &'a [(String, String)],
    goals: Vec<GoalRow<'a>>,
    figures: Vec<Drawing<'a>>,
    sections: Vec<Section<'a>>,
    others: &'a [Table],
    peers: Vec<PeerRow<'a>>,
    trips_head: [&'static str; 15],
    rates_head: [&'static str; 6],
}

#[derive(Serialize)]
struct GoalRow<'a> {
    number: u32,
    what: &'a str,
    figure: String,
    beside: String,
    ratio: String,
    spread: String,
    needed: String,
    class: &'static str,
    verdict: &'static str,
}

#[derive(Serialize)]
struct Drawing<'a> {
    key: &'a str,
    title: &'a str,
    answers: &'a str,
    note: &'a str,
    /// The benchmark's own markup, which is not escaped again.
    drawing: String,
}

/// The measurements under one title.
#[derive(Serialize)]
struct Section<'a> {
    title: &'a str,
    long: bool,
    trips: Vec<Row<'a>>,
    rates: Vec<Row<'a>>,
    commands: Vec<Commands<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    cells: Vec<String>,
}

#[derive(Serialize)]
struct Commands<'a> {
    name: &'a str,
    lines: &'a [String],
    failure: Option<&'a str>,
}

#[derive(Serialize)]
struct PeerRow<'a> {
    name: &'a str,
    time: String,
    commands: &'a [String],
}

/// Renders the whole page.
pub(super) fn page(results: &Results) -> anyhow::Result<String> {
    let page = Page {
        facts: &results.facts.rows,
        goals: results.goals.iter().map(goal).collect(),
        figures: results.figures.iter().map(drawing).collect::<anyhow::Result<_>>()?,
        sections: results.tables.iter().filter(|table| !table.1.is_empty()).map(section).collect(),
        others: &results.others,
        peers: results.peers.iter().map(peer).collect(),
        trips_head: TRIPS_HEAD,
        rates_head: RATES_HEAD,
    };
    let mut engine = Environment::new();
    // A misspelt name in the template is an error instead of an empty string.
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    // A template line that holds only a statement leaves no line on the page.
    engine.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    engine.add_template(NAME, TEMPLATE).context("the page's template is wrong")?;
    engine.get_template(NAME)?.render(Serde(&page)).context("cannot fill the page's template")
}

fn goal(goal: &Goal) -> GoalRow<'_> {
    let verdict = goal.verdict();
    GoalRow {
        number: goal.number,
        what: &goal.what,
        figure: goal.value_text(),
        beside: goal.peer_text(),
        ratio: goal.ratio_text(),
        spread: goal.spread_text(),
        needed: goal.need_text(),
        class: match verdict {
            Verdict::Met => "met",
            Verdict::WithinNoise => "noise",
            Verdict::Short | Verdict::NotMeasured => "short",
        },
        verdict: verdict.text(),
    }
}

fn drawing(figure: &Figure) -> anyhow::Result<Drawing<'_>> {
    let Figure { key, title, answers, note, .. } = figure;
    Ok(Drawing { key, title, answers, note, drawing: svg(figure)? })
}

fn section((title, tracks): &(String, Vec<Track>)) -> Section<'_> {
    Section {
        title,
        long: tracks.len() > LONG,
        trips: tracks.iter().filter_map(|track| Some(trip(track, track.latency()?))).collect(),
        rates: tracks.iter().filter_map(|track| Some(rate(track, track.rate()?))).collect(),
        commands: tracks.iter().map(commands).collect(),
    }
}

fn trip(track: &Track, latency: Latency) -> Row<'_> {
    let medians = track.medians_us();
    let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let high = medians.iter().copied().fold(0.0, f64::max);
    let Latency { min, p50, p90, p99, p999, max, .. } = latency;
    let cpu = track.cpu_us().map_or([None; 2], |cpu| cpu.map(Some));
    let watched = track.watched_us().map_or([None; 2], |times| times.map(Some));
    let counted = ["doorbells", "interrupts"].map(|counter| track.counted(0, counter));
    let optional = |value: Option<f64>| value.map_or_else(String::new, number);
    let times = [min, p50, p90, p99, p999, max].map(number);
    let cells = [latency.count.to_string()].into_iter().chain(times);
    let cells = cells.chain([format!("{} to {}", number(low), number(high))]);
    Row {
        name: &track.name,
        cells: cells.chain([cpu, watched, counted].concat().into_iter().map(optional)).collect(),
    }
}

fn rate(track: &Track, rate: f64) -> Row<'_> {
    let cpu = track.cpu_us().unwrap_or_default();
    let watched = track.watched_us().into_iter().flatten();
    let cells = [rate / 1e6].into_iter().chain(cpu).chain(watched).map(number).collect();
    Row { name: &track.name, cells }
}

fn commands(track: &Track) -> Commands<'_> {
    Commands { name: &track.name, lines: &track.commands, failure: track.failure.as_deref() }
}

fn peer(peer: &Peer) -> PeerRow<'_> {
    let time = peer.round_trip_us().map_or_else(|| "not measured".to_owned(), number);
    PeerRow { name: peer.name, time, commands: &peer.commands }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::engine::goals::Need;
    use crate::engine::plot::{Curve, Point, Scale};
    use crate::engine::report::Facts;

    /// This would be markup if it were not escaped.
    const MARKUP: &str = "<b>&\"'";

    fn results() -> Results {
        let text = || MARKUP.to_owned();
        let mut track = Track::of_samples(MARKUP, &[1000, 3000]);
        (track.commands, track.failure) = (vec![text()], Some(text()));
        track.rounds[0].bytes = 1000;
        track.rounds[0].messages = 2;
        let points = vec![Point { x: 1.0, y: 2.0, high: None }];
        let figure = Figure {
            key: MARKUP,
            title: MARKUP,
            answers: MARKUP,
            note: text(),
            x: (MARKUP, Scale::Log),
            y: (MARKUP, Scale::Log),
            curves: vec![Curve::ours(text(), points)],
        };
        let other = Table::new(MARKUP, MARKUP, [()], &[(MARKUP, &|()| text())]);
        Results {
            facts: Facts { start: SystemTime::UNIX_EPOCH, rows: vec![(text(), text())] },
            goals: vec![Goal::own(6, MARKUP, "%", Some(0.5), Need::AtMost(1.0))],
            figures: vec![figure],
            peers: vec![Peer { name: "a & b", rounds_us: Vec::new(), commands: [text(), text()] }],
            tables: vec![(text(), vec![track]), ("unmeasured".to_owned(), Vec::new())],
            others: vec![other],
        }
    }

    #[test]
    fn no_text_becomes_markup() {
        let page = page(&results()).unwrap();
        assert!(!page.contains("<b>") && !page.contains("&amp;lt;"), "{page}");
        assert!(page.matches("&lt;b&gt;").count() > 15, "{page}");
        assert!(page.contains("<svg role=\"img\"") && page.contains("a &amp; b"), "the drawing is markup");
    }

    #[test]
    fn all_measurements_are_on_the_page() {
        let page = page(&results()).unwrap();
        assert!(page.contains("<td class=met>met") && page.contains("at most 1 %"));
        assert!(page.contains("<td class=n>1 to 1") && page.contains("<td class=n>1000"), "{page}");
        assert!(page.contains("not measured<td><code>"), "a peer");
        assert!(!page.contains("unmeasured"), "a title without quantities");
        // The engine escapes part of the others.
        for head in TRIPS_HEAD.iter().chain(&RATES_HEAD).filter(|head| !head.contains(['\'', '/'])) {
            assert!(page.contains(&format!(">{head}")), "{head} is missing");
        }
    }

    #[test]
    fn a_long_table_is_folded() {
        let mut results = results();
        let tracks = (0..=LONG).map(|number| Track::of_samples(&number.to_string(), &[1000]));
        results.tables = vec![("many".to_owned(), tracks.collect())];
        assert!(page(&results).unwrap().contains(&format!("<summary>{} quantities</summary>", LONG + 1)));
    }
}
