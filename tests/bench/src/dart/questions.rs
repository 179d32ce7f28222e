//! Goal 16: questions that the other host's card answers while its processor sleeps (sections 2 and
//! 3). They are compared with a round trip by both hosts' processors, and with CLAN's load across
//! the network.

use crate::dart::pairs::{CLAN, DART};
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, beside, text};
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::track::{Track, medians};

const READ: &str = "DART, remote read of 32 bytes";
const INCREMENT: &str = "DART, fetch and increment";
const SWAP: &str = "DART, compare and swap";
const DEPOSIT: &str = "DART, a deposit and one back, both poll";
const ASLEEP: &str = "DART, a deposit and one back, both sleep";
const LOAD: &str = "CLAN, a load of a DWORD across the network";

pub(crate) const QUESTIONS: Experiment = Experiment {
    name: "questions",
    title: "DART: questions that a card answers (goal 16)",
    heading: "DART: questions",
    has_goal: true,
    plan,
    goals,
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let (many, few) = (effort.pick(2000, 10_000), effort.pick(400, 2000));
    let ask = |name, what: &str| {
        DART.exchange(name, &format!("question-ask --what {what} --count {many}"), "question-hold")
    };
    vec![
        ask(READ, "read"),
        ask(INCREMENT, "increment"),
        ask(SWAP, "swap"),
        DART.trips(DEPOSIT, "deposit", &format!("--count {many}")),
        DART.trips(ASLEEP, "deposit", &format!("--wait sleep --count {few}")),
        CLAN.exchange(LOAD, &format!("word-load --count {few}"), "word-hold"),
    ]
}

/// Goal 16: at most a round trip of two polling processors, and a tenth.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let both = ("a deposit and one back", DEPOSIT);
    [("DART: remote read of 32 bytes: p50", READ), ("DART: fetch and increment: p50", INCREMENT)]
        .map(|(what, own)| Goal::trips(tracks, 16, what, own, both, 1.1))
        .to_vec()
}

/// Compares each one with round trips of processors, and with CLAN's load.
fn table(tracks: &[Track]) -> Table {
    let note = "By the library's Caller. The other host's processor has nothing to do with it, and sleeps. A compare and swap is two messages \
        and an answer. The paper has no figures of these. Ratios are of the same round.";
    let beside = |track: &Track, peer| beside(&track.medians_us(), &medians(tracks, peer));
    Table::new(
        "DART: questions that a card answers",
        note,
        tracks,
        &[
            ("", &|track| track.name.clone()),
            ("us: p50", &|track| text(track.p50_us())),
            ("p99", &|track| text(track.p99_us())),
            ("beside a deposit and one back", &|track| beside(track, DEPOSIT)),
            ("both asleep", &|track| beside(track, ASLEEP)),
            ("beside CLAN's load", &|track| beside(track, LOAD)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    #[test]
    fn question_takes_at_most_two_deposits() {
        let tracks = |ns| {
            [(READ, ns), (INCREMENT, 2 * ns), (DEPOSIT, 20_000)]
                .map(|(what, ns)| Track::of_samples(what, &[ns]))
        };
        let verdicts = |ns| goals(&tracks(ns)).iter().map(Goal::verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(20_000), [Verdict::Met, Verdict::Short]);
        assert_eq!(verdicts(10_000), [Verdict::Met, Verdict::Met]);
    }
}
