//! All results in one table.

use crate::engine::goals::{beside_text, number};
use crate::engine::report::Table;
use crate::engine::track::{Track, find};
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

/// Shows all results.
pub(crate) fn table(tracks: &[Track]) -> Table {
    let text = |value: Option<f64>| value.map_or_else(String::new, number);
    let beside = |of: fn(&Track) -> Vec<f64>, own: &Track, peer: Option<&str>| {
        let peer = peer.and_then(|peer| find(tracks, peer)).map(of).unwrap_or_default();
        let [ratio, spread] = beside_text(&of(own), &peer);
        if ratio.is_empty() { ratio } else { format!("{ratio} ({spread})") }
    };
    let row = |track: &Track| {
        let is_trip = track.latency().is_some();
        let measure: fn(&Track) -> Vec<f64> = if is_trip { Track::medians_us } else { Track::message_rates };
        let rate = |value: f64| (!is_trip).then_some(value / 1e6);
        let messages = crate::engine::stats::median(track.message_rates()).and_then(rate);
        let (ring, copy) = (ring_of(&track.name), copy_of(&track.name));
        let peer = |name: &'static str| is_trip.then_some(name);
        vec![
            track.name.clone(),
            text(track.p50_us().filter(|_| is_trip)),
            text(track.latency().map(|latency| latency.p99)),
            text(messages),
            text(track.rate().and_then(rate)),
            beside(measure, track, ring.as_deref()),
            beside(measure, track, copy.as_deref()),
            beside(measure, track, peer(trips::UDP)),
            beside(measure, track, peer(trips::VSOCK)),
        ]
    };
    let head = [
        "",
        "round trip, us: p50",
        "p99",
        "million messages/s",
        "MB/s",
        "beside the same ring without protection",
        "beside memcpy",
        "beside UDP",
        "beside vsock",
    ];
    Table {
        title: "Express memory".to_owned(),
        note: "Two pinned machines. The ring in ivshmem's memory is the library's own, barriers and all, with nothing around it: nobody \
            is protected, told of an end, or woken. Messages one way go in laps; those that are copied lie in places of their own at both \
            ends, as memcpy's do. The host's cores hand over what two threads of its own write and read in turn, and only writing is timed: \
            where that is slow, so is what is copied through memory that both have. Ratios are of the same round: of times for round trips, of rates for the others."
            .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: tracks.iter().map(row).collect(),
    }
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
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert_eq!(table.rows[0][1..6], ["0.5", "0.5", "", "", "0.5 (0.5 to 0.5)"]);
        assert_eq!(table.rows[3][4], "1000");
        assert_eq!(table.rows[3][6], "0.5 (0.5 to 0.5)");
    }
}
