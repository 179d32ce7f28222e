//! The paper's figures 7 to 10, measured again (sections 4.2 and 4.3).

use std::collections::BTreeSet;

use crate::effort::Effort;
use crate::exchange::Exchange;
use crate::machines::{Layout, Machines, stream_arguments};
use crate::plot::{Curve, Figure, Point};
use crate::progress::Progress;
use crate::site::Site;
use crate::track::{Track, interleave};

/// The packet size that cards have unless they are told otherwise; the paper's prototype's too.
pub const USUAL_PACKET: u32 = 4096;

/// One of the paper's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// One-way latency against message size, 256-byte packets.
    Seven,
    /// The same, 4 KiB packets.
    Eight,
    /// Bandwidth against message size, for several packet sizes.
    Nine,
    /// Loopback.
    Ten,
}

impl Name {
    /// All of them.
    pub const ALL: [Name; 4] = [Name::Seven, Name::Eight, Name::Nine, Name::Ten];

    /// The one with the paper's number.
    pub fn from_number(number: u32) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(7)?).ok()?;
        Self::ALL.get(index).copied()
    }

    fn text(self) -> &'static str {
        match self {
            Name::Seven => "Figure 7",
            Name::Eight => "Figure 8",
            Name::Nine => "Figure 9",
            Name::Ten => "Figure 10",
        }
    }

    fn packet_sizes(self, effort: Effort) -> Vec<u32> {
        match self {
            Name::Seven => vec![256],
            Name::Eight | Name::Ten => vec![USUAL_PACKET],
            Name::Nine => effort.pick(
                vec![256, USUAL_PACKET, 65536],
                vec![256, 512, 1024, 2048, USUAL_PACKET, 8192, 16384, 32768, 65536],
            ),
        }
    }
}

/// The packet sizes that these figures need, each with machines of its own.
pub fn packet_sizes(names: &[Name], effort: Effort) -> BTreeSet<u32> {
    names.iter().flat_map(|name| name.packet_sizes(effort)).collect()
}

/// A curve's points: message size and what was measured.
type Points = Vec<(u64, Track)>;

/// What has been measured for the figures, curve by curve.
#[derive(Debug, Default)]
pub struct Figures {
    curves: Vec<(Name, Quantity, String, Points)>,
}

/// What a curve shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    /// Half of a round trip between two machines, in microseconds.
    HalfTrip,
    /// A message to oneself, in microseconds.
    Loop,
    /// Megabytes a second.
    Rate,
}

impl Figures {
    /// Measures what these figures need from machines whose cards have this packet size.
    pub fn measure(
        &mut self,
        names: &[Name],
        machines: &Machines,
        separate: Option<&Machines>,
        packet: u32,
        effort: Effort,
        progress: &Progress,
    ) {
        for name in names.iter().copied().filter(|name| name.packet_sizes(effort).contains(&packet)) {
            let mut plans = match name {
                Name::Seven | Name::Eight => latency_plans(machines, packet, effort),
                Name::Nine => vec![bandwidth_plan(machines, packet, effort)],
                Name::Ten => loopback_plans(machines, effort),
            };
            if name == Name::Eight && machines.peers() {
                plans.push(udp_plan(machines, effort));
            }
            plans.extend(separate.and_then(|separate| match name {
                Name::Eight => Some(tagged_plan(separate, packet, effort)),
                Name::Nine => Some(bandwidth_plan(separate, packet, effort)),
                Name::Seven | Name::Ten => None,
            }));
            for (plan, points) in measure_in_turn(&plans, effort, progress) {
                self.curves.push((name, plan.quantity, plan.label.clone(), points));
            }
        }
        // The usual packet size is measured first, where machines with it run already.
        self.curves.sort_by_key(|curve| if curve.0 == Name::Nine { leading_number(&curve.2) } else { 0 });
    }

