//! Round trips of 16 bytes. Each message is copied to the peer's ring, copied out there, and
//! checked.

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need};
use crate::engine::machines::ADDRESS;
use crate::engine::plan::Planned;
use crate::engine::track::{Track, values};
use crate::engine::vsock;
use crate::express::pairs::{EXPRESS, by_ivshmem};

pub(crate) const CHANNEL: &str = "express channel, 16 bytes, both ends poll";
pub(crate) const RING: &str = "ivshmem-plain, the same ring, 16 bytes, both ends poll";
const WORD: &str = "ivshmem-plain, a word and 16 bytes, both ends poll";
const TAGGED: &str = "tagged remote write, 16 bytes, both ends poll";
const ASLEEP: &str = "express channel, 16 bytes, both ends sleep";
const TAGGED_ASLEEP: &str = "tagged remote write, 16 bytes, both ends sleep";
pub(crate) const UDP: &str = "virtio-net, 16-byte UDP";
pub(crate) const VSOCK: &str = "vhost-user-vsock, 16 bytes";

pub(crate) const TRIPS: Experiment = Experiment {
    name: "trips",
    title: "express memory: round trips (goals 18 and 21)",
    plan,
    goals,
    has_goal: true,
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let (many, few) = (effort.pick(20_000, 200_000), effort.pick(600, 4000));
    let polls = format!("--count {many} --warmup 1000");
    let sleeps = format!("--wait sleep --count {few}");
    let card = |name: &str, wait: &str, count: u64| {
        EXPRESS.trips(name, "card", &format!("--wait {wait} --size 16 --count {count}"))
    };
    vec![
        EXPRESS.trips(CHANNEL, "channel", &polls),
        by_ivshmem(RING, ["channel-ping", "channel-echo"], &polls),
        EXPRESS.trips(WORD, "ivshmem", &polls).by_root(),
        card(TAGGED, "poll", effort.pick(2000, 20_000)),
        EXPRESS.trips(ASLEEP, "channel", &sleeps),
        card(TAGGED_ASLEEP, "sleep", few),
        EXPRESS.trips(UDP, "udp", &format!("--address {ADDRESS} --count {few}")),
        EXPRESS.trips(VSOCK, "vsock", &format!("--cid {} --count {few}", vsock::FAR)).by_vsock(),
    ]
}

/// Goals 18 and 21.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let tails = |name| values(tracks, name, |track| track.quantiles_us(0.99));
    let (ring, ring_tail) = (("ivshmem-plain with the same ring", RING), tails(RING));
    let (trip, asleep) =
        ("express channel, 16 bytes, both poll: p50", "express channel, both ends asleep: p50");
    let tagged = ("a tagged remote write, both asleep", TAGGED_ASLEEP);
    vec![
        Goal::trips(tracks, 18, trip, CHANNEL, ring, 1.2),
        Goal::beside(
            18,
            "the same: p99",
            "us",
            &tails(CHANNEL),
            (ring.0, &ring_tail),
            Need::RatioAtMost(1.2),
        ),
        // Goal 2's own limit, and its figure in the same rounds.
        Goal::trips(tracks, 21, asleep, ASLEEP, ("virtio-net UDP", UDP), 0.6),
        Goal::trips(tracks, 21, "the same, beside goal 2's", ASLEEP, tagged, 1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    #[test]
    fn round_trip_is_at_most_fifth_above_unprotected() {
        let tracks = |channel| {
            [(CHANNEL, channel), (RING, 1000), (ASLEEP, 200_000), (TAGGED_ASLEEP, 210_000), (UDP, 300_000)]
                .map(|(what, ns)| Track::of_samples(what, &[ns]))
        };
        let verdicts = |ns| goals(&tracks(ns)).iter().map(Goal::verdict).collect::<Vec<_>>();
        let [met, short] = [Verdict::Met, Verdict::Short];
        assert_eq!(verdicts(1190), [met, met, short, met]);
        assert_eq!(verdicts(1250), [short, short, short, met]);
        assert!(goals(&[]).iter().all(|goal| goal.verdict() == Verdict::NotMeasured));
    }
}
