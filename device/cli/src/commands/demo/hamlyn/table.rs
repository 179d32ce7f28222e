//! The final table of the demo.

use std::fmt::{self, Display, Formatter};

use crate::commands::layout::Layout;
use crate::table;

use super::scenes::{Express, Intrusion, RoundTrips, Transfer};

/// All measurements of the demo.
pub(super) struct Table {
    /// Bytes in each message of a round trip.
    pub(super) payload: u64,
    /// Round trips in each layout.
    pub(super) round_trips: Vec<(Layout, RoundTrips)>,
    /// Round trips through express memory.
    pub(super) express: Express,
    /// Transfers, each with the rate of the sender's card in MB/s.
    pub(super) transfers: Vec<(Transfer, f64)>,
    /// Intrusions, each with the number of packets refused.
    pub(super) refusals: Vec<(Intrusion, u64)>,
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let trips = self.round_trips.iter().map(|(layout, trips)| {
            let title = format!("{} of {} bytes, {}", trips.count, self.payload, layout.name());
            let times = [trips.min_ns, trips.p50_ns, trips.p99_ns, trips.p999_ns, trips.max_ns].map(time);
            let [min, p50, p99, p999, max] = times;
            [title, min, p50, p99, p999, max]
        });
        part(f, ["Round trips, direct I/O", "min", "p50", "p99", "p99.9", "max"], trips)?;
        writeln!(f)?;
        let Express { count, bytes, .. } = self.express;
        let [min, p50, p99, p999, max] = self.express.times().map(time);
        let trips = [format!("{count} of {bytes} bytes, no card on the way"), min, p50, p99, p999, max];
        part(f, ["Round trips, express memory", "min", "p50", "p99", "p99.9", "max"], [trips].into_iter())?;
        writeln!(f)?;
        let transfers = self.transfers.iter().map(|(transfer, mb_per_s)| {
            let Transfer { from, to, bytes, buffers } = transfer;
            let title = format!("{} KiB from {buffers} buffers, vm{from} to vm{to}", bytes >> 10);
            [title, format!("{mb_per_s:.1}"), "verified".to_owned()]
        });
        part(f, ["Transfers, DMA", "MB/s sent", ""], transfers)?;
        writeln!(f)?;
        let intruders = self.refusals.iter().map(|(intrusion, refused)| {
            [intrusion.title().to_owned(), refused.to_string(), "memory unchanged".to_owned()]
        });
        part(f, ["Intruders", "refused", ""], intruders)
    }
}

/// Writes a part of the table, with its column heads.
fn part<const COLUMNS: usize>(
    f: &mut Formatter<'_>,
    heads: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> fmt::Result {
    let rows = std::iter::once(heads.map(str::to_owned)).chain(rows);
    table::lines(rows).iter().try_for_each(|line| writeln!(f, "{line}"))
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
    fn table_shows_all_measurements() {
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
            express: serde_json::from_str(
                r#"{"iterations":9,"bytes":16,"t_min_us":0.4,"t_typical_us":0.5,"p99_us":1,"p999_us":2,"t_max_us":3}"#,
            )
            .unwrap(),
            transfers: vec![(Transfer { from: 1, to: 0, bytes: 1 << 20, buffers: 4 }, 73.25)],
            refusals: vec![(Intrusion::WrongKey, 1)],
        };
        let text = table.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "bytes, one process, pinned",
            "bytes, isolated",
            "98.7 us",
            "900 ns",
            "41.2 us",
            "99.9 us",
            "1.2 ms",
            "7.0 ms",
            "no card on the way 800 ns 1.0 us 2.0 us 4.0 us 6.0 us",
            "73.2 verified",
            "1 memory unchanged",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
