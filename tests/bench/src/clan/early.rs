//! The benefit of a wake-up by a message's first word. A Tripwire fires while the burst is
//! deposited (section 2.5), so the sleeping receiver wakes up while the rest arrives.

use crate::engine::effort::Effort;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::stats::median;
use crate::engine::track::{Track, interleave};

/// Bytes of the messages: one burst of packets, and many.
const SIZES: [u64; 3] = [16 << 10, 256 << 10, 1 << 20];
const WORDS: [&str; 2] = ["last", "first"];

/// Measures each size, with a wake-up by the last word and by the first, in turn.
pub(crate) fn measure(clan: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let sizes = SIZES.iter().flat_map(|size| WORDS.map(|word| (size, word)));
    let exchanges: Vec<_> = sizes
        .map(|(size, word)| {
            let arguments = format!("--size {size} --warmup 5 --count {}", effort.pick(100, 500));
            let watch = format!("arrival-watch {arguments} --woken-by {word}");
            let exchange = clan.exchange_by_root(&watch, &format!("arrival-send {arguments}"));
            (format!("CLAN, DMA: {size} bytes, woken by the {word} word"), exchange)
        })
        .collect();
    interleave(&exchanges, effort.rounds(), progress)
}

/// Shows for each size how much less time the wake-up by the first word takes.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let row = |(size, pair): (&u64, &[Track])| {
        let times = [0, 1].map(|word| pair.get(word).map(Track::medians_us).unwrap_or_default());
        let [last, first] = &times;
        let text = |times: &Vec<f64>| median(times.clone()).map_or_else(|| "?".to_owned(), number);
        let [ratio, spread] = beside_text(first, last);
        vec![size.to_string(), text(last), text(first), ratio, spread]
    };
    let head =
        ["bytes", "woken by the last word, us", "woken by the first word, us", "beside the last", "spread"];
    Table {
        title: "CLAN: woken while the rest arrives".to_owned(),
        note: "From when the receiver asks for a message, by a store, until it has looked at all bytes; it sleeps until the Tripwire fires, then \
            polls the last word. By DMA. The card fires a Tripwire between the words of a packet, before it writes the next (2.5)."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: SIZES.iter().zip(tracks.chunks(WORDS.len())).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_word_is_compared_with_last_word() {
        let tracks: Vec<_> = [40_000, 30_000, 80_000, 20_000].map(|ns| Track::of_samples("x", &[ns])).into();
        let rows = table(&tracks).rows;
        assert_eq!((rows.len(), &rows[1][0]), (2, &"262144".to_owned()));
        assert!(rows[0][3].starts_with("0.7") && rows[1][3].starts_with("0.2"), "{rows:?}");
    }
}
