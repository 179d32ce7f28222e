//! Requests a second that the server answers, by the number of requests in flight, each on a
//! separate connection (Figure 9).

use crate::clan::server::exchange;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::known;
use crate::engine::plot::{Curve, Figure, Scale, curves};
use crate::engine::report::Table;
use crate::engine::track::Track;

/// Number of connections, each with a request in flight.
const CLIENTS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The limit that the paper's curve approaches.
const PAPER: f64 = 340_000.0;

pub(crate) const REQUESTS: Experiment = Experiment {
    name: "requests",
    title: "CLAN: requests a second",
    heading: "CLAN: requests of the event-driven server",
    rounds: |effort| effort.pick(3, 6),
    plan: |effort: Effort| {
        let of = |clients| {
            let asked = format!("--count {} --at-once {clients}", effort.pick(4000, 20_000));
            let name = format!("CLAN, server, {clients} requests at once");
            exchange(name, clients, &asked).at("CLAN", clients)
        };
        CLIENTS.map(of).to_vec()
    },
    figures: |tracks| vec![figure(tracks)],
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn figure(tracks: &[Track]) -> Figure {
    let paper = Curve::paper("tends to 340,000 (5.3.1)", [1.0, 64.0].map(|x| (x, PAPER)));
    Figure {
        key: "clan-requests",
        title: "CLAN: requests a second",
        answers: "Figure 9",
        note: "The client sends a request on each connection, then collects the replies, then again."
            .to_owned(),
        x: ("connections, each with a request", Scale::Log),
        y: ("requests a second", Scale::Log),
        curves: curves(tracks, Track::message_rate, |_| None).into_iter().chain([paper]).collect(),
    }
}

/// Shows the same data in numbers.
fn table(tracks: &[Track]) -> Table {
    let note = "As in the plot. The paper's curve tends to 340,000, 2.9 us for each.";
    Table::new(
        "CLAN: requests a second",
        note,
        tracks,
        &[
            ("requests at once", &|track| track.x.to_string()),
            ("requests/s", &|track| known(track.message_rate())),
            ("us for each", &|track| known(track.message_rate().map(|rate| 1e6 / rate))),
            ("beside the paper's 340,000", &|track| known(track.message_rate().map(|rate| rate / PAPER))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_compared_with_the_papers() {
        let mut track = Track { x: 8, ..Track::of_samples("CLAN", &[1]) };
        (track.rounds[0].messages, track.rounds[0].ns) = (340, 10_000_000);
        let tracks = [Track { x: 1, ..Track::new("CLAN") }, track];
        assert_eq!(table(&tracks).rows[1], ["8", "34000", "29.4", "0.1"]);
        assert_eq!(table(&tracks).rows[0], ["1", "?", "?", "?"], "what was not measured");
        assert_eq!(figure(&tracks).curves[0].points.len(), 1);
    }
}
