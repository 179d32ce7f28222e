//! The common measurements of every card, and the arguments of its programs for them.

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{ratio, text};
use crate::engine::machines::Pair;
use crate::engine::plan::Planned;
use crate::engine::plot::{Figure, Scale, curves};
use crate::engine::report::Table;
use crate::engine::track::{Track, find, medians, values};

/// A card.
#[derive(Debug, Clone, Copy)]
struct Design {
    /// Its model.
    model: &'static str,
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
const DESIGNS: [Design; 4] = [
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
const SIZES: [u64; 5] = [64, 1024, 4096, 65536, 1 << 20];
/// The size that shows the cost of a short message.
const SHORT: u64 = SIZES[0];
/// Maximum bytes of a lap's places, and maximum number of places: the same for all cards.
const PLACES: u64 = 2 << 20;
const MOST: u64 = 256;

impl Design {
    fn track(&self, what: &str) -> String {
        format!("{}, {what}", self.name)
    }

    /// Returns machines for a comparison of all designs.
    fn pair(&self) -> Pair {
        Pair::other(self.model)
    }

    /// Plans round trips: the smallest message, a block, a block while both ends sleep; and the
    /// latter two by a channel.
    fn trips(&self, effort: Effort) -> impl Iterator<Item = Planned> {
        let (many, few) = (effort.pick(2000, 10_000), effort.pick(400, 2000));
        let trip = |what: &str, (role, more): (&str, &str), count: u64| {
            self.pair().trips(self.track(what), role, &format!("{more} --count {count}"))
        };
        let (_, role, more) = self.least;
        let awake = [trip(LEAST, (role, more), many), trip(BLOCK, self.block, many)];
        let channels = [trip(CHANNEL, BY_CHANNEL, many), trip(CHANNEL_ASLEEP, BY_CHANNEL_ASLEEP, few)];
        awake.into_iter().chain(self.asleep.map(|role| trip(ASLEEP, role, few))).chain(channels)
    }

    /// Plans streams of messages of `size` bytes by the card's own means and by a channel, as root,
    /// which may lock enough memory for a lap.
    fn streams(&self, size: u64, effort: Effort) -> [Planned; 2] {
        let count = (effort.pick(8 << 20, 32 << 20) / size).clamp(8, 1024);
        let places = (PLACES / size).clamp(1, MOST.min(count));
        let laps = format!("--size {size} --places {places} --warmup {places} --count {count}");
        let stream = |what: &str, (role, more): (&str, &str)| {
            let planned = self.pair().unpinned().stream(self.track(what), role, &format!("{more} {laps}"));
            planned.by_root().at(self.name, size)
        };
        // Room for several messages, but little more than a lap: a DART card has translations of
        // 1024 pages.
        let capacity = (16 * size).clamp(256 << 10, PLACES).max(2 * size + 4096);
        let channel = format!("--through card --wait yield --capacity {capacity}");
        [
            stream(&streamed(size), self.stream),
            stream(&streamed_by_channel(size), ("channel", &channel)).on(BY_CHANNEL_KEY),
        ]
    }
}

const SHOWN: Experiment = Experiment {
    heading: "The four designs",
    figures: |tracks| vec![figure(tracks, ""), figure(tracks, BY_CHANNEL_KEY)],
    tables: |tracks| vec![table(tracks), channels(tracks)],
    ..Experiment::NEW
};

pub(crate) const TRIPS: Experiment = Experiment {
    title: "the four designs: round trips",
    plan: |effort| DESIGNS.iter().flat_map(|design| design.trips(effort)).collect(),
    ..SHOWN
};

pub(crate) const STREAMS: Experiment = Experiment {
    title: "the four designs: streams",
    rounds: Effort::figure_rounds,
    plan: |effort| {
        SIZES
            .iter()
            .flat_map(|size| DESIGNS.iter().flat_map(|design| design.streams(*size, effort)))
            .collect()
    },
    ..SHOWN
};

const LEAST: &str = "the least message, both poll";
const BLOCK: &str = "32 bytes, both poll";
const ASLEEP: &str = "32 bytes, both sleep";
const CHANNEL: &str = "32 bytes by a channel, both poll";
const CHANNEL_ASLEEP: &str = "32 bytes by a channel, both sleep";
/// The roles of a channel of 32 bytes.
const BY_CHANNEL: (&str, &str) = ("channel", "--through card --size 32");
const BY_CHANNEL_ASLEEP: (&str, &str) = ("channel", "--through card --size 32 --wait sleep");
/// Key of the plot of channels' streams.
const BY_CHANNEL_KEY: &str = "channels";

fn streamed(size: u64) -> String {
    format!("stream of {size} bytes")
}

fn streamed_by_channel(size: u64) -> String {
    format!("stream of {size} bytes by a channel")
}

/// Shows round trips, and the cost of a message to hosts and cards.
fn table(tracks: &[Track]) -> Table {
    let found = |design: &Design, what: &str| find(tracks, &design.track(what));
    let p50 = |design: &Design, what: &str| found(design, what)?.p50_us();
    let blocks = |design: &Design| medians(tracks, &design.track(BLOCK));
    let short = streamed(SHORT);
    let host = |design: &Design, end: usize| Some(found(design, &short)?.cpu_us()?[end]);
    let cards = |design: &Design| Some(found(design, &short)?.watched_us()?[0]);
    // Each machine receives one message and sends one.
    let machine = |design: &Design| Some(found(design, ASLEEP)?.watched_us()?[1] / 2.0);
    let note = "Medians of one run, all in turn; one way is half of a round trip. Of each message the receiver is told, but for those of a \
        stream, which are data alone: of these the times are processor time, the program's own at each end from the first message \
        until the last has arrived. SHRIMP's library always looks before it sleeps, so it has no figure asleep.";
    Table::new(
        "The four designs: small messages",
        note,
        &DESIGNS,
        &[
            ("", &|design| format!("{}: {}", design.name, design.least.0)),
            ("round trip, us: p50", &|design| text(p50(design, LEAST))),
            ("one way, us", &|design| text(p50(design, LEAST).map(|trip| trip / 2.0))),
            ("32 bytes: round trip, us", &|design| text(p50(design, BLOCK))),
            ("beside Hamlyn's", &|design| ratio(&blocks(design), &blocks(&DESIGNS[0]))),
            ("both asleep, us", &|design| text(p50(design, ASLEEP))),
            ("asleep: a machine's time for one that comes and one that goes, us", &|design| {
                text(machine(design))
            }),
            ("64 bytes of a stream: the sender's time, us", &|design| text(host(design, 0))),
            ("the receiver's time, us", &|design| text(host(design, 1))),
            ("cards' and switch's time, us", &|design| text(cards(design))),
        ],
    )
}

/// Compares channels with the cards' own means.
fn channels(tracks: &[Track]) -> Table {
    let found = |design: &Design, what: &str| medians(tracks, &design.track(what));
    let trips =
        |design: &Design, own: &str, channel: &str| ratio(&found(design, channel), &found(design, own));
    let rates = |design: &Design, what: &str| values(tracks, &design.track(what), Track::rates);
    let streams = |design: &Design, size: u64| {
        ratio(&rates(design, &streamed_by_channel(size)), &rates(design, &streamed(size)))
    };
    let p50 = |design: &Design, what: &str| text(find(tracks, &design.track(what)).and_then(Track::p50_us));
    let note = "The same message by a channel of the library, and by what the card has of its own, in turn in one run: round trips of 32 bytes \
        (below 1: the channel is faster) and streams (above 1: the channel is faster). A channel's message always comes with its length \
        and a notification, and its receiver copies it out and gives credit; a stream by the card's own means is data alone.";
    Table::new(
        "Channels beside the cards' own means",
        note,
        &DESIGNS,
        &[
            ("", &|design| design.name.to_owned()),
            ("32 bytes by a channel, both poll, us", &|design| p50(design, CHANNEL)),
            ("beside the card's own", &|design| trips(design, BLOCK, CHANNEL)),
            ("both asleep, us", &|design| p50(design, CHANNEL_ASLEEP)),
            ("beside the card's own", &|design| trips(design, ASLEEP, CHANNEL_ASLEEP)),
            ("stream of 64 bytes", &|design| streams(design, SIZES[0])),
            ("of 1 KiB", &|design| streams(design, SIZES[1])),
            ("of 4 KiB", &|design| streams(design, SIZES[2])),
            ("of 64 KiB", &|design| streams(design, SIZES[3])),
            ("of 1 MiB", &|design| streams(design, SIZES[4])),
        ],
    )
}

/// Draws the bandwidth of all designs: of their own means, or of channels.
fn figure(tracks: &[Track], plot: &str) -> Figure {
    let is_shown =
        |track: &&Track| track.plot == plot && DESIGNS.iter().any(|design| design.name == track.label);
    let streams = tracks.iter().filter(is_shown);
    let (key, title, note) = if plot == BY_CHANNEL_KEY {
        (
            "compare-channels",
            "The four designs: one-way bandwidth of channels",
            "One way, in laps of at most 2 MiB whose every byte is copied in, copied out and looked at.",
        )
    } else {
        (
            "compare-streams",
            "The four designs: one-way bandwidth",
            "One way, in laps of at most 2 MiB whose every byte is looked at. Hamlyn's messages go in packets of 4 KiB, SHRIMP's are \
            deliberate updates of a page at most, CLAN's go by DMA, DART's are cells.",
        )
    };
    Figure {
        key,
        title,
        answers: "all four",
        note: note.to_owned(),
        x: ("bytes", Scale::Log),
        y: ("MB/s", Scale::Log),
        curves: curves(streams, Track::mb_per_s, |_| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_has_a_row_and_a_curve() {
        let trip = |at: usize, what: &str, ns| Track::of_samples(&DESIGNS[at].track(what), &[ns]);
        let mut stream = trip(3, &streamed(SHORT), 1);
        (stream.label, stream.x) = (DESIGNS[3].name.to_owned(), SHORT);
        (stream.rounds[0].bytes, stream.rounds[0].ns, stream.rounds[0].messages) = (6400, 100_000, 100);
        stream.rounds[0].cpu_ns = [500_000, 100_000];
        let others = [0, 1, 2].map(|at| Track { label: DESIGNS[at].name.to_owned(), ..Track::new("stream") });
        let tracks = [trip(0, BLOCK, 20_000), trip(3, BLOCK, 10_000), trip(3, LEAST, 10_000), stream];
        let table = table(&tracks);
        assert_eq!(table.rows[3][1..], ["10", "5", "10", "0.5", "", "", "5", "1", ""]);
        let figure = figure(&others.into_iter().chain(tracks).collect::<Vec<_>>(), "");
        assert_eq!(figure.curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [0, 0, 0, 1]);
    }
}
