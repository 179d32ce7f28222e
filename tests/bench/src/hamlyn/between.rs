//! Goals 1 to 6: two machines, the card compared with its alternatives.

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::extras::{self, Extras};
use crate::engine::goals::{Goal, Need};
use crate::engine::idle::Idle;
use crate::engine::machines::{Machines, stream_arguments};
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::site::Site;
use crate::engine::tcp;
use crate::engine::track::{Track, find, interleave};
use crate::engine::vsock;
use crate::hamlyn::streams;

/// Arguments of a fabric that stays awake. It polls for 100 ms before it sleeps, which is longer
/// than a peer may have to wait for a core. The handshake with the hosts is off, because its
/// trapped stores depend on time instead of messages (goal 5).
pub const AWAKE: [&str; 4] = ["--spin", "100000", "--handshake", "0"];

/// The largest packets: a long message needs the fewest of them.
pub const WIDE: [&str; 2] = ["--packet-size", "65536"];
/// The same, in bytes.
pub const WIDE_PACKET: u32 = 65536;

/// The same machines, four times, with different fabrics.
#[derive(Debug)]
pub struct Labs {
    /// One process for cards and switch, pinned to cores like its machines. The peers' devices are
    /// here.
    pub fabric: Machines,
    /// The same, kept awake while messages arrive.
    pub awake: Machines,
    /// A process for each card, and one for the switch.
    pub separate: Machines,
    /// One process, and the largest packets: for bandwidth alone.
    pub wide: Machines,
}

/// Labels of the labs.
const FABRIC: &str = "hamlyn fabric --cores 0,1";
const KEPT_AWAKE: &str = "hamlyn fabric --spin 100000 --handshake 0";
const SEPARATE: &str = "hamlyn card, hamlyn switch";
const LARGE_PACKETS: &str = "hamlyn fabric --packet-size 65536";

impl Labs {
    fn all(&self) -> [(&'static str, &Machines); 3] {
        [(FABRIC, &self.fabric), (KEPT_AWAKE, &self.awake), (SEPARATE, &self.separate)]
    }
}

const POLL: &str = "16-byte tagged remote write, both ends poll";
const SLEEP: &str = "16-byte tagged remote write, both ends sleep";
const ECHO_SLEEPS: &str = "16-byte tagged remote write, the far end sleeps";
const SPIN: &str = "16-byte tagged remote write, both ends spin, then sleep";
const UDP: &str = "virtio-net, 16-byte UDP";
const UDP_POLL: &str = "virtio-net, 16-byte UDP, both ends poll their sockets";
const TCP: &str = "virtio-net, 16-byte TCP";
const VSOCK: &str = "vhost-user-vsock, 16 bytes";
const IVSHMEM: &str = "ivshmem-plain, 16 bytes, both ends poll";

/// Message sizes of goal 3, with their labels.
const STREAMS: [(&str, u64); 2] = [("64 KiB messages", 64 << 10), ("1 MiB messages", 1 << 20)];
const TCP_STREAM: &str = "virtio-net, TCP stream, one way";

/// The paper's round trip, in microseconds (section 4.1).
const PAPER_US: f64 = 28.2;

/// Returns the name of a quantity in a lab.
fn of(lab: &str, what: &str) -> String {
    format!("{lab}: {what}")
}

/// Measures round trips of 16 bytes, all peers in turn. With `all`, also those without a goal.
pub fn round_trips(labs: &Labs, effort: Effort, all: bool, progress: &Progress) -> Vec<Track> {
    let many = effort.pick(2000, 20_000);
    let few = effort.pick(600, 4000);
    let fabric = &labs.fabric;
    let at = format!("--address {}", fabric.address());
    let mut exchanges = vec![(UDP.to_owned(), fabric.round_trips("udp", &format!("{at} --count {few}")))];
    for (lab, machines) in labs.all() {
        // Where three threads compete for two cores, a round trip takes milliseconds.
        let count = if lab == FABRIC { many } else { many.min(2000) };
        exchanges.push((of(lab, POLL), waits(machines, "poll", count)));
        exchanges.push((of(lab, SLEEP), waits(machines, "sleep", few)));
    }
    if all {
        exchanges.extend(others(fabric, few, many));
        exchanges.push((of(FABRIC, SPIN), waits(fabric, "spin", few)));
    }
    interleave(&exchanges, effort.rounds(), progress)
}

fn waits<'a>(machines: &'a Machines, wait: &str, count: u64) -> Exchange<'a> {
    machines.round_trips("card", &format!("--wait {wait} --count {count}"))
}

