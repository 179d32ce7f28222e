//! Goals 1 to 5: two machines, the card beside what people would use instead.

use anyhow::{Context, bail};

use crate::effort::Effort;
use crate::exchange::{Exchange, words};
use crate::goals::{Goal, Need};
use crate::machines::{MTUS, Machines};
use crate::plot::{Curve, Figure, Point};
use crate::progress::Progress;
use crate::site::Site;
use crate::track::{Track, find, interleave};

/// Both ends poll.
pub const CARD_POLL: &str = "card, 16-byte tagged remote write, both ends poll";
/// Both ends sleep.
pub const CARD_SLEEP: &str = "card, 16-byte tagged remote write, both ends sleep";
const CARD_ECHO_SLEEPS: &str = "card, 16-byte tagged remote write, the far end sleeps";
const CARD_SPIN: &str = "card, 16-byte tagged remote write, both ends spin, then sleep";
const UDP: &str = "virtio-net, 16-byte UDP";
const UDP_POLL: &str = "virtio-net, 16-byte UDP, both ends poll their sockets";
const TCP: &str = "virtio-net, 16-byte TCP";
const IVSHMEM: &str = "ivshmem-plain, 16 bytes, both ends poll";

const CARD_64K: &str = "card, 64 KiB messages, one way";
const CARD_1M: &str = "card, 1 MiB messages, one way";
const STREAM: &str = "virtio-net, TCP stream, one way";
const COPY_64K: &str = "memcpy on the host, 64 KiB";
const COPY_1M: &str = "memcpy on the host, 1 MiB";
const COPY_COLD: &str = "memcpy on the host, 64 MiB: more than the caches hold";

/// The paper's round trip, in microseconds (section 4.1).
const PAPER_US: f64 = 28.2;

/// Round trips of 16 bytes, all peers in turn.
pub fn round_trips(machines: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let pair = |role: &str, arguments: &str| {
        let (ping, echo) = (format!("{role}-ping {arguments}"), format!("{role}-echo {arguments}"));
        Exchange::between(machines.near(), &ping, machines.far(), &echo)
    };
    let at = machines.address();
    let many = effort.pick(4000, 20_000);
    let few = effort.pick(800, 4000);
    let one_sleeps = Exchange::between(
        machines.near(),
        &format!("card-ping --wait poll --count {few}"),
        machines.far(),
        &format!("card-echo --wait sleep --count {few}"),
    );
    let ivshmem = Exchange::between(
        Site::Root(machines.lab.vm(0)),
        &format!("ivshmem-ping --count {many}"),
        Site::Root(machines.lab.vm(1)),
        &format!("ivshmem-echo --count {many}"),
    );
    let exchanges = [
        (CARD_POLL, pair("card", &format!("--wait poll --count {many}"))),
        (UDP, pair("udp", &format!("--address {at} --count {few}"))),
        (CARD_SLEEP, pair("card", &format!("--wait sleep --count {few}"))),
        (TCP, pair("tcp", &format!("--address {at} --count {few}"))),
        (CARD_SPIN, pair("card", &format!("--wait spin --count {few}"))),
        (UDP_POLL, pair("udp", &format!("--address {at} --wait poll --count {few}"))),
        (CARD_ECHO_SLEEPS, one_sleeps),
        (IVSHMEM, ivshmem),
    ];
    interleave(&exchanges, effort.rounds(), progress)
}

