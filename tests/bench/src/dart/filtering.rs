//! Goal 17: the cost of a message to the receiving host, with filtering and without (section 1). It
//! is the processor time that the receiver's machine uses.

use crate::dart::pairs::DART;
use crate::engine::effort::Effort;
use crate::engine::exchange::Outcome;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need, known, ratio, spread};
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::stats::median;
use crate::engine::track::{Track, values};

/// The kind of a message: the label, and the program's option.
const KINDS: [(&str, &str); 5] = [
    ("no messages", "none"),
    ("data alone", "data"),
    ("data and an event that is accumulated", "delayed"),
    ("data and an event that interrupts", "immediate"),
    ("a message that the host carries out", "exception"),
];
/// The machine of the receiver.
const RECEIVER: &str = "vm1";

pub(crate) const FILTERING: Experiment = Experiment {
    name: "filtering",
    title: "DART: what a message costs the receiving host (goal 17)",
    heading: "DART: messages that the host hears of, or not",
    has_goal: true,
    plan,
    goals,
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn name(kind: &str) -> String {
    format!("DART, {kind}")
}

fn plan(effort: Effort) -> Vec<Planned> {
    let of = |(kind, word): (&str, &str)| {
        let arguments = format!("--kind {word} --count {}", effort.pick(2000, 5000));
        let (near, far) = (format!("filter-send {arguments}"), format!("filter-take {arguments}"));
        DART.exchange(name(kind), &near, &far)
    };
    KINDS.map(of).to_vec()
}

/// Returns the processor time in microseconds of the receiver's machine per message, round by
/// round.
fn machine(track: &Track) -> Vec<f64> {
    let of = |round: &Outcome| {
        let time = round.watched_ns.get(RECEIVER).filter(|_| round.all > 0)?;
        Some(*time as f64 / 1e3 / round.all as f64)
    };
    track.rounds.iter().filter_map(of).collect()
}

/// Returns the same, less the machine's time without messages.
fn message(tracks: &[Track], kind: &str) -> Vec<f64> {
    let of = |kind: &str| values(tracks, &name(kind), machine);
    of(kind).into_iter().zip(of(KINDS[0].0)).map(|(with, without)| with - without).collect()
}

/// Goal 17: a message that no host needs to process costs the host almost nothing, compared with
/// one that the host executes.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let without = message(tracks, KINDS[4].0);
    let goal = |kind: usize, what: &str, limit: f64| {
        let peer = ("carried out by the host", &without[..]);
        Goal::beside(17, what, "us", &message(tracks, KINDS[kind].0), peer, Need::RatioAtMost(limit))
    };
    vec![
        goal(1, "DART: the host's time for a deposit", 0.1),
        goal(2, "DART: the host's time for an event that is accumulated", 0.1),
    ]
}

/// Compares all with the last kind.
fn table(tracks: &[Track]) -> Table {
    let note = "Processor time of the receiver's machine, which sleeps between messages, for each of them; 500 us from one to the next, so that \
        none is hidden behind another. An event that interrupts, and a message that the host carries out (a software exception), have a \
        process that sleeps for them. The latter is what every message was without a card that filters (section 1).";
    let executed = message(tracks, KINDS[4].0);
    let rows = KINDS.map(|(kind, _)| (kind, message(tracks, kind)));
    Table::new(
        "DART: what a message costs the receiving host",
        note,
        rows,
        &[
            ("", &|(kind, _)| (*kind).to_owned()),
            ("the machine, us", &|(kind, _)| known(median(values(tracks, &name(kind), machine)))),
            ("without what it takes anyway, us", &|(_, own)| known(median(own.clone()))),
            ("beside carried out by the host", &|(_, own)| ratio(own, &executed)),
            ("spread", &|(_, own)| spread(own, &executed)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    fn track(kind: usize, us: u64) -> Track {
        let mut track = Track::of_samples(&name(KINDS[kind].0), &[]);
        let round = &mut track.rounds[0];
        round.all = 10;
        round.watched_ns = [(RECEIVER.to_owned(), us * 10_000), ("vm0".to_owned(), 1)].into();
        track
    }

    #[test]
    fn base_load_is_not_part_of_message_cost() {
        let tracks = [track(0, 50), track(1, 52), track(2, 90), track(4, 150)];
        let rows = table(&tracks).rows;
        assert_eq!(rows[1][1..], ["52", "2", "0.02", "0.02 to 0.02"]);
        assert_eq!(rows[3][1..3], ["?", "?"]);
        let verdicts: Vec<_> = goals(&tracks).iter().map(Goal::verdict).collect();
        assert_eq!(verdicts, [Verdict::Met, Verdict::Short]);
    }
}
