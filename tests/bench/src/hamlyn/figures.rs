//! The paper's figures 7 to 10, measured again (sections 4.2 and 4.3).

use std::collections::BTreeSet;

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::machines::{ADDRESS, Layout, Pair, stream_arguments};
use crate::engine::plan::Planned;
use crate::engine::plot::{Figure, Scale, curves};
use crate::engine::track::Track;
use crate::hamlyn::crossover;
use crate::hamlyn::pairs::{FABRIC, SEPARATE, USUAL_PACKET, packets};
use crate::hamlyn::paper;

/// One-way latency by message size, 256-byte packets.
pub(crate) const SEVEN: Experiment = Experiment {
    name: "7",
    title: "Figure 7",
    plan: |effort| latency_plans(["figure-7", "figure-7-steps"], 256, effort),
    ..FIGURE
};

/// The same, 4 KiB packets.
pub(crate) const EIGHT: Experiment = Experiment {
    name: "8",
    title: "Figure 8",
    plan: |effort| {
        let mut plan = latency_plans(["figure-8", "figure-8-steps"], USUAL_PACKET, effort);
        let udp: Vec<u64> = sizes(effort).into_iter().filter(|size| *size <= 65000).collect();
        let address = format!("--address {ADDRESS}");
        plan.extend(latency_plan(FABRIC, "figure-8", "virtio-net UDP", ("udp", &address), &udp, effort));
        plan.extend(tagged_plan(SEPARATE, "figure-8", USUAL_PACKET, effort));
        plan
    },
    ..FIGURE
};

/// Bandwidth by message size, for one packet size of several, each with separate machines.
pub(crate) const fn nine<const PACKET: u32>() -> Experiment {
    Experiment {
        name: "9",
        title: "Figure 9",
        plan: |effort| match PACKET {
            256 | 2048 | 65536 => bandwidth_plan(packets(PACKET), PACKET, effort),
            USUAL_PACKET => {
                let plans = [FABRIC, SEPARATE].map(|pair| bandwidth_plan(pair, PACKET, effort));
                plans.concat()
            }
            _ => effort.pick(Vec::new(), bandwidth_plan(packets(PACKET), PACKET, effort)),
        },
        ..FIGURE
    }
}

/// Loopback.
pub(crate) const TEN: Experiment =
    Experiment { name: "10", title: "Figure 10", plan: loopback_plan, ..FIGURE };

/// All points are shown together.
const FIGURE: Experiment = Experiment {
    heading: "Points of the figures",
    rounds: Effort::figure_rounds,
    also: |_, _, tracks| {
        // The default packet size is measured first, because machines with it already run.
        let packet = |track: &Track| if track.plot == "figure-9" { leading_number(&track.label) } else { 0 };
        tracks.sort_by_key(packet);
        Ok(())
    },
    figures: |tracks| SHAPES.into_iter().filter_map(|shape| figure(shape, tracks)).collect(),
    ..Experiment::NEW
};

/// The figures, in the paper's order.
const SHAPES: [Shape; 7] = [
    ("Figure 7", "figure-7", "Figure 7: one-way latency, 256-byte packets", SEVEN_NOTE),
    ("Figure 7", "figure-7-steps", "Figure 7, size by size", SEVEN_STEPS),
    ("Figure 8", "figure-8", "Figure 8: one-way latency, 4 KiB packets", EIGHT_NOTE),
    ("Figure 8", "figure-8-steps", "Figure 8, size by size", EIGHT_STEPS),
    ("Figure 9", "figure-9", "Figure 9: one-way bandwidth by packet size", NINE_NOTE),
    ("Figure 10", "figure-10-latency", "Figure 10: loopback, latency", TEN_NOTE),
    ("Figure 10", "figure-10-bandwidth", "Figure 10: loopback, bandwidth", TEN_NOTE),
];