    /// The figures, in the paper's order.
    pub fn figures(&self) -> Vec<Figure> {
        let figures = [
            (
                Name::Seven,
                Quantity::HalfTrip,
                "figure-7",
                "Figure 7: one-way latency, 256-byte packets",
                SEVEN,
            ),
            (Name::Eight, Quantity::HalfTrip, "figure-8", "Figure 8: one-way latency, 4 KiB packets", EIGHT),
            (Name::Nine, Quantity::Rate, "figure-9", "Figure 9: one-way bandwidth by packet size", NINE),
            (Name::Ten, Quantity::Loop, "figure-10-latency", "Figure 10: loopback, latency", TEN),
            (Name::Ten, Quantity::Rate, "figure-10-bandwidth", "Figure 10: loopback, bandwidth", TEN),
        ];
        let of = |name: Name, quantity: Quantity| {
            let fits = self.curves.iter().filter(move |curve| curve.0 == name && curve.1 == quantity);
            fits.map(move |(_, _, label, points)| curve(label, points, quantity)).collect::<Vec<_>>()
        };
        figures
            .into_iter()
            .map(|(name, quantity, key, title, paper)| Figure {
                key: key.to_owned(),
                title: title.to_owned(),
                answers: name.text().to_owned(),
                paper: paper.to_owned(),
                x: "message size, bytes".to_owned(),
                y: if quantity == Quantity::Rate { "MB/s" } else { "one way, us" }.to_owned(),
                curves: of(name, quantity),
            })
            .filter(|figure| !figure.curves.is_empty())
            .collect()
    }

    /// Everything that was measured.
    pub fn into_tracks(self) -> Vec<Track> {
        self.curves.into_iter().flat_map(|curve| curve.3).map(|point| point.1).collect()
    }
}

const SEVEN: &str = "Cards and switch in one process, except where a curve says otherwise. The prototype: 17.4 us for the smallest message, 55.5 ns for each byte, a step of 12.5 us at every \
    multiple of 256 bytes, 7.7 us more with metadata. Latency is half a round trip, both ends polling; the faint line is \
    the 99th percentile.";
const EIGHT: &str =
    "The prototype: 17.4 us for the smallest message, alternating 55.5 and 11.6 ns for each byte.";
const NINE: &str = "The prototype: 20 MB/s with 256-byte packets, up to 30.7 MB/s with 4 KiB packets, bound by the I/O \
    bus.";
const TEN: &str = "The prototype: 19.1 us for 4 bytes to oneself, and 22 MB/s instead of 28.";

fn curve(label: &str, points: &Points, quantity: Quantity) -> Curve {
    let point = |(size, track): &(u64, Track)| {
        let (y, high) = match quantity {
            Quantity::Rate => (track.rate()? / 1e6, None),
            Quantity::HalfTrip => (track.p50_us()? / 2.0, Some(track.latency()?.p99 / 2.0)),
            Quantity::Loop => (track.p50_us()?, Some(track.latency()?.p99)),
        };
        Some(Point { x: *size as f64, y, high })
    };
    Curve { label: label.to_owned(), points: points.iter().filter_map(point).collect() }
}

/// A curve to be measured.
struct Plan<'a> {
    label: String,
    quantity: Quantity,
    points: Vec<(u64, String, Exchange<'a>)>,
}

/// Measures all curves of a figure, their points in turn.
fn measure_in_turn<'p, 'm>(
    plans: &'p [Plan<'m>],
    effort: Effort,
    progress: &Progress,
) -> Vec<(&'p Plan<'m>, Points)> {
    let points = || plans.iter().flat_map(|plan| &plan.points);
    let exchanges: Vec<_> = points().map(|(_, name, exchange)| (name.as_str(), exchange.clone())).collect();
    let mut tracks = interleave(&exchanges, effort.figure_rounds(), progress).into_iter();
    let sizes = |plan: &'p Plan<'m>| plan.points.iter().map(|point| point.0);
    plans.iter().map(|plan| (plan, sizes(plan).zip(tracks.by_ref()).collect())).collect()
}

/// The number that a label begins with.
fn leading_number(label: &str) -> u32 {
    let digits = label.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

fn sizes(effort: Effort) -> Vec<u64> {
    effort.pick(
        vec![16, 256, 1024, 4096, 16384, 65536],
        vec![
            16, 32, 64, 128, 192, 256, 320, 384, 448, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144,
            8192, 12288, 16384, 24576, 32768, 49152, 65536,
        ],
    )
}

/// How a curve's label says which processes its cards and switch are; nothing where they are one.
fn layout(machines: &Machines) -> &'static str {
    match machines.layout() {
        Layout::Pinned => "",
        Layout::Fabric => ", not pinned",
        Layout::Separate => ", cards and switch as separate processes",
    }
}

/// Half of a round trip against the size, for a pair of roles.
fn latency_plan<'a>(
    machines: &'a Machines,
    label: &str,
    role: &str,
    arguments: &str,
    sizes: &[u64],
    effort: Effort,
) -> Plan<'a> {
    let count = effort.pick(200, 2000);
    let label = format!("{label}{}", layout(machines));
    let point = |size: u64| {
        let arguments = format!("{arguments} --size {size} --warmup 20 --count {count}");
        (size, format!("{label}, {size} bytes"), machines.round_trips(role, arguments.trim_start()))
    };
    let points = sizes.iter().copied().map(point).collect();
    Plan { label, quantity: Quantity::HalfTrip, points }
}

