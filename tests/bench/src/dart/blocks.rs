//! One-way bandwidth by message size, in cells (section 3, Figure 3), compared with Hamlyn's and
//! TCP.

use crate::dart::pairs::{DART, HAMLYN, WIDE};
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::known;
use crate::engine::machines::{ADDRESS, Pair, stream_arguments};
use crate::engine::plan::Planned;
use crate::engine::plot::{Curve, Figure, Point, Scale, curves};
use crate::engine::report::Table;
use crate::engine::track::Track;

const OURS: &str = "DART, 2,048 cells on their way";
const MORE: &str = "DART, 65,536 cells on their way";
const MESSAGES: &str = "Hamlyn, messages in packets of 4 KiB";
const TCP: &str = "virtio-net, TCP stream";

/// Maximum bytes of a lap's places, and maximum number of places. The pages of all places fit in
/// each card's 1,024 translations, so that the benchmark does not measure misses.
const PLACES: u64 = 2 << 20;
const MOST: u64 = 256;
/// The paper's networks, in bit/s. Then the bytes of a cell and those that are payload.
const NETWORKS: [(&str, f64); 2] = [("155 Mbit/s", 155e6), ("622 Mbit/s", 622e6)];
const CELL: u64 = 53;
const PAYLOAD: u64 = 48;
/// Bytes that a control cell carries, and bytes that follow the data of a message of several cells.
const BLOCK: u64 = 32;
const TRAILER: u64 = 8;
/// Maximum bytes of a message.
const LONGEST: u64 = 65_504;

pub(crate) const BLOCKS: Experiment = Experiment {
    name: "blocks",
    title: "DART: one-way bandwidth",
    heading: "DART: one-way bandwidth by size, beside others",
    rounds: Effort::figure_rounds,
    plan,
    figures: |tracks| vec![figure(tracks)],
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

/// Returns the number of cells for `size` bytes.
fn cells(size: u64) -> u64 {
    let of = |size: u64| match size {
        0 => 0,
        1..=BLOCK => 1,
        _ => 1 + (size + TRAILER).div_ceil(PAYLOAD),
    };
    size / LONGEST * of(LONGEST) + of(size % LONGEST)
}

fn plan(effort: Effort) -> Vec<Planned> {
    let of = |size: u64| {
        let count = (effort.pick(8 << 20, 32 << 20) / size).clamp(16, effort.pick(1024, 4096));
        let places = (PLACES / size).clamp(1, MOST.min(count));
        let laps = format!("--size {size} --places {places} --warmup {places} --count {count}");
        let arguments = stream_arguments(size, count);
        let tcp = format!("--address {ADDRESS} {arguments}");
        let name = |label: &str| format!("{label}, {size} bytes");
        let [dart, wide, hamlyn] = [DART, WIDE, HAMLYN].map(Pair::unpinned);
        [
            dart.stream(name(OURS), "block", &laps).at(OURS, size),
            wide.stream(name(MORE), "block", &laps).at(MORE, size),
            hamlyn.stream(name(MESSAGES), "card", &arguments).by_root().at(MESSAGES, size),
            hamlyn.stream(name(TCP), "tcp", &tcp).at(TCP, size),
        ]
    };
    [BLOCK].into_iter().chain(effort.sizes(6)).flat_map(of).collect()
}

/// Returns the bandwidth in MB/s of a cell network for messages of this size.
fn carried(bits: f64, size: u64) -> f64 {
    bits / 8e6 * size as f64 / (cells(size) * CELL) as f64
}

/// Draws a curve for each, and for each network what it carries.
fn figure(tracks: &[Track]) -> Figure {
    let mut curves = curves(tracks, Track::mb_per_s, |_| None);
    curves.extend(NETWORKS.map(|(name, bits)| {
        let sizes = tracks.iter().filter(|track| track.label == OURS).map(|track| track.x);
        let points = sizes.map(|size| Point { x: size as f64, y: carried(bits, size), high: None });
        let label = format!("all that a network of {name} carries (section 3)");
        Curve { label, points: points.collect(), paper: true }
    }));
    Figure {
        key: "dart-blocks",
        title: "DART: one-way bandwidth by size",
        answers: "section 3",
        note: "One way, in laps whose every byte is looked at. A message of 32 bytes is one cell; a longer one is a control cell and AAL5 \
            cells of 48 bytes, at most 65,504 bytes, and more are several messages. The paper has no figure: it takes high bandwidth as \
            solved (section 1)."
            .to_owned(),
        x: ("bytes", Scale::Log),
        y: ("MB/s", Scale::Log),
        curves,
    }
}

/// Returns cells a second.
fn cells_per_s(track: &Track) -> Option<f64> {
    Some(track.rate()? / track.x as f64 * cells(track.x) as f64)
}

/// Shows cells per second.
fn table(tracks: &[Track]) -> Table {
    let note = "As in the plot, with 2,048 cells on their way. The processor time is that of both cards and the switch, in one process.";
    let ours = tracks.iter().filter(|track| track.label == OURS);
    let cpu = |track: &Track| Some(track.watched_us()?[0] / cells(track.x) as f64);
    Table::new(
        "DART: one-way bandwidth in cells",
        note,
        ours,
        &[
            ("bytes", &|track| track.x.to_string()),
            ("cells", &|track| cells(track.x).to_string()),
            ("MB/s", &|track| known(track.mb_per_s())),
            ("thousand cells/s", &|track| known(cells_per_s(track).map(|rate| rate / 1e3))),
            ("Mbit/s of cells", &|track| {
                known(cells_per_s(track).map(|rate| rate * CELL as f64 * 8.0 / 1e6))
            }),
            ("us of cards and switch for each cell", &|track| known(cpu(track))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_as_the_card_makes_them() {
        assert_eq!([32, 33, 40, 41, 65_504, 65_505, 1 << 20].map(cells), [1, 2, 2, 3, 1366, 1367, 21_868]);
    }

    #[test]
    fn network_bandwidth_is_lower_for_small_messages() {
        assert!((carried(155e6, 32) - 155.0 / 8.0 * 32.0 / 53.0).abs() < 1e-9);
        let mut track = Track { label: OURS.to_owned(), x: 32, ..Track::of_samples("x", &[]) };
        (track.rounds[0].bytes, track.rounds[0].ns) = (3200, 100_000);
        let tracks = [track];
        assert_eq!(table(&tracks).rows[0][..5], ["32", "1", "32", "1000", "424"]);
        let all: Vec<Track> = plan(Effort::Quick).iter().map(Planned::made_up).collect();
        assert_eq!(figure(&all).curves.len(), 6);
    }
}