/// One-way bandwidth, all peers in turn; TCP at the MTU that serves it best.
pub fn bandwidths(machines: &Machines, effort: Effort, progress: &Progress) -> anyhow::Result<Vec<Track>> {
    let stream = |mib: u64| {
        let arguments =
            format!("--address {} --size 65536 --warmup 16 --count {}", machines.address(), mib * 16);
        let (send, sink) = (format!("tcp-send {arguments}"), format!("tcp-sink {arguments}"));
        Exchange::between(machines.near(), &send, machines.far(), &sink)
    };
    let card = |size: u64, mib: u64| {
        let arguments = format!("--size {size} --warmup 8 --count {}", (mib << 20) / size);
        let (send, sink) = (format!("card-send {arguments}"), format!("card-sink {arguments}"));
        Exchange::between(machines.near(), &send, machines.far(), &sink)
    };
    let copy =
        |size: u64| Exchange::alone(Site::Host(None), &format!("memcpy --size {size} --total {}", 1 << 30));
    let mut best = (MTUS[0], 0.0);
    for mtu in MTUS {
        progress.step(&format!("virtio-net, TCP stream at MTU {mtu}"));
        machines.set_mtu(mtu)?;
        match stream(4).run() {
            Ok(outcome) if outcome.rate() > best.1 => best = (mtu, outcome.rate()),
            Ok(_) => {}
            Err(error) => progress.note(&format!("TCP at MTU {mtu}: {error:#}")),
        }
    }
    machines.set_mtu(best.0)?;
    progress.note(&format!("virtio-net's best MTU for TCP is {}", best.0));
    let exchanges = [
        (CARD_64K, card(64 << 10, effort.pick(32, 256))),
        (STREAM, stream(effort.pick(8, 64))),
        (COPY_64K, copy(64 << 10)),
        (CARD_1M, card(1 << 20, effort.pick(32, 256))),
        (COPY_1M, copy(1 << 20)),
        (COPY_COLD, copy(64 << 20)),
    ];
    Ok(interleave(&exchanges, effort.rounds(), progress))
}

/// What a message costs besides time.
#[derive(Debug, Clone, Copy)]
pub struct Extras {
    /// Trapped accesses to both cards, by the counters of their buses.
    pub traps: f64,
    /// System calls of the near end, by `strace`.
    pub system_calls: f64,
}

/// Counts trapped accesses and system calls for each message of a polled exchange, from the difference between a short
/// and a long one: what the programs do before and after their messages is in both.
pub fn extras(machines: &Machines, progress: &Progress) -> anyhow::Result<Extras> {
    const COUNTS: [u64; 2] = [500, 2500];
    let (mut traps, mut calls) = ([0; 2], [0; 2]);
    for (index, count) in COUNTS.into_iter().enumerate() {
        progress.step(&format!("traps and system calls of {count} messages"));
        let roles =
            ["ping", "echo"].map(|role| format!("card-{role} --wait poll --warmup 0 --count {count}"));
        let before = trapped(machines)?;
        Exchange::between(machines.near(), &roles[0], machines.far(), &roles[1]).run()?;
        traps[index] = trapped(machines)? - before;
        calls[index] = traced_calls(machines, &roles)?;
    }
    // Every round trip is a message of each end.
    let trips = (COUNTS[1] - COUNTS[0]) as f64;
    let difference = |counts: [u64; 2]| counts[1] as f64 - counts[0] as f64;
    Ok(Extras {
        traps: difference(traps).max(0.0) / trips / 2.0,
        system_calls: difference(calls).max(0.0) / trips,
    })
}

fn trapped(machines: &Machines) -> anyhow::Result<u64> {
    let mut sum = 0;
    for card in 0..2 {
        let counters = machines.lab.card_counters(card)?;
        for verb in ["REGION_READ", "REGION_WRITE", "REGION_WRITE_MULTI"] {
            let Some(count) = counters["bus"][verb].as_u64() else {
                bail!("card {card} does not count {verb}")
            };
            sum += count;
        }
    }
    Ok(sum)
}

/// Runs the near end under strace, and gives how many system calls it made.
fn traced_calls(machines: &Machines, roles: &[String; 2]) -> anyhow::Result<u64> {
    const SUMMARY: &str = "/tmp/strace";
    let (near, far) = (machines.lab.vm(0), machines.lab.vm(1));
    let mut echo = far.run([words("hamlyn-bench-guest"), words(&roles[1])].concat())?;
    let theirs = echo.answer_text("ticket")?;
    let traced = words(&format!("strace -f -c -o {SUMMARY} hamlyn-bench-guest {}", roles[0]));
    let mut ping = near.run(traced)?;
    echo.say(&ping.answer_text("ticket")?)?;
    ping.say(&theirs)?;
    ping.finish()?;
    echo.finish()?;
    let text = near.read(SUMMARY)?;
    total_calls(&text).with_context(|| format!("strace said {text:?}"))
}

