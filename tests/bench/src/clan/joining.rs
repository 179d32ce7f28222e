//! The benefit of joining (section 5.2's remedy): the same stream of stores through cards that join
//! stores and packets, and through cards that do not.

use crate::clan::transfers::stores;
use crate::engine::effort::Effort;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, interleave};

/// Bytes of a message: 512 stores.
const SIZE: u64 = 4096;
const STORE: u64 = 8;

/// Measures cards without and with joining, in turn.
pub(crate) fn measure([unjoined, clan]: [&Machines; 2], effort: Effort, progress: &Progress) -> Vec<Track> {
    let count = effort.pick(512, 4096);
    let exchanges = [("CLAN, stores, not joined", unjoined), ("CLAN, stores, joined", clan)]
        .map(|(what, machines)| (what, stores(machines, SIZE, count)));
    interleave(&exchanges, effort.rounds(), progress)
}

/// Returns a counter of the sending card, summed over all rounds.
fn counted(track: &Track, counter: &str) -> f64 {
    track.rounds.iter().filter_map(|round| round.counters[0][counter].as_u64()).sum::<u64>() as f64
}

/// Compares each one with stores that are not joined.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let unjoined = tracks.first().map(Track::rates).unwrap_or_default();
    let row = |track: &Track| {
        let stores = counted(track, "stores_to_window");
        let text = |value: f64| if value.is_finite() { number(value) } else { String::new() };
        let [ratio, spread] = beside_text(&track.rates(), &unjoined);
        vec![
            track.name.clone(),
            text(stores / (stores - counted(track, "stores_joined"))),
            text(counted(track, "packets_sent") / stores),
            track.rate().map_or_else(String::new, |rate| number(rate / 1e6)),
            ratio,
            spread,
        ]
    };
    let head = [
        "",
        "stores in a packet",
        "packets of any kind for each store",
        "MB/s",
        "beside those not joined",
        "spread",
    ];
    Table {
        title: "CLAN: what joining saves".to_owned(),
        note: format!(
            "Stores of {STORE} bytes to {SIZE} bytes in a row, by the sending card's counters. The paper's first tests of joining suggest \
            that PIO is then as fast as DMA (5.2)."
        ),
        head: head.map(str::to_owned).to_vec(),
        rows: tracks.iter().map(row).collect(),
    }
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
