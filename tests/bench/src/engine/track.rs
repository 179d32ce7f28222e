//! A quantity that is measured in several rounds, interleaved with those of other quantities, so
//! that drift affects all of them equally.

use hdrhistogram::Histogram;

use crate::engine::exchange::{Exchange, Outcome};
use crate::engine::progress::Progress;
use crate::engine::stats::{Latency, median};

/// One quantity and the results of its rounds.
#[derive(Debug)]
pub struct Track {
    /// Its name, in words.
    pub name: String,
    /// The key of the plot that it belongs to, if there are several below its heading.
    pub plot: &'static str,
    /// The row or the curve that it belongs to: by default its name.
    pub label: String,
    /// Its position on that curve.
    pub x: u64,
    /// The commands that measured it, as a user would type them.
    pub commands: Vec<String>,
    /// The rounds.
    pub rounds: Vec<Outcome>,
    /// The reason why there are no more rounds.
    pub failure: Option<String>,
}

impl Track {
    /// A quantity without rounds.
    pub fn new(name: &str) -> Self {
        let (commands, rounds, failure) = Default::default();
        Self { name: name.to_owned(), label: name.to_owned(), plot: "", x: 0, commands, rounds, failure }
    }

    /// Returns every sample of every round, or none without samples.
    pub fn samples(&self) -> Option<Histogram<u64>> {
        let mut rounds = self.rounds.iter().map(|round| &round.samples).filter(|samples| !samples.is_empty());
        let mut all = rounds.next()?.clone();
        for more in rounds {
            all.add(more).ok()?;
        }
        Some(all)
    }

    /// Returns percentiles over all rounds, or none without samples.
    pub fn latency(&self) -> Option<Latency> {
        Latency::of(&self.samples()?)
    }

    /// Returns the median of the rounds' medians, in microseconds.
    pub fn p50_us(&self) -> Option<f64> {
        median(self.medians_us())
    }

    /// Returns half of the median round trip, in microseconds.
    pub fn one_way_us(&self) -> Option<f64> {
        Some(self.p50_us()? / 2.0)
    }

    /// Returns the 99th percentile over all rounds, in microseconds.
    pub fn p99_us(&self) -> Option<f64> {
        Some(self.latency()?.p99)
    }

    /// Returns the rounds' medians, in microseconds.
    pub fn medians_us(&self) -> Vec<f64> {
        self.quantiles_us(0.5)
    }

    /// Returns a quantile of each round, in microseconds.
    pub fn quantiles_us(&self, quantile: f64) -> Vec<f64> {
        let measured = self.rounds.iter().filter(|round| !round.samples.is_empty());
        measured.map(|round| round.samples.value_at_quantile(quantile) as f64 / 1e3).collect()
    }

    /// Returns the median of the rounds' rates, in bytes a second.
    pub fn rate(&self) -> Option<f64> {
        median(self.rates())
    }

    /// Returns the same in MB/s.
    pub fn mb_per_s(&self) -> Option<f64> {
        Some(self.rate()? / 1e6)
    }

    /// Returns the rounds' rates, in bytes a second.
    pub fn rates(&self) -> Vec<f64> {
        self.rounds.iter().filter(|round| round.bytes > 0).map(Outcome::rate).collect()
    }

    /// Returns the rounds' messages a second.
    pub fn message_rates(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.messages as f64 * 1e9 / round.ns as f64).collect()
    }

    /// Returns the median of the rounds' messages a second.
    pub fn message_rate(&self) -> Option<f64> {
        median(self.message_rates())
    }

    /// Returns the processor time of the near and of the far program per message, in microseconds.
    pub fn cpu_us(&self) -> Option<[f64; 2]> {
        let messages: u64 = self.rounds.iter().map(|round| round.messages).sum();
        let of = |end: usize| self.rounds.iter().map(|round| round.cpu_ns[end]).sum::<u64>();
        (messages > 0).then(|| [0, 1].map(|end| of(end) as f64 / 1e3 / messages as f64))
    }

    /// Returns the processor time of cards and switch, and of the emulators, per message, in
    /// microseconds. Returns none if they were not watched.
    pub fn watched_us(&self) -> Option<[f64; 2]> {
        let messages: u64 = self.rounds.iter().map(|round| round.all).sum();
        let watched = || self.rounds.iter().flat_map(|round| &round.watched_ns);
        let sum = |machines: bool| {
            let of = watched().filter(|(name, _)| name.starts_with("vm") == machines);
            of.map(|(_, time)| time).sum::<u64>() as f64 / 1e3 / messages as f64
        };
        (messages > 0 && watched().next().is_some()).then(|| [sum(false), sum(true)])
    }

    /// Returns a counter of the sending card, summed over all rounds.
    pub fn sent_counter(&self, counter: &str) -> f64 {
        self.rounds.iter().filter_map(|round| round.counters[0][counter].as_u64()).sum::<u64>() as f64
    }

    /// Returns a counter of a card (0 near, 1 far) per message that the card sent.
    pub fn counted(&self, end: usize, counter: &str) -> Option<f64> {
        let read = |round: &Outcome, name: &str| round.counters[end][name].as_u64();
        let mut sums = (0, 0);
        for round in &self.rounds {
            sums.0 += read(round, counter)?;
            sums.1 += read(round, "messages_sent")?;
        }
        (sums.1 > 0).then(|| sums.0 as f64 / sums.1 as f64)
    }
}