/// Returns the round trips without a goal.
fn others(fabric: &Machines, few: u64, many: u64) -> Vec<(String, Exchange<'_>)> {
    let at = format!("--address {}", fabric.address());
    let one_sleeps = fabric.exchange(
        &format!("card-ping --wait poll --count {few}"),
        &format!("card-echo --wait sleep --count {few}"),
    );
    let ivshmem = Exchange::between(
        Site::Root(fabric.lab.vm(0)),
        &format!("ivshmem-ping --count {many}"),
        Site::Root(fabric.lab.vm(1)),
        &format!("ivshmem-echo --count {many}"),
    );
    let vsock = fabric.round_trips("vsock", &format!("--cid {} --count {few}", vsock::FAR));
    let udp_poll = fabric.round_trips("udp", &format!("{at} --wait poll --count {few}"));
    let named = |name: &str, exchange| (name.to_owned(), exchange);
    let mut exchanges = vec![
        (of(FABRIC, ECHO_SLEEPS), one_sleeps),
        named(TCP, fabric.round_trips("tcp", &format!("{at} --count {few}"))),
        named(UDP_POLL, udp_poll),
        named(IVSHMEM, ivshmem.watching(&fabric.processes)),
    ];
    if fabric.has_vsock() {
        exchanges.push(named(VSOCK, vsock));
    }
    exchanges
}

/// Measures one-way bandwidth, all peers in turn. TCP uses its fastest MTU.
pub fn bandwidths(labs: &Labs, effort: Effort, progress: &Progress) -> anyhow::Result<Vec<Track>> {
    let fabric = &labs.fabric;
    tcp::tune(fabric, progress)?;
    let mut exchanges = vec![(TCP_STREAM.to_owned(), tcp::stream(fabric, effort.pick(8, 64)))];
    for (what, size) in STREAMS {
        let count = effort.pick(128 << 20, 512 << 20) / size;
        for (lab, machines) in labs.all().into_iter().chain([(LARGE_PACKETS, &labs.wide)]) {
            exchanges.push((of(lab, what), streams::stream(machines, size, count)));
        }
        exchanges.push((of(LARGE_PACKETS, &own_name(what)), streams::stream_of_own(&labs.wide, size, count)));
        exchanges.push((copy_name(what), copy(size, "")));
        exchanges.push((hot_name(what), copy(size, "--hot")));
    }
    Ok(interleave(&exchanges, effort.rounds(), progress))
}

fn own_name(what: &str) -> String {
    format!("{what}, memory of the programs' own")
}

fn copy_name(what: &str) -> String {
    format!("memcpy on the host, {what}, through as much memory as the card's")
}

fn hot_name(what: &str) -> String {
    format!("memcpy on the host, {what}, always the same memory")
}

fn copy(size: u64, more: &str) -> Exchange<'static> {
    let arguments = stream_arguments(size, (512 << 20) / size);
    Exchange::alone(Site::Host(None), &format!("memcpy {arguments} {more}"))
}

/// Measures the cost of a message in addition to time, in every lab.
pub fn extras(labs: &Labs, progress: &Progress) -> anyhow::Result<Vec<Extras>> {
    let roles = |count: u64| {
        ["ping", "echo"].map(|role| format!("card-{role} --wait poll --warmup 0 --count {count}"))
    };
    let of = |(lab, machines)| extras::measure(lab, machines, roles, progress);
    labs.all().into_iter().map(of).collect()
}

/// Draws the percentiles of the round trips.
pub fn percentiles(tracks: &[Track]) -> Figure {
    const QUANTILES: [f64; 8] = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999];
    let curve = |track: &Track| {
        let samples = track.samples()?;
        let at = |quantile: f64| samples.value_at_quantile(quantile) as f64 / 1e3;
        let points =
            QUANTILES.map(|quantile| Point { x: 1.0 / (1.0 - quantile), y: at(quantile), high: None });
        Some(Curve::ours(track.name.clone(), points.to_vec()))
    };
    Figure {
        key: "percentiles".to_owned(),
        title: "Round trips of 16 bytes by percentile".to_owned(),
        answers: "Table 4, section 4.1".to_owned(),
        paper:
            "The paper gives means only, with less than 1% between runs on machines that did nothing else."
                .to_owned(),
        x: ("one of so many takes at least so long (10: 90th percentile)".to_owned(), Scale::Log),
        y: ("round trip, us".to_owned(), Scale::Log),
        curves: tracks.iter().filter_map(curve).collect(),
    }
}

/// Returns the lab in which a quantity is smallest.
fn best(tracks: &[Track], what: &str, value: impl Fn(&Track) -> Option<f64>) -> &'static str {
    let labs = [FABRIC, KEPT_AWAKE, SEPARATE, LARGE_PACKETS].into_iter();
    let values = labs.filter_map(|lab| Some((lab, value(find(tracks, &of(lab, what))?)?)));
    values.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(FABRIC, |(lab, _)| lab)
}

