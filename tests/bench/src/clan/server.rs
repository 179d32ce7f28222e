//! The event-driven server of section 5.3: a request's round trip to a busy and to a sleeping
//! server, by the number of its connections (Figure 8).

use crate::clan::pairs::CLAN;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, beside, known, number};
use crate::engine::plan::Planned;
use crate::engine::plot::{Curve, Figure, Scale, curves};
use crate::engine::report::Table;
use crate::engine::track::{Track, find, medians};

/// The library's example, which every guest image contains.
const PROGRAM: &str = "clan";

/// Microseconds for which the server polls before it sleeps: two round trips to a busy server, like
/// the paper's 15 us.
const POLLING: u64 = 60;
/// Numbers of open connections. The client uses one of them at random.
const CONNECTIONS: [u64; 4] = [1, 10, 100, 1000];
/// The largest number of open connections with only one in use. Shows the cost of the idle ones.
const OPEN: u64 = 1000;

/// A server's load: its name, microseconds between two requests, and the paper's round trip in
/// microseconds.
#[derive(Debug, Clone, Copy)]
struct Load {
    name: &'static str,
    gap: u64,
    paper: f64,
}

const IDLE: Load = Load { name: "idle", gap: 1000, paper: 16.8 };
const BUSY: Load = Load { name: "busy", gap: 0, paper: 7.9 };

fn name(load: Load, connections: u64) -> String {
    format!("CLAN, server with {connections} connections, {}", load.name)
}

fn name_of_one(load: Load) -> String {
    format!("{}, one of them used", name(load, OPEN))
}

pub(crate) const SERVER: Experiment = Experiment {
    name: "server",
    title: "CLAN: a server's round trip (goals 12 and 13)",
    heading: "CLAN: round trips of the event-driven server",
    has_goal: true,
    rounds: |effort| effort.pick(3, 6),
    plan,
    goals,
    figures: |tracks| vec![figure(tracks)],
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

/// A server, and a client in the other machine with this number of connections. Both run as root,
/// which may lock the memory of all connections.
pub(crate) fn exchange(name: String, connections: u64, asked: &str) -> Planned {
    let near = format!("server ask --host 1 --connections {connections} {asked}");
    let far = format!("server serve --clients {connections} --polling {POLLING}");
    CLAN.exchange(name, &near, &far).of(PROGRAM).by_root()
}

/// Plans both loads, by the number of connections. Each connection has had a request before. The
/// first request touches new pages, which is part of the cost of opening a connection.
fn plan(effort: Effort) -> Vec<Planned> {
    let of = |(load, count): (Load, u64)| {
        let asked = format!("--warm-up --count {count} --gap {}", load.gap);
        let all = CONNECTIONS.map(|open| exchange(name(load, open), open, &asked).at(load.name, open));
        all.into_iter().chain([exchange(name_of_one(load), OPEN, &format!("{asked} --used 1"))])
    };
    [(IDLE, effort.pick(200, 1000)), (BUSY, effort.pick(2000, 10_000))].into_iter().flat_map(of).collect()
}

/// Goals 12 and 13: the curve is flat (Figure 8), whether all connections are used or only one.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let goals = [(12, BUSY), (13, IDLE)].into_iter().flat_map(|(number, load)| {
        let what = format!("CLAN: a server with 1,000 connections, {}: p50", load.name);
        let one = (name_of_one(load), "the same, one of them used".to_owned());
        let few = name(load, 1);
        [(name(load, OPEN), what), one]
            .map(|(own, what)| Goal::trips(tracks, number, &what, &own, ("with 1", &few), 1.1))
    });
    goals.collect()
}

