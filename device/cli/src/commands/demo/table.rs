//! The demo's last word.

use std::fmt::{self, Display, Formatter};

use super::super::layout::Layout;
use super::scenes::{Intrusion, RoundTrips, Transfer};

/// All that the demo measured.
pub(super) struct Table {
    /// Bytes in each message of a round trip.
    pub(super) payload: u64,
    /// In each layout.
    pub(super) round_trips: Vec<(Layout, RoundTrips)>,
    /// Each with the MB/s at which the sender's card took it.
    pub(super) transfers: Vec<(Transfer, f64)>,
    /// Each with the number of packets refused.
    pub(super) refusals: Vec<(Intrusion, u64)>,
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let heads = ["min", "p50", "p99", "p99.9", "max"];
        writeln!(f, "{:46}{}", "Round trips, direct I/O", heads.map(|head| format!("{head:>11}")).concat())?;
        for (layout, trips) in &self.round_trips {
            let times = [trips.min_ns, trips.p50_ns, trips.p99_ns, trips.p999_ns, trips.max_ns];
            let title = format!("  {} of {} bytes, {}", trips.count, self.payload, layout.name());
            writeln!(f, "{title:46}{}", times.map(|ns| format!("{:>11}", time(ns))).concat())?;
        }
        writeln!(f, "\n{:46}{:>11}", "Transfers, DMA", "MB/s sent")?;
        for (transfer, mb_per_s) in &self.transfers {
            let Transfer { from, to, bytes, buffers } = transfer;
            let title = format!("  {} KiB from {buffers} buffers, vm{from} to vm{to}", bytes >> 10);
            writeln!(f, "{title:46}{mb_per_s:>11.1}   verified")?;
        }
        writeln!(f, "\n{:46}{:>11}", "Intruders", "refused")?;
        for (intrusion, refused) in &self.refusals {
            let title = format!("  {}", intrusion.title());
            writeln!(f, "{title:46}{refused:>11}   memory unchanged")?;
        }
        Ok(())
    }
}

fn time(ns: u64) -> String {
    let ns = ns as f64;
    if ns < 1e3 {
        format!("{ns:.0} ns")
    } else if ns < 1e6 {
        format!("{:.1} us", ns / 1e3)
    } else {
        format!("{:.1} ms", ns / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_all_that_was_measured() {
        let table = Table {
            payload: 16,
            round_trips: vec![
                (
                    Layout::Pinned(vec![0, 1]),
                    RoundTrips {
                        count: 10_000,
                        min_ns: 900,
                        p50_ns: 41_250,
                        p99_ns: 99_900,
                        p999_ns: 1_200_000,
                        max_ns: 7_000_000,
                    },
                ),
                (
                    Layout::Isolated,
                    RoundTrips {
                        count: 10_000,
                        min_ns: 1900,
                        p50_ns: 61_250,
                        p99_ns: 98_700,
                        p999_ns: 2_200_000,
                        max_ns: 8_000_000,
                    },
                ),
            ],
            transfers: vec![(Transfer { from: 1, to: 0, bytes: 1 << 20, buffers: 4 }, 73.25)],
            refusals: vec![(Intrusion::WrongKey, 1)],
        };
        let text = table.to_string();
        for part in [
            "bytes, one process, pinned",
            "bytes, isolated",
            "98.7 us",
            "900 ns",
            "41.2 us",
            "99.9 us",
            "1.2 ms",
            "7.0 ms",
            "73.2   verified",
            "1   memory unchanged",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
