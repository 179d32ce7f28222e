//! One-way bandwidth by message size (section 5.3.2, Figure 10): acknowledged one by one, and
//! streaming. Also determines the size that reaches half of the bandwidth.

use crate::clan::pairs::{self, CLAN};
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{known, number};
use crate::engine::machines::{ADDRESS, Pair, stream_arguments};
use crate::engine::plan::Planned;
use crate::engine::plot::{Curve, Figure, Point, Scale, curves};
use crate::engine::report::Table;
use crate::engine::track::Track;

const ACKNOWLEDGED: &str = "DMA, each acknowledged";
const STREAM: &str = "DMA, streaming";
const DRIVER: &str = "the driver's DMA, streaming";
const STORES: &str = "PIO, streaming";
const HAMLYN: &str = "Hamlyn, messages in packets of 4 KiB";
const TCP: &str = "virtio-net, TCP stream";

/// Maximum bytes of a lap's places, and maximum number of places. The queue of DMA requests has
/// room for each place.
const PLACES: u64 = 2 << 20;
const MOST: u64 = 256;
/// The paper's link with a set-up time of 6 us: its streams approach 900 Mbit/s.
const PAPER_BITS: f64 = 900e6;
const PAPER_SETUP: f64 = 6e-6;
/// Message size in bytes that reaches half of that in the paper.
const PAPER_HALF: f64 = 750.0;

pub(crate) const TRANSFERS: Experiment = Experiment {
    name: "transfers",
    title: "CLAN: one-way bandwidth",
    heading: "CLAN: one-way bandwidth by size, beside others",
    rounds: Effort::figure_rounds,
    plan,
    figures: |tracks| vec![figure(tracks)],
    tables: |tracks| vec![halves(&points(tracks))],
    ..Experiment::NEW
};

/// A transfer as root, which may lock enough memory for a lap.
fn transfer(pair: Pair, name: String, by: &str, (size, count, places): (u64, u64, u64)) -> Planned {
    let arguments = format!("--size {size} --places {places} --warmup {places} --count {count} --by {by}");
    pair.stream(name, "transfer", &arguments).by_root()
}

/// A stream of `count` messages of `size` bytes each, by stores.
pub(crate) fn stores(pair: Pair, name: String, size: u64, count: u64) -> Planned {
    transfer(pair, name, "stores", (size, count, places(size, count)))
}

fn places(size: u64, count: u64) -> u64 {
    (PLACES / size).clamp(1, MOST.min(count))
}

fn plan(effort: Effort) -> Vec<Planned> {
    let [clan, hamlyn] = [CLAN, pairs::HAMLYN].map(Pair::unpinned);
    let of = |size: u64| {
        let count = (effort.pick(4 << 20, 32 << 20) / size).clamp(8, effort.pick(512, 4096));
        let many = (size, count, places(size, count));
        let name = |label: &str| format!("{label}, {size} bytes");
        let arguments = stream_arguments(size, count);
        let tcp = format!("--address {ADDRESS} {arguments}");
        [
            transfer(clan, name(ACKNOWLEDGED), "dma", (size, count.min(200), 1)).at(ACKNOWLEDGED, size),
            transfer(clan, name(STREAM), "dma", many).at(STREAM, size),
            transfer(clan, name(DRIVER), "driver", many).at(DRIVER, size),
            stores(clan, name(STORES), size, count).at(STORES, size),
            hamlyn.stream(name(HAMLYN), "card", &arguments).by_root().at(HAMLYN, size),
            hamlyn.stream(name(TCP), "tcp", &tcp).at(TCP, size),
        ]
    };
    effort.sizes(2).flat_map(of).collect()
}

/// Returns a curve for each way.
fn points(tracks: &[Track]) -> Vec<Curve> {
    curves(tracks, Track::mb_per_s, |_| None)
}

/// Returns the paper's bandwidth of a stream of messages of this size.
fn papers(size: u64) -> Point {
    let bytes = size as f64;
    Point { x: bytes, y: bytes / (bytes * 8.0 / PAPER_BITS + PAPER_SETUP) / 1e6, high: None }
}

fn figure(tracks: &[Track]) -> Figure {
    let streams = tracks.iter().filter(|track| track.label == STREAM);
    let paper = Curve {
        label: "the paper: streaming, 900 Mbit/s with 6 us for each message (5.3.2)".to_owned(),
        points: streams.map(|track| papers(track.x)).collect(),
        paper: true,
    };
    Figure {
        key: "clan-transfers",
        title: "CLAN: one-way bandwidth by size",
        answers: "Figure 10",
        note: "One way, in laps whose every byte is looked at, from the first message until the sender hears that the last is there. An \
            acknowledged message is a lap of its own."
            .to_owned(),
        x: ("bytes of a message", Scale::Log),
        y: ("MB/s", Scale::Log),
        curves: points(tracks).into_iter().chain([paper]).collect(),
    }
}

/// Returns the size from which a curve has at least half of its peak. Interpolates linearly in
/// logarithms between the two points around that value.
fn half(points: &[Point]) -> Option<f64> {
    let peak = points.iter().map(|point| point.y).fold(0.0, f64::max);
    let at = points.iter().position(|point| point.y >= peak / 2.0)?;
    let Some(before) = at.checked_sub(1).map(|before| points[before]) else { return Some(points[0].x) };
    let behind = points[at];
    let part = (peak / 2.0 / before.y).ln() / (behind.y / before.y).ln();
    Some(before.x * (behind.x / before.x).powf(part))
}

/// Shows the sizes of half bandwidth.
fn halves(curves: &[Curve]) -> Table {
    let note = "The size of messages with which half of the largest bandwidth of the same curve is reached, by the points of the plot.";
    let peak = |curve: &Curve| curve.points.iter().map(|point| point.y).reduce(f64::max);
    Table::new(
        "CLAN: the size of half bandwidth",
        note,
        curves,
        &[
            ("", &|curve| curve.label.clone()),
            ("largest, MB/s", &|curve| known(peak(curve))),
            ("half of it with bytes", &|curve| known(half(&curve.points))),
            ("the paper's, bytes", &|curve| {
                if curve.label == STREAM { number(PAPER_HALF) } else { String::new() }
            }),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_fit_into_the_request_queue() {
        assert_eq!((places(4, 512), places(1 << 20, 8), places(64 << 10, 8)), (256, 2, 8));
    }

    #[test]
    fn half_bandwidth_is_found_between_two_points() {
        let points = |values: &[(f64, f64)]| {
            values.iter().map(|(x, y)| Point { x: *x, y: *y, high: None }).collect::<Vec<_>>()
        };
        let found = |values: &[(f64, f64)]| half(&points(values)).unwrap();
        assert!((found(&[(64.0, 10.0), (256.0, 40.0), (1024.0, 80.0)]) - 256.0).abs() < 1e-6);
        assert!((found(&[(64.0, 10.0), (256.0, 40.0), (1024.0, 40.0)]) - 128.0).abs() < 1e-6);
        assert!((found(&[(64.0, 30.0), (256.0, 40.0)]) - 64.0).abs() < 1e-6, "with the smallest already");
        assert_eq!(half(&[]), None);
    }

    #[test]
    fn paper_curve_has_half_bandwidth_at_its_size() {
        let found = half(&(2..=20).map(|power| papers(1 << power)).collect::<Vec<_>>()).unwrap();
        assert!((found / PAPER_HALF - 1.0).abs() < 0.15, "{found}");
        assert_eq!(halves(&[Curve::ours(STREAM, Vec::new())]).rows[0], [STREAM, "?", "?", "750"]);
    }
}
