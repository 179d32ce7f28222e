//! The benefit of joining (section 5.2's remedy): the same stream of stores through cards that join
//! stores and packets, and through cards that do not.

use crate::clan::pairs::{CLAN, UNJOINED};
use crate::clan::transfers::stores;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{number, ratio, spread, text};
use crate::engine::report::Table;
use crate::engine::track::Track;

/// Bytes of a message: 512 stores.
const SIZE: u64 = 4096;
const STORE: u64 = 8;

pub(crate) const JOINING: Experiment = Experiment {
    name: "joining",
    title: "CLAN: what joining saves",
    heading: "CLAN: streams of stores",
    plan: |effort: Effort| {
        let count = effort.pick(512, 4096);
        [("CLAN, stores, not joined", UNJOINED), ("CLAN, stores, joined", CLAN)]
            .map(|(name, pair)| stores(pair.unpinned(), name.to_owned(), SIZE, count))
            .to_vec()
    },
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

/// Compares each one with stores that are not joined.
fn table(tracks: &[Track]) -> Table {
    let note = format!(
        "Stores of {STORE} bytes to {SIZE} bytes in a row, by the sending card's counters. The paper's first tests of joining suggest \
        that PIO is then as fast as DMA (5.2)."
    );
    let unjoined = tracks.first().map(Track::rates).unwrap_or_default();
    let finite = |value: f64| if value.is_finite() { number(value) } else { String::new() };
    let stores = |track: &Track| track.sent_counter("stores_to_window");
    let packets = |track: &Track| stores(track) - track.sent_counter("stores_joined");
    Table::new(
        "CLAN: what joining saves",
        &note,
        tracks,
        &[
            ("", &|track| track.name.clone()),
            ("stores in a packet", &|track| finite(stores(track) / packets(track))),
            ("packets of any kind for each store", &|track| {
                finite(track.sent_counter("packets_sent") / stores(track))
            }),
            ("MB/s", &|track| text(track.mb_per_s())),
            ("beside those not joined", &|track| ratio(&track.rates(), &unjoined)),
            ("spread", &|track| spread(&track.rates(), &unjoined)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packets_are_counted_for_each_store() {
        let track = |name: &str, joined: u64, ns: u64| {
            let mut track = Track::of_samples(name, &[]);
            let round = &mut track.rounds[0];
            (round.bytes, round.ns) = (8000, ns);
            round.counters[0] =
                json!({ "stores_to_window": 1000, "stores_joined": joined, "packets_sent": 1000 - joined });
            track
        };
        let rows = table(&[track("not", 0, 8000), track("joined", 990, 4000)]).rows;
        assert_eq!(rows[0], ["not", "1", "1", "1000", "1", "1 to 1"]);
        assert_eq!(rows[1], ["joined", "100", "0.01", "2000", "2", "2 to 2"]);
    }
}
