//! The target figures, and whether they are met.

use serde_json::{Value, json};

use crate::engine::stats::median;
use crate::engine::track::{Track, medians};

/// A goal's condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Need {
    /// The figure itself is at most this.
    AtMost(f64),
    /// The figure itself is at least this.
    AtLeast(f64),
    /// The ratio of the figure to the peer's is at most this.
    RatioAtMost(f64),
    /// The ratio of the figure to the peer's is at least this.
    RatioAtLeast(f64),
}

/// One target figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Its number.
    pub number: u32,
    /// What is measured.
    pub what: String,
    /// Unit of the value and of the peer.
    pub unit: &'static str,
    /// The figure; none if it could not be measured.
    pub value: Option<f64>,
    /// The peer that it is compared with.
    pub peer: Option<(String, Option<f64>)>,
    /// The condition.
    pub need: Need,
    /// The values that decide, round by round: the ratio of figure and peer in the same round, or
    /// the figure if there is no peer. Empty for a figure that is counted once.
    rounds: Vec<f64>,
}

/// The verdict on a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The goal is met.
    Met,
    /// The goal is not met.
    Short,
    /// The rounds are on both sides of the limit: this run cannot decide.
    WithinNoise,
    /// The figure or its peer is missing.
    NotMeasured,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Short => "short",
            Verdict::WithinNoise => "within noise",
            Verdict::NotMeasured => "not measured",
        }
    }
}

impl Goal {
    /// Makes a goal for a figure that is counted once.
    pub fn own(number: u32, what: &str, unit: &'static str, value: Option<f64>, need: Need) -> Self {
        Self { number, what: what.to_owned(), unit, value, peer: None, need, rounds: Vec::new() }
    }

    /// Makes a goal for a figure without a peer, from its rounds.
    pub fn in_rounds(number: u32, what: &str, unit: &'static str, values: &[f64], need: Need) -> Self {
        Self { rounds: values.to_vec(), ..Self::own(number, what, unit, median(values.to_vec()), need) }
    }

    /// Makes a goal for a figure compared with a peer's, from rounds that were measured in turn.
    pub fn beside(
        number: u32,
        what: &str,
        unit: &'static str,
        values: &[f64],
        peer: (&str, &[f64]),
        need: Need,
    ) -> Self {
        let rounds = values.iter().zip(peer.1).map(|(value, peer)| value / peer).collect();
        let peer = Some((peer.0.to_owned(), median(peer.1.to_vec())));
        Self { peer, rounds, ..Self::own(number, what, unit, median(values.to_vec()), need) }
    }

    /// Makes a goal for a median of round trips, which is at most `limit` of that of a peer. The
    /// peer has a description and a track.
    pub fn trips(
        tracks: &[Track],
        number: u32,
        what: &str,
        own: &str,
        (peer, peer_track): (&str, &str),
        limit: f64,
    ) -> Self {
        let [own, values] = [own, peer_track].map(|name| medians(tracks, name));
        Self::beside(number, what, "us", &own, (peer, &values), Need::RatioAtMost(limit))
    }

    /// Returns the figure divided by the peer's: the median of the rounds' ratios.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().and_then(|_| median(self.rounds.clone()))
    }

    /// Returns the interval for the median of many more rounds of the deciding value. None for a
    /// figure that is counted once.
    pub fn spread(&self) -> Option<[f64; 2]> {
        interval(self.rounds.clone())
    }

    /// Decides by the interval of the median, not by this run's own median.
    pub fn verdict(&self) -> Verdict {
        let once = if self.peer.is_none() { self.value } else { None };
        let Some([low, high]) = self.spread().or(once.map(|value| [value; 2])) else {
            return Verdict::NotMeasured;
        };
        let fits = |figure: f64| match self.need {
            Need::AtMost(limit) | Need::RatioAtMost(limit) => figure <= limit,
            Need::AtLeast(limit) | Need::RatioAtLeast(limit) => figure >= limit,
        };
        match (fits(low), fits(high)) {
            (true, true) => Verdict::Met,
            (false, false) => Verdict::Short,
            _ => Verdict::WithinNoise,
        }
    }

    fn limit(&self) -> f64 {
        match self.need {
            Need::AtMost(limit)
            | Need::AtLeast(limit)
            | Need::RatioAtMost(limit)
            | Need::RatioAtLeast(limit) => limit,
        }
    }

    /// Returns the condition in words.
    pub fn need_text(&self) -> String {
        let limit = number(self.limit());
        let unit = self.unit;
        match self.need {
            Need::AtMost(_) => format!("at most {limit} {unit}").trim_end().to_owned(),
            Need::AtLeast(_) => format!("at least {limit} {unit}").trim_end().to_owned(),
            Need::RatioAtMost(_) => format!("ratio at most {limit}"),
            Need::RatioAtLeast(_) => format!("ratio at least {limit}"),
        }
    }

    /// Returns the figure in words.
    pub fn value_text(&self) -> String {
        with_unit(self.value, self.unit)
    }

    /// Returns the peer's name and figure in words.
    pub fn peer_text(&self) -> String {
        match &self.peer {
            Some((name, value)) => format!("{name}: {}", with_unit(*value, self.unit)),
            None => String::new(),
        }
    }

    /// Returns the ratio in words.
    pub fn ratio_text(&self) -> String {
        self.ratio().map_or_else(String::new, number)
    }

    /// Returns the spread in words.
    pub fn spread_text(&self) -> String {
        self.spread().map_or_else(String::new, |[low, high]| format!("{} to {}", number(low), number(high)))
    }

    /// Converts the goal to a JSON object.
    pub fn json(&self) -> Value {
        json!({
            "goal": self.number,
            "what": self.what,
            "unit": self.unit,
            "value": self.value,
            "peer": self.peer.as_ref().and_then(|peer| peer.1),
            "peer_name": self.peer.as_ref().map(|peer| &peer.0),
            "ratio": self.ratio(),
            "spread": self.spread(),
            "rounds": self.rounds,
            "needed": self.need_text(),
            "verdict": self.verdict().text(),
            "met": self.verdict() == Verdict::Met,
        })
    }
}

