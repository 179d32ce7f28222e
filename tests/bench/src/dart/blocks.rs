//! One-way bandwidth by message size, in cells (section 3, Figure 3), compared with Hamlyn's and
//! TCP.

use crate::dart::labs::WIDE;
use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::goals::number;
use crate::engine::machines::{Machines, stream_arguments};
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, interleave};

const DART: &str = "DART, 2,048 cells on their way";
const MORE: &str = "DART, 65,536 cells on their way";
const HAMLYN: &str = "Hamlyn, messages in packets of 4 KiB";
const TCP: &str = "virtio-net, TCP stream";
const LABELS: [&str; 4] = [DART, MORE, HAMLYN, TCP];

const _: () = assert!(WIDE == 65536);

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

/// A point of a curve.
#[derive(Debug)]
pub(crate) struct Measured {
    label: &'static str,
    size: u64,
    pub(crate) track: Track,
}

fn sizes(effort: Effort) -> Vec<u64> {
    let all = (5..=20).map(|power| 1 << power);
    all.filter(|size: &u64| effort == Effort::Full || size.trailing_zeros() % 2 == 0 || *size == 32).collect()
}

/// Returns the number of cells for `size` bytes.
fn cells(size: u64) -> u64 {
    let of = |size: u64| match size {
        0 => 0,
        1..=BLOCK => 1,
        _ => 1 + (size + TRAILER).div_ceil(PAYLOAD),
    };
    size / LONGEST * of(LONGEST) + of(size % LONGEST)
}

/// A stream in laps between these machines.
pub(crate) fn stream(machines: &Machines, size: u64, count: u64) -> Exchange<'_> {
    let places = (PLACES / size).clamp(1, MOST.min(count));
    let arguments = format!("--size {size} --places {places} --warmup {places} --count {count}");
    machines.exchange(&format!("block-send {arguments}"), &format!("block-sink {arguments}"))
}

/// Measures all sizes, in turn.
pub(crate) fn measure(
    [dart, wide, hamlyn]: [&Machines; 3],
    effort: Effort,
    progress: &Progress,
) -> Vec<Measured> {
    let plans = sizes(effort).into_iter().flat_map(|size| {
        let count = (effort.pick(8 << 20, 32 << 20) / size).clamp(16, effort.pick(1024, 4096));
        let arguments = stream_arguments(size, count);
        let tcp = format!("--address {} {arguments}", hamlyn.address());
        let exchanges = [
            (DART, stream(dart, size, count)),
            (MORE, stream(wide, size, count)),
            (
                HAMLYN,
                hamlyn.exchange_by_root(&format!("card-send {arguments}"), &format!("card-sink {arguments}")),
            ),
            (TCP, hamlyn.exchange(&format!("tcp-send {tcp}"), &format!("tcp-sink {tcp}"))),
        ];
        exchanges.map(|(label, exchange)| ((label, size), (format!("{label}, {size} bytes"), exchange)))
    });
    let (points, exchanges): (Vec<_>, Vec<_>) = plans.unzip();
    let tracks = interleave(&exchanges, effort.figure_rounds(), progress);
    points.into_iter().zip(tracks).map(|((label, size), track)| Measured { label, size, track }).collect()
}

fn point(one: &Measured) -> Option<Point> {
    Some(Point { x: one.size as f64, y: one.track.rate()? / 1e6, high: None })
}

/// Returns the bandwidth in MB/s of a cell network for messages of this size.
fn carried(bits: f64, size: u64) -> f64 {
    bits / 8e6 * size as f64 / (cells(size) * CELL) as f64
}

/// Draws a curve for each.
pub(crate) fn figure(measured: &[Measured]) -> Figure {
    let curve = |label: &str| {
        let own = measured.iter().filter(|one| one.label == label);
        Curve::ours(label, own.filter_map(point).collect())
    };
    let mut sizes: Vec<u64> = measured.iter().map(|one| one.size).collect();
    sizes.dedup();
    let network = |(name, bits): (&str, f64)| Curve {
        label: format!("all that a network of {name} carries (section 3)"),
        points: sizes
            .iter()
            .map(|size| Point { x: *size as f64, y: carried(bits, *size), high: None })
            .collect(),
        paper: true,
    };
    Figure {
        key: "dart-blocks".to_owned(),
        title: "DART: one-way bandwidth by size".to_owned(),
        answers: "section 3".to_owned(),
        paper: "One way, in laps whose every byte is looked at. A message of 32 bytes is one cell; a longer one is a control cell and AAL5 \
            cells of 48 bytes, at most 65,504 bytes, and more are several messages. The paper has no figure: it takes high bandwidth as \
            solved (section 1)."
            .to_owned(),
        x: ("bytes".to_owned(), Scale::Log),
        y: ("MB/s".to_owned(), Scale::Log),
        curves: LABELS.map(curve).into_iter().chain(NETWORKS.map(network)).collect(),
    }
}

/// Shows cells per second.
pub(crate) fn table(measured: &[Measured]) -> Table {
    let row = |one: &Measured| {
        let rate = one.track.rate();
        let cells = cells(one.size);
        let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
        let each = rate.map(|rate| rate / one.size as f64 * cells as f64);
        let cpu = one.track.watched_us().map(|[service, _]| service / cells as f64);
        vec![
            one.size.to_string(),
            cells.to_string(),
            text(rate.map(|rate| rate / 1e6)),
            text(each.map(|each| each / 1e3)),
            text(each.map(|each| each * CELL as f64 * 8.0 / 1e6)),
            text(cpu),
        ]
    };
    let head = [
        "bytes",
        "cells",
        "MB/s",
        "thousand cells/s",
        "Mbit/s of cells",
        "us of cards and switch for each cell",
    ];
    Table {
        title: "DART: one-way bandwidth in cells".to_owned(),
        note: "As in the plot, with 2,048 cells on their way. The processor time is that of both cards and the switch, in one process."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: measured.iter().filter(|one| one.label == DART).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_as_the_card_makes_them() {
        assert_eq!([32, 33, 40, 41, 65_504, 65_505, 1 << 20].map(cells), [1, 2, 2, 3, 1366, 1367, 21_868]);
    }

    #[test]
    fn sizes_go_from_a_block_to_a_mebibyte() {
        for effort in [Effort::Quick, Effort::Full] {
            let sizes = sizes(effort);
            assert_eq!((sizes[0], sizes[sizes.len() - 1]), (32, 1 << 20));
        }
    }

    #[test]
    fn network_bandwidth_is_lower_for_small_messages() {
        assert!((carried(155e6, 32) - 155.0 / 8.0 * 32.0 / 53.0).abs() < 1e-9);
        let mut track = Track::of_samples("x", &[]);
        (track.rounds[0].bytes, track.rounds[0].ns) = (3200, 100_000);
        let measured = [Measured { label: DART, size: 32, track }];
        assert_eq!(table(&measured).rows[0][..5], ["32", "1", "32", "1000", "424"]);
        assert_eq!(figure(&measured).curves.len(), 6);
    }
}
