//! The paper's figures 7 to 10, measured again (sections 4.2 and 4.3).

use std::collections::BTreeSet;

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::machines::{Layout, Machines, stream_arguments};
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::site::Site;
use crate::engine::track::{Track, interleave};
use crate::hamlyn::crossover;
use crate::hamlyn::paper;
use crate::hamlyn::streams::stream;

/// The default packet size of cards, which is also that of the paper's prototype.
pub const USUAL_PACKET: u32 = 4096;

/// One of the paper's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// One-way latency by message size, 256-byte packets.
    Seven,
    /// The same, 4 KiB packets.
    Eight,
    /// Bandwidth by message size, for several packet sizes.
    Nine,
    /// Loopback.
    Ten,
}

impl Name {
    /// All of them.
    pub const ALL: [Name; 4] = [Name::Seven, Name::Eight, Name::Nine, Name::Ten];

    /// Returns the figure with the paper's number.
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
                vec![256, 2048, USUAL_PACKET, 65536],
                vec![256, 512, 1024, 2048, USUAL_PACKET, 8192, 16384, 32768, 65536],
            ),
        }
    }
}

/// Returns the packet sizes that these figures need, each with separate machines.
pub fn packet_sizes(names: &[Name], effort: Effort) -> BTreeSet<u32> {
    names.iter().flat_map(|name| name.packet_sizes(effort)).collect()
}

/// A curve's points: message size and measurement.
type Points = Vec<(u64, Track)>;

/// The measurements for the figures, curve by curve.
#[derive(Debug, Default)]
pub struct Figures {
    curves: Vec<(Name, Quantity, String, Points)>,
}

/// The quantity of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    /// Half of a round trip between two machines, in microseconds.
    HalfTrip,
    /// The same at closely spaced sizes, which show the cost of one more packet and of a bus
    /// transaction.
    Steps,
    /// A message of a process to itself, in microseconds.
    Loop,
    /// Megabytes a second.
    Rate,
}

impl Figures {
    /// Measures the needs of these figures with machines whose cards have this packet size.
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
                Name::Seven | Name::Eight => {
                    let mut plans = latency_plans(machines, packet, effort);
                    plans.push(steps_plan(machines, packet, effort));
                    plans
                }
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
        // The default packet size is measured first, because machines with it already run.
        self.curves.sort_by_key(|curve| if curve.0 == Name::Nine { leading_number(&curve.2) } else { 0 });
    }

    /// Returns the figures, in the paper's order.
    pub fn figures(&self) -> Vec<Figure> {
        let shapes: [Shape; 7] = [
            (
                Name::Seven,
                Quantity::HalfTrip,
                "figure-7",
                "Figure 7: one-way latency, 256-byte packets",
                SEVEN,
            ),
            (Name::Seven, Quantity::Steps, "figure-7-steps", "Figure 7, size by size", SEVEN_STEPS),
            (Name::Eight, Quantity::HalfTrip, "figure-8", "Figure 8: one-way latency, 4 KiB packets", EIGHT),
            (Name::Eight, Quantity::Steps, "figure-8-steps", "Figure 8, size by size", EIGHT_STEPS),
            (Name::Nine, Quantity::Rate, "figure-9", "Figure 9: one-way bandwidth by packet size", NINE),
            (Name::Ten, Quantity::Loop, "figure-10-latency", "Figure 10: loopback, latency", TEN),
            (Name::Ten, Quantity::Rate, "figure-10-bandwidth", "Figure 10: loopback, bandwidth", TEN),
        ];
        shapes.into_iter().filter_map(|shape| self.figure(shape)).collect()
    }

    /// Returns one of them, or none if nothing was measured for it.
    fn figure(&self, (name, quantity, key, title, paper): Shape) -> Option<Figure> {
        let fits = self.curves.iter().filter(|curve| curve.0 == name && curve.1 == quantity);
        let mut curves: Vec<Curve> =
            fits.map(|(_, _, label, points)| curve(label, points, quantity)).collect();
        if curves.is_empty() {
            return None;
        }
        curves.extend(match (name, quantity) {
            (Name::Seven, Quantity::HalfTrip) => vec![paper::seven()],
            (Name::Eight, Quantity::HalfTrip) => vec![paper::eight()],
            (Name::Nine, _) => paper::nine(),
            (Name::Ten, Quantity::Rate) => vec![paper::ten_rate()],
            (Name::Ten, _) => vec![paper::ten_latency()],
            _ => Vec::new(),
        });
        // The paper's numbers and the measured ones are far apart. Steps are visible only on a
        // linear scale.
        let scale = if quantity == Quantity::Steps { Scale::Linear } else { Scale::Log };
        let own = if name == Name::Nine { self.crossover() } else { None };
        let y = if quantity == Quantity::Rate { "MB/s" } else { "one way, us" };
        Some(Figure {
            key: key.to_owned(),
            title: title.to_owned(),
            answers: name.text().to_owned(),
            paper: [Some(paper.to_owned()), own].into_iter().flatten().collect::<Vec<_>>().join(" "),
            x: ("message size, bytes".to_owned(), scale),
            y: (y.to_owned(), scale),
            curves,
        })
    }

    /// Returns in words from which message size on 4 KiB packets are at least as fast as 2 KiB
    /// packets.
    fn crossover(&self) -> Option<String> {
        let points = |packet: u32| -> crossover::Rounds {
            let label = rate_label(packet, "");
            let fits = self.curves.iter().find(|curve| curve.0 == Name::Nine && curve.2 == label);
            let points = fits.iter().flat_map(|curve| &curve.3);
            points.map(|(size, track)| (*size, track.rates())).collect()
        };
        let [small, large] = BESIDE.map(points);
        let lead = crossover::lead(&small, &large)?;
        Some(format!("Here 4 KiB packets are at least as fast as 2 KiB packets: {}.", lead.text()))
    }

    /// Returns all measurements.
    pub fn into_tracks(self) -> Vec<Track> {
        self.curves.into_iter().flat_map(|curve| curve.3).map(|point| point.1).collect()
    }
}

