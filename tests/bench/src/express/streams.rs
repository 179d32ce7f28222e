//! Messages one way, in laps: copied in and copied out, or in place. They are compared with the
//! same ring without protection, and with `memcpy` in a guest.

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need};
use crate::engine::plan::Planned;
use crate::engine::track::{Track, values};
use crate::express::pairs::{EXPRESS, by_ivshmem};

/// Bytes of short messages.
const SHORT: u64 = 64;
/// Long messages: the label, the size, and the bytes of their ring. The ring holds at least three
/// of them.
const LONG: [(&str, u64, u64); 2] = [("64 KiB", 64 << 10, 1 << 20), ("1 MiB", 1 << 20, 3 << 20)];
/// Bytes of the ring for short messages.
const RING: u64 = 256 << 10;
/// Bytes of a lap at each end, with a different place for each message.
const LAP: u64 = 32 << 20;

pub(crate) const CHANNEL: &str = "express channel, 64 bytes, one way";
pub(crate) const BARE: &str = "ivshmem-plain, the same ring, 64 bytes, one way";

pub(crate) fn copied(size: &str) -> String {
    format!("express channel, {size}, copied in and out")
}

pub(crate) fn in_place(size: &str) -> String {
    format!("express channel, {size}, in place: no byte is copied")
}

pub(crate) fn bare(size: &str) -> String {
    format!("ivshmem-plain, the same ring, {size}, copied in and out")
}

pub(crate) fn memcpy(size: &str) -> String {
    format!("memcpy in the guest, {size}, through as much memory")
}

const HANDED: &str = "the host's cores: 1 MiB written where the other core has read";

pub(crate) const STREAMS: Experiment = Experiment {
    name: "streams",
    title: "express memory: messages one way (goals 19 and 20)",
    plan,
    goals,
    has_goal: true,
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    const ROLES: [&str; 2] = ["channel-send", "channel-sink"];
    let count = effort.pick(1 << 19, 1 << 21);
    let short = format!("--size {SHORT} --capacity {RING} --places 65536 --warmup 65536 --count {count}");
    let mut plan = vec![EXPRESS.stream(CHANNEL, "channel", &short), by_ivshmem(BARE, ROLES, &short)];
    for (name, size, ring) in LONG {
        let (places, count) = (LAP / size, effort.pick(128 << 20, 512 << 20) / size);
        let laps = format!("--size {size} --places {places} --warmup {places} --count {count}");
        let line = format!("{laps} --capacity {ring}");
        plan.push(EXPRESS.stream(copied(name), "channel", &line));
        plan.push(by_ivshmem(bare(name), ROLES, &line));
        plan.push(EXPRESS.stream(in_place(name), "channel", &format!("{line} --in-place")));
        plan.push(EXPRESS.alone(memcpy(name), &format!("memcpy {laps}")));
    }
    plan.push(EXPRESS.alone(HANDED, "hand-over").on_host());
    plan
}

/// Goals 19 and 20.
fn goals(tracks: &[Track]) -> Vec<Goal> {
    let millions = |name: &str, of| -> Vec<f64> {
        values(tracks, name, of).into_iter().map(|rate| rate / 1e6).collect()
    };
    let messages = [CHANNEL, BARE].map(|name| millions(name, Track::message_rates));
    let peer = ("ivshmem-plain with the same ring", &messages[1][..]);
    let what = "express channel, 64 bytes streamed";
    let mut goals = vec![Goal::beside(19, what, "million/s", &messages[0], peer, Need::RatioAtLeast(1.0))];
    for (name, ..) in LONG {
        let [own, copy] = [copied(name), memcpy(name)].map(|name| millions(&name, Track::rates));
        let peer = ("memcpy through as much memory", &copy[..]);
        goals.push(Goal::beside(20, &copied(name), "MB/s", &own, peer, Need::RatioAtLeast(0.9)));
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    fn track(name: &str, mb_per_s: u64) -> Track {
        let mut track = Track::of_samples(name, &[1]);
        (track.rounds[0].bytes, track.rounds[0].messages) = (mb_per_s * 1000, mb_per_s);
        track.rounds[0].ns = 1_000_000;
        track
    }

    #[test]
    fn streams_match_unprotected_ring_and_nearly_memcpy() {
        let tracks = [
            track(CHANNEL, 10),
            track(BARE, 10),
            track(&copied("64 KiB"), 900),
            track(&memcpy("64 KiB"), 1000),
            track(&copied("1 MiB"), 890),
            track(&memcpy("1 MiB"), 1000),
        ];
        let verdicts: Vec<_> = goals(&tracks).iter().map(Goal::verdict).collect();
        assert_eq!(verdicts, [Verdict::Met, Verdict::Met, Verdict::Short]);
        assert!(goals(&[]).iter().all(|goal| goal.verdict() == Verdict::NotMeasured));
    }
}
