//! A whole program between two machines: the key-value server of docs/programming.md, with its
//! clients, over the card and over TCP. The programs differ only in their transport.

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{known, ratio, spread};
use crate::engine::machines::ADDRESS;
use crate::engine::plan::Planned;
use crate::engine::plot::{Figure, Scale, curves};
use crate::engine::report::Table;
use crate::engine::stats::median;
use crate::engine::track::{Track, find, medians, values};
use crate::hamlyn::between::tune;
use crate::hamlyn::pairs::FABRIC;

pub(crate) const SERVER: Experiment = Experiment {
    name: "server",
    title: "the key-value server",
    heading: "Requests of the key-value server between two machines",
    prepare: tune,
    rounds: |effort| of_three(effort, [2, 5, 10]),
    plan,
    also: |_, _, tracks| {
        // The byte rate of short values has no meaning.
        let short = tracks.iter_mut().filter(|track| track.x > 0);
        short.flat_map(|track| &mut track.rounds).for_each(|round| round.bytes = 0);
        Ok(())
    },
    figures: |tracks| vec![figure(tracks)],
    tables: |tracks| tables(tracks).to_vec(),
    ..Experiment::NEW
};

/// The library's example, which every guest image contains.
const PROGRAM: &str = "kv-server";

/// Numbers of clients, each with a separate connection, which all send requests at the same time.
const CLIENTS: [u64; 4] = [1, 10, 60, 200];
/// Bytes of a long value.
const LONG: u64 = 1 << 20;
/// The requests for a long value.
const ASKS: [&str; 2] = ["get", "put"];

/// Returns the value for a run with other measurements, which has little time for each, for a run
/// of this figure alone, or for a full one.
fn of_three<T: Copy>(effort: Effort, [brief, alone, full]: [T; 3]) -> T {
    match effort {
        Effort::Quick => brief,
        Effort::Alone => alone,
        Effort::Full => full,
    }
}

/// The transport of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Channels over the card, with the server's rings.
    Card,
    /// The same with rings of 512 KiB, for long values.
    WideRings,
    /// TCP on virtio-net.
    Tcp,
}

impl Way {
    fn text(self) -> &'static str {
        match self {
            Way::Card => "card",
            Way::WideRings => "card, rings of 512 KiB",
            Way::Tcp => "virtio-net TCP",
        }
    }

    fn arguments(self) -> String {
        match self {
            Way::Card => String::new(),
            Way::WideRings => "--capacity 524288 ".to_owned(),
            Way::Tcp => format!("--tcp {ADDRESS} "),
        }
    }
}

/// Transports for short values.
const SHORT_WAYS: [Way; 2] = [Way::Card, Way::Tcp];
/// Transports for long values.
const LONG_WAYS: [Way; 3] = [Way::Card, Way::WideRings, Way::Tcp];

fn short_name(way: Way, clients: u64) -> String {
    let many = if clients == 1 { "" } else { "s" };
    format!("key-value server, {}: GET of 16 bytes, {clients} client{many}", way.text())
}

fn long_name(way: Way, ask: &str) -> String {
    format!("key-value server, {}: {} of 1 MiB, 1 client", way.text(), ask.to_uppercase())
}

/// Plans requests to a server in the other machine. Each request is made by one client, and the
/// server exits after the last client.
fn exchange(name: String, way: Way, clients: u64, requests: &str) -> Planned {
    let carrier = way.arguments();
    let near = format!("{carrier}crowd --host 1 --clients {clients} {requests}");
    FABRIC.exchange(name, &near, &format!("{carrier}serve --until {clients}")).of(PROGRAM)
}

/// Plans all, card and TCP in turn. Short values are at the number of their clients.
fn plan(effort: Effort) -> Vec<Planned> {
    // The requests of a round, the minimum requests of each client, and the long requests.
    let [requests, of_each, long] = of_three(effort, [[300, 3, 4], [2000, 10, 24], [10_000, 50, 100]]);
    let short = CLIENTS.into_iter().flat_map(|clients| {
        let asked = format!("--warmup {clients} --requests {}", requests.max(of_each * clients));
        SHORT_WAYS.map(|way| exchange(short_name(way, clients), way, clients, &asked).at(way.text(), clients))
    });
    let long = ASKS.into_iter().flat_map(|ask| {
        let asked = format!("--size {LONG} --ask {ask} --warmup 1 --requests {long}");
        LONG_WAYS.map(|way| exchange(long_name(way, ask), way, 1, &asked))
    });
    short.chain(long).collect()
}

