//! The paper's measurements, as curves (sections 4.2 and 4.3). The project has no copies of its
//! figures. These are the numbers of its text, and the labels name the section.

use crate::engine::plot::Curve;

/// One-way time of the smallest message, in microseconds (section 4.2).
const SMALLEST_US: f64 = 17.4;
/// Time of a byte that waits for all three transfers, and of one that waits only for the receiver's
/// (section 4.2).
const SERIAL_NS: f64 = 55.5;
const LAST_NS: f64 = 11.6;
/// The slope over many packets of 4 KiB, in MB/s (section 4.3).
const SLOPE: f64 = 30.7;

/// Figure 7: a baseline and a slope.
pub(crate) fn seven() -> Curve {
    let sizes = [4.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0];
    let us = |size: f64| SMALLEST_US + size * SERIAL_NS / 1e3;
    Curve::paper("17.4 us and 55.5 ns a byte, one way (4.2)", sizes.map(|size| (size, us(size))))
}

/// Figure 8. In each packet but the first, some bytes have the small slope and the rest have the
/// large one. Their numbers give all bytes together the slope of section 4.3.
pub(crate) fn eight() -> Curve {
    const PACKET: f64 = 4096.0;
    let packet_ns = PACKET * 1e3 / SLOPE;
    let hidden = (PACKET * SERIAL_NS - packet_ns) / (SERIAL_NS - LAST_NS);
    let first = [4.0, 64.0, 256.0, 1024.0, PACKET].map(|size| (size, SMALLEST_US + size * SERIAL_NS / 1e3));
    let full = SMALLEST_US + PACKET * SERIAL_NS / 1e3;
    let more = (1..16).flat_map(|packet| {
        let (size, us) = (f64::from(packet) * PACKET, full + f64::from(packet - 1) * packet_ns / 1e3);
        [(size + hidden, us + hidden * LAST_NS / 1e3), (size + PACKET, us + packet_ns / 1e3)]
    });
    Curve::paper(
        "55.5 and 11.6 ns a byte by turns (4.2), 30.7 MB/s over all (4.3)",
        first.into_iter().chain(more),
    )
}

/// Figure 9: the limits of the curves, up to the longest measured message.
pub(crate) fn nine() -> Vec<Curve> {
    let level = |label: &str, rate: f64| Curve::paper(label, [(256.0, rate), (40960.0, rate)]);
    vec![
        level("256-byte packets tend to 20 MB/s (4.3)", 20.0),
        level("4 KiB packets tend to 28 MB/s (4.3)", 28.0),
    ]
}

/// Figure 10: the smallest message of a process to itself.
pub(crate) fn ten_latency() -> Curve {
    Curve::paper("19.1 us for 4 bytes to oneself (4.3)", [(4.0, 19.1)])
}

/// Figure 10: the limit of its bandwidth.
pub(crate) fn ten_rate() -> Curve {
    Curve::paper("tends to 22 MB/s (4.3)", [(256.0, 22.0), (40960.0, 22.0)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::plot::Point;

    #[test]
    fn the_curves_have_the_papers_numbers() {
        let slope = |from: &Point, to: &Point| (to.y - from.y) * 1e3 / (to.x - from.x);
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-6;
        let points = seven().points;
        assert!(near(slope(&points[0], &points[6]), 55.5) && near(points[0].y, 17.4 + 4.0 * 0.0555));
        let points = eight().points;
        let slopes: Vec<f64> = points.windows(2).map(|pair| slope(&pair[0], &pair[1])).collect();
        assert!(slopes.iter().all(|slope| near(*slope, 55.5) || near(*slope, 11.6)), "{slopes:?}");
        let (first, last) = (&points[4], &points[points.len() - 1]);
        assert!(near(slope(first, last), 1e3 / 30.7) && near(last.x, 65536.0), "{last:?}");
    }
}
