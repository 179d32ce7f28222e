//! Bandwidth of deliberate update by size (section 4.3), compared with Hamlyn's messages and TCP.

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::machines::{ADDRESS, stream_arguments};
use crate::engine::plan::Planned;
use crate::engine::plot::{Curve, Figure, Scale, curves};
use crate::engine::track::Track;
use crate::shrimp::pairs::{HAMLYN, WAYS};

/// Maximum bytes of a lap's places: the maximum of an export, less the page of the flags.
const PLACES: u64 = (4 << 20) - 4096;
/// Maximum number of small updates in a lap.
const MOST: u64 = 256;
/// The paper's peak, limited by its I/O bus, in MB/s (section 5.1).
const PAPER: f64 = 33.0;

const SNOOPED: &str = "deliberate update, stores snooped";
const NO_PLUGIN: &str = "deliberate update, no plugin";
const TCP: &str = "virtio-net, TCP stream";
const MESSAGES: &str = "Hamlyn, messages in packets of 4 KiB";

pub(crate) const UPDATES: Experiment = Experiment {
    name: "updates",
    title: "SHRIMP: deliberate update",
    heading: "SHRIMP: one-way bandwidth by size, beside others",
    rounds: Effort::figure_rounds,
    plan,
    figures: |tracks| vec![figure(tracks)],
    ..Experiment::NEW
};

/// Returns both ends' arguments for a program that makes laps.
pub(crate) fn lap_arguments(size: u64, count: u64) -> String {
    let places = (PLACES / size).clamp(1, MOST.min(count));
    format!("--size {size} --places {places} --warmup {places} --count {count}")
}

fn plan(effort: Effort) -> Vec<Planned> {
    let of = |size: u64| {
        let count = (effort.pick(8 << 20, 32 << 20) / size).clamp(16, effort.pick(512, 4096));
        let mut plan = Vec::new();
        for ((way, by, pair), label) in WAYS.into_iter().zip([SNOOPED, NO_PLUGIN]) {
            let arguments = format!("{} --by {by}", lap_arguments(size, count));
            let name = format!("deliberate update, {size} bytes, machines {way}");
            plan.push(pair.unpinned().stream(name, "update", &arguments).by_root().at(label, size));
        }
        let arguments = stream_arguments(size, count);
        let (hamlyn, name) = (HAMLYN.unpinned(), |label: &str| format!("{label}, {size} bytes"));
        plan.push(hamlyn.stream(name(MESSAGES), "card", &arguments).by_root().at(MESSAGES, size));
        let tcp = format!("--address {ADDRESS} {arguments}");
        plan.push(hamlyn.stream(name(TCP), "tcp", &tcp).at(TCP, size));
        plan
    };
    effort.sizes(2).flat_map(of).collect()
}

/// Draws a curve for each way of sending.
fn figure(tracks: &[Track]) -> Figure {
    let sizes = tracks.iter().map(|track| track.x);
    let ends = [sizes.clone().min(), sizes.max()].into_iter().flatten();
    let mut curves = curves(tracks, Track::mb_per_s, |_| None);
    curves.sort_by(|a, b| a.label.cmp(&b.label));
    let label = "peak of deliberate update, 33 MB/s (5.1)";
    curves.push(Curve::paper(label, ends.map(|size| (size as f64, PAPER))));
    Figure {
        key: "shrimp-updates",
        title: "SHRIMP: bandwidth of deliberate update by size",
        answers: "section 5.1",
        note: "One way, in laps whose every byte is looked at. An update of a page or less is one locked instruction, which is two \
            trapped accesses here: a message of 4 bytes costs as much as one of 4 KiB. The paper's peak is that of its EISA bus."
            .to_owned(),
        x: ("bytes of an update or message", Scale::Log),
        y: ("MB/s", Scale::Log),
        curves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_laps_places_fit_in_an_export() {
        assert_eq!(lap_arguments(1 << 20, 16), "--size 1048576 --places 3 --warmup 3 --count 16");
        assert_eq!(lap_arguments(4, 512), "--size 4 --places 256 --warmup 256 --count 512");
        assert_eq!(lap_arguments(4, 16), "--size 4 --places 16 --warmup 16 --count 16");
    }

    #[test]
    fn figure_has_all_ways_and_the_paper() {
        let one = |label: &str, x| Track { label: label.to_owned(), x, ..Track::new("x") };
        let figure = figure(&[one(TCP, 4), one(MESSAGES, 4), one(TCP, 16)]);
        let labels: Vec<_> = figure.curves.iter().map(|curve| (curve.label.as_str(), curve.paper)).collect();
        assert_eq!(labels[..2], [(MESSAGES, false), (TCP, false)]);
        assert!(figure.curves[2].paper && figure.curves[2].points.len() == 2);
    }
}
