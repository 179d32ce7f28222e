//! Round trips over a channel, the same on all cards: between programs that poll, and between
//! programs that sleep.

use std::iter::once;

use anyhow::Context;
use serde::Deserialize;

use super::stage::Stage;
use crate::table::{self, time};
use hamlyn_lab::Lab;

/// The payload of a round trip, in bytes.
const PAYLOAD: u64 = 16;

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Card,
    Express,
}

/// Round trips over one carrier, with one way to wait.
pub(super) struct RoundTrips {
    title: String,
    times: Times,
}

/// Times of half a round trip, as the tool reports them.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Times {
    t_min_us: f64,
    t_typical_us: f64,
    p99_us: f64,
    p999_us: f64,
    t_max_us: f64,
}

/// Makes `count` round trips over each carrier while both ends poll, and a tenth of that while both
/// sleep.
pub(super) fn round_trips(
    stage: &Stage,
    lab: &Lab,
    carriers: &[Carrier],
    count: u64,
) -> anyhow::Result<Vec<RoundTrips>> {
    let mut server = lab.vm(0).run(["hamlyn-perf", "--json"])?;
    let host = server.answer()?["host"].as_u64().context("vm0 has no host id")?.to_string();
    let mut all = Vec::new();
    for carrier in carriers {
        let (flag, name) = match carrier {
            Carrier::Card => (None, "the card"),
            Carrier::Express => (Some("--express"), "express memory"),
        };
        for (wait, more, count) in [("polling", None, count), ("asleep", Some("-e"), count.div_ceil(10))] {
            let title = format!("{count} of {PAYLOAD} bytes over {name}, {wait}");
            let times = stage.step(&format!("round trips over a channel: {title}"), |_| {
                let (count, size) = (count.to_string(), PAYLOAD.to_string());
                let words = ["hamlyn-perf", &host, "-n", &count, "-s", &size, "--json"];
                let last = lab.vm(1).run(words.into_iter().chain(flag).chain(more))?.finish()?.pop();
                let last = last.context("the program said nothing of its result")?;
                serde_json::from_value(last.clone())
                    .with_context(|| format!("the program's result is {last}"))
            })?;
            all.push(RoundTrips { title, times });
        }
    }
    Ok(all)
}

/// Returns the table's lines.
pub(super) fn lines(trips: &[RoundTrips]) -> Vec<String> {
    let heads = ["Round trips over a channel", "min", "p50", "p99", "p99.9", "max"].map(str::to_owned);
    let rows = trips.iter().map(|trips| {
        let Times { t_min_us, t_typical_us, p99_us, p999_us, t_max_us } = trips.times;
        let [min, p50, p99, p999, max] =
            [t_min_us, t_typical_us, p99_us, p999_us, t_max_us].map(|half| time((half * 2e3).round() as u64));
        [trips.title.clone(), min, p50, p99, p999, max]
    });
    table::lines(once(heads).chain(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_whole_round_trips() {
        let times = Times { t_min_us: 0.4, t_typical_us: 0.5, p99_us: 50.0, p999_us: 700.0, t_max_us: 3e3 };
        let shown = lines(&[RoundTrips { title: "9 of 16 bytes".to_owned(), times }]);
        let words: Vec<_> = shown.last().unwrap().split_whitespace().collect();
        assert_eq!(words.join(" "), "9 of 16 bytes 800 ns 1.0 us 100.0 us 1.4 ms 6.0 ms");
    }
}
