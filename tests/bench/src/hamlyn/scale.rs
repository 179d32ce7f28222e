//! Goal 7: round trips while a card holds many unused objects, or while there are unused cards.
//!
//! The number of cards varies with programs of the host, at the cards of one fabric process.
//! Termini, slots and processes vary between machines. A program of the host lends each page to its
//! card separately, and the number of these is limited.

use hamlyn_lab::Lab;

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::goals::{Goal, Need};
use crate::engine::machines::Machines;
use crate::engine::plot::{Curve, Figure, Point, Scale as Scaling};
use crate::engine::progress::Progress;
use crate::engine::site::Site;
use crate::engine::track::{Track, interleave};

/// Room for all objects.
pub const CARD_ARGS: [&str; 4] = ["--termini", "1024", "--sram", "8388608"];

/// The objects whose number increases while they are unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Termini,
    Slots,
    Cards,
    Processes,
}

impl Axis {
    fn points(self, effort: Effort) -> Vec<u64> {
        match self {
            Axis::Cards => effort.pick(vec![2, 8, 64], vec![2, 4, 8, 16, 32, 64]),
            Axis::Termini => effort.pick(vec![1, 1000], vec![1, 10, 100, 1000]),
            Axis::Slots => effort.pick(vec![1, 10_000], vec![1, 10, 100, 1000, 10_000]),
            Axis::Processes => effort.pick(vec![1, 16], vec![1, 4, 16, 64]),
        }
    }

    /// Returns whether the programs are in machines.
    fn in_machines(self) -> bool {
        self != Axis::Cards
    }

    fn place(self) -> &'static str {
        if self.in_machines() { "machines" } else { "host" }
    }

    fn text(self) -> &'static str {
        match self {
            Axis::Termini => "termini at each end, all but one idle",
            Axis::Slots => "slots at each end, all but one idle",
            Axis::Cards => "cards at the switch, all but two idle",
            Axis::Processes => "processes at each end, all but one asleep",
        }
    }

    /// Returns the arguments of both ends of a round trip.
    fn arguments(self, number: u64) -> String {
        match self {
            Axis::Termini => format!("--idle-termini {}", number - 1),
            Axis::Slots => format!("--idle-slots {}", number - 1),
            Axis::Processes => format!("--idle-processes {}", number - 1),
            Axis::Cards => String::new(),
        }
    }
}

/// One curve.
#[derive(Debug)]
pub struct Scale {
    axis: Axis,
    points: Vec<(u64, Track)>,
}

fn name(axis: Axis, number: u64) -> String {
    format!("{}, 16-byte tagged remote write, {number} {}", axis.place(), axis.text())
}

/// Measures the curve of programs of the host, with fabric processes of more and more cards. All
/// points are measured in turn.
pub fn on_host(effort: Effort, progress: &Progress) -> anyhow::Result<Vec<Scale>> {
    progress.step("start the fabrics");
    let lab = |cards: u64| {
        let cards = usize::try_from(cards).unwrap_or(usize::MAX);
        Lab::builder().vms(0).spare_cards(cards).one_process(true).start()
    };
    let numbers = Axis::Cards.points(effort);
    let labs = numbers.iter().map(|cards| lab(*cards)).collect::<anyhow::Result<Vec<_>>>()?;
    let arguments = format!("--wait yield --count {}", effort.pick(1000, 5000));
    let exchange =
        |(lab, number): (&Lab, &u64)| anyhow::Ok((name(Axis::Cards, *number), pair(lab, &arguments)?));
    let exchanges = labs.iter().zip(&numbers).map(exchange).collect::<anyhow::Result<Vec<_>>>()?;
    let tracks = interleave(&exchanges, effort.pick(9, 25), progress);
    Ok(curves(&[Axis::Cards], effort, tracks))
}

/// Prepares a round trip between programs of the host, at a lab's first two cards.
pub fn pair(lab: &Lab, arguments: &str) -> anyhow::Result<Exchange<'static>> {
    let site = |card: usize| anyhow::Ok(Site::Host(Some(lab.card_socket(card)?.to_owned())));
    let (ping, echo) = (format!("card-ping {arguments}"), format!("card-echo {arguments}"));
    Ok(Exchange::between(site(0)?, &ping, site(1)?, &echo))
}

