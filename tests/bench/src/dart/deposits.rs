//! Goal 15: a deposit of 32 bytes, which the paper also measures (section 3), with both ends awake
//! or asleep. It is compared with other cards and virtio-net.

use crate::engine::effort::Effort;
use crate::engine::goals::{Goal, Need, beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, find, interleave};

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

/// Measures round trips, all in turn. The second argument holds machines with Hamlyn, SHRIMP and
/// CLAN cards.
pub(crate) fn measure(
    dart: &Machines,
    [hamlyn, shrimp, clan]: [&Machines; 3],
    effort: Effort,
    progress: &Progress,
) -> Vec<Track> {
    let (many, few) = (effort.pick(3000, 20_000), effort.pick(600, 4000));
    let udp = format!("--address {} --size 32 --count {few}", hamlyn.address());
    let exchanges = [
        (DEPOSIT, dart.round_trips("deposit", &format!("--count {many}"))),
        (TAGGED, hamlyn.round_trips("card", &format!("--size 32 --count {many}"))),
        (FLAG, shrimp.round_trips("flag", &format!("--by window --size 32 --count {few}"))),
        (WORD, clan.round_trips("word", &format!("--size 32 --count {few}"))),
        (ASLEEP, dart.round_trips("deposit", &format!("--wait sleep --count {few}"))),
        (TAGGED_ASLEEP, hamlyn.round_trips("card", &format!("--size 32 --wait sleep --count {few}"))),
        (UDP, hamlyn.round_trips("udp", &udp)),
    ];
    interleave(&exchanges, effort.rounds(), progress)
}

/// Returns the median of each round.
fn medians(tracks: &[Track], name: &str) -> Vec<f64> {
    find(tracks, name).map(Track::medians_us).unwrap_or_default()
}

/// Returns half of each round trip.
fn one_way(tracks: &[Track], name: &str) -> Vec<f64> {
    medians(tracks, name).into_iter().map(|trip| trip / 2.0).collect()
}

/// Goal 15, compared with Hamlyn's card and with the paper's software.
pub(crate) fn goals(tracks: &[Track]) -> Vec<Goal> {
    let (own, tagged) = (medians(tracks, DEPOSIT), medians(tracks, TAGGED));
    let tagged = ("Hamlyn's tagged write", &tagged[..]);
    let what = "DART: a deposit of 32 bytes, both poll: p50";
    let half = one_way(tracks, DEPOSIT);
    let paper: Vec<f64> = half.iter().map(|_| PAPER[0].1).collect();
    vec![
        Goal::beside(15, what, "us", &own, tagged, Need::RatioAtMost(1.0)),
        Goal::beside(15, "the same one way", "us", &half, (PAPER[0].0, &paper), Need::RatioAtMost(1.0)),
    ]
}

/// Compares each one with the others, and the one-way time with the paper's.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let text = |value: Option<f64>| value.map_or_else(String::new, number);
    let row = |track: &Track| {
        let p50 = track.p50_us();
        let beside = |peer: &str| {
            let [ratio, spread] = beside_text(&track.medians_us(), &medians(tracks, peer));
            if ratio.is_empty() { ratio } else { format!("{ratio} ({spread})") }
        };
        let times = [p50, track.latency().map(|latency| latency.p99), p50.map(|p50| p50 / 2.0)].map(text);
        [track.name.clone()].into_iter().chain(times).chain([TAGGED, UDP].map(beside)).collect()
    };
    let paper = |(name, one_way): (&str, f64)| {
        let empty = String::new;
        vec![name.to_owned(), empty(), empty(), number(one_way), empty(), empty()]
    };
    let head = ["", "round trip, us: p50", "p99", "one way, us", "beside Hamlyn's, both poll", "beside UDP"];
    Table {
        title: "DART: a deposit of 32 bytes".to_owned(),
        note: "Each end looks at its own memory, or sleeps until it is told, and deposits the answer in the other's. One way is half of a \
            round trip, as one clock has to measure both ends; the paper's is from application to application (section 3). The others \
            bring 32 bytes, too: SHRIMP and CLAN by four stores, and a fifth that tells. Ratios are of the same round."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: tracks.iter().map(row).chain(PAPER.map(paper)).collect(),
    }
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
