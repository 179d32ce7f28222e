//! Goals 1 to 6: two machines, the card compared with its alternatives.

use anyhow::Context;

use crate::engine::effort::Effort;
use crate::engine::experiment::{Experiment, Running};
use crate::engine::extras::{self, Extras};
use crate::engine::goals::{Goal, Need};
use crate::engine::idle::{self, Idle};
use crate::engine::machines::{ADDRESS, Machines, Pair, stream_arguments};
use crate::engine::plan::Planned;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::run::Run;
use crate::engine::tcp;
use crate::engine::track::{Track, find, medians, values};
use crate::engine::vsock;
use crate::hamlyn::pairs::{self, WIDE};

pub(crate) const TRIPS: Experiment = Experiment {
    name: "machines",
    title: "round trips of 16 bytes (goals 1, 2, 4)",
    heading: "Round trips of 16 bytes between two machines",
    has_goal: true,
    pairs: &MACHINES,
    plan: trips,
    goals: latency_goals,
    figures: |tracks| vec![percentiles(tracks)],
    ..Experiment::NEW
};

/// TCP uses its fastest MTU.
pub(crate) const BANDWIDTH: Experiment = Experiment {
    name: "machines",
    title: "bandwidth (goal 3)",
    heading: "One-way bandwidth between two machines",
    has_goal: true,
    pairs: &MACHINES,
    prepare: tune,
    plan: bandwidths,
    goals: bandwidth_goals,
    ..Experiment::NEW
};

/// What messages cost in addition to time, and what cards cost without messages.
pub(crate) const COSTS: Experiment =
    Experiment { name: "machines", has_goal: true, pairs: &MACHINES, also: costs, ..Experiment::NEW };

/// All machines run from the first measurement to the last.
const MACHINES: [Pair; 4] = [pairs::FABRIC, pairs::AWAKE, pairs::SEPARATE, WIDE];

/// Labels of the labs.
const FABRIC: &str = "hamlyn fabric --cores 0,1";
const KEPT_AWAKE: &str = "hamlyn fabric --spin 100000 --handshake 0";
const SEPARATE: &str = "hamlyn card, hamlyn switch";
const LARGE_PACKETS: &str = "hamlyn fabric --packet-size 65536";

/// The same machines with different fabrics, except the one for bandwidth alone.
const LABS: [(&str, Pair); 3] =
    [(FABRIC, pairs::FABRIC), (KEPT_AWAKE, pairs::AWAKE), (SEPARATE, pairs::SEPARATE)];

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

fn trips(effort: Effort) -> Vec<Planned> {
    let (many, few) = (effort.pick(2000, 20_000), effort.pick(600, 4000));
    let at = format!("--address {ADDRESS} --count {few}");
    let fabric = pairs::FABRIC;
    let waits = |pair: Pair, name: String, wait: &str, count: u64| {
        pair.trips(name, "card", &format!("--wait {wait} --count {count}"))
    };
    let mut plan = vec![fabric.trips(UDP, "udp", &at)];
    for (lab, pair) in LABS {
        // Where three threads compete for two cores, a round trip takes milliseconds.
        let count = if lab == FABRIC { many } else { many.min(2000) };
        plan.push(waits(pair, of(lab, POLL), "poll", count));
        plan.push(waits(pair, of(lab, SLEEP), "sleep", few));
    }
    let [near, far] =
        ["ping --wait poll", "echo --wait sleep"].map(|end| format!("card-{end} --count {few}"));
    let without_goal = [
        fabric.exchange(of(FABRIC, ECHO_SLEEPS), &near, &far),
        fabric.trips(TCP, "tcp", &at),
        fabric.trips(UDP_POLL, "udp", &format!("--address {ADDRESS} --wait poll --count {few}")),
        fabric.trips(IVSHMEM, "ivshmem", &format!("--count {many}")).by_root(),
        fabric.trips(VSOCK, "vsock", &format!("--cid {} --count {few}", vsock::FAR)).by_vsock(),
        waits(fabric, of(FABRIC, SPIN), "spin", few),
    ];
    plan.extend(without_goal.map(Planned::extra));
    plan
}

