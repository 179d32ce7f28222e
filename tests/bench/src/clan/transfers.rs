//! One-way bandwidth by message size (section 5.3.2, Figure 10): acknowledged one by one, and
//! streaming. Also determines the size that reaches half of the bandwidth.

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::goals::number;
use crate::engine::machines::{Machines, stream_arguments};
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, interleave};

const ACKNOWLEDGED: &str = "DMA, each acknowledged";
const STREAM: &str = "DMA, streaming";
const DRIVER: &str = "the driver's DMA, streaming";
const STORES: &str = "PIO, streaming";
const HAMLYN: &str = "Hamlyn, messages in packets of 4 KiB";
const TCP: &str = "virtio-net, TCP stream";
const LABELS: [&str; 6] = [ACKNOWLEDGED, STREAM, DRIVER, STORES, HAMLYN, TCP];

/// Maximum bytes of a lap's places, and maximum number of places. The queue of DMA requests has
/// room for each place.
const PLACES: u64 = 2 << 20;
const MOST: u64 = 256;
/// The paper's link with a set-up time of 6 us: its streams approach 900 Mbit/s.
const PAPER_BITS: f64 = 900e6;
const PAPER_SETUP: f64 = 6e-6;
/// Message size in bytes that reaches half of that in the paper.
const PAPER_HALF: f64 = 750.0;

/// A point of a curve.
#[derive(Debug)]
pub(crate) struct Measured {
    label: &'static str,
    size: u64,
    pub(crate) track: Track,
}

fn sizes(effort: Effort) -> Vec<u64> {
    let all = (2..=20).map(|power| 1 << power);
    all.filter(|size: &u64| effort == Effort::Full || size.trailing_zeros() % 2 == 0).collect()
}

/// A transfer as root, which may lock enough memory for a lap.
fn transfer<'a>(clan: &'a Machines, by: &str, (size, count, places): (u64, u64, u64)) -> Exchange<'a> {
    let arguments = format!("--size {size} --places {places} --warmup {places} --count {count} --by {by}");
    clan.exchange_by_root(&format!("transfer-send {arguments}"), &format!("transfer-sink {arguments}"))
}

/// A stream of `count` messages of `size` bytes each, by stores.
pub(crate) fn stores(clan: &Machines, size: u64, count: u64) -> Exchange<'_> {
    transfer(clan, "stores", (size, count, places(size, count)))
}

fn places(size: u64, count: u64) -> u64 {
    (PLACES / size).clamp(1, MOST.min(count))
}

/// Returns all measurements of one message size, with their labels.
fn plans<'a>(
    [clan, hamlyn]: [&'a Machines; 2],
    size: u64,
    effort: Effort,
) -> [(&'static str, Exchange<'a>); 6] {
    let count = (effort.pick(4 << 20, 32 << 20) / size).clamp(8, effort.pick(512, 4096));
    let many = (size, count, places(size, count));
    let arguments = stream_arguments(size, count);
    let tcp = format!("--address {} {arguments}", hamlyn.address());
    [
        (ACKNOWLEDGED, transfer(clan, "dma", (size, count.min(200), 1))),
        (STREAM, transfer(clan, "dma", many)),
        (DRIVER, transfer(clan, "driver", many)),
        (STORES, stores(clan, size, count)),
        (
            HAMLYN,
            hamlyn.exchange_by_root(&format!("card-send {arguments}"), &format!("card-sink {arguments}")),
        ),
        (TCP, hamlyn.exchange(&format!("tcp-send {tcp}"), &format!("tcp-sink {tcp}"))),
    ]
}

/// Measures all sizes, in turn.
pub(crate) fn measure(machines: [&Machines; 2], effort: Effort, progress: &Progress) -> Vec<Measured> {
    let plans = sizes(effort).into_iter().flat_map(|size| {
        plans(machines, size, effort)
            .map(|(label, exchange)| ((label, size), (format!("{label}, {size} bytes"), exchange)))
    });
    let (points, exchanges): (Vec<_>, Vec<_>) = plans.unzip();
    let tracks = interleave(&exchanges, effort.figure_rounds(), progress);
    points.into_iter().zip(tracks).map(|((label, size), track)| Measured { label, size, track }).collect()
}

fn curve(measured: &[Measured], label: &str) -> Curve {
    let own = measured.iter().filter(|one| one.label == label);
    let point = |one: &Measured| Some(Point { x: one.size as f64, y: one.track.rate()? / 1e6, high: None });
    Curve::ours(label, own.filter_map(point).collect())
}

/// Returns the paper's bandwidth of a stream of messages of this size.
fn papers(size: u64) -> Point {
    let bytes = size as f64;
    Point { x: bytes, y: bytes / (bytes * 8.0 / PAPER_BITS + PAPER_SETUP) / 1e6, high: None }
}

/// Draws a curve for each way.
pub(crate) fn figure(measured: &[Measured]) -> Figure {
    let mut sizes: Vec<u64> = measured.iter().map(|one| one.size).collect();
    sizes.dedup();
    let paper = Curve {
        label: "the paper: streaming, 900 Mbit/s with 6 us for each message (5.3.2)".to_owned(),
        points: sizes.into_iter().map(papers).collect(),
        paper: true,
    };
    Figure {
        key: "clan-transfers".to_owned(),
        title: "CLAN: one-way bandwidth by size".to_owned(),
        answers: "Figure 10".to_owned(),
        paper: "One way, in laps whose every byte is looked at, from the first message until the sender hears that the last is there. An \
            acknowledged message is a lap of its own."
            .to_owned(),
        x: ("bytes of a message".to_owned(), Scale::Log),
        y: ("MB/s".to_owned(), Scale::Log),
        curves: LABELS.map(|label| curve(measured, label)).into_iter().chain([paper]).collect(),
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
pub(crate) fn halves(measured: &[Measured]) -> Table {
    let row = |label: &str| {
        let points = curve(measured, label).points;
        let peak = points.iter().map(|point| point.y).reduce(f64::max);
        let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
        let paper = if label == STREAM { number(PAPER_HALF) } else { String::new() };
        vec![label.to_owned(), text(peak), text(half(&points)), paper]
    };
    Table {
        title: "CLAN: the size of half bandwidth".to_owned(),
        note: "The size of messages with which half of the largest bandwidth of the same curve is reached, by the points of the plot."
            .to_owned(),
        head: ["", "largest, MB/s", "half of it with bytes", "the paper's, bytes"].map(str::to_owned).to_vec(),
        rows: LABELS.map(row).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_cover_word_to_mebibyte_within_request_queue() {
        for effort in [Effort::Quick, Effort::Full] {
            let sizes = sizes(effort);
            assert_eq!((sizes[0], sizes[sizes.len() - 1]), (4, 1 << 20));
        }
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
        assert_eq!(halves(&[]).rows[1], [STREAM, "?", "?", "750"]);
    }
}
