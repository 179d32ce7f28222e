//! Barriers of 2 to 16 nodes (section 2), which are threads in two machines.

use crate::dart::pairs::DART;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{beside, known};
use crate::engine::plan::Planned;
use crate::engine::plot::{Figure, Scale, curves};
use crate::engine::report::Table;
use crate::engine::track::Track;

pub(crate) const BARRIERS: Experiment = Experiment {
    name: "barriers",
    title: "DART: barriers",
    heading: "DART: barriers of 2 to 16",
    plan,
    figures: |tracks| vec![figure(tracks)],
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let of = |nodes| {
        let arguments = format!("--nodes {nodes} --warmup 20 --count {}", effort.pick(300, 1000));
        let (near, far) = (format!("barrier-meet {arguments}"), format!("barrier-keep {arguments}"));
        DART.exchange(format!("DART, a barrier of {nodes}"), &near, &far).at("DART", nodes)
    };
    [2, 4, 8, 16].map(of).to_vec()
}

fn figure(tracks: &[Track]) -> Figure {
    Figure {
        key: "dart-barriers",
        title: "DART: a barrier by its nodes",
        answers: "section 2",
        note: "The nodes are threads, half of them in each of two machines, each with a connection of its own. A message for each that comes, \
            and one to release each. The paper has no figure of it. The dotted line is the 99th percentile."
            .to_owned(),
        x: ("nodes", Scale::Log),
        y: ("us", Scale::Log),
        curves: curves(tracks, Track::p50_us, Track::p99_us),
    }
}

fn table(tracks: &[Track]) -> Table {
    let note = "As in the plot: from when a node comes until it is released, all coming again at once.";
    let two = tracks.first().map(Track::medians_us).unwrap_or_default();
    Table::new(
        "DART: barriers",
        note,
        tracks,
        &[
            ("nodes", &|track| track.x.to_string()),
            ("us: p50", &|track| known(track.p50_us())),
            ("p99", &|track| known(track.p99_us())),
            ("us for each node", &|track| known(track.p50_us().map(|p50| p50 / track.x as f64))),
            ("beside a barrier of 2", &|track| beside(&track.medians_us(), &two)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_are_compared_with_two_nodes() {
        let track = |x, ns| Track { x, ..Track::of_samples("DART", &[ns]) };
        let failed = Track { x: 4, ..Track::new("DART") };
        let tracks = [track(2, 100_000), failed, track(16, 400_000)];
        let rows = table(&tracks).rows;
        assert_eq!(rows[2], ["16", "400", "400", "25", "4 (4 to 4)"]);
        assert_eq!(rows[1], ["4", "?", "?", "?", ""]);
        assert_eq!(figure(&tracks).curves[0].points.len(), 2);
    }
}
