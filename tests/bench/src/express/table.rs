//! All results in one table.

use crate::engine::goals::{beside, text};
use crate::engine::report::Table;
use crate::engine::track::{Track, values};
use crate::express::{streams, trips};

/// Returns the peer of a measurement: the same ring without protection, or `memcpy`; else an
/// alternative to a card.
fn ring_of(name: &str) -> Option<String> {
    let same = |own: &str, peer: &str| (name == own).then(|| peer.to_owned());
    let long = |size: &str| {
        let ours = [streams::copied(size), streams::in_place(size)];
        ours.iter().any(|own| own == name).then(|| streams::bare(size))
    };
    same(trips::CHANNEL, trips::RING)
        .or_else(|| same(streams::CHANNEL, streams::BARE))
        .or_else(|| ["64 KiB", "1 MiB"].into_iter().find_map(long))
}

fn copy_of(name: &str) -> Option<String> {
    let all =
        |size: &str| [streams::copied, streams::in_place, streams::bare, streams::memcpy].map(|of| of(size));
    let size = ["64 KiB", "1 MiB"].into_iter().find(|size| all(size).iter().any(|own| own == name))?;
    Some(streams::memcpy(size))
}

/// Shows all results: times of round trips, and rates of the others.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let is_trip = |track: &Track| track.latency().is_some();
    let rate = |track: &Track, rate: Option<f64>| text(rate.filter(|_| !is_trip(track)));
    let to = |own: &Track, peer: Option<String>| {
        let of = if is_trip(own) { Track::medians_us } else { Track::message_rates };
        beside(&of(own), &values(tracks, &peer.unwrap_or_default(), of))
    };
    let trip = |own: &Track, peer: &str| to(own, is_trip(own).then(|| peer.to_owned()));
    let note = "Two pinned machines. The ring in ivshmem's memory is the library's own, barriers and all, with nothing around it: it \
        has no protection, reports no end of a peer, and wakes no sleeper. Messages one way go in laps. Copied messages have \
        buffers of their own at both ends, as memcpy's do. The host's cores hand over what two threads of its own write and read in \
        turn, and only writing is timed: where that is slow, so is what is copied through memory that both have. Ratios are of the \
        same round: of times for round trips, of rates for the others.";
    Table::new(
        "Express memory",
        note,
        tracks,
        &[
            ("", &|track| track.name.clone()),
            ("round trip, us: p50", &|track| text(track.p50_us())),
            ("p99", &|track| text(track.p99_us())),
            ("million messages/s", &|track| rate(track, track.message_rate().map(|rate| rate / 1e6))),
            ("MB/s", &|track| rate(track, track.mb_per_s())),
            ("beside the same ring without protection", &|track| to(track, ring_of(&track.name))),
            ("beside memcpy", &|track| to(track, copy_of(&track.name))),
            ("beside UDP", &|track| trip(track, trips::UDP)),
            ("beside vsock", &|track| trip(track, trips::VSOCK)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_have_times_and_streams_have_rates() {
        let mut stream = Track::of_samples(&streams::copied("1 MiB"), &[]);
        (stream.rounds[0].bytes, stream.rounds[0].messages, stream.rounds[0].ns) = (1 << 20, 1, 1 << 20);
        let mut copy = Track::of_samples(&streams::memcpy("1 MiB"), &[]);
        (copy.rounds[0].bytes, copy.rounds[0].messages, copy.rounds[0].ns) = (1 << 20, 1, 1 << 19);
        let trips = [(trips::CHANNEL, 500), (trips::RING, 1000), (trips::UDP, 400_000)]
            .map(|(name, ns)| Track::of_samples(name, &[ns]));
        let tracks: Vec<Track> = trips.into_iter().chain([stream, copy]).collect();
        let table = table(&tracks);
        assert_eq!(table.rows[0][1..6], ["0.5", "0.5", "", "", "0.5 (0.5 to 0.5)"]);
        assert_eq!(table.rows[3][4], "1000");
        assert_eq!(table.rows[3][6], "0.5 (0.5 to 0.5)");
    }
}