/// Returns the ratio of a figure to the peer's, measured in turn: the median of the rounds' ratios.
/// It is empty if either of them was not measured.
pub(crate) fn ratio(values: &[f64], peers: &[f64]) -> String {
    compared(values, peers).ratio_text()
}

/// Returns the interval of the same.
pub(crate) fn spread(values: &[f64], peers: &[f64]) -> String {
    compared(values, peers).spread_text()
}

/// Returns both in one cell.
pub(crate) fn beside(values: &[f64], peers: &[f64]) -> String {
    let goal = compared(values, peers);
    goal.ratio().map_or_else(String::new, |ratio| format!("{} ({})", number(ratio), goal.spread_text()))
}

fn compared(values: &[f64], peers: &[f64]) -> Goal {
    Goal::beside(0, "", "", values, ("", peers), Need::AtLeast(0.0))
}

/// Returns a number in words; empty if it was not measured.
pub(crate) fn text(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// Returns a number in words; a question mark if it was not measured.
pub(crate) fn known(value: Option<f64>) -> String {
    value.map_or_else(|| "?".to_owned(), number)
}

/// Returns an interval that holds the median of the samples' distribution with at least 90%
/// probability, whatever that distribution is. It goes from the k-th smallest sample to the k-th
/// largest. Of fewer than five samples it covers all, which is less certain. Returns none for no
/// samples.
fn interval(mut values: Vec<f64>) -> Option<[f64; 2]> {
    const DOUBT: f64 = 0.05;
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let (mut skipped, mut ways, mut outside) = (0, 1.0, 0.5_f64.powi(count as i32));
    loop {
        // The probability that at most this many samples are below the median.
        ways *= (count - skipped) as f64 / (skipped + 1) as f64;
        let next = outside + ways * 0.5_f64.powi(count as i32);
        if next > DOUBT || 2 * (skipped + 1) >= count {
            break;
        }
        (outside, skipped) = (next, skipped + 1);
    }
    Some([*values.get(skipped)?, *values.get(count - 1 - skipped)?])
}

/// Returns a line for each goal.
pub fn lines(goals: &[Goal]) -> String {
    let rows: Vec<[String; 7]> = goals
        .iter()
        .map(|goal| {
            let ratio = goal.ratio().map_or_else(String::new, |ratio| format!("ratio {}", number(ratio)));
            let what = format!("{}  {}", goal.number, goal.what);
            let (spread, verdict) = (goal.spread_text(), goal.verdict().text().to_owned());
            [what, goal.value_text(), goal.peer_text(), ratio, spread, goal.need_text(), verdict]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..7).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn with_unit(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "?".to_owned(), |value| format!("{} {unit}", number(value)).trim_end().to_owned())
}

/// Formats a number with three significant digits.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", usize::try_from(digits.clamp(0, 9)).unwrap_or_default());
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(values: &[f64], peers: &[f64], need: Need) -> Goal {
        Goal::beside(1, "round trip", "us", values, ("UDP", peers), need)
    }

    #[test]
    fn goal_is_met_up_to_its_limit() {
        let ratio = Need::RatioAtMost(0.05);
        assert_eq!(goal(&[20.0], &[400.0], ratio).verdict(), Verdict::Met);
        assert_eq!(goal(&[20.1], &[400.0], ratio).verdict(), Verdict::Short);
        assert_eq!(goal(&[8000.0], &[400.0], Need::RatioAtLeast(20.0)).verdict(), Verdict::Met);
        assert_eq!(goal(&[7999.0], &[400.0], Need::RatioAtLeast(20.0)).verdict(), Verdict::Short);
        assert_eq!(Goal::own(5, "traps", "", Some(0.0), Need::AtMost(0.0)).verdict(), Verdict::Met);
        assert_eq!(Goal::own(9, "packets", "", Some(9.9), Need::AtLeast(10.0)).verdict(), Verdict::Short);
        assert_eq!(
            Goal::in_rounds(9, "packets", "", &[9.0, 11.0], Need::AtLeast(10.0)).verdict(),
            Verdict::WithinNoise
        );
    }

    #[test]
    fn rounds_on_both_sides_are_within_noise() {
        let need = Need::RatioAtMost(1.1);
        let peers = [10.0; 5];
        assert_eq!(goal(&[10.0, 9.0, 11.5, 10.2, 10.1], &peers, need).verdict(), Verdict::WithinNoise);
        assert_eq!(goal(&[10.0, 9.0, 10.9, 10.2, 10.1], &peers, need).verdict(), Verdict::Met);
        assert_eq!(goal(&[12.0, 15.0, 11.5, 12.2, 13.1], &peers, need).verdict(), Verdict::Short);
    }

    #[test]
    fn common_drift_does_not_widen_the_spread() {
        // The clock doubles within the run; the ratio stays.
        let (values, peers) = ([10.0, 12.0, 15.0, 18.0, 20.0], [20.0, 24.0, 30.0, 36.0, 40.0]);
        let goal = goal(&values, &peers, Need::RatioAtMost(0.51));
        assert_eq!((goal.ratio(), goal.spread()), (Some(0.5), Some([0.5, 0.5])));
        assert_eq!(goal.verdict(), Verdict::Met);
    }

    #[test]
    fn median_interval_matches_the_sign_test() {
        let range = |count: usize| interval((1..=count).map(|value| value as f64).collect());
        assert_eq!(range(0), None);
        assert_eq!(range(1), Some([1.0, 1.0]));
        // Values from tables of the sign test, at 90%.
        for (count, skipped) in [(5, 0.0), (7, 0.0), (8, 1.0), (9, 1.0), (15, 3.0), (25, 7.0)] {
            assert_eq!(range(count), Some([1.0 + skipped, count as f64 - skipped]), "{count} rounds");
        }
    }

    #[test]
    fn unmeasured_goal_is_not_met() {
        for (values, peers) in [(&[][..], &[1.0][..]), (&[1.0], &[]), (&[], &[])] {
            assert_eq!(goal(values, peers, Need::RatioAtMost(2.0)).verdict(), Verdict::NotMeasured);
        }
        assert_eq!(goal(&[], &[], Need::RatioAtMost(2.0)).verdict().text(), "not measured");
    }

    #[test]
    fn compared_figures_have_ratio_and_spread() {
        let (own, peers) = ([10.0, 10.0, 12.0], [20.0, 40.0, 30.0]);
        assert_eq!([ratio(&own, &peers), spread(&own, &peers)], ["0.4", "0.25 to 0.5"]);
        assert_eq!(beside(&own, &peers), "0.4 (0.25 to 0.5)");
        assert_eq!([ratio(&[], &[1.0]), spread(&[], &[1.0]), beside(&[], &[1.0])], [""; 3]);
    }

    #[test]
    fn line_shows_figure_spread_goal_and_verdict() {
        let text = lines(&[goal(&[92.34, 80.0], &[400.0, 400.0], Need::RatioAtMost(0.05))]);
        let words =
            "1  round trip  86.2 us  UDP: 400 us  ratio 0.215  0.2 to 0.231  ratio at most 0.05  short\n";
        assert_eq!(text, words);
    }

    #[test]
    fn an_object_has_the_promised_fields() {
        let object = goal(&[10.0, 10.0], &[400.0, 200.0], Need::RatioAtMost(0.06)).json();
        assert_eq!(object["goal"], 1);
        assert_eq!(object["value"], 10.0);
        assert_eq!(object["peer"], 300.0);
        assert_eq!(object["spread"], json!([0.025, 0.05]));
        assert_eq!(object["met"], true);
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 0.012_345, 1.0, 1.5, 28.25, 412.6, 51_234.0].map(number);
        assert_eq!(texts, ["0", "0.0123", "1", "1.5", "28.2", "413", "51234"]);
    }
}