/// Sets the MTU of the machines with virtio-net.
pub(crate) fn tune(run: &Run<'_>, running: &Running) -> anyhow::Result<()> {
    running.get(pairs::FABRIC).map_or(Ok(()), |machines| tcp::tune(machines, run.progress))
}

fn bandwidths(effort: Effort) -> Vec<Planned> {
    let mut plan = vec![pairs::FABRIC.stream(TCP_STREAM, "tcp", &tcp::arguments(effort.pick(8, 64)))];
    for (what, size) in STREAMS {
        let arguments = stream_arguments(size, effort.pick(128 << 20, 512 << 20) / size);
        for (lab, pair) in LABS.into_iter().chain([(LARGE_PACKETS, WIDE)]) {
            plan.push(pair.stream(of(lab, what), "card", &arguments).by_root());
        }
        let own = format!("{arguments} --own");
        plan.push(WIDE.stream(of(LARGE_PACKETS, &own_name(what)), "card", &own).by_root());
        for (name, more) in [(copy_name(what), ""), (hot_name(what), "--hot")] {
            let copy = format!("memcpy {} {more}", stream_arguments(size, (512 << 20) / size));
            plan.push(pairs::FABRIC.alone(name, &copy).on_host());
        }
    }
    plan
}

/// Goals 5 and 6.
fn costs(run: &mut Run<'_>, running: &Running, _: &mut Vec<Track>) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let machines = |pair| running.get(pair).context("these machines do not run");
    let roles = |count: u64| {
        ["ping", "echo"].map(|role| format!("card-{role} --wait poll --warmup 0 --count {count}"))
    };
    let extras = progress.part("traps and system calls (goal 5)", || {
        LABS.iter().map(|(lab, pair)| extras::measure(lab, machines(*pair)?, roles, progress)).collect()
    });
    let idle = progress.part("idle (goal 6)", || {
        let measure =
            |machines: &Machines| idle::measure(machines, "card-doze", effort.pick(3, 20), progress);
        [pairs::FABRIC, pairs::SEPARATE].into_iter().map(|pair| measure(machines(pair)?)).collect()
    });
    let (extras, idle): (Vec<_>, Vec<_>) =
        (run.noted(extras).unwrap_or_default(), run.noted(idle).unwrap_or_default());
    run.goals.extend(extras_goals(&extras));
    run.goals.extend(idle_goals(&idle));
    run.others.push(extras::table(&extras));
    Ok(())
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

/// Draws the percentiles of the round trips.
fn percentiles(tracks: &[Track]) -> Figure {
    const QUANTILES: [f64; 8] = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999];
    let curve = |track: &Track| {
        let samples = track.samples()?;
        let at = |quantile: f64| samples.value_at_quantile(quantile) as f64 / 1e3;
        let points =
            QUANTILES.map(|quantile| Point { x: 1.0 / (1.0 - quantile), y: at(quantile), high: None });
        Some(Curve::ours(track.name.clone(), points.to_vec()))
    };
    Figure {
        key: "percentiles",
        title: "Round trips of 16 bytes by percentile",
        answers: "Table 4, section 4.1",
        note: "The paper gives means only, with less than 1% between runs on machines that did nothing else."
            .to_owned(),
        x: ("x: 1 of x round trips takes at least this long (10: 90th percentile)", Scale::Log),
        y: ("round trip, us", Scale::Log),
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
fn latency_goals(tracks: &[Track]) -> Vec<Goal> {
    let medians = |name: &str| medians(tracks, name);
    let udp = medians(UDP);
    let udp = ("virtio-net UDP", &udp[..]);
    let (polled, slept) = (best(tracks, POLL, Track::p50_us), best(tracks, SLEEP, Track::p50_us));
    let (poll, sleep) = (medians(&of(polled, POLL)), medians(&of(slept, SLEEP)));
    // The tail of the measurement that goal 1 uses.
    let tail = values(tracks, &of(polled, POLL), |track| track.quantiles_us(0.99));
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
fn bandwidth_goals(tracks: &[Track]) -> Vec<Goal> {
    let rates = |name: &str| -> Vec<f64> {
        values(tracks, name, Track::rates).into_iter().map(|rate| rate / 1e6).collect()
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
fn extras_goals(extras: &[Extras]) -> Vec<Goal> {
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
fn idle_goals(idle: &[Idle]) -> Vec<Goal> {
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
