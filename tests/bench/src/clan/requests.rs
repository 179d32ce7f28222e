//! Requests a second that the server answers, by the number of requests in flight, each on a
//! separate connection (Figure 9).

use crate::clan::server::exchange;
use crate::engine::effort::Effort;
use crate::engine::goals::number;
use crate::engine::machines::Machines;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::stats::median;
use crate::engine::track::{Track, find, interleave};

/// Number of connections, each with a request in flight.
const CLIENTS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The limit that the paper's curve approaches.
const PAPER: f64 = 340_000.0;

fn name(clients: u64) -> String {
    format!("CLAN, server, {clients} requests at once")
}

/// Measures all, in turn.
pub(crate) fn measure(clan: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let count = effort.pick(4000, 20_000);
    let exchanges = CLIENTS.map(|clients| {
        let asked = format!("--count {count} --at-once {clients}");
        (name(clients), exchange(clan, clients, &asked))
    });
    interleave(&exchanges, effort.pick(3, 6), progress)
}

fn rate(tracks: &[Track], clients: u64) -> Option<f64> {
    median(find(tracks, &name(clients))?.message_rates())
}

/// Draws the curve.
pub(crate) fn figure(tracks: &[Track]) -> Figure {
    let point = |clients: u64| Some(Point { x: clients as f64, y: rate(tracks, clients)?, high: None });
    let paper = Curve {
        label: "the paper: tends to 340,000 (5.3.1)".to_owned(),
        points: [1.0, 64.0].map(|x| Point { x, y: PAPER, high: None }).to_vec(),
        paper: true,
    };
    Figure {
        key: "clan-requests".to_owned(),
        title: "CLAN: requests a second".to_owned(),
        answers: "Figure 9".to_owned(),
        paper: "The client sends a request on each connection, then collects the replies, then again."
            .to_owned(),
        x: ("connections, each with a request".to_owned(), Scale::Log),
        y: ("requests a second".to_owned(), Scale::Log),
        curves: vec![Curve::ours("CLAN", CLIENTS.into_iter().filter_map(point).collect()), paper],
    }
}

/// Shows the same data in numbers.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let row = |clients: u64| {
        let rate = rate(tracks, clients);
        let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
        vec![
            clients.to_string(),
            text(rate),
            text(rate.map(|rate| 1e6 / rate)),
            text(rate.map(|rate| rate / PAPER)),
        ]
    };
    Table {
        title: "CLAN: requests a second".to_owned(),
        note: "As in the plot. The paper's curve tends to 340,000, 2.9 us for each.".to_owned(),
        head: ["requests at once", "requests/s", "us for each", "beside the paper's 340,000"]
            .map(str::to_owned)
            .to_vec(),
        rows: CLIENTS.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_compared_with_the_papers() {
        let mut track = Track::of_samples(&name(8), &[1]);
        (track.rounds[0].messages, track.rounds[0].ns) = (340, 10_000_000);
        let tracks = [track];
        assert_eq!(table(&tracks).rows[3], ["8", "34000", "29.4", "0.1"]);
        assert_eq!(table(&tracks).rows[0], ["1", "?", "?", "?"], "what was not measured");
        assert_eq!(figure(&tracks).curves[0].points.len(), 1);
    }
}
