//! Goal 10: a flag's round trip by automatic update, compared with Hamlyn's tagged write and the
//! alternatives to a card.

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, beside, text};
use crate::engine::machines::ADDRESS;
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::track::{Track, medians};
use crate::shrimp::pairs::{HAMLYN, SNOOPED, WAYS, WINDOW};

/// The measurement of the goal.
const FLAG: &str = "SHRIMP, a flag, snooped";

const TAGGED: &str = "Hamlyn, 16-byte tagged remote write";
const UDP: &str = "virtio-net, UDP of 16 bytes";
const IVSHMEM: &str = "ivshmem-plain, 16 bytes";

pub(crate) const FLAGS: Experiment = Experiment {
    name: "flags",
    title: "SHRIMP: a flag's round trip (goal 10)",
    heading: "SHRIMP: round trips of a flag, beside others",
    has_goal: true,
    pairs: &[SNOOPED, WINDOW, HAMLYN],
    plan,
    goals: |tracks| {
        let what = "a flag by automatic update, snooped, both poll: p50";
        vec![Goal::trips(tracks, 10, what, FLAG, ("Hamlyn's tagged write", TAGGED), 1.0)]
    },
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let (many, few) = (effort.pick(3000, 20_000), effort.pick(600, 4000));
    let mut plan = vec![HAMLYN.trips(TAGGED, "card", &format!("--wait poll --count {many}"))];
    for (way, by, pair) in WAYS {
        let of = |size| format!("--by {by} --size {size} --count {many}");
        plan.push(pair.trips(format!("SHRIMP, a flag, {way}"), "flag", &of(0)));
        plan.push(pair.trips(format!("SHRIMP, 16 bytes and a flag, {way}"), "flag", &of(16)).extra());
    }
    plan.push(HAMLYN.trips(UDP, "udp", &format!("--address {ADDRESS} --count {few}")));
    plan.push(HAMLYN.trips(IVSHMEM, "ivshmem", &format!("--count {many}")).by_root().extra());
    plan
}

/// Compares the flags with all others.
fn table(tracks: &[Track]) -> Table {
    let note = "Single-write (section 4.1): each store is a packet. One way is half of a round trip, as one machine's clock measures both: \
        the latency of a single store, for which section 5.1 expects less than 2 us of the prototype. Ratios are of the same round.";
    let beside = |track: &Track, peer| beside(&track.medians_us(), &medians(tracks, peer));
    Table::new(
        "SHRIMP: a flag's round trip",
        note,
        tracks,
        &[
            ("both ends poll, but for UDP", &|track| track.name.clone()),
            ("round trip, us: p50", &|track| text(track.p50_us())),
            ("p99", &|track| text(track.p99_us())),
            ("one way, us", &|track| text(track.one_way_us())),
            ("beside Hamlyn", &|track| beside(track, TAGGED)),
            ("beside UDP", &|track| beside(track, UDP)),
            ("beside ivshmem", &|track| beside(track, IVSHMEM)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    fn tracks(flag_ns: u64) -> [Track; 3] {
        [(FLAG, flag_ns), (TAGGED, 20_000), (UDP, 400_000)].map(|(what, ns)| Track::of_samples(what, &[ns]))
    }

    #[test]
    fn flag_takes_at_most_a_tagged_write() {
        let verdict = |tracks: &[Track]| (FLAGS.goals)(tracks)[0].verdict();
        assert_eq!(verdict(&tracks(20_000)), Verdict::Met);
        assert_eq!(verdict(&tracks(20_500)), Verdict::Short);
        assert_eq!(verdict(&[]), Verdict::NotMeasured);
    }

    #[test]
    fn one_way_is_half_of_a_round_trip() {
        let rows = table(&tracks(10_000)).rows;
        assert_eq!(rows[0][3..], ["5", "0.5 (0.5 to 0.5)", "0.025 (0.025 to 0.025)", ""]);
    }
}
