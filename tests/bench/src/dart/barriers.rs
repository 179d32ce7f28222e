//! Barriers of 2 to 16 nodes (section 2), which are threads in two machines.

use crate::engine::effort::Effort;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, find, interleave};

/// Numbers of nodes.
const NODES: [u64; 4] = [2, 4, 8, 16];

fn name(nodes: u64) -> String {
    format!("DART, a barrier of {nodes}")
}

/// Measures all in turn.
pub(crate) fn measure(dart: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let exchanges = NODES.map(|nodes| {
        let arguments = format!("--nodes {nodes} --warmup 20 --count {}", effort.pick(300, 1000));
        let (near, far) = (format!("barrier-meet {arguments}"), format!("barrier-keep {arguments}"));
        (name(nodes), dart.exchange(&near, &far))
    });
    interleave(&exchanges, effort.rounds(), progress)
}

/// Draws the curve.
pub(crate) fn figure(tracks: &[Track]) -> Figure {
    let point = |nodes: u64| {
        let track = find(tracks, &name(nodes))?;
        Some(Point { x: nodes as f64, y: track.p50_us()?, high: Some(track.latency()?.p99) })
    };
    Figure {
        key: "dart-barriers".to_owned(),
        title: "DART: a barrier by its nodes".to_owned(),
        answers: "section 2".to_owned(),
        paper: "The nodes are threads, half of them in each of two machines, each with a connection of its own. A message for each that comes, \
            and one to release each. The paper has no figure of it. The dotted line is the 99th percentile."
            .to_owned(),
        x: ("nodes".to_owned(), Scale::Log),
        y: ("us".to_owned(), Scale::Log),
        curves: vec![Curve::ours("DART", NODES.into_iter().filter_map(point).collect())],
    }
}

/// Shows the same data in numbers.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let medians = |nodes: u64| find(tracks, &name(nodes)).map(Track::medians_us).unwrap_or_default();
    let row = |nodes: u64| {
        let track = find(tracks, &name(nodes));
        let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
        let [p50, p99] = [track.and_then(Track::p50_us), track.and_then(|track| Some(track.latency()?.p99))];
        let [ratio, spread] = beside_text(&medians(nodes), &medians(NODES[0]));
        let each = p50.map(|p50| p50 / nodes as f64);
        vec![nodes.to_string(), text(p50), text(p99), text(each), format!("{ratio} ({spread})")]
    };
    Table {
        title: "DART: barriers".to_owned(),
        note: "As in the plot: from when a node comes until it is released, all coming again at once."
            .to_owned(),
        head: ["nodes", "us: p50", "p99", "us for each node", "beside a barrier of 2"]
            .map(str::to_owned)
            .to_vec(),
        rows: NODES.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_are_compared_with_two_nodes() {
        let tracks = [(2, 100_000), (16, 400_000)].map(|(nodes, ns)| Track::of_samples(&name(nodes), &[ns]));
        let rows = table(&tracks).rows;
        assert_eq!(rows[3], ["16", "400", "400", "25", "4 (4 to 4)"]);
        assert_eq!(rows[1][1], "?");
        assert_eq!(figure(&tracks).curves[0].points.len(), 2);
    }
}
