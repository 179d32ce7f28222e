//! The common measurements of every card, and the arguments of its programs for them.

use crate::engine::exchange::Exchange;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::report::Table;
use crate::engine::track::{Track, find};

/// A card.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Design {
    /// Its model.
    pub(crate) model: &'static str,
    name: &'static str,
    /// The smallest message that notifies its receiver, and the role with its arguments.
    least: (&'static str, &'static str, &'static str),
    /// A message of 32 bytes with a notification of the receiver.
    block: (&'static str, &'static str),
    /// The same while both ends sleep, if the card's library can sleep at once.
    asleep: Option<(&'static str, &'static str)>,
    /// The role that streams.
    stream: (&'static str, &'static str),
}

/// All designs, in the order of the project.
pub(crate) const DESIGNS: [Design; 4] = [
    Design {
        model: "hamlyn",
        name: "Hamlyn",
        least: ("a tagged write of nothing", "card", "--size 0"),
        block: ("card", "--size 32"),
        asleep: Some(("card", "--size 32 --wait sleep")),
        stream: ("card", ""),
    },
    Design {
        model: "shrimp",
        name: "SHRIMP, by window",
        least: ("a store of 4 bytes", "flag", "--by window"),
        block: ("flag", "--by window --size 32"),
        asleep: None,
        stream: ("update", "--by window"),
    },
    Design {
        model: "clan",
        name: "CLAN",
        least: ("a store of 4 bytes", "word", ""),
        block: ("word", "--size 32"),
        asleep: Some(("word", "--size 32 --wait sleep")),
        stream: ("transfer", "--by dma"),
    },
    Design {
        model: "dart",
        name: "DART",
        least: ("a deposit of 32 bytes", "deposit", ""),
        block: ("deposit", ""),
        asleep: Some(("deposit", "--wait sleep")),
        stream: ("block", ""),
    },
];

/// Bytes of the streamed messages.
pub(crate) const SIZES: [u64; 5] = [64, 1024, 4096, 65536, 1 << 20];
/// The size that shows the cost of a short message.
const SHORT: u64 = SIZES[0];
/// Maximum bytes of a lap's places, and maximum number of places: the same for all cards.
const PLACES: u64 = 2 << 20;
const MOST: u64 = 256;

impl Design {
    fn track(&self, what: &str) -> String {
        format!("{}, {what}", self.name)
    }

    /// Round trips: the smallest message, a block, a block while both ends sleep.
    pub(crate) fn trips<'a>(
        &self,
        machines: &'a Machines,
        many: u64,
        few: u64,
    ) -> Vec<(String, Exchange<'a>)> {
        let trip = |what: &str, (role, more): (&str, &str), count: u64| {
            (self.track(what), machines.round_trips(role, &format!("{more} --count {count}")))
        };
        let (_, role, more) = self.least;
        let awake = [trip(LEAST, (role, more), many), trip(BLOCK, self.block, many)];
        awake.into_iter().chain(self.asleep.map(|role| trip(ASLEEP, role, few))).collect()
    }

    /// A stream of messages of `size` bytes, as root, which may lock enough memory for a lap.
    pub(crate) fn stream<'a>(&self, machines: &'a Machines, size: u64, bytes: u64) -> (String, Exchange<'a>) {
        let count = (bytes / size).clamp(8, 1024);
        let places = (PLACES / size).clamp(1, MOST.min(count));
        let (role, more) = self.stream;
        let arguments = format!("{more} --size {size} --places {places} --warmup {places} --count {count}");
        let near = format!("{role}-send {arguments}");
        (self.track(&streamed(size)), machines.exchange_by_root(&near, &format!("{role}-sink {arguments}")))
    }
}

const LEAST: &str = "the least message, both poll";
const BLOCK: &str = "32 bytes, both poll";
const ASLEEP: &str = "32 bytes, both sleep";

fn streamed(size: u64) -> String {
    format!("stream of {size} bytes")
}

fn text(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// Shows round trips, and the cost of a message to hosts and cards.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let row = |design: &Design| {
        let found = |what: &str| find(tracks, &design.track(what));
        let p50 = |what: &str| found(what).and_then(Track::p50_us);
        let (least, short) = (p50(LEAST), found(&streamed(SHORT)));
        let medians =
            |design: &Design| find(tracks, &design.track(BLOCK)).map(Track::medians_us).unwrap_or_default();
        let [ratio, _] = beside_text(&medians(design), &medians(&DESIGNS[0]));
        let host = short.and_then(Track::cpu_us);
        // Each machine receives one message and sends one.
        let machine = found(ASLEEP).and_then(Track::watched_us).map(|[_, machines]| machines / 2.0);
        let cards = short.and_then(Track::watched_us).map(|[cards, _]| cards);
        vec![
            format!("{}: {}", design.name, design.least.0),
            text(least),
            text(least.map(|least| least / 2.0)),
            text(p50(BLOCK)),
            ratio,
            text(p50(ASLEEP)),
            text(machine),
            text(host.map(|host| host[0])),
            text(host.map(|host| host[1])),
            text(cards),
        ]
    };
    let head = [
        "",
        "round trip, us: p50",
        "one way, us",
        "32 bytes: round trip, us",
        "beside Hamlyn's",
        "both asleep, us",
        "asleep: a machine's time for one that comes and one that goes, us",
        "64 bytes of a stream: the sender's time, us",
        "the receiver's time, us",
        "cards' and switch's time, us",
    ];
    Table {
        title: "The four designs: small messages".to_owned(),
        note: "Medians of one run, all in turn; one way is half of a round trip. Of each message the receiver is told, but for those of a \
            stream, which are data alone: of these the times are processor time, the program's own at each end from the first message \
            until the last has arrived. SHRIMP's library always looks before it sleeps, so it has no figure asleep."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: DESIGNS.iter().map(row).collect(),
    }
}

/// Draws the bandwidth of all designs.
pub(crate) fn figure(tracks: &[Track]) -> Figure {
    let curve = |design: &Design| {
        let point = |size: u64| {
            let rate = find(tracks, &design.track(&streamed(size)))?.rate()?;
            Some(Point { x: size as f64, y: rate / 1e6, high: None })
        };
        Curve::ours(design.name, SIZES.into_iter().filter_map(point).collect())
    };
    Figure {
        key: "compare-streams".to_owned(),
        title: "The four designs: one-way bandwidth".to_owned(),
        answers: "all four".to_owned(),
        paper: "One way, in laps of at most 2 MiB whose every byte is looked at. Hamlyn's messages go in packets of 4 KiB, SHRIMP's are \
            deliberate updates of a page at most, CLAN's go by DMA, DART's are cells."
            .to_owned(),
        x: ("bytes".to_owned(), Scale::Log),
        y: ("MB/s".to_owned(), Scale::Log),
        curves: DESIGNS.iter().map(curve).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_has_a_row_and_a_curve() {
        let trip = |at: usize, what: &str, ns| Track::of_samples(&DESIGNS[at].track(what), &[ns]);
        let mut stream = trip(3, &streamed(SHORT), 1);
        (stream.rounds[0].bytes, stream.rounds[0].ns, stream.rounds[0].messages) = (6400, 100_000, 100);
        stream.rounds[0].cpu_ns = [500_000, 100_000];
        let tracks = [trip(0, BLOCK, 20_000), trip(3, BLOCK, 10_000), trip(3, LEAST, 10_000), stream];
        let table = table(&tracks);
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert_eq!(table.rows[3][1..], ["10", "5", "10", "0.5", "", "", "5", "1", ""]);
        let figure = figure(&tracks);
        assert_eq!(figure.curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [0, 0, 0, 1]);
    }
}
