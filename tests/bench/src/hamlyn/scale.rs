//! Goal 7: round trips while a card holds many unused objects, or while there are unused cards.
//!
//! The number of cards varies with programs of the host, at the cards of one fabric process.
//! Termini, slots and processes vary between machines. A program of the host lends each page to its
//! card separately, and the number of these is limited.

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need};
use crate::engine::machines::Pair;
use crate::engine::plan::Planned;
use crate::engine::plot::{Figure, Scale, curves};
use crate::engine::track::Track;
use crate::hamlyn::pairs::on_host;

/// With programs of the host, at fabric processes of more and more cards.
pub(crate) const CARDS: Experiment = Experiment {
    title: "round trips beside idle cards (goal 7)",
    rounds: |effort| effort.pick(9, 25),
    plan: |effort| {
        let arguments = format!("--wait yield --count {}", effort.pick(1000, 5000));
        plan(Axis::Cards, effort, |cards| (on_host(cards as usize), arguments.clone()))
    },
    ..SCALE
};

/// Between machines, also the curve of processes, which has no goal.
pub(crate) const OBJECTS: Experiment = Experiment {
    title: "beside idle termini, slots and processes (goal 7)",
    rounds: |effort| effort.pick(7, 15),
    plan: |effort| {
        let of = |axis: Axis| {
            let more = format!("--wait poll --count {}", effort.pick(500, 5000));
            plan(axis, effort, |number| (ROOMY, format!("{more} {}", axis.arguments(number))))
        };
        let processes = of(Axis::Processes).into_iter().map(Planned::extra);
        [Axis::Termini, Axis::Slots].into_iter().flat_map(of).chain(processes).collect()
    },
    ..SCALE
};

const SCALE: Experiment = Experiment {
    name: "scale",
    heading: "Round trips beside idle cards and objects",
    has_goal: true,
    goals,
    figures: |tracks| vec![figure(tracks)],
    ..Experiment::NEW
};

/// Cards with room for all objects.
const ROOMY: Pair = Pair {
    card_args: "--termini 1024 --sram 8388608",
    share_all: true,
    optional: true,
    ..Pair::of("hamlyn")
};

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

    /// Returns the label of its curve.
    fn label(self) -> String {
        format!("{} ({})", self.text(), self.place())
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

/// Plans the points of a curve. The function returns the cards and the arguments for a number.
fn plan(axis: Axis, effort: Effort, of: impl Fn(u64) -> (Pair, String)) -> Vec<Planned> {
    let point = |number: u64| {
        let (pair, arguments) = of(number);
        let name = format!("{}, 16-byte tagged remote write, {number} {}", axis.place(), axis.text());
        pair.trips(name, "card", &arguments).at(axis.label(), number)
    };
    axis.points(effort).into_iter().map(point).collect()
}

/// Draws the curves in one plot.
fn figure(tracks: &[Track]) -> Figure {
    Figure {
        key: "scale",
        title: "Scale: round trips beside idle cards and objects",
        answers: "section 2.3",
        note: "The paper names no figure: every sending process has a terminus of its own (section 2.3), and the cost \
            of a message is meant not to depend on how many there are."
            .to_owned(),
        x: ("how many", Scale::Log),
        y: ("round trip, us", Scale::Linear),
        curves: curves(tracks, Track::p50_us, Track::p99_us),
    }
}

/// Goal 7: the last point of each curve compared with its first.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let goal = |axis: Axis| {
        let own = || tracks.iter().filter(|track| track.label == axis.label());
        let (first, last) = (own().next()?, own().next_back()?);
        let what = format!("round trip with {} {}", last.x, last.label);
        let (peer, values) = (format!("with {}", first.x), first.medians_us());
        let need = Need::RatioAtMost(1.1);
        Some(Goal::beside(7, &what, "us", &last.medians_us(), (&peer, &values), need))
    };
    [Axis::Cards, Axis::Termini, Axis::Slots].into_iter().filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_track_is_on_its_curve() {
        let track = |(axis, number, us): (Axis, u64, u64)| Track {
            label: axis.label(),
            x: number,
            ..Track::of_samples("x", &[us * 1000])
        };
        let points =
            [(Axis::Cards, 2, 1), (Axis::Cards, 64, 3), (Axis::Termini, 1, 4), (Axis::Termini, 1000, 5)];
        let tracks = points.map(track);
        let numbers: Vec<f64> = figure(&tracks).curves[1].points.iter().map(|point| point.x).collect();
        assert_eq!(numbers, [1.0, 1000.0]);
        let goals = goals(&tracks);
        assert_eq!(goals.len(), 2);
        assert!((goals[1].ratio().unwrap() - 1.25).abs() < 0.01, "{goals:?}");
    }

    #[test]
    fn exactly_one_object_is_used() {
        assert_eq!(Axis::Termini.arguments(1000), "--idle-termini 999");
        assert_eq!(Axis::Cards.arguments(64), "");
    }
}