#[cfg(test)]
impl Track {
    /// Makes a track with one round of these samples, in nanoseconds.
    pub(crate) fn of_samples(name: &str, samples: &[u64]) -> Self {
        let near =
            serde_json::json!({ "samples": samples.iter().map(|ns| [*ns, 1]).collect::<Vec<_>>(), "ns": 1 });
        let round = Outcome::read(&near, &serde_json::Value::Null).unwrap();
        Self { rounds: vec![round], ..Self::new(name) }
    }
}

/// Measures all exchanges round by round, every other round backwards, so that drift within a round
/// has the same effect on all. An exchange that fails is left out from then on.
pub fn interleave(
    exchanges: &[(impl AsRef<str>, Exchange<'_>)],
    rounds: usize,
    progress: &Progress,
) -> Vec<Track> {
    let new = |(name, exchange): &(_, Exchange<'_>)| Track {
        commands: exchange.commands(),
        ..Track::new(AsRef::<str>::as_ref(name))
    };
    let mut tracks: Vec<Track> = exchanges.iter().map(new).collect();
    for round in 1..=rounds {
        let mut turn: Vec<_> = exchanges.iter().zip(&mut tracks).collect();
        if round % 2 == 0 {
            turn.reverse();
        }
        for ((_, exchange), track) in turn {
            if track.failure.is_some() {
                continue;
            }
            progress.step(&format!("{} (round {round} of {rounds})", track.name));
            match exchange.run() {
                Ok(outcome) => track.rounds.push(outcome),
                Err(error) => {
                    progress.note(&format!("{}: {error:#}", track.name));
                    track.failure = Some(format!("{error:#}"));
                }
            }
        }
    }
    tracks
}

/// Returns values of the track with this name, round by round.
pub fn values(tracks: &[Track], name: &str, of: fn(&Track) -> Vec<f64>) -> Vec<f64> {
    find(tracks, name).map(of).unwrap_or_default()
}

/// Returns the rounds' medians of the track with this name, in microseconds.
pub fn medians(tracks: &[Track], name: &str) -> Vec<f64> {
    values(tracks, name, Track::medians_us)
}

/// Returns the track with this name, or none if it was not measured.
pub fn find<'t>(tracks: &'t [Track], name: &str) -> Option<&'t Track> {
    tracks.iter().find(|track| track.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn round(samples: &[u64], sent: u64, bells: u64) -> Outcome {
        let mut histogram = Histogram::new(3).unwrap();
        for sample in samples {
            histogram.record(*sample).unwrap();
        }
        let counters = json!({ "messages_sent": sent, "doorbells": bells });
        Outcome {
            samples: histogram,
            messages: 10,
            all: 20,
            bytes: 0,
            ns: 1000,
            cpu_ns: [20_000, 5000],
            watched_ns: [("fabric".into(), 40_000), ("vm0".into(), 60_000), ("vm1".into(), 20_000)].into(),
            counters: [counters, Value::Null],
        }
    }

    fn track(rounds: Vec<Outcome>) -> Track {
        Track { rounds, ..Track::new("x") }
    }

    #[test]
    fn a_tracks_median_is_that_of_its_rounds() {
        // A slow round with many samples does not outweigh the others.
        let slow = vec![9000; 1000];
        let track = track(vec![round(&[1000], 1, 1), round(&[2000], 1, 1), round(&slow, 1, 1)]);
        assert!((track.p50_us().unwrap() - 2.0).abs() < 0.01);
        assert_eq!(track.samples().unwrap().len(), 1002);
        assert_eq!(track.rate(), None);
    }

    #[test]
    fn counters_and_processor_time_are_for_each_message() {
        let track = track(vec![round(&[1], 100, 50), round(&[1], 300, 50)]);
        assert_eq!(track.counted(0, "doorbells"), Some(0.25));
        assert_eq!(track.counted(1, "doorbells"), None);
        assert_eq!(track.cpu_us(), Some([2.0, 0.5]));
        assert_eq!(track.watched_us(), Some([2.0, 4.0]));
        assert_eq!(track.message_rates(), [1e7, 1e7]);
    }
}
