//! The event-driven server of section 5.3: a request's round trip to a busy and to a sleeping
//! server, by the number of its connections (Figure 8).

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::goals::{Goal, Need, beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, find, interleave};

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

/// A server, and a client in the other machine with this number of connections. Both run as root,
/// which may lock the memory of all connections.
pub(crate) fn exchange<'a>(clan: &'a Machines, connections: u64, asked: &str) -> Exchange<'a> {
    let near = format!("server ask --host 1 --connections {connections} {asked}");
    clan.exchange_by_root(&near, &format!("server serve --clients {connections} --polling {POLLING}"))
        .of(PROGRAM)
}

/// Measures both loads, by the number of connections, all in turn. Each connection has had a
/// request before. The first request touches new pages, which is part of the cost of opening a
/// connection.
pub(crate) fn measure(clan: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let exchanges = [(IDLE, effort.pick(200, 1000)), (BUSY, effort.pick(2000, 10_000))].into_iter().flat_map(
        |(load, count)| {
            let asked = format!("--warm-up --count {count} --gap {}", load.gap);
            let all = CONNECTIONS.map(|open| (name(load, open), exchange(clan, open, &asked)));
            let one = (name_of_one(load), exchange(clan, OPEN, &format!("{asked} --used 1")));
            all.into_iter().chain([one])
        },
    );
    interleave(&exchanges.collect::<Vec<_>>(), effort.pick(3, 6), progress)
}

fn medians(tracks: &[Track], name: &str) -> Vec<f64> {
    find(tracks, name).map(Track::medians_us).unwrap_or_default()
}

/// Goals 12 and 13: the curve is flat (Figure 8), whether all connections are used or only one.
pub(crate) fn goals(tracks: &[Track]) -> Vec<Goal> {
    let goals = [(12, BUSY), (13, IDLE)].into_iter().flat_map(|(number, load)| {
        let what = format!("CLAN: a server with 1,000 connections, {}: p50", load.name);
        let one = (name_of_one(load), "the same, one of them used".to_owned());
        [(name(load, OPEN), what), one].map(|(track, what)| {
            let [few, many] = [name(load, 1), track].map(|name| medians(tracks, &name));
            Goal::beside(number, &what, "us", &many, ("with 1", &few), Need::RatioAtMost(1.1))
        })
    });
    goals.collect()
}

/// Draws a curve for each load.
pub(crate) fn figure(tracks: &[Track]) -> Figure {
    let curve = |load: Load| {
        let point = |connections: u64| {
            let track = find(tracks, &name(load, connections))?;
            Some(Point { x: connections as f64, y: track.p50_us()?, high: Some(track.latency()?.p99) })
        };
        Curve::ours(load.name, CONNECTIONS.into_iter().filter_map(point).collect())
    };
    let paper = |load: Load| Curve {
        label: format!("the paper: {}, {} us (5.3.1)", load.name, load.paper),
        points: [1.0, 1000.0].map(|x| Point { x, y: load.paper, high: None }).to_vec(),
        paper: true,
    };
    Figure {
        key: "clan-server".to_owned(),
        title: "CLAN: a request's round trip by the server's connections".to_owned(),
        answers: "Figure 8".to_owned(),
        paper: "One request at a time, on a connection drawn at random; the client spins. Idle: 1 ms between two requests, so the server sleeps \
            in poll(2). Busy: one after the other. The dotted line is the 99th percentile."
            .to_owned(),
        x: ("connections".to_owned(), Scale::Log),
        y: ("round trip, us".to_owned(), Scale::Log),
        curves: [curve(IDLE), curve(BUSY), paper(IDLE), paper(BUSY)].to_vec(),
    }
}

/// Shows the same data in numbers.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let cells = |load: Load, name: &str| {
        let track = find(tracks, name);
        let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
        let one = self::name(load, CONNECTIONS[0]);
        let [ratio, spread] = beside_text(&medians(tracks, name), &medians(tracks, &one));
        let p99 = track.and_then(|track| Some(track.latency()?.p99));
        [text(track.and_then(Track::p50_us)), text(p99), number(load.paper), format!("{ratio} ({spread})")]
    };
    let row = |title: String, name: &dyn Fn(Load) -> String| {
        let both = [IDLE, BUSY].into_iter().flat_map(|load| cells(load, &name(load)));
        [title].into_iter().chain(both).collect()
    };
    let all = CONNECTIONS.map(|open| row(open.to_string(), &|load| name(load, open)));
    let one = row(format!("{OPEN}, one of them used"), &name_of_one);
    let head = [
        "connections",
        "idle: p50, us",
        "p99, us",
        "the paper's mean, us",
        "beside 1 connection",
        "busy: p50, us",
        "p99, us",
        "the paper's mean, us",
        "beside 1 connection",
    ];
    Table {
        title: "CLAN: the event-driven server's round trip".to_owned(),
        note: "As in the plot. The paper's are means of a server with any number of connections, up to some thousand.".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: all.into_iter().chain([one]).collect(),
    }
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
