//! A word's round trip by programmed I/O (section 5.2), asleep and awake, and a load across the
//! network. They are compared with other cards and virtio-net.

use crate::engine::effort::Effort;
use crate::engine::goals::{Goal, Need, beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, find, interleave};

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

/// Measures round trips, all in turn. The second argument holds machines with Hamlyn and with
/// SHRIMP cards.
pub(crate) fn measure(
    clan: &Machines,
    [hamlyn, shrimp]: [&Machines; 2],
    effort: Effort,
    progress: &Progress,
) -> Vec<Track> {
    let (many, few) = (effort.pick(3000, 20_000), effort.pick(600, 4000));
    let load = clan.exchange(&format!("word-load --count {few}"), "word-hold");
    let udp = format!("--address {} --count {few}", hamlyn.address());
    let exchanges = [
        (WORD, clan.round_trips("word", &format!("--count {many}"))),
        (DATA, clan.round_trips("word", &format!("--size 16 --count {many}"))),
        (TAGGED, hamlyn.round_trips("card", &format!("--wait poll --count {many}"))),
        (FLAG, shrimp.round_trips("flag", &format!("--by window --count {many}"))),
        (ASLEEP, clan.round_trips("word", &format!("--wait sleep --count {few}"))),
        (TAGGED_ASLEEP, hamlyn.round_trips("card", &format!("--wait sleep --count {few}"))),
        (LOAD, load),
        (UDP, hamlyn.round_trips("udp", &udp)),
    ];
    interleave(&exchanges, effort.rounds(), progress)
}

/// Returns the median of each round.
fn medians(tracks: &[Track], name: &str) -> Vec<f64> {
    find(tracks, name).map(Track::medians_us).unwrap_or_default()
}

/// Goal 11.
pub(crate) fn goals(tracks: &[Track]) -> Vec<Goal> {
    let (word, tagged) = (medians(tracks, WORD), medians(tracks, TAGGED));
    let tagged = ("Hamlyn's tagged write", &tagged[..]);
    vec![Goal::beside(
        11,
        "CLAN: a DWORD by PIO, both poll: p50",
        "us",
        &word,
        tagged,
        Need::RatioAtMost(1.0),
    )]
}

/// Compares each one with the paper's value and with the others.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let row = |track: &Track| {
        let p50 = track.p50_us();
        let text = |value: Option<f64>| value.map_or_else(String::new, number);
        let beside = |peer: &str| {
            let [ratio, spread] = beside_text(&track.medians_us(), &medians(tracks, peer));
            if ratio.is_empty() { ratio } else { format!("{ratio} ({spread})") }
        };
        let paper = if track.name == WORD { number(PAPER) } else { String::new() };
        let times = [text(p50), text(track.latency().map(|latency| latency.p99)), paper];
        [track.name.clone()].into_iter().chain(times).chain([TAGGED, FLAG, UDP].map(beside)).collect()
    };
    let head = [
        "",
        "round trip, us: p50",
        "p99",
        "the paper's, us",
        "beside Hamlyn's, both poll",
        "beside SHRIMP's",
        "beside UDP",
    ];
    Table {
        title: "CLAN: a word's round trip".to_owned(),
        note: "Each end looks at a word of its own memory and stores the answer to a window (section 5.2): a posted store to the card, a \
            wake-up of the card, and the other's next look, each way. A load is a message there and one back, while the \
            processor stands still: the paper has no figure of that. Ratios are of the same round."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: tracks.iter().map(row).collect(),
    }
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
