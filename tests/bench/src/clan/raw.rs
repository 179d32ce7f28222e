//! Raw bandwidth by message size, by PIO and by DMA: from the receiver's request for a message
//! until its last word has arrived (Figure 7).

use crate::engine::effort::Effort;
use crate::engine::machines::Machines;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::stats::median;
use crate::engine::track::{Track, interleave};

/// How data is sent: the label, and the program's option.
const WAYS: [(&str, &str); 2] = [("PIO", "stores"), ("DMA", "dma")];
/// The paper's peak, 910 Mbit/s, in MB/s.
const PAPER: f64 = 910.0 / 8.0;

/// A point of a curve.
#[derive(Debug)]
pub(crate) struct Measured {
    way: &'static str,
    size: u64,
    pub(crate) track: Track,
}

/// Returns the sizes, from two words to 1 MiB.
fn sizes(effort: Effort) -> Vec<u64> {
    let all = (4..=20).map(|power| 1 << power);
    all.filter(|size: &u64| effort == Effort::Full || size.trailing_zeros() % 2 == 0).collect()
}

/// Measures all sizes, in turn. The receiver measures.
pub(crate) fn measure(clan: &Machines, effort: Effort, progress: &Progress) -> Vec<Measured> {
    let mut plans = Vec::new();
    for size in sizes(effort) {
        let count = (effort.pick(4 << 20, 32 << 20) / size).clamp(8, 200);
        for (way, by) in WAYS {
            let arguments = format!("--size {size} --by {by} --warmup 2 --count {count}");
            let watch = format!("arrival-watch {arguments}");
            let exchange = clan.exchange_by_root(&watch, &format!("arrival-send {arguments}"));
            plans.push((way, size, exchange));
        }
    }
    let named = plans.into_iter().map(|(way, size, exchange)| {
        let name = format!("CLAN, {way}: arrival of {size} bytes");
        ((way, size), (name, exchange))
    });
    let (points, exchanges): (Vec<_>, Vec<_>) = named.unzip();
    let tracks = interleave(&exchanges, effort.figure_rounds(), progress);
    points.into_iter().zip(tracks).map(|((way, size), track)| Measured { way, size, track }).collect()
}

impl Measured {
    /// Returns MB/s, from the median time.
    fn rate(&self) -> Option<f64> {
        Some(self.size as f64 / median(self.track.medians_us())?)
    }
}

/// Draws a curve for each way.
pub(crate) fn figure(measured: &[Measured]) -> Figure {
    let curve = |way: &str| {
        let own = measured.iter().filter(|one| one.way == way);
        let point = |one: &Measured| Some(Point { x: one.size as f64, y: one.rate()?, high: None });
        Curve::ours(way, own.filter_map(point).collect())
    };
    let level = [256.0, 1048576.0].map(|x| Point { x, y: PAPER, high: None });
    let label = "the paper: peak, 910 Mbit/s (5.2)".to_owned();
    let paper = Curve { label, points: level.to_vec(), paper: true };
    Figure {
        key: "clan-raw".to_owned(),
        title: "CLAN: raw bandwidth by size".to_owned(),
        answers: "Figure 7".to_owned(),
        paper: "From when the receiver asks for a message, by a store, until its last word is there, so with one latency each way. The paper's \
            receiver takes the time from the first word to the last: here both are seen at once where the thread that copies and the \
            processor that looks share a core. The paper calls messages below 256 bytes not meaningful."
            .to_owned(),
        x: ("bytes".to_owned(), Scale::Log),
        y: ("MB/s".to_owned(), Scale::Log),
        curves: WAYS.map(|(way, _)| curve(way)).into_iter().chain([paper]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_two_words_to_a_mebibyte() {
        for effort in [Effort::Quick, Effort::Full] {
            let sizes = sizes(effort);
            assert_eq!((sizes[0], sizes[sizes.len() - 1]), (16, 1 << 20));
        }
    }

    #[test]
    fn bandwidth_uses_the_median_time() {
        let one = Measured { way: "DMA", size: 4096, track: Track::of_samples("x", &[1000, 2000, 30_000]) };
        assert!((one.rate().unwrap() - 2048.0).abs() < 3.0, "{:?}", one.rate());
        let figure = figure(&[one]);
        assert_eq!(figure.curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