/// A figure's curves, its name in files, its title, and the paper's text.
type Shape = (Name, Quantity, &'static str, &'static str, &'static str);

const SEVEN: &str = "Cards and switch in one process, except where a curve says otherwise. Latency is half a round trip, both \
    ends polling; the dotted line is the 99th percentile. With metadata the paper took 7.7 us more: \
    its card fetched it by DMA from another buffer. So does ours for the curves that say so, data included; for the others the library \
    sends metadata, and data up to 448 bytes, by direct I/O.";
const SEVEN_STEPS: &str = "The prototype took a step at every multiple of 256 bytes, as receiving a packet took it 12.5 us longer \
    than sending one, and repeated a fine structure every 32 bytes, from the sizes of its bus' transactions (section 4.2): \
    sizes before, at and behind such multiples. That is the shape to look for; its microseconds are in the plot above.";
const EIGHT: &str = "As Figure 7. Of a message's last packet only the bytes that come late cost the prototype all three transfers.";
const EIGHT_STEPS: &str = "Sizes before, at and behind the multiples of 4 KiB: what one more packet costs.";
const NINE: &str = "The prototype was bound by its I/O bus. 2 KiB packets were ahead of 4 KiB packets for smaller messages, and those \
    but slightly for larger ones, up to the 40 KiB that it measured (section 4.3).";
const TEN: &str = "One process is both source and destination, on one host.";

fn curve(label: &str, points: &Points, quantity: Quantity) -> Curve {
    let point = |(size, track): &(u64, Track)| {
        let (y, high) = match quantity {
            Quantity::Rate => (track.rate()? / 1e6, None),
            Quantity::HalfTrip | Quantity::Steps => (track.p50_us()? / 2.0, Some(track.latency()?.p99 / 2.0)),
            Quantity::Loop => (track.p50_us()?, Some(track.latency()?.p99)),
        };
        Some(Point { x: *size as f64, y, high })
    };
    Curve::ours(label, points.iter().filter_map(point).collect())
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

/// Returns the number at the start of a label.
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

/// Returns the part of a curve's label that gives the processes of cards and switch; empty if they
/// are one process.
fn layout(machines: &Machines) -> &'static str {
    match machines.layout() {
        Layout::Pinned => "",
        Layout::Fabric => ", not pinned",
        Layout::Separate => ", cards and switch as separate processes",
    }
}

/// Plans half of a round trip by message size, for a pair of roles.
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
    let fetched = |metadata: u32| {
        let label = format!("message with {metadata} bytes of metadata, all by DMA, {packet}-byte packets");
        let arguments = format!("--metadata {metadata} --fetch-metadata");
        latency_plan(machines, &label, "card", &arguments, &sizes(effort), effort)
    };
    let by_dma = effort.pick(vec![60], vec![4, 60]).into_iter().map(fetched);
    [tagged_plan(machines, packet, effort)].into_iter().chain([0, 4, 60].map(with)).chain(by_dma).collect()
}

/// Plans closely spaced sizes, without metadata.
fn steps_plan(machines: &Machines, packet: u32, effort: Effort) -> Plan<'_> {
    let label = format!("message, {packet}-byte packets");
    let plan = latency_plan(machines, &label, "card", "--metadata 0", &step_sizes(packet, effort), effort);
    let points =
        plan.points.into_iter().map(|(size, name, exchange)| (size, format!("{name} (steps)"), exchange));
    Plan { quantity: Quantity::Steps, points: points.collect(), ..plan }
}

/// Returns sizes just below, at and just above each of the first multiples of a packet, and of 32
/// bytes.
fn step_sizes(packet: u32, effort: Effort) -> Vec<u64> {
    let around = |unit: u64, near: u64, count: u64| {
        (1..=count).flat_map(move |multiple| {
            [unit - near, unit, unit + near].map(|size| size + (multiple - 1) * unit)
        })
    };
    let packets = around(packet.into(), 8, effort.pick(4, 8));
    let middles = (0..effort.pick(4, 8)).map(|multiple| u64::from(packet) * (2 * multiple + 1) / 2);
    let sizes: BTreeSet<u64> = around(32, 4, effort.pick(3, 8)).chain(packets).chain(middles).collect();
    sizes.into_iter().collect()
}