/// Draws one of them, or none if nothing was measured for it.
fn figure((answers, key, title, note): Shape, tracks: &[Track]) -> Option<Figure> {
    let own = tracks.iter().filter(|track| track.plot == key);
    let is_rate = ["figure-9", "figure-10-bandwidth"].contains(&key);
    let mut curves = match key {
        _ if is_rate => curves(own, Track::mb_per_s, |_| None),
        "figure-10-latency" => curves(own, Track::p50_us, Track::p99_us),
        _ => curves(own, Track::one_way_us, |track| Some(track.p99_us()? / 2.0)),
    };
    if curves.is_empty() {
        return None;
    }
    curves.extend(match key {
        "figure-7" => vec![paper::seven()],
        "figure-8" => vec![paper::eight()],
        "figure-9" => paper::nine(),
        "figure-10-latency" => vec![paper::ten_latency()],
        "figure-10-bandwidth" => vec![paper::ten_rate()],
        _ => Vec::new(),
    });
    // The paper's numbers and the measured ones are far apart. Steps are visible only on a linear
    // scale.
    let scale = if key.ends_with("-steps") { Scale::Linear } else { Scale::Log };
    let crossover = if key == "figure-9" { crossover(tracks) } else { None };
    Some(Figure {
        key,
        title,
        answers,
        note: [Some(note.to_owned()), crossover].into_iter().flatten().collect::<Vec<_>>().join(" "),
        x: ("message size, bytes", scale),
        y: (if is_rate { "MB/s" } else { "one way, us" }, scale),
        curves,
    })
}

/// Returns in words from which message size on 4 KiB packets are at least as fast as 2 KiB packets.
fn crossover(tracks: &[Track]) -> Option<String> {
    let points = |packet: u32| -> crossover::Rounds {
        let label = rate_label(packet, "");
        let own = tracks.iter().filter(|track| track.plot == "figure-9" && track.label == label);
        own.map(|track| (track.x, track.rates())).collect()
    };
    let [small, large] = BESIDE.map(points);
    let lead = crossover::lead(&small, &large)?;
    Some(format!("Here 4 KiB packets are at least as fast as 2 KiB packets: {}.", lead.text()))
}

/// The paper's figure, the key of its plot, the title, and a note.
type Shape = (&'static str, &'static str, &'static str, &'static str);

const SEVEN_NOTE: &str = "Cards and switch in one process, except where a curve says otherwise. Latency is half a round trip, both \
    ends polling; the dotted line is the 99th percentile. With metadata the paper took 7.7 us more: \
    its card fetched it by DMA from another buffer. So does ours for the curves that say so, data included; for the others the library \
    sends metadata, and data up to 448 bytes, by direct I/O.";
const SEVEN_STEPS: &str = "The prototype took a step at every multiple of 256 bytes, as receiving a packet took it 12.5 us longer \
    than sending one, and repeated a fine structure every 32 bytes, from the sizes of its bus' transactions (section 4.2): \
    sizes before, at and behind such multiples. That is the shape to look for; its microseconds are in the plot above.";
const EIGHT_NOTE: &str = "As Figure 7. Of a message's last packet only the bytes that come late cost the prototype all three transfers.";
const EIGHT_STEPS: &str = "Sizes before, at and behind the multiples of 4 KiB: what one more packet costs.";
const NINE_NOTE: &str = "The prototype was bound by its I/O bus. 2 KiB packets were ahead of 4 KiB packets for smaller messages, and those \
    but slightly for larger ones, up to the 40 KiB that it measured (section 4.3).";
const TEN_NOTE: &str = "One process is both source and destination, on one host.";

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
fn layout(pair: Pair) -> &'static str {
    match pair.layout {
        Layout::Pinned => "",
        Layout::Fabric => ", not pinned",
        Layout::Separate => ", cards and switch as separate processes",
    }
}

/// Plans half of a round trip by message size, for a pair of roles with these arguments.
fn latency_plan(
    pair: Pair,
    plot: &'static str,
    label: &str,
    (role, more): (&str, &str),
    sizes: &[u64],
    effort: Effort,
) -> Vec<Planned> {
    let label = format!("{label}{}", layout(pair));
    let steps = if plot.ends_with("-steps") { " (steps)" } else { "" };
    let point = |size: &u64| {
        let arguments = format!("{more} --size {size} --warmup 20 --count {}", effort.pick(200, 2000));
        let name = format!("{label}, {size} bytes{steps}");
        pair.trips(name, role, arguments.trim_start()).at(label.clone(), *size).on(plot)
    };
    sizes.iter().map(point).collect()
}

