//! The cost of getting an endpoint and its memory for a connection: opened anew, and from the cache
//! (section 3.1).

use crate::clan::pairs::CLAN;
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{known, ratio, spread};
use crate::engine::report::Table;
use crate::engine::track::Track;

const OPENED: &str = "CLAN, an endpoint and its memory, opened and closed";
const AGAIN: &str = "CLAN, an endpoint and its memory, from the cache and back";

pub(crate) const ENDPOINTS: Experiment = Experiment {
    name: "endpoints",
    title: "CLAN: endpoints that are used again",
    heading: "CLAN: endpoints",
    plan: |effort: Effort| {
        let of = |(name, kept)| {
            let count = effort.pick(200, 1000);
            CLAN.alone(name, &format!("endpoint-take --kept {kept} --warmup 10 --count {count}"))
        };
        [(OPENED, 0), (AGAIN, 1)].map(of).to_vec()
    },
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

/// Compares each one with opened endpoints.
fn table(tracks: &[Track]) -> Table {
    let note = "An endpoint with 32 Tripwires and 64 DMA requests, and an aperture of a page. The paper caches them (3.1) and has no figure.";
    let opened = tracks.first().map(Track::medians_us).unwrap_or_default();
    Table::new(
        "CLAN: endpoints that are used again",
        note,
        tracks,
        &[
            ("", &|track| track.name.clone()),
            ("us: p50", &|track| known(track.p50_us())),
            ("beside those that are opened", &|track| ratio(&track.medians_us(), &opened)),
            ("spread", &|track| spread(&track.medians_us(), &opened)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_endpoints_are_compared_with_opened_ones() {
        let table =
            table(&[(OPENED, 400_000), (AGAIN, 20_000)].map(|(what, ns)| Track::of_samples(what, &[ns])));
        assert_eq!(table.rows[1][1..], ["20", "0.05", "0.05 to 0.05"]);
    }
}
