//! Reads of another host's virtual memory (section 3): the cost of a miss, and of a page that is
//! not present.

use crate::dart::pairs::DART;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{beside, known};
use crate::engine::machines::Machines;
use crate::engine::plan::Planned;
use crate::engine::report::Table;
use crate::engine::track::Track;

/// Which pages are read: the label, and the program's option.
const PAGES: [(&str, &str); 4] = [
    ("a page that the card knows: a hit", "known"),
    ("a page that the card has forgotten: a miss", "forgotten"),
    ("a page that was never touched", "untouched"),
    ("a page that is swapped out", "swapped"),
];
/// More pages than a card has translations for, unless the user configured more.
const MORE: u64 = 1100;

pub(crate) const PAGING: Experiment = Experiment {
    name: "paging",
    title: "DART: virtual memory",
    heading: "DART: reads of pages that are there or not",
    plan,
    prepare: |_, running| running.get(DART).map_or(Ok(()), Machines::add_swap),
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

fn plan(effort: Effort) -> Vec<Planned> {
    let of = |(pages, word): (&str, &str)| {
        let count = if word == "forgotten" { MORE } else { effort.pick(500, 2000) };
        let arguments = format!("--pages {word} --count {count}");
        let (near, far) = (format!("paging-read {arguments}"), format!("paging-hold {arguments}"));
        // A process reads its own page map, and a lap's pages are not locked.
        DART.exchange(format!("DART, read of {pages}"), &near, &far).at(pages, 0)
    };
    PAGES.map(of).to_vec()
}

/// Compares each one with a hit.
fn table(tracks: &[Track]) -> Table {
    let note = "A remote read of 8 bytes, whose answer is looked for all the time, from memory of a machine whose processor sleeps. A miss \
        interrupts its driver. Swap space is compressed memory (zram). The paper has no figures of these.";
    let hit = tracks.first().map(Track::medians_us).unwrap_or_default();
    let more = |track: &Track| Some(track.p50_us()? - tracks.first()?.p50_us()?);
    Table::new(
        "DART: virtual memory",
        note,
        tracks,
        &[
            ("read of", &|track| track.label.clone()),
            ("us: p50", &|track| known(track.p50_us())),
            ("p99", &|track| known(track.p99_us())),
            ("more than a hit, us", &|track| known(more(track))),
            ("beside a hit", &|track| beside(&track.medians_us(), &hit)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_is_compared_with_a_hit() {
        let track = |name, ns: &[u64]| Track::of_samples(name, ns);
        let rows = table(&[track("hit", &[20_000]), track("miss", &[]), track("swapped", &[200_000])]).rows;
        assert_eq!(rows[2][1..4], ["200", "200", "180"]);
        assert!(rows[2][4].starts_with("10 ("), "{:?}", rows[2]);
        assert_eq!(rows[1], ["miss", "?", "?", "?", ""]);
    }
}
