//! Goal 16: questions that the other host's card answers while its processor sleeps (sections 2 and
//! 3). They are compared with a round trip by both hosts' processors, and with CLAN's load across
//! the network.

use crate::engine::effort::Effort;
use crate::engine::goals::{Goal, Need, beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, find, interleave};

const READ: &str = "DART, remote read of 32 bytes";
const INCREMENT: &str = "DART, fetch and increment";
const SWAP: &str = "DART, compare and swap";
const DEPOSIT: &str = "DART, a deposit and one back, both poll";
const ASLEEP: &str = "DART, a deposit and one back, both sleep";
const LOAD: &str = "CLAN, a load of a DWORD across the network";

/// Measures all in turn.
pub(crate) fn measure([dart, clan]: [&Machines; 2], effort: Effort, progress: &Progress) -> Vec<Track> {
    let (many, few) = (effort.pick(2000, 10_000), effort.pick(400, 2000));
    let ask =
        |what: &str| dart.exchange(&format!("question-ask --what {what} --count {many}"), "question-hold");
    let exchanges = [
        (READ, ask("read")),
        (INCREMENT, ask("increment")),
        (SWAP, ask("swap")),
        (DEPOSIT, dart.round_trips("deposit", &format!("--count {many}"))),
        (ASLEEP, dart.round_trips("deposit", &format!("--wait sleep --count {few}"))),
        (LOAD, clan.exchange(&format!("word-load --count {few}"), "word-hold")),
    ];
    interleave(&exchanges, effort.rounds(), progress)
}

fn medians(tracks: &[Track], name: &str) -> Vec<f64> {
    find(tracks, name).map(Track::medians_us).unwrap_or_default()
}

/// Goal 16: an operation of the card alone takes no longer than a round trip of two polling
/// processors.
pub(crate) fn goals(tracks: &[Track]) -> Vec<Goal> {
    let deposit = medians(tracks, DEPOSIT);
    let goal = |(name, what): (&str, &str)| {
        let peer = ("a deposit and one back", &deposit[..]);
        Goal::beside(16, what, "us", &medians(tracks, name), peer, Need::RatioAtMost(1.1))
    };
    [(READ, "DART: remote read of 32 bytes: p50"), (INCREMENT, "DART: fetch and increment: p50")]
        .map(goal)
        .to_vec()
}

/// Compares each one with the round trips.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let row = |track: &Track| {
        let text = |value: Option<f64>| value.map_or_else(String::new, number);
        let beside = |peer: &str| {
            let [ratio, spread] = beside_text(&track.medians_us(), &medians(tracks, peer));
            if ratio.is_empty() { ratio } else { format!("{ratio} ({spread})") }
        };
        let times = [text(track.p50_us()), text(track.latency().map(|latency| latency.p99))];
        [track.name.clone()].into_iter().chain(times).chain([DEPOSIT, ASLEEP, LOAD].map(beside)).collect()
    };
    let head = ["", "us: p50", "p99", "beside a deposit and one back", "both asleep", "beside CLAN's load"];
    Table {
        title: "DART: questions that a card answers".to_owned(),
        note: "By the library's Caller. The other host's processor has nothing to do with it, and sleeps. A compare and swap is two messages \
            and an answer. The paper has no figures of these. Ratios are of the same round."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: tracks.iter().map(row).collect(),
    }
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
        let table = table(&tracks(20_000));
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
    }
}
