//! The benefit of merging: the same stream of stores by single-write and by blocked-write (section
//! 4.1).

use hamlyn_card_shrimp::PACKET_OVERHEAD;

use crate::engine::effort::Effort;
use crate::engine::goals::{beside_text, number};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, interleave};
use crate::shrimp::labs::Labs;
use crate::shrimp::updates::{lap_arguments, stream};

const MODES: [&str; 2] = ["single", "blocked"];
/// Stores of 8 bytes each, in runs of a page.
const RUN: u64 = 4096;
const STORE: u64 = 8;

/// Measures both modes with both ways, in turn. The modes of a way are adjacent, single-write
/// first.
pub(crate) fn measure(labs: &Labs, effort: Effort, progress: &Progress) -> Vec<Track> {
    let arguments = lap_arguments(RUN, effort.pick(512, 4096));
    let exchanges = labs.ways().flat_map(|(way, by_way, machines)| {
        MODES.map(|mode| {
            let arguments = format!("{arguments} --mode {mode} --by {by_way}");
            (format!("{mode}-write, {way}"), stream(machines, "store", &arguments))
        })
    });
    interleave(&exchanges.collect::<Vec<_>>(), effort.figure_rounds(), progress)
}

/// Returns a counter of the sending card, summed over all rounds.
fn counted(track: &Track, counter: &str) -> u64 {
    track.rounds.iter().filter_map(|round| round.counters[0][counter].as_u64()).sum()
}

/// Shows the results in a table.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let rows = tracks.chunks(MODES.len()).flat_map(|ways| {
        let single = ways.first().map(Track::rates).unwrap_or_default();
        ways.iter().map(move |track| row(track, &single)).collect::<Vec<_>>()
    });
    Table {
        title: "SHRIMP: what merging saves".to_owned(),
        note: format!(
            "The same stores of {STORE} bytes to {RUN} bytes in a row, page after page, by the sending card's counters. A packet has \
            {PACKET_OVERHEAD} bytes beside its data."
        ),
        head: [
            "automatic update",
            "stores in a packet",
            "bytes on the network for each stored",
            "MB/s",
            "beside single-write",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: rows.collect(),
    }
}

fn row(track: &Track, single: &[f64]) -> Vec<String> {
    let (packets, bytes) = (counted(track, "packets_sent") as f64, counted(track, "bytes_sent") as f64);
    let stores = counted(track, "stores_seen") + counted(track, "stores_to_window");
    let [ratio, spread] = beside_text(&track.rates(), single);
    let text = |value: f64| if value.is_finite() { number(value) } else { String::new() };
    vec![
        track.name.clone(),
        text(stores as f64 / packets),
        text((bytes + packets * PACKET_OVERHEAD as f64) / bytes),
        track.rate().map_or_else(String::new, |rate| number(rate / 1e6)),
        if ratio.is_empty() { ratio } else { format!("{ratio} ({spread})") },
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packets_and_bytes_are_counted_per_store() {
        let track = |name: &str, packets: u64, ns: u64| {
            let mut track = Track::of_samples(name, &[]);
            let round = &mut track.rounds[0];
            (round.bytes, round.ns) = (8000, ns);
            round.counters[0] = json!({ "stores_seen": 1000, "stores_to_window": 0, "packets_sent": packets, "bytes_sent": 8000 });
            track
        };
        let rows = table(&[track("single", 1000, 8000), track("blocked", 2, 4000)]).rows;
        assert_eq!(rows[0], ["single", "1", "3.5", "1000", "1 (1 to 1)"]);
        assert_eq!(rows[1], ["blocked", "500", "1", "2000", "2 (2 to 2)"]);
        assert_eq!(table(&[Track::of_samples("nothing", &[])]).rows[0][1..4], ["", "", ""]);
    }
}