/// Draws a curve for each load.
fn figure(tracks: &[Track]) -> Figure {
    let loads = [IDLE, BUSY];
    let on_curves = tracks.iter().filter(|track| loads.iter().any(|load| load.name == track.label));
    let paper = loads.map(|load| {
        let label = format!("{}, {} us (5.3.1)", load.name, load.paper);
        Curve::paper(&label, [1.0, 1000.0].map(|x| (x, load.paper)))
    });
    Figure {
        key: "clan-server",
        title: "CLAN: a request's round trip by the server's connections",
        answers: "Figure 8",
        note: "One request at a time, on a connection drawn at random; the client spins. Idle: 1 ms between two requests, so the server sleeps \
            in poll(2). Busy: one after the other. The dotted line is the 99th percentile."
            .to_owned(),
        x: ("connections", Scale::Log),
        y: ("round trip, us", Scale::Log),
        curves: curves(on_curves, Track::p50_us, Track::p99_us).into_iter().chain(paper).collect(),
    }
}

/// Shows the same data in numbers: a row for each number of connections, with the tracks of both
/// loads.
fn table(tracks: &[Track]) -> Table {
    let rows = CONNECTIONS.map(|open| (open.to_string(), [IDLE, BUSY].map(|load| name(load, open))));
    let one = (format!("{OPEN}, one of them used"), [IDLE, BUSY].map(name_of_one));
    let found = |track: &str, of: fn(&Track) -> Option<f64>| known(find(tracks, track).and_then(of));
    let beside =
        |track: &str, load| beside(&medians(tracks, track), &medians(tracks, &name(load, CONNECTIONS[0])));
    let note = "As in the plot. The paper's are means of a server with any number of connections, up to some thousand.";
    Table::new(
        "CLAN: the event-driven server's round trip",
        note,
        rows.into_iter().chain([one]),
        &[
            ("connections", &|(title, _)| title.clone()),
            ("idle: p50, us", &|(_, [idle, _])| found(idle, Track::p50_us)),
            ("p99, us", &|(_, [idle, _])| found(idle, Track::p99_us)),
            ("the paper's mean, us", &|_| number(IDLE.paper)),
            ("beside 1 connection", &|(_, [idle, _])| beside(idle, IDLE)),
            ("busy: p50, us", &|(_, [_, busy])| found(busy, Track::p50_us)),
            ("p99, us", &|(_, [_, busy])| found(busy, Track::p99_us)),
            ("the paper's mean, us", &|_| number(BUSY.paper)),
            ("beside 1 connection", &|(_, [_, busy])| beside(busy, BUSY)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    fn tracks(many_ns: u64) -> Vec<Track> {
        let track =
            |(load, connections, ns): (Load, u64, u64)| Track::of_samples(&name(load, connections), &[ns]);
        [(IDLE, 1, 300_000), (BUSY, 1, 100_000), (BUSY, 1000, many_ns)].map(track).into()
    }

    #[test]
    fn thousand_connections_may_cost_at_most_ten_percent() {
        assert_eq!(goals(&tracks(109_000))[0].verdict(), Verdict::Met);
        assert_eq!(goals(&tracks(115_000))[0].verdict(), Verdict::Short);
        let others = &goals(&tracks(115_000))[1..];
        assert!(others.iter().all(|goal| goal.verdict() == Verdict::NotMeasured) && others.len() == 3);
    }

    #[test]
    fn unused_open_connections_have_goal_and_row() {
        let one = |name: &str, ns| Track::of_samples(name, &[ns]);
        let tracks = [one(&name(BUSY, 1), 100_000), one(&name_of_one(BUSY), 104_000)];
        let goal = &goals(&tracks)[1];
        assert_eq!((goal.number, goal.verdict()), (12, Verdict::Met));
        assert_eq!(table(&tracks).rows[4][5], "104");
    }

    #[test]
    fn rows_are_found_by_load_and_connections() {
        let table = table(&tracks(200_000));
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert_eq!(table.rows[0][..4], ["1", "300", "300", "16.8"]);
        assert_eq!(table.rows[3][5..], ["200", "200", "7.9", "2 (2 to 2)"]);
    }
}
