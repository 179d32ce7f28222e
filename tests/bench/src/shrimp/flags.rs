//! Goal 10: a flag's round trip by automatic update, compared with Hamlyn's tagged write and the
//! alternatives to a card.

use crate::engine::effort::Effort;
use crate::engine::goals::{Goal, Need, beside_text, number};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, find, interleave};
use crate::shrimp::labs::{Labs, SNOOPED};

const TAGGED: &str = "Hamlyn, 16-byte tagged remote write";
const UDP: &str = "virtio-net, UDP of 16 bytes";
const IVSHMEM: &str = "ivshmem-plain, 16 bytes";
const FLAG: &str = "SHRIMP, a flag";
const DATA: &str = "SHRIMP, 16 bytes and a flag";

/// Returns the name of a quantity for one of the two ways.
fn by(what: &str, way: &str) -> String {
    format!("{what}, {way}")
}

/// Measures round trips, all in turn.
pub(crate) fn measure(labs: &Labs, effort: Effort, all: bool, progress: &Progress) -> Vec<Track> {
    let (many, few) = (effort.pick(3000, 20_000), effort.pick(600, 4000));
    let hamlyn = &labs.hamlyn;
    let tagged = hamlyn.round_trips("card", &format!("--wait poll --count {many}"));
    let mut exchanges = vec![(TAGGED.to_owned(), tagged)];
    for (way, by_way, machines) in labs.ways() {
        let of = |size| machines.round_trips("flag", &format!("--by {by_way} --size {size} --count {many}"));
        exchanges.push((by(FLAG, way), of(0)));
        if all {
            exchanges.push((by(DATA, way), of(16)));
        }
    }
    let udp = format!("--address {} --count {few}", hamlyn.address());
    exchanges.push((UDP.to_owned(), hamlyn.round_trips("udp", &udp)));
    if all {
        let (ping, echo) = (format!("ivshmem-ping --count {many}"), format!("ivshmem-echo --count {many}"));
        exchanges.push((IVSHMEM.to_owned(), hamlyn.exchange_by_root(&ping, &echo)));
    }
    interleave(&exchanges, effort.rounds(), progress)
}

/// Returns the median of each round.
fn medians(tracks: &[Track], name: &str) -> Vec<f64> {
    find(tracks, name).map(Track::medians_us).unwrap_or_default()
}

/// Goal 10.
pub(crate) fn goals(tracks: &[Track]) -> Vec<Goal> {
    let (flag, tagged) = (medians(tracks, &by(FLAG, SNOOPED)), medians(tracks, TAGGED));
    let tagged = ("Hamlyn's tagged write", &tagged[..]);
    let what = "a flag by automatic update, snooped, both poll: p50";
    vec![Goal::beside(10, what, "us", &flag, tagged, Need::RatioAtMost(1.0))]
}

/// Compares the flags with all others, with half of a round trip as the one-way time.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let row = |track: &Track| {
        let p50 = track.p50_us();
        let text = |value: Option<f64>| value.map_or_else(String::new, number);
        let beside = |peer: &str| {
            let [ratio, spread] = beside_text(&track.medians_us(), &medians(tracks, peer));
            if ratio.is_empty() { ratio } else { format!("{ratio} ({spread})") }
        };
        let p99 = track.latency().map(|latency| latency.p99);
        let times = [p50, p99, p50.map(|p50| p50 / 2.0)].map(text);
        [track.name.clone()].into_iter().chain(times).chain([TAGGED, UDP, IVSHMEM].map(beside)).collect()
    };
    let head = [
        "both ends poll, but for UDP",
        "round trip, us: p50",
        "p99",
        "one way, us",
        "beside Hamlyn",
        "beside UDP",
        "beside ivshmem",
    ];
    Table {
        title: "SHRIMP: a flag's round trip".to_owned(),
        note: "Single-write (section 4.1): each store is a packet. One way is half of a round trip, as one machine's clock measures both: \
            the latency of a single store, for which section 5.1 expects less than 2 us of the prototype. Ratios are of the same round."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: tracks.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    fn tracks(flag_ns: u64) -> [Track; 3] {
        let samples = [(by(FLAG, SNOOPED), flag_ns), (TAGGED.to_owned(), 20_000), (UDP.to_owned(), 400_000)];
        samples.map(|(what, ns)| Track::of_samples(&what, &[ns]))
    }

    #[test]
    fn flag_takes_at_most_a_tagged_write() {
        assert_eq!(goals(&tracks(20_000))[0].verdict(), Verdict::Met);
        assert_eq!(goals(&tracks(20_500))[0].verdict(), Verdict::Short);
        assert_eq!(goals(&[])[0].verdict(), Verdict::NotMeasured);
    }

    #[test]
    fn one_way_is_half_of_a_round_trip() {
        let table = table(&tracks(10_000));
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert_eq!(table.rows[0][3..], ["5", "0.5 (0.5 to 0.5)", "0.025 (0.025 to 0.025)", ""]);
    }
}
