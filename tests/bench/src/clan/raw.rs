//! Raw bandwidth by message size, by PIO and by DMA: from the receiver's request for a message
//! until its last word has arrived (Figure 7).

use crate::clan::pairs::CLAN;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::plan::Planned;
use crate::engine::plot::{Curve, Figure, Scale, curves};
use crate::engine::track::Track;

/// How data is sent: the label, and the program's option.
const WAYS: [(&str, &str); 2] = [("PIO", "stores"), ("DMA", "dma")];
/// The paper's peak, 910 Mbit/s, in MB/s.
const PAPER: f64 = 910.0 / 8.0;

pub(crate) const RAW: Experiment = Experiment {
    name: "raw",
    title: "CLAN: raw bandwidth",
    heading: "CLAN: how fast messages arrive",
    rounds: Effort::figure_rounds,
    plan,
    figures: |tracks| vec![figure(tracks)],
    ..Experiment::NEW
};

/// Plans all sizes, from two words to 1 MiB. The receiver measures.
fn plan(effort: Effort) -> Vec<Planned> {
    let of = |size: u64| {
        let count = (effort.pick(4 << 20, 32 << 20) / size).clamp(8, 200);
        WAYS.map(|(way, by)| {
            let arguments = format!("--size {size} --by {by} --warmup 2 --count {count}");
            let (near, far) = (format!("arrival-watch {arguments}"), format!("arrival-send {arguments}"));
            let name = format!("CLAN, {way}: arrival of {size} bytes");
            CLAN.unpinned().exchange(name, &near, &far).by_root().at(way, size)
        })
    };
    effort.sizes(4).flat_map(of).collect()
}

/// Draws a curve for each way, in MB/s from the median time.
fn figure(tracks: &[Track]) -> Figure {
    let rate = |track: &Track| Some(track.x as f64 / track.p50_us()?);
    let paper = Curve::paper("peak, 910 Mbit/s (5.2)", [256.0, 1048576.0].map(|x| (x, PAPER)));
    Figure {
        key: "clan-raw",
        title: "CLAN: raw bandwidth by size",
        answers: "Figure 7",
        note: "From when the receiver asks for a message, by a store, until its last word is there, so with one latency each way. The paper's \
            receiver takes the time from the first word to the last: here both are seen at once where the thread that copies and the \
            processor that looks share a core. The paper calls messages below 256 bytes not meaningful."
            .to_owned(),
        x: ("bytes", Scale::Log),
        y: ("MB/s", Scale::Log),
        curves: curves(tracks, rate, |_| None).into_iter().chain([paper]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_uses_the_median_time() {
        let track = Track { x: 4096, ..Track::of_samples("DMA", &[1000, 2000, 30_000]) };
        let curves = figure(&[track]).curves;
        assert!((curves[0].points[0].y - 2048.0).abs() < 3.0, "{curves:?}");
        assert_eq!(curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [1, 2]);
    }
}