fn udp_plan(machines: &Machines, effort: Effort) -> Plan<'_> {
    let sizes: Vec<u64> = sizes(effort).into_iter().filter(|size| *size <= 65000).collect();
    let address = format!("--address {}", machines.address());
    latency_plan(machines, "virtio-net UDP", "udp", &address, &sizes, effort)
}

/// Returns the number of messages in a stream of this size.
fn stream_length(size: u64, effort: Effort) -> u64 {
    let total = effort.pick(16, 64) << 20;
    (total / size).clamp(32, effort.pick(1000, 10_000))
}

/// The packet sizes that section 4.3 compares.
const BESIDE: [u32; 2] = [2048, 4096];

/// Returns the label of a curve of Figure 9: its packet size, and the layout of its machines.
fn rate_label(packet: u32, layout: &str) -> String {
    format!("{packet}-byte packets{layout}")
}

/// Returns the message sizes of Figure 9.
fn rate_sizes(packet: u32, effort: Effort) -> Vec<u64> {
    const FULL: [u64; 14] =
        [256, 512, 1024, 2048, 4096, 8192, 16384, 40960, 65536, 131_072, 262_144, 524_288, 1 << 20, 4 << 20];
    // For the two packet sizes that the paper compares, up to its longest message.
    let quick = if BESIDE.contains(&packet) {
        vec![256, 1024, 2048, 4096, 8192, 16384, 40960, 65536, 1 << 20]
    } else {
        vec![256, 1024, 4096, 16384, 65536, 1 << 20]
    };
    effort.pick(quick, FULL.to_vec())
}

fn bandwidth_plan(machines: &Machines, packet: u32, effort: Effort) -> Plan<'_> {
    let label = rate_label(packet, layout(machines));
    let point = |size: u64| {
        let name = format!("bandwidth, {label}, {size} bytes");
        (size, name, stream(machines, size, stream_length(size, effort)))
    };
    Plan {
        label: label.clone(),
        quantity: Quantity::Rate,
        points: rate_sizes(packet, effort).into_iter().map(point).collect(),
    }
}

fn loopback_plans(machines: &Machines, effort: Effort) -> Vec<Plan<'_>> {
    let (here, root) = (machines.near(), Site::Root(machines.lab.vm(0)));
    let count = effort.pick(200, 2000);
    let latency = |size: u64| {
        let role = format!("card-loopback --metadata 0 --size {size} --warmup 20 --count {count}");
        (size, format!("loopback, {size} bytes"), Exchange::alone(here.clone(), &role))
    };
    let rate = |size: u64| {
        let role = format!("card-send-self {}", stream_arguments(size, stream_length(size, effort)));
        (size, format!("bandwidth to oneself, {size} bytes"), Exchange::alone(root.clone(), &role))
    };
    let large: Vec<u64> = sizes(effort).into_iter().filter(|size| *size >= 256).collect();
    vec![
        Plan {
            label: "to oneself".to_owned(),
            quantity: Quantity::Loop,
            points: [4].into_iter().chain(sizes(effort)).map(latency).collect(),
        },
        Plan {
            label: "to oneself".to_owned(),
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
    fn step_sizes_cover_both_sides() {
        let sizes = step_sizes(256, Effort::Quick);
        for size in [28, 32, 36, 248, 256, 264, 384, 1016, 1024, 1032] {
            assert!(sizes.contains(&size), "{size} is missing in {sizes:?}");
        }
    }

    #[test]
    fn figure_9_names_the_crossover_size() {
        let track = |size: u64, ns: u64| {
            let mut track = Track::of_samples("x", &[]);
            track.rounds.iter_mut().for_each(|round| (round.bytes, round.ns) = (1_000_000, ns));
            (size, track)
        };
        let curve = |packet, ns: [u64; 2]| {
            let points = vec![track(1024, ns[0]), track(8192, ns[1])];
            (Name::Nine, Quantity::Rate, rate_label(packet, ""), points)
        };
        let mut figures = Figures { curves: vec![curve(2048, [100, 100])] };
        assert_eq!(figures.crossover(), None, "nothing beside it");
        figures.curves.push(curve(4096, [110, 90]));
        let note = &figures.figures()[0].paper;
        assert!(note.ends_with("as fast as 2 KiB packets: from 8192 bytes on, and faster."), "{note}");
    }

    #[test]
    fn figures_share_machines_with_the_same_packet_size() {
        let sizes = packet_sizes(&[Name::Seven, Name::Eight, Name::Ten], Effort::Quick);
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [256, 4096]);
        assert!(packet_sizes(&[], Effort::Full).is_empty());
    }
}
