//! A word's round trip by programmed I/O (section 5.2), asleep and awake, and a load across the
//! network. They are compared with other cards and virtio-net.

use crate::clan::pairs::{CLAN, HAMLYN, SHRIMP};
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, beside, number, text};
use crate::engine::machines::ADDRESS;
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::track::{Track, medians};

const WORD: &str = "CLAN, a DWORD by PIO, both poll";
const DATA: &str = "CLAN, 16 bytes and a DWORD by PIO, both poll";
const ASLEEP: &str = "CLAN, a DWORD by PIO, both sleep on a Tripwire";
const LOAD: &str = "CLAN, a load of a DWORD across the network";
const TAGGED: &str = "Hamlyn, 16-byte tagged remote write, both poll";
const TAGGED_ASLEEP: &str = "Hamlyn, 16-byte tagged remote write, both sleep";
const FLAG: &str = "SHRIMP, a flag by window, both poll";
const UDP: &str = "virtio-net, UDP of 16 bytes";

/// The paper's round trip of a DWORD, in microseconds.
const PAPER: f64 = 3.7;

pub(crate) const WORDS: Experiment = Experiment {
    name: "words",
    title: "CLAN: a word's round trip (goal 11)",
    heading: "CLAN: round trips of a word, beside others",
    has_goal: true,
    plan,
    goals,
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let (many, few) = (effort.pick(3000, 20_000), effort.pick(600, 4000));
    vec![
        CLAN.trips(WORD, "word", &format!("--count {many}")),
        CLAN.trips(DATA, "word", &format!("--size 16 --count {many}")),
        HAMLYN.trips(TAGGED, "card", &format!("--wait poll --count {many}")),
        SHRIMP.trips(FLAG, "flag", &format!("--by window --count {many}")),
        CLAN.trips(ASLEEP, "word", &format!("--wait sleep --count {few}")),
        HAMLYN.trips(TAGGED_ASLEEP, "card", &format!("--wait sleep --count {few}")),
        CLAN.exchange(LOAD, &format!("word-load --count {few}"), "word-hold"),
        HAMLYN.trips(UDP, "udp", &format!("--address {ADDRESS} --count {few}")),
    ]
}

/// Goal 11.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let what = "CLAN: a DWORD by PIO, both poll: p50";
    vec![Goal::trips(tracks, 11, what, WORD, ("Hamlyn's tagged write", TAGGED), 1.0)]
}

/// Compares each one with the paper's value and with the others.
fn table(tracks: &[Track]) -> Table {
    let note = "Each end looks at a word of its own memory and stores the answer to a window (section 5.2): a posted store to the card, a \
        wake-up of the card, and the other's next look, each way. A load is a message there and one back, while the \
        processor stands still: the paper has no figure of that. Ratios are of the same round.";
    let beside = |track: &Track, peer| beside(&track.medians_us(), &medians(tracks, peer));
    Table::new(
        "CLAN: a word's round trip",
        note,
        tracks,
        &[
            ("", &|track| track.name.clone()),
            ("round trip, us: p50", &|track| text(track.p50_us())),
            ("p99", &|track| text(track.p99_us())),
            ("the paper's, us", &|track| if track.name == WORD { number(PAPER) } else { String::new() }),
            ("beside Hamlyn's, both poll", &|track| beside(track, TAGGED)),
            ("beside SHRIMP's", &|track| beside(track, FLAG)),
            ("beside UDP", &|track| beside(track, UDP)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    fn tracks(word_ns: u64) -> [Track; 3] {
        [(WORD, word_ns), (TAGGED, 20_000), (UDP, 400_000)].map(|(what, ns)| Track::of_samples(what, &[ns]))
    }

    #[test]
    fn word_takes_at_most_a_tagged_write() {
        assert_eq!(goals(&tracks(20_000))[0].verdict(), Verdict::Met);
        assert_eq!(goals(&tracks(20_500))[0].verdict(), Verdict::Short);
        assert_eq!(goals(&[])[0].verdict(), Verdict::NotMeasured);
    }

    #[test]
    fn each_is_compared_with_paper_and_others() {
        let table = table(&tracks(10_000));
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert_eq!(table.rows[0][3..], ["3.7", "0.5 (0.5 to 0.5)", "", "0.025 (0.025 to 0.025)"]);
        assert_eq!(table.rows[1][3], "", "the paper has no Hamlyn card");
    }
}
