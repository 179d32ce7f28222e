//! Bandwidth of deliberate update by size (section 4.3), compared with Hamlyn's messages and TCP.

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::machines::{Machines, stream_arguments};
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::track::{Track, interleave};
use crate::shrimp::labs::Labs;

/// Maximum bytes of a lap's places: the maximum of an export, less the page of the flags.
const PLACES: u64 = (4 << 20) - 4096;
/// Maximum number of small updates in a lap.
const MOST: u64 = 256;
/// The paper's peak, limited by its I/O bus, in MB/s (section 5.1).
const PAPER: f64 = 33.0;

/// A point of a curve: the curve's label, the size, and the measurement.
#[derive(Debug)]
pub(crate) struct Measured {
    label: &'static str,
    size: u64,
    pub(crate) track: Track,
}

const TCP: &str = "virtio-net, TCP stream";
const HAMLYN: &str = "Hamlyn, messages in packets of 4 KiB";

fn sizes(effort: Effort) -> Vec<u64> {
    let all = (2..=20).map(|power| 1 << power);
    all.filter(|size: &u64| effort == Effort::Full || size.trailing_zeros() % 2 == 0).collect()
}

/// Returns both ends' arguments for a program that makes laps.
pub(crate) fn lap_arguments(size: u64, count: u64) -> String {
    let places = (PLACES / size).clamp(1, MOST.min(count));
    format!("--size {size} --places {places} --warmup {places} --count {count}")
}

/// A stream as root, which may lock enough memory for a lap.
pub(crate) fn stream<'a>(machines: &'a Machines, role: &str, arguments: &str) -> Exchange<'a> {
    machines.exchange_by_root(&format!("{role}-send {arguments}"), &format!("{role}-sink {arguments}"))
}

/// Measures all sizes, in turn.
pub(crate) fn measure(labs: &Labs, effort: Effort, progress: &Progress) -> Vec<Measured> {
    let mut plans = Vec::new();
    for size in sizes(effort) {
        let count = (effort.pick(8 << 20, 32 << 20) / size).clamp(16, effort.pick(512, 4096));
        for (way, by_way, machines) in labs.ways() {
            let label = if by_way == "snoop" {
                "deliberate update, stores snooped"
            } else {
                "deliberate update, no plugin"
            };
            let arguments = format!("{} --by {by_way}", lap_arguments(size, count));
            plans.push((
                label,
                size,
                format!("deliberate update, {size} bytes, machines {way}"),
                stream(machines, "update", &arguments),
            ));
        }
        let hamlyn = stream(&labs.hamlyn, "card", &stream_arguments(size, count));
        plans.push((HAMLYN, size, format!("{HAMLYN}, {size} bytes"), hamlyn));
        let tcp = format!("--address {} {}", labs.hamlyn.address(), stream_arguments(size, count));
        let tcp = labs.hamlyn.exchange(&format!("tcp-send {tcp}"), &format!("tcp-sink {tcp}"));
        plans.push((TCP, size, format!("{TCP}, {size} bytes"), tcp));
    }
    let exchanges: Vec<_> =
        plans.iter().map(|(_, _, name, exchange)| (name.as_str(), exchange.clone())).collect();
    let tracks = interleave(&exchanges, effort.figure_rounds(), progress);
    plans
        .iter()
        .zip(tracks)
        .map(|((label, size, ..), track)| Measured { label, size: *size, track })
        .collect()
}

/// Draws a curve for each way of sending.
pub(crate) fn figure(measured: &[Measured]) -> Figure {
    let mut labels: Vec<&str> = measured.iter().map(|one| one.label).collect();
    labels.sort_unstable();
    labels.dedup();
    let curve = |label: &str| {
        let own = measured.iter().filter(|one| one.label == label);
        let point =
            |one: &Measured| Some(Point { x: one.size as f64, y: one.track.rate()? / 1e6, high: None });
        Curve::ours(label, own.filter_map(point).collect())
    };
    let ends = measured.iter().map(|one| one.size);
    let ends = [ends.clone().min(), ends.max()].into_iter().flatten();
    let paper = Curve {
        label: "the paper: peak of deliberate update, 33 MB/s (5.1)".to_owned(),
        points: ends.map(|size| Point { x: size as f64, y: PAPER, high: None }).collect(),
        paper: true,
    };
    Figure {
        key: "shrimp-updates".to_owned(),
        title: "SHRIMP: bandwidth of deliberate update by size".to_owned(),
        answers: "section 5.1".to_owned(),
        paper: "One way, in laps whose every byte is looked at. An update of a page or less is one locked instruction, which is two \
            trapped accesses here: a message of 4 bytes costs as much as one of 4 KiB. The paper's peak is that of its EISA bus."
            .to_owned(),
        x: ("bytes of an update or message".to_owned(), Scale::Log),
        y: ("MB/s".to_owned(), Scale::Log),
        curves: labels.into_iter().map(curve).chain([paper]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_a_word_to_a_mebibyte() {
        for effort in [Effort::Quick, Effort::Full] {
            let sizes = sizes(effort);
            assert_eq!((sizes[0], sizes[sizes.len() - 1]), (4, 1 << 20));
        }
    }

    #[test]
    fn a_laps_places_fit_in_an_export() {
        assert_eq!(lap_arguments(1 << 20, 16), "--size 1048576 --places 3 --warmup 3 --count 16");
        assert_eq!(lap_arguments(4, 512), "--size 4 --places 256 --warmup 256 --count 512");
        assert_eq!(lap_arguments(4, 16), "--size 4 --places 16 --warmup 16 --count 16");
    }

    #[test]
    fn figure_has_all_ways_and_the_paper() {
        let one = |label, size| Measured { label, size, track: Track::of_samples("x", &[]) };
        let figure = figure(&[one(TCP, 4), one(HAMLYN, 4), one(TCP, 16)]);
        let labels: Vec<_> = figure.curves.iter().map(|curve| (curve.label.as_str(), curve.paper)).collect();
        assert_eq!(labels[..2], [(HAMLYN, false), (TCP, false)]);
        assert!(figure.curves[2].paper && figure.curves[2].points.len() == 2);
    }
}
