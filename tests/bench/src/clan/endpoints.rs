//! The cost of getting an endpoint and its memory for a connection: opened anew, and from the cache
//! (section 3.1).

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::track::{Track, interleave};

const OPENED: &str = "CLAN, an endpoint and its memory, opened and closed";
const AGAIN: &str = "CLAN, an endpoint and its memory, from the cache and back";

/// Measures both, in turn.
pub(crate) fn measure(clan: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let count = effort.pick(200, 1000);
    let exchanges = [(OPENED, 0), (AGAIN, 1)].map(|(what, kept)| {
        let role = format!("endpoint-take --kept {kept} --warmup 10 --count {count}");
        (what, Exchange::alone(clan.near(), &role))
    });
    interleave(&exchanges, effort.rounds(), progress)
}

/// Compares each one with opened endpoints.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let opened = tracks.first().map(Track::medians_us).unwrap_or_default();
    let row = |track: &Track| {
        let [ratio, spread] = beside_text(&track.medians_us(), &opened);
        let p50 = track.p50_us().map_or_else(|| "?".to_owned(), number);
        vec![track.name.clone(), p50, ratio, spread]
    };
    Table {
        title: "CLAN: endpoints that are used again".to_owned(),
        note: "An endpoint with 32 Tripwires and 64 DMA requests, and an aperture of a page. The paper caches them (3.1) and has no figure."
            .to_owned(),
        head: ["", "us: p50", "beside those that are opened", "spread"].map(str::to_owned).to_vec(),
        rows: tracks.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_endpoints_are_compared_with_opened_ones() {
        let table =
            table(&[(OPENED, 400_000), (AGAIN, 20_000)].map(|(what, ns)| Track::of_samples(what, &[ns])));
        assert_eq!(table.rows[1][2], "0.05");
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
    }
}
