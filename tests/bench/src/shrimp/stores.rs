//! The benefit of merging: the same stream of stores by single-write and by blocked-write (section
//! 4.1).

use hamlyn_card_shrimp::PACKET_OVERHEAD;

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{beside, number, text};
use crate::engine::machines::Pair;
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::track::{Track, values};
use crate::shrimp::pairs::{HAMLYN, WAYS};
use crate::shrimp::updates::lap_arguments;

/// Stores of 8 bytes each, in runs of a page.
const RUN: u64 = 4096;
const STORE: u64 = 8;

pub(crate) const STORES: Experiment = Experiment {
    name: "stores",
    title: "SHRIMP: what merging saves",
    heading: "SHRIMP: streams of stores",
    pairs: &[HAMLYN.unpinned()],
    rounds: Effort::figure_rounds,
    plan,
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let arguments = lap_arguments(RUN, effort.pick(512, 4096));
    let of = |(way, by, pair): (&str, &str, Pair)| {
        let arguments = &arguments;
        ["single", "blocked"].map(|mode| {
            let arguments = format!("{arguments} --mode {mode} --by {by}");
            pair.unpinned().stream(format!("{mode}-write, {way}"), "store", &arguments).by_root()
        })
    };
    WAYS.into_iter().flat_map(of).collect()
}

/// Shows what a packet carries, and what that saves.
fn table(tracks: &[Track]) -> Table {
    let note = format!(
        "The same stores of {STORE} bytes to {RUN} bytes in a row, page after page, by the sending card's counters. A packet has \
        {PACKET_OVERHEAD} bytes beside its data."
    );
    let finite = |value: f64| if value.is_finite() { number(value) } else { String::new() };
    let [stores, packets, bytes]: [fn(&Track) -> f64; 3] = [
        |track| track.sent_counter("stores_seen") + track.sent_counter("stores_to_window"),
        |track| track.sent_counter("packets_sent"),
        |track| track.sent_counter("bytes_sent"),
    ];
    let sent = |track: &Track| bytes(track) + packets(track) * PACKET_OVERHEAD as f64;
    let single = |track: &Track| values(tracks, &track.name.replace("blocked", "single"), Track::rates);
    Table::new(
        "SHRIMP: what merging saves",
        &note,
        tracks,
        &[
            ("automatic update", &|track| track.name.clone()),
            ("stores in a packet", &|track| finite(stores(track) / packets(track))),
            ("bytes on the network for each stored", &|track| finite(sent(track) / bytes(track))),
            ("MB/s", &|track| text(track.mb_per_s())),
            ("beside single-write", &|track| beside(&track.rates(), &single(track))),
        ],
    )
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
