//! The final table of the demo.

use std::fmt::{self, Display, Formatter};

use crate::commands::layout::Layout;
use crate::table::{self, time};

use super::scenes::{Intrusion, RoundTrips, Transfer};
use crate::commands::demo::channel;

/// All measurements of the demo.
pub(super) struct Table {
    /// Bytes in each message of a round trip.
    pub(super) payload: u64,
    /// Round trips in each layout.
    pub(super) round_trips: Vec<(Layout, RoundTrips)>,
    /// Round trips over channels.
    pub(super) channels: Vec<channel::RoundTrips>,
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
        channel::lines(&self.channels).iter().try_for_each(|line| writeln!(f, "{line}"))?;
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
            channels: Vec::new(),
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
            "Round trips over a channel",
            "73.2 verified",
            "1 memory unchanged",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