/// Draws the time of a request by the number of clients.
fn figure(tracks: &[Track]) -> Figure {
    Figure {
        key: "server",
        title: "A key-value server and its clients",
        answers: "section 6.3",
        note: "The paper has no such figure. GET of 16 bytes; the server is one thread in one machine, all clients are one thread in \
            the other, each with a connection of its own, and each asks again as soon as it is answered. The dotted line is the 99th \
            percentile. Both ends sleep when there is nothing."
            .to_owned(),
        x: ("clients", Scale::Log),
        y: ("request, us", Scale::Log),
        curves: curves(tracks.iter().filter(|track| track.x > 0), Track::p50_us, Track::p99_us),
    }
}

/// Shows the same data in numbers, and long values.
fn tables(tracks: &[Track]) -> [Table; 2] {
    let note = "Card and TCP take turns, between the same two machines. The ratio is the median of the rounds', the spread where \
        that median lies.";
    let short_note =
        format!("{note} All clients ask at the same time, so with many of them a request waits for others.");
    let short = CLIENTS.map(|clients| (clients, SHORT_WAYS.map(|way| short_name(way, clients))));
    let found = |name: &str, of: fn(&Track) -> Option<f64>| known(find(tracks, name).and_then(of));
    let times = |names: &[String; 2]| [0, 1].map(|way| medians(tracks, &names[way]));
    let short = Table::new(
        "The key-value server: GET of 16 bytes",
        &short_note,
        short,
        &[
            ("clients", &|(clients, _)| clients.to_string()),
            ("card: p50, us", &|(_, [card, _])| found(card, Track::p50_us)),
            ("card: p99, us", &|(_, [card, _])| found(card, Track::p99_us)),
            ("card: requests/s", &|(_, [card, _])| found(card, Track::message_rate)),
            ("TCP: p50, us", &|(_, [_, tcp])| found(tcp, Track::p50_us)),
            ("TCP: p99, us", &|(_, [_, tcp])| found(tcp, Track::p99_us)),
            ("TCP: requests/s", &|(_, [_, tcp])| found(tcp, Track::message_rate)),
            ("card's p50 / TCP's", &|(_, names)| ratio(&times(names)[0], &times(names)[1])),
            ("spread", &|(_, names)| spread(&times(names)[0], &times(names)[1])),
        ],
    );
    let long_note = format!(
        "{note} MB/s, one client, one request at a time. The server as it comes has a ring of 8 KiB for each client and \
        direction; TCP's windows are the kernel's. The ratio is that of the larger rings."
    );
    let rates = |ask| LONG_WAYS.map(|way| values(tracks, &long_name(way, ask), Track::rates));
    let mb_per_s = |rates: &[f64]| known(median(rates.to_vec()).map(|rate| rate / 1e6));
    let long = ASKS.map(|ask| (ask, rates(ask)));
    let long = Table::new(
        "The key-value server: values of 1 MiB",
        &long_note,
        long,
        &[
            ("", &|(ask, _)| ask.to_uppercase()),
            ("card", &|(_, [card, ..])| mb_per_s(card)),
            ("card, rings of 512 KiB", &|(_, [_, wide, _])| mb_per_s(wide)),
            ("TCP", &|(_, [.., tcp])| mb_per_s(tcp)),
            ("card / TCP", &|(_, [_, wide, tcp])| ratio(wide, tcp)),
            ("spread", &|(_, [_, wide, tcp])| spread(wide, tcp)),
        ],
    );
    [short, long]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_way_and_clients() {
        let track = |way: Way, clients, us: u64| Track {
            label: way.text().to_owned(),
            x: clients,
            ..Track::of_samples(&short_name(way, clients), &[us * 1000])
        };
        let tracks = [track(Way::Card, 10, 300), track(Way::Tcp, 10, 600), track(Way::Card, 60, 900)];
        let [short, long] = tables(&tracks);
        assert_eq!(short.rows[1][..3], ["10", "300", "300"]);
        assert_eq!(short.rows[1][4..], ["600", "600", "0", "0.5", "0.5 to 0.5"]);
        assert_eq!(short.rows[2][4..], ["?", "?", "?", "", ""], "what was not measured");
        assert_eq!(long.rows[0], ["GET", "?", "?", "?", "", ""]);
        let figure = figure(&tracks);
        assert_eq!(figure.curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [2, 1]);
    }
}
