//! A whole program between two machines: the key-value server of docs/programming.md, with its
//! clients, over the card and over TCP. The programs differ only in their transport.

use crate::engine::exchange::Exchange;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::stats::median;
use crate::engine::track::{Track, find, interleave};

/// The library's example, which every guest image contains.
const PROGRAM: &str = "kv-server";

/// Numbers of clients, each with a separate connection, which all send requests at the same time.
const CLIENTS: [u64; 4] = [1, 10, 60, 200];
/// The cards' room for the channels of all clients.
pub const CARD_ARGS: [&str; 4] = ["--queues", "1024", "--termini", "128"];
/// Bytes of a long value.
const LONG: u64 = 1 << 20;
/// The requests for a long value.
const ASKS: [&str; 2] = ["get", "put"];

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// In a run with other measurements.
    Brief,
    /// In a run of its own.
    Usual,
    /// With more rounds.
    Full,
}

impl Length {
    fn rounds(self) -> usize {
        match self {
            Length::Brief => 2,
            Length::Usual => 5,
            Length::Full => 10,
        }
    }

    /// Returns the requests of a round, the minimum requests of each client, and the long requests
    /// of a round.
    fn requests(self) -> [u64; 3] {
        match self {
            Length::Brief => [300, 3, 4],
            Length::Usual => [2000, 10, 24],
            Length::Full => [10_000, 50, 100],
        }
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

    fn arguments(self, machines: &Machines) -> String {
        match self {
            Way::Card => String::new(),
            Way::WideRings => "--capacity 524288 ".to_owned(),
            Way::Tcp => format!("--tcp {} ", machines.address()),
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

/// Prepares requests to a server in the other machine. Each request is made by one client, and the
/// server exits after the last client.
fn exchange<'a>(machines: &'a Machines, way: Way, clients: u64, plan: &str) -> Exchange<'a> {
    let carrier = way.arguments(machines);
    let near = format!("{carrier}crowd --host 1 --clients {clients} {plan}");
    let far = format!("{carrier}serve --until {clients}");
    machines.exchange(&near, &far).of(PROGRAM)
}

/// Measures all, card and TCP in turn.
pub fn measure(machines: &Machines, length: Length, progress: &Progress) -> Vec<Track> {
    let [requests, of_each, long_requests] = length.requests();
    let mut exchanges = Vec::new();
    for clients in CLIENTS {
        let plan = format!("--warmup {clients} --requests {}", requests.max(of_each * clients));
        for way in SHORT_WAYS {
            exchanges.push((short_name(way, clients), exchange(machines, way, clients, &plan)));
        }
    }
    for ask in ASKS {
        let plan = format!("--size {LONG} --ask {ask} --warmup 1 --requests {long_requests}");
        for way in LONG_WAYS {
            exchanges.push((long_name(way, ask), exchange(machines, way, 1, &plan)));
        }
    }
    let mut tracks = interleave(&exchanges, length.rounds(), progress);
    // The byte rate of short values has no meaning.
    let short = CLIENTS.len() * SHORT_WAYS.len();
    let rounds = tracks.iter_mut().take(short).flat_map(|track| &mut track.rounds);
    rounds.for_each(|round| round.bytes = 0);
    tracks
}

/// Draws the time of a request by the number of clients.
pub fn figure(tracks: &[Track]) -> Figure {
    let curve = |way: Way| {
        let point = |clients: u64| {
            let track = find(tracks, &short_name(way, clients))?;
            Some(Point { x: clients as f64, y: track.p50_us()?, high: Some(track.latency()?.p99) })
        };
        Curve::ours(way.text(), CLIENTS.into_iter().filter_map(point).collect())
    };
    Figure {
        key: "server".to_owned(),
        title: "A key-value server and its clients".to_owned(),
        answers: "section 6.3".to_owned(),
        paper: "The paper has no such figure. GET of 16 bytes; the server is one thread in one machine, all clients are one thread in \
            the other, each with a connection of its own, and each asks again as soon as it is answered. The dotted line is the 99th \
            percentile. Both ends sleep when there is nothing."
            .to_owned(),
        x: ("clients".to_owned(), Scale::Log),
        y: ("request, us".to_owned(), Scale::Log),
        curves: SHORT_WAYS.map(curve).to_vec(),
    }
}

/// Shows the same data in numbers, and long values.
pub fn tables(tracks: &[Track]) -> [Table; 2] {
    let head = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let note = "Card and TCP take turns, between the same two machines. The ratio is the median of the rounds', the spread where \
        that median lies.";
    let short = Table {
        title: "The key-value server: GET of 16 bytes".to_owned(),
        note: format!(
            "{note} All clients ask at the same time, so with many of them a request waits for others."
        ),
        head: head(&[
            "clients",
            "card: p50, us",
            "card: p99, us",
            "card: requests/s",
            "TCP: p50, us",
            "TCP: p99, us",
            "TCP: requests/s",
            "card's p50 / TCP's",
            "spread",
        ]),
        rows: CLIENTS.iter().map(|clients| short_row(tracks, *clients)).collect(),
    };
    let long = Table {
        title: "The key-value server: values of 1 MiB".to_owned(),
        note: format!(
            "{note} MB/s, one client, one request at a time. The server as it comes has a ring of 8 KiB for each client and \
            direction; TCP's windows are the kernel's. The ratio is that of the larger rings."
        ),
        head: head(&["", "card", "card, rings of 512 KiB", "TCP", "card / TCP", "spread"]),
        rows: ASKS.iter().map(|ask| long_row(tracks, ask)).collect(),
    };
    [short, long]
}

fn short_row(tracks: &[Track], clients: u64) -> Vec<String> {
    let found = SHORT_WAYS.map(|way| find(tracks, &short_name(way, clients)));
    let cells = found.into_iter().flat_map(|track| {
        let rate = track.and_then(|track| median(track.message_rates()));
        [track.and_then(Track::p50_us), track.and_then(|track| Some(track.latency()?.p99)), rate].map(text)
    });
    let [card, tcp] = found.map(|track| track.map(Track::medians_us).unwrap_or_default());
    [clients.to_string()].into_iter().chain(cells).chain(beside_text(&card, &tcp)).collect()
}

fn long_row(tracks: &[Track], ask: &str) -> Vec<String> {
    let rates = LONG_WAYS.map(|way| {
        let track = find(tracks, &long_name(way, ask));
        track.map(Track::rates).unwrap_or_default().into_iter().map(|rate| rate / 1e6).collect::<Vec<_>>()
    });
    let cells = rates.iter().map(|rates| text(median(rates.clone())));
    let name = ask.to_uppercase();
    [name].into_iter().chain(cells).chain(beside_text(&rates[1], &rates[2])).collect()
}

fn text(value: Option<f64>) -> String {
    value.map_or_else(|| "?".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_way_and_clients() {
        let track = |way, clients, us: u64| Track::of_samples(&short_name(way, clients), &[us * 1000]);
        let tracks = [track(Way::Card, 10, 300), track(Way::Tcp, 10, 600), track(Way::Card, 60, 900)];
        let [short, long] = tables(&tracks);
        assert_eq!(short.rows[1][..3], ["10", "300", "300"]);
        assert_eq!(short.rows[1][4..], ["600", "600", "0", "0.5", "0.5 to 0.5"]);
        assert_eq!(short.rows[2][4..], ["?", "?", "?", "", ""], "what was not measured");
        assert!(short.rows.iter().all(|row| row.len() == short.head.len()));
        assert!(long.rows.iter().all(|row| row.len() == long.head.len()));
        let figure = figure(&tracks);
        assert_eq!(figure.curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [2, 1]);
    }
}