fn tagged_plan(machines: &Machines, packet: u32, effort: Effort) -> Plan<'_> {
    let sizes: Vec<u64> = sizes(effort).into_iter().filter(|size| *size <= packet.into()).collect();
    let label = format!("tagged remote write, {packet}-byte packets");
    latency_plan(machines, &label, "card", "", &sizes, effort)
}

fn latency_plans(machines: &Machines, packet: u32, effort: Effort) -> Vec<Plan<'_>> {
    let with = |metadata: u32| {
        let label = format!("message with {metadata} bytes of metadata, {packet}-byte packets");
        let arguments = format!("--metadata {metadata}");
        latency_plan(machines, &label, "card", &arguments, &sizes(effort), effort)
    };
    [tagged_plan(machines, packet, effort)].into_iter().chain([0, 4, 60].map(with)).collect()
}

fn udp_plan(machines: &Machines, effort: Effort) -> Plan<'_> {
    let sizes: Vec<u64> = sizes(effort).into_iter().filter(|size| *size <= 65000).collect();
    let address = format!("--address {}", machines.address());
    latency_plan(machines, "virtio-net UDP", "udp", &address, &sizes, effort)
}

/// Messages of a stream of this size.
fn stream_length(size: u64, effort: Effort) -> u64 {
    let total = effort.pick(16, 64) << 20;
    (total / size).clamp(32, effort.pick(1000, 10_000))
}

fn bandwidth_plan(machines: &Machines, packet: u32, effort: Effort) -> Plan<'_> {
    let label = format!("{packet}-byte packets{}", layout(machines));
    let point = |size: u64| {
        let name = format!("bandwidth, {label}, {size} bytes");
        (size, name, machines.stream(size, stream_length(size, effort)))
    };
    let sizes = effort.pick(
        vec![256, 1024, 4096, 16384, 65536, 1 << 20],
        vec![
            256,
            512,
            1024,
            2048,
            4096,
            8192,
            16384,
            40960,
            65536,
            131_072,
            262_144,
            524_288,
            1 << 20,
            4 << 20,
        ],
    );
    Plan { label: label.clone(), quantity: Quantity::Rate, points: sizes.into_iter().map(point).collect() }
}

fn loopback_plans(machines: &Machines, effort: Effort) -> Vec<Plan<'_>> {
    let here: Site<'_> = machines.near();
    let count = effort.pick(200, 2000);
    let latency = |size: u64| {
        let role = format!("card-loopback --metadata 0 --size {size} --warmup 20 --count {count}");
        (size, format!("loopback, {size} bytes"), Exchange::alone(here.clone(), &role))
    };
    let rate = |size: u64| {
        let arguments = stream_arguments(size, stream_length(size, effort));
        let (near, far) = (format!("card-send {arguments}"), format!("card-sink {arguments}"));
        let name = format!("bandwidth within a machine, {size} bytes");
        (size, name, Exchange::between(here.clone(), &near, here.clone(), &far))
    };
    let large: Vec<u64> = sizes(effort).into_iter().filter(|size| *size >= 256).collect();
    vec![
        Plan {
            label: "to oneself".to_owned(),
            quantity: Quantity::Loop,
            points: [4].into_iter().chain(sizes(effort)).map(latency).collect(),
        },
        Plan {
            label: "between two processes of a machine".to_owned(),
            quantity: Quantity::Rate,
            points: large.into_iter().map(rate).collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_by_the_papers_numbers() {
        assert_eq!(Name::from_number(7), Some(Name::Seven));
        assert_eq!(Name::from_number(10), Some(Name::Ten));
        assert_eq!([0, 6, 11].map(Name::from_number), [None; 3]);
    }

    #[test]
    fn curves_are_sorted_by_their_packets() {
        assert_eq!(["256-byte packets", "4096-byte packets", "x"].map(leading_number), [256, 4096, 0]);
    }

    #[test]
    fn figures_share_machines_with_the_same_packet_size() {
        let sizes = packet_sizes(&[Name::Seven, Name::Eight, Name::Ten], Effort::Quick);
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [256, 4096]);
        assert!(packet_sizes(&[], Effort::Full).is_empty());
    }
}