/// The number of calls in the last line of strace's summary: `100.00 0.01 12 345 6 total`.
fn total_calls(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// How much longer the long ones take.
pub fn percentiles(tracks: &[Track]) -> Figure {
    const QUANTILES: [f64; 8] = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999];
    let curve = |track: &Track| {
        let samples = track.samples()?;
        let at = |quantile: f64| samples.value_at_quantile(quantile) as f64 / 1e3;
        let points =
            QUANTILES.map(|quantile| Point { x: 1.0 / (1.0 - quantile), y: at(quantile), high: None });
        Some(Curve { label: track.name.clone(), points: points.to_vec() })
    };
    Figure {
        key: "percentiles".to_owned(),
        title: "Round trips of 16 bytes by percentile".to_owned(),
        paper:
            "The paper gives means only, with less than 1% between runs on machines that did nothing else."
                .to_owned(),
        x: "one of so many takes at least so long (10: 90th percentile)".to_owned(),
        y: "round trip, us".to_owned(),
        curves: tracks.iter().filter_map(curve).collect(),
    }
}

/// Goals 1, 2 and 4.
pub fn latency_goals(tracks: &[Track]) -> Vec<Goal> {
    let p50 = |name: &str| find(tracks, name).and_then(Track::p50_us);
    let latency = |name: &str| find(tracks, name).and_then(Track::latency);
    let udp = ("virtio-net UDP", p50(UDP));
    let poll = p50(CARD_POLL);
    vec![
        Goal::beside(
            1,
            "16-byte tagged remote write, both poll: p50",
            "us",
            poll,
            udp,
            Need::RatioAtMost(0.05),
        ),
        Goal::beside(
            1,
            "the same, beside the paper's",
            "us",
            poll,
            ("the paper's card", Some(PAPER_US)),
            Need::RatioAtMost(1.0),
        ),
        Goal::beside(2, "both ends asleep: p50", "us", p50(CARD_SLEEP), udp, Need::RatioAtMost(0.6)),
        Goal::beside(
            4,
            "both poll: p99",
            "us",
            latency(CARD_POLL).map(|latency| latency.p99),
            ("p50", latency(CARD_POLL).map(|latency| latency.p50)),
            Need::RatioAtMost(3.0),
        ),
    ]
}

/// Goal 3.
pub fn bandwidth_goals(tracks: &[Track]) -> Vec<Goal> {
    let rate = |name: &str| find(tracks, name).and_then(Track::rate).map(|rate| rate / 1e6);
    let sizes = [("64 KiB messages", CARD_64K, COPY_64K), ("1 MiB messages", CARD_1M, COPY_1M)];
    let goals = sizes.map(|(what, card, copy)| {
        [
            Goal::beside(
                3,
                what,
                "MB/s",
                rate(card),
                ("virtio-net TCP", rate(STREAM)),
                Need::RatioAtLeast(20.0),
            ),
            Goal::beside(3, what, "MB/s", rate(card), ("memcpy", rate(copy)), Need::RatioAtLeast(0.4)),
        ]
    });
    goals.concat()
}

/// Goal 5.
pub fn extras_goals(extras: Option<Extras>) -> Vec<Goal> {
    // One or two in thousands of messages are the programs' own: memory for a longer result, for one.
    let need = Need::AtMost(0.002);
    let (traps, calls) = (extras.map(|extras| extras.traps), extras.map(|extras| extras.system_calls));
    vec![
        Goal::own(5, "trapped accesses per message, polling", "", traps, need),
        Goal::own(5, "system calls per message, polling (strace)", "", calls, need),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straces_summary_is_read() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       60.00    0.000300          10        30           read\n\
                       40.00    0.000200          20        10         2 write\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       100.00    0.000500          12        40         2 total\n";
        assert_eq!(total_calls(summary), Some(40));
        assert_eq!(total_calls("nothing"), None);
    }

    #[test]
    fn goals_that_were_not_measured_are_not_met() {
        let goals = [latency_goals(&[]), bandwidth_goals(&[]), extras_goals(None)].concat();
        assert_eq!(goals.len(), 10);
        assert!(goals.iter().all(|goal| !goal.met()));
    }
}