fn tagged_plan(pair: Pair, plot: &'static str, packet: u32, effort: Effort) -> Vec<Planned> {
    let sizes: Vec<u64> = sizes(effort).into_iter().filter(|size| *size <= packet.into()).collect();
    let label = format!("tagged remote write, {packet}-byte packets");
    latency_plan(pair, plot, &label, ("card", ""), &sizes, effort)
}

/// Plans messages with and without metadata, and closely spaced sizes, without it.
fn latency_plans([plot, steps]: [&'static str; 2], packet: u32, effort: Effort) -> Vec<Planned> {
    let pair = packets(packet);
    let mut plan = tagged_plan(pair, plot, packet, effort);
    let by_dma = effort.pick(vec![60], vec![4, 60]).into_iter().map(|metadata| (metadata, true));
    for (metadata, fetched) in [0, 4, 60].map(|metadata| (metadata, false)).into_iter().chain(by_dma) {
        let [how, more] = if fetched { [", all by DMA", " --fetch-metadata"] } else { ["", ""] };
        let label = format!("message with {metadata} bytes of metadata{how}, {packet}-byte packets");
        let arguments = format!("--metadata {metadata}{more}");
        plan.extend(latency_plan(pair, plot, &label, ("card", &arguments), &sizes(effort), effort));
    }
    let label = format!("message, {packet}-byte packets");
    let sizes = step_sizes(packet, effort);
    plan.extend(latency_plan(pair, steps, &label, ("card", "--metadata 0"), &sizes, effort));
    plan
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

fn bandwidth_plan(pair: Pair, packet: u32, effort: Effort) -> Vec<Planned> {
    let label = rate_label(packet, layout(pair));
    let point = |size: u64| {
        let arguments = stream_arguments(size, stream_length(size, effort));
        let planned = pair.stream(format!("bandwidth, {label}, {size} bytes"), "card", &arguments);
        planned.by_root().at(label.clone(), size).on("figure-9")
    };
    rate_sizes(packet, effort).into_iter().map(point).collect()
}

fn loopback_plan(effort: Effort) -> Vec<Planned> {
    let latency = |size: u64| {
        let count = effort.pick(200, 2000);
        let role = format!("card-loopback --metadata 0 --size {size} --warmup 20 --count {count}");
        let planned = FABRIC.alone(format!("loopback, {size} bytes"), &role);
        planned.at("to oneself", size).on("figure-10-latency")
    };
    let rate = |size: u64| {
        let role = format!("card-send-self {}", stream_arguments(size, stream_length(size, effort)));
        let planned = FABRIC.alone(format!("bandwidth to oneself, {size} bytes"), &role);
        planned.by_root().at("to oneself", size).on("figure-10-bandwidth")
    };
    let large = sizes(effort).into_iter().filter(|size| *size >= 256).map(rate);
    [4].into_iter().chain(sizes(effort)).map(latency).chain(large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let track = |packet, x: u64, ns: u64| {
            let mut track = Track { x, plot: "figure-9", ..Track::of_samples("x", &[]) };
            track.label = rate_label(packet, "");
            track.rounds.iter_mut().for_each(|round| (round.bytes, round.ns) = (1_000_000, ns));
            track
        };
        let mut tracks = vec![track(2048, 1024, 100), track(2048, 8192, 100)];
        assert_eq!(crossover(&tracks), None, "nothing beside it");
        tracks.extend([track(4096, 1024, 110), track(4096, 8192, 90)]);
        let note = figure(SHAPES[4], &tracks).unwrap().note;
        assert!(note.ends_with("as fast as 2 KiB packets: from 8192 bytes on, and faster."), "{note}");
    }

    #[test]
    fn figures_share_machines_with_the_same_packet_size() {
        let pairs = |plan: Vec<Planned>| plan.iter().map(|planned| planned.pair).collect::<Vec<_>>();
        let needed = [SEVEN, EIGHT, TEN, nine::<4096>()].map(|one| pairs((one.plan)(Effort::Quick)));
        let distinct = |pair: &Pair| [packets(256), FABRIC, SEPARATE].iter().position(|one| one == pair);
        let found: BTreeSet<_> = needed.concat().iter().map(distinct).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
        assert!((nine::<512>().plan)(Effort::Quick).is_empty());
    }
}
