//! Reads of another host's virtual memory (section 3): the cost of a miss, and of a page that is
//! not present.

use crate::engine::effort::Effort;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, find, interleave};

/// Which pages are read: the label, and the program's option.
const PAGES: [(&str, &str); 4] = [
    ("a page that the card knows: a hit", "known"),
    ("a page that the card has forgotten: a miss", "forgotten"),
    ("a page that was never touched", "untouched"),
    ("a page that is swapped out", "swapped"),
];
/// More pages than a card has translations for, unless the user configured more.
const MORE: u64 = 1100;

fn name(pages: &str) -> String {
    format!("DART, read of {pages}")
}

/// Measures all in turn.
pub(crate) fn measure(dart: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let exchanges = PAGES.map(|(pages, word)| {
        let count = if word == "forgotten" { MORE } else { effort.pick(500, 2000) };
        let arguments = format!("--pages {word} --count {count}");
        let (near, far) = (format!("paging-read {arguments}"), format!("paging-hold {arguments}"));
        // A process reads its own page map, and a lap's pages are not locked.
        (name(pages), dart.exchange(&near, &far))
    });
    interleave(&exchanges, effort.rounds(), progress)
}

/// Compares each one with a hit.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let medians = |pages: &str| find(tracks, &name(pages)).map(Track::medians_us).unwrap_or_default();
    let row = |(pages, _): (&str, &str)| {
        let track = find(tracks, &name(pages));
        let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
        let p99 = track.and_then(|track| Some(track.latency()?.p99));
        let p50 = track.and_then(Track::p50_us);
        let hit = find(tracks, &name(PAGES[0].0)).and_then(Track::p50_us);
        let more = p50.zip(hit).map(|(p50, hit)| p50 - hit);
        let [ratio, spread] = beside_text(&medians(pages), &medians(PAGES[0].0));
        vec![pages.to_owned(), text(p50), text(p99), text(more), format!("{ratio} ({spread})")]
    };
    Table {
        title: "DART: virtual memory".to_owned(),
        note: "A remote read of 8 bytes, whose answer is looked for all the time, from memory of a machine whose processor sleeps. A miss \
            interrupts its driver. Swap space is compressed memory (zram). The paper has no figures of these."
            .to_owned(),
        head: ["read of", "us: p50", "p99", "more than a hit, us", "beside a hit"].map(str::to_owned).to_vec(),
        rows: PAGES.map(row).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_is_compared_with_a_hit() {
        let tracks = [(0, 20_000), (3, 200_000)].map(|(at, ns)| Track::of_samples(&name(PAGES[at].0), &[ns]));
        let rows = table(&tracks).rows;
        assert_eq!(rows[3][1..4], ["200", "200", "180"]);
        assert!(rows[3][4].starts_with("10 ("), "{:?}", rows[3]);
        assert_eq!(rows[1][1], "?");
    }
}