/// Measures the curves between machines, all points in turn. With `all`, also the curve of
/// processes, which has no goal.
pub fn between_machines(machines: &Machines, effort: Effort, all: bool, progress: &Progress) -> Vec<Scale> {
    let mut axes = vec![Axis::Termini, Axis::Slots];
    axes.extend(all.then_some(Axis::Processes));
    let count = effort.pick(500, 5000);
    let mut exchanges = Vec::new();
    for axis in axes.iter().copied() {
        for number in axis.points(effort) {
            let arguments = format!("--wait poll --count {count} {}", axis.arguments(number));
            exchanges.push((name(axis, number), machines.round_trips("card", &arguments)));
        }
    }
    let tracks = interleave(&exchanges, effort.pick(7, 15), progress);
    curves(&axes, effort, tracks)
}

/// Assigns tracks, in the order of their exchanges, to their curves.
fn curves(axes: &[Axis], effort: Effort, tracks: Vec<Track>) -> Vec<Scale> {
    let mut tracks = tracks.into_iter();
    let curve = |axis: &Axis| Scale {
        axis: *axis,
        points: axis.points(effort).into_iter().zip(tracks.by_ref()).collect(),
    };
    axes.iter().map(curve).collect()
}

/// Draws the curves in one plot.
pub fn figure(scales: &[Scale]) -> Figure {
    let curve = |scale: &Scale| {
        let points = scale.points.iter().filter_map(|(number, track)| {
            Some(Point { x: *number as f64, y: track.p50_us()?, high: Some(track.latency()?.p99) })
        });
        Curve::ours(format!("{} ({})", scale.axis.text(), scale.axis.place()), points.collect())
    };
    Figure {
        key: "scale".to_owned(),
        title: "Scale: round trips beside what nobody uses".to_owned(),
        answers: "section 2.3".to_owned(),
        paper: "The paper names no figure: every sending process has a terminus of its own (section 2.3), and the cost \
            of a message is meant not to depend on how many there are."
            .to_owned(),
        x: ("how many".to_owned(), Scaling::Log),
        y: ("round trip, us".to_owned(), Scaling::Linear),
        curves: scales.iter().map(curve).collect(),
    }
}

/// Returns the measurements.
pub fn into_tracks(scales: Vec<Scale>) -> Vec<Track> {
    scales.into_iter().flat_map(|scale| scale.points).map(|point| point.1).collect()
}

/// Goal 7: the last point of each curve compared with its first.
pub fn goals(scales: &[Scale]) -> Vec<Goal> {
    let goal = |scale: &Scale| {
        let ((few, first), (many, last)) = (scale.points.first()?, scale.points.last()?);
        let what = format!("round trip with {many} {} ({})", scale.axis.text(), scale.axis.place());
        let peer = format!("with {few}");
        let first = first.medians_us();
        let peer = (peer.as_str(), &first[..]);
        Some(Goal::beside(7, &what, "us", &last.medians_us(), peer, Need::RatioAtMost(1.1)))
    };
    scales.iter().filter(|scale| scale.axis != Axis::Processes).filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_track_is_on_its_curve() {
        let axes = [Axis::Cards, Axis::Termini];
        let tracks = (1..=5).map(|us| Track::of_samples("x", &[us * 1000])).collect();
        let scales = curves(&axes, Effort::Quick, tracks);
        let numbers: Vec<u64> = scales[1].points.iter().map(|point| point.0).collect();
        assert_eq!(numbers, [1, 1000]);
        let goals = goals(&scales);
        assert_eq!(goals.len(), 2);
        assert!((goals[1].ratio().unwrap() - 1.25).abs() < 0.01, "{goals:?}");
    }

    #[test]
    fn exactly_one_object_is_used() {
        assert_eq!(Axis::Termini.arguments(1000), "--idle-termini 999");
        assert_eq!(Axis::Cards.arguments(64), "");
    }
}