/// Goals 1, 2 and 4, each with the best lab.
pub fn latency_goals(tracks: &[Track]) -> Vec<Goal> {
    let medians = |name: &str| find(tracks, name).map(Track::medians_us).unwrap_or_default();
    let udp = medians(UDP);
    let udp = ("virtio-net UDP", &udp[..]);
    let (polled, slept) = (best(tracks, POLL, Track::p50_us), best(tracks, SLEEP, Track::p50_us));
    let (poll, sleep) = (medians(&of(polled, POLL)), medians(&of(slept, SLEEP)));
    // The tail of the measurement that goal 1 uses.
    let tail = find(tracks, &of(polled, POLL)).map(|track| track.quantiles_us(0.99)).unwrap_or_default();
    let write = |lab: &str| format!("16-byte tagged remote write, both poll ({lab}): p50");
    let paper = vec![PAPER_US; poll.len()];
    let paper = ("the paper's card", &paper[..]);
    let asleep = format!("both ends asleep ({slept}): p50");
    vec![
        Goal::beside(1, &write(polled), "us", &poll, udp, Need::RatioAtMost(0.05)),
        Goal::beside(1, "the same, beside the paper's", "us", &poll, paper, Need::RatioAtMost(1.0)),
        Goal::beside(2, &asleep, "us", &sleep, udp, Need::RatioAtMost(0.6)),
        Goal::beside(
            4,
            &format!("both poll ({polled}): p99"),
            "us",
            &tail,
            ("p50", &poll),
            Need::RatioAtMost(3.0),
        ),
    ]
}

/// Goal 3, with the best lab.
pub fn bandwidth_goals(tracks: &[Track]) -> Vec<Goal> {
    let rates = |name: &str| -> Vec<f64> {
        let rates = find(tracks, name).map(Track::rates).unwrap_or_default();
        rates.into_iter().map(|rate| rate / 1e6).collect()
    };
    let tcp = rates(TCP_STREAM);
    let goals = STREAMS.map(|(what, _)| {
        let lab = best(tracks, what, |track| track.rate().map(|rate| 1e6 / rate));
        let (card, name) = (rates(&of(lab, what)), format!("{what} ({lab})"));
        let copy = rates(&copy_name(what));
        let (tcp, copy) = (("virtio-net TCP", &tcp[..]), ("memcpy through as much memory", &copy[..]));
        [
            Goal::beside(3, &name, "MB/s", &card, tcp, Need::RatioAtLeast(20.0)),
            Goal::beside(3, &name, "MB/s", &card, copy, Need::RatioAtLeast(0.4)),
        ]
    });
    goals.concat()
}

/// Goal 5: while the card is awake.
pub fn extras_goals(extras: &[Extras]) -> Vec<Goal> {
    // One or two in thousands of messages are due to the programs themselves, for example memory
    // for a longer result.
    let need = Need::AtMost(0.002);
    let awake = extras.iter().find(|extras| extras.lab == KEPT_AWAKE);
    let (traps, calls) = (awake.map(|extras| extras.traps), awake.map(|extras| extras.system_calls));
    let what = |what: &str| format!("{what} per message, polling ({KEPT_AWAKE})");
    vec![
        Goal::own(5, &what("trapped accesses"), "", traps, need),
        Goal::own(5, &what("system calls"), "", calls, need),
    ]
}

/// Goal 6.
pub fn idle_goals(idle: &[Idle]) -> Vec<Goal> {
    let service = |idle: &Idle| {
        let what = format!("idle: {}", idle.layout);
        Goal::own(6, &what, "% of a core", Some(idle.services * 100.0), Need::AtMost(1.0))
    };
    let application = idle.iter().map(|idle| idle.application * 100.0).reduce(f64::max);
    // The application only goes to sleep and wakes up once.
    let application = Goal::own(6, "a sleeping application", "% of a core", application, Need::AtMost(0.1));
    idle.iter().map(service).chain([application]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    #[test]
    fn goals_name_the_best_lab() {
        let track = |lab: &str, us: u64| Track::of_samples(&of(lab, POLL), &[us * 1000]);
        let tracks = [track(FABRIC, 30), track(KEPT_AWAKE, 20), track(SEPARATE, 70)];
        let goals = latency_goals(&tracks);
        assert!(goals[0].what.contains(KEPT_AWAKE) && (goals[0].value.unwrap() / 20.0 - 1.0).abs() < 0.01);
        assert!(goals[3].what.contains(KEPT_AWAKE), "{}", goals[3].what);
    }

    #[test]
    fn unmeasured_goals_are_not_met() {
        let goals = [latency_goals(&[]), bandwidth_goals(&[]), extras_goals(&[])].concat();
        assert_eq!(goals.len(), 10);
        assert!(goals.iter().all(|goal| goal.verdict() == Verdict::NotMeasured));
    }
}
