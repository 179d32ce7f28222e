//! Goal 15: a deposit of 32 bytes, which the paper also measures (section 3), with both ends awake
//! or asleep. It is compared with other cards and virtio-net.

use crate::dart::pairs::{CLAN, DART, HAMLYN, SHRIMP};
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need, beside, number, text};
use crate::engine::machines::ADDRESS;
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::track::{Track, medians};

const DEPOSIT: &str = "DART, a deposit of 32 bytes, both poll";
const ASLEEP: &str = "DART, a deposit of 32 bytes and its event, both sleep";
const TAGGED: &str = "Hamlyn, 32-byte tagged remote write, both poll";
const TAGGED_ASLEEP: &str = "Hamlyn, 32-byte tagged remote write, both sleep";
const FLAG: &str = "SHRIMP, 32 bytes and a flag by window, both poll";
const WORD: &str = "CLAN, 32 bytes and a DWORD by PIO, both poll";
const UDP: &str = "virtio-net, UDP of 32 bytes";

/// One-way times from application to application in microseconds: the paper's software without a
/// switch and with one, and the paper's expectation of cards for 155 and for 622 Mbit/s.
const PAPER: [(&str, f64); 4] = [
    ("the paper's software, no switch", 24.5),
    ("the paper's software, a switch", 30.0),
    ("expected at 155 Mbit/s", 10.0),
    ("expected at 622 Mbit/s", 3.0),
];

pub(crate) const DEPOSITS: Experiment = Experiment {
    name: "deposits",
    title: "DART: a deposit of 32 bytes (goal 15)",
    heading: "DART: round trips of 32 bytes, beside others",
    has_goal: true,
    plan,
    goals,
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let (many, few) = (effort.pick(3000, 20_000), effort.pick(600, 4000));
    vec![
        DART.trips(DEPOSIT, "deposit", &format!("--count {many}")),
        HAMLYN.trips(TAGGED, "card", &format!("--size 32 --count {many}")),
        SHRIMP.trips(FLAG, "flag", &format!("--by window --size 32 --count {few}")),
        CLAN.trips(WORD, "word", &format!("--size 32 --count {few}")),
        DART.trips(ASLEEP, "deposit", &format!("--wait sleep --count {few}")),
        HAMLYN.trips(TAGGED_ASLEEP, "card", &format!("--size 32 --wait sleep --count {few}")),
        HAMLYN.trips(UDP, "udp", &format!("--address {ADDRESS} --size 32 --count {few}")),
    ]
}

/// Goal 15, compared with Hamlyn's card and with the paper's software.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let what = "DART: a deposit of 32 bytes, both poll: p50";
    let half: Vec<f64> = medians(tracks, DEPOSIT).into_iter().map(|trip| trip / 2.0).collect();
    let paper = vec![PAPER[0].1; half.len()];
    vec![
        Goal::trips(tracks, 15, what, DEPOSIT, ("Hamlyn's tagged write", TAGGED), 1.0),
        Goal::beside(15, "the same one way", "us", &half, (PAPER[0].0, &paper), Need::RatioAtMost(1.0)),
    ]
}

/// Compares each one with the others, and the one-way time with the paper's.
fn table(tracks: &[Track]) -> Table {
    let note = "Each end looks at its own memory, or sleeps until it is told, and deposits the answer in the other's. One way is half of a \
        round trip, as one clock has to measure both ends; the paper's is from application to application (section 3). The others \
        bring 32 bytes, too: SHRIMP and CLAN by four stores, and a fifth that tells. Ratios are of the same round.";
    let beside = |track: &Track, peer| beside(&track.medians_us(), &medians(tracks, peer));
    let table = Table::new(
        "DART: a deposit of 32 bytes",
        note,
        tracks,
        &[
            ("", &|track| track.name.clone()),
            ("round trip, us: p50", &|track| text(track.p50_us())),
            ("p99", &|track| text(track.p99_us())),
            ("one way, us", &|track| text(track.one_way_us())),
            ("beside Hamlyn's, both poll", &|track| beside(track, TAGGED)),
            ("beside UDP", &|track| beside(track, UDP)),
        ],
    );
    let empty = String::new;
    table.with(PAPER.map(|(name, us)| [name.to_owned(), empty(), empty(), number(us), empty(), empty()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    fn tracks(deposit_ns: u64) -> [Track; 3] {
        [(DEPOSIT, deposit_ns), (TAGGED, 20_000), (UDP, 400_000)]
            .map(|(what, ns)| Track::of_samples(what, &[ns]))
    }

    #[test]
    fn deposit_is_limited_by_tagged_write_and_paper() {
        let verdicts = |ns| goals(&tracks(ns)).iter().map(Goal::verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(20_000), [Verdict::Met, Verdict::Met]);
        assert_eq!(verdicts(20_500), [Verdict::Short, Verdict::Met]);
        assert_eq!(verdicts(60_000), [Verdict::Short, Verdict::Short]);
        assert_eq!(goals(&[])[1].verdict(), Verdict::NotMeasured);
    }

    #[test]
    fn papers_rows_come_after_measured_rows() {
        let table = table(&tracks(10_000));
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert_eq!(table.rows[0][3..], ["5", "0.5 (0.5 to 0.5)", "0.025 (0.025 to 0.025)"]);
        assert_eq!(table.rows[3][3], "24.5");
    }
}
