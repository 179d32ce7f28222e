//! The benefit of a wake-up by a message's first word. A Tripwire fires while the burst is
//! deposited (section 2.5), so the sleeping receiver wakes up while the rest arrives.

use crate::clan::pairs::CLAN;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{known, ratio, spread};
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::track::Track;

/// Bytes of the messages: one burst of packets, and many.
const SIZES: [u64; 3] = [16 << 10, 256 << 10, 1 << 20];
const WORDS: [&str; 2] = ["last", "first"];

pub(crate) const EARLY: Experiment = Experiment {
    name: "early",
    title: "CLAN: woken while the rest arrives",
    heading: "CLAN: arrivals that wake a sleeper",
    plan,
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

/// Plans each size, with a wake-up by the last word and by the first.
fn plan(effort: Effort) -> Vec<Planned> {
    let of = |(size, word): (u64, &str)| {
        let arguments = format!("--size {size} --warmup 5 --count {}", effort.pick(100, 500));
        let watch = format!("arrival-watch {arguments} --woken-by {word}");
        let name = format!("CLAN, DMA: {size} bytes, woken by the {word} word");
        CLAN.unpinned().exchange(name, &watch, &format!("arrival-send {arguments}")).by_root().at(word, size)
    };
    SIZES.into_iter().flat_map(|size| WORDS.map(|word| of((size, word)))).collect()
}

/// Shows for each size how much less time the wake-up by the first word takes.
fn table(tracks: &[Track]) -> Table {
    let note = "From when the receiver asks for a message, by a store, until it has looked at all bytes; it sleeps until the Tripwire fires, then \
        polls the last word. By DMA. The card fires a Tripwire between the words of a packet, before it writes the next (2.5).";
    let sizes = tracks.chunks_exact(WORDS.len()).map(|words| (&words[0], &words[1]));
    Table::new(
        "CLAN: woken while the rest arrives",
        note,
        sizes,
        &[
            ("bytes", &|(last, _)| last.x.to_string()),
            ("woken by the last word, us", &|(last, _)| known(last.p50_us())),
            ("woken by the first word, us", &|(_, first)| known(first.p50_us())),
            ("beside the last", &|(last, first)| ratio(&first.medians_us(), &last.medians_us())),
            ("spread", &|(last, first)| spread(&first.medians_us(), &last.medians_us())),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_word_is_compared_with_last_word() {
        let tracks = [(16, 40_000), (16, 30_000), (262_144, 80_000), (262_144, 20_000)]
            .map(|(x, ns)| Track { x, ..Track::of_samples("x", &[ns]) });
        let rows = table(&tracks).rows;
        assert_eq!((rows.len(), &rows[1][0]), (2, &"262144".to_owned()));
        assert!(rows[0][3].starts_with("0.7") && rows[1][3].starts_with("0.2"), "{rows:?}");
    }
}
