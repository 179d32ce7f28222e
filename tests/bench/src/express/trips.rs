//! Round trips of 16 bytes. Each message is copied to the peer's ring, copied out there, and
//! checked.

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::goals::{Goal, Need};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::track::{Track, find, interleave};
use crate::engine::vsock;
use crate::express::labs::{by_channel, by_ivshmem};

pub(crate) const CHANNEL: &str = "express channel, 16 bytes, both ends poll";
pub(crate) const RING: &str = "ivshmem-plain, the same ring, 16 bytes, both ends poll";
const WORD: &str = "ivshmem-plain, a word and 16 bytes, both ends poll";
const TAGGED: &str = "tagged remote write, 16 bytes, both ends poll";
const ASLEEP: &str = "express channel, 16 bytes, both ends sleep";
const TAGGED_ASLEEP: &str = "tagged remote write, 16 bytes, both ends sleep";
pub(crate) const UDP: &str = "virtio-net, 16-byte UDP";
pub(crate) const VSOCK: &str = "vhost-user-vsock, 16 bytes";

/// Measures all in turn.
pub(crate) fn measure(machines: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    const ROLES: [&str; 2] = ["express-ping", "express-echo"];
    let (many, few) = (effort.pick(20_000, 200_000), effort.pick(600, 4000));
    let polls = format!("--count {many} --warmup 1000");
    let card = |wait: &str, count: u64| {
        machines.round_trips("card", &format!("--wait {wait} --size 16 --count {count}"))
    };
    let word = ["ivshmem-ping", "ivshmem-echo"].map(|role| format!("{role} {polls}"));
    let sleeps = format!("--wait sleep --count {few}");
    let udp = format!("--address {} --count {few}", machines.address());
    let mut exchanges: Vec<(&str, Exchange<'_>)> = vec![
        (CHANNEL, by_channel(machines, ROLES, &polls)),
        (RING, by_ivshmem(machines, ROLES, &polls)),
        (WORD, machines.exchange_by_root(&word[0], &word[1])),
        (TAGGED, card("poll", effort.pick(2000, 20_000))),
        (ASLEEP, by_channel(machines, ROLES, &sleeps)),
        (TAGGED_ASLEEP, card("sleep", few)),
        (UDP, machines.round_trips("udp", &udp)),
    ];
    if machines.has_vsock() {
        let vsock = format!("--cid {} --count {few}", vsock::FAR);
        exchanges.push((VSOCK, machines.round_trips("vsock", &vsock)));
    }
    interleave(&exchanges, effort.rounds(), progress)
}

/// Goals 18 and 21.
pub(crate) fn goals(tracks: &[Track]) -> Vec<Goal> {
    let quantiles = |name: &str, quantile: f64| {
        find(tracks, name).map(|track| track.quantiles_us(quantile)).unwrap_or_default()
    };
    let beside = |number, what: &str, quantile, (own, peer): (&str, &str), name: &str, need| {
        let (own, peer) = (quantiles(own, quantile), quantiles(peer, quantile));
        Goal::beside(number, what, "us", &own, (name, &peer), need)
    };
    let ring = "ivshmem-plain with the same ring";
    let trip = (CHANNEL, RING);
    vec![
        beside(18, "express channel, 16 bytes, both poll: p50", 0.5, trip, ring, Need::RatioAtMost(1.2)),
        beside(18, "the same: p99", 0.99, trip, ring, Need::RatioAtMost(1.2)),
        // Goal 2's own limit, and its figure in the same rounds.
        beside(
            21,
            "express channel, both ends asleep: p50",
            0.5,
            (ASLEEP, UDP),
            "virtio-net UDP",
            Need::RatioAtMost(0.6),
        ),
        beside(
            21,
            "the same, beside goal 2's",
            0.5,
            (ASLEEP, TAGGED_ASLEEP),
            "a tagged remote write, both asleep",
            Need::RatioAtMost(1.0),
        ),
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
