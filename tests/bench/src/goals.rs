//! The figures to reach, and whether they are.

use serde_json::{Value, json};

/// What a goal asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Need {
    /// The figure itself is at most this.
    AtMost(f64),
    /// The figure itself is at least this.
    AtLeast(f64),
    /// The figure is at most this part of the peer's.
    RatioAtMost(f64),
    /// The figure is at least so many times the peer's.
    RatioAtLeast(f64),
}

/// One figure to reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Its number.
    pub number: u32,
    /// What is measured.
    pub what: String,
    /// What value and peer are counted in.
    pub unit: &'static str,
    /// The figure; none if it could not be measured.
    pub value: Option<f64>,
    /// What it is compared with.
    pub peer: Option<(String, Option<f64>)>,
    /// What is asked for.
    pub need: Need,
}

impl Goal {
    /// A goal about a figure by itself.
    pub fn own(number: u32, what: &str, unit: &'static str, value: Option<f64>, need: Need) -> Self {
        Self { number, what: what.to_owned(), unit, value, peer: None, need }
    }

    /// A goal about a figure beside a peer's.
    pub fn beside(
        number: u32,
        what: &str,
        unit: &'static str,
        value: Option<f64>,
        peer: (&str, Option<f64>),
        need: Need,
    ) -> Self {
        let peer = Some((peer.0.to_owned(), peer.1));
        Self { number, what: what.to_owned(), unit, value, peer, need }
    }

    /// The figure divided by the peer's.
    pub fn ratio(&self) -> Option<f64> {
        let peer = self.peer.as_ref()?.1?;
        self.value.map(|value| value / peer)
    }

    /// Whether it is reached; what could not be measured is not.
    pub fn met(&self) -> bool {
        let (figure, fits): (_, fn(f64, f64) -> bool) = match self.need {
            Need::AtMost(_) => (self.value, |figure, limit| figure <= limit),
            Need::AtLeast(_) => (self.value, |figure, limit| figure >= limit),
            Need::RatioAtMost(_) => (self.ratio(), |figure, limit| figure <= limit),
            Need::RatioAtLeast(_) => (self.ratio(), |figure, limit| figure >= limit),
        };
        figure.is_some_and(|figure| fits(figure, self.limit()))
    }

    fn limit(&self) -> f64 {
        match self.need {
            Need::AtMost(limit)
            | Need::AtLeast(limit)
            | Need::RatioAtMost(limit)
            | Need::RatioAtLeast(limit) => limit,
        }
    }

    /// What is asked for, in words.
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

    /// The figure, in words.
    pub fn value_text(&self) -> String {
        with_unit(self.value, self.unit)
    }

    /// What it is compared with, in words.
    pub fn peer_text(&self) -> String {
        match &self.peer {
            Some((name, value)) => format!("{name}: {}", with_unit(*value, self.unit)),
            None => String::new(),
        }
    }

    /// The ratio, in words.
    pub fn ratio_text(&self) -> String {
        self.ratio().map_or_else(String::new, number)
    }

    /// Met or short.
    pub fn verdict(&self) -> &'static str {
        match (self.value.is_some(), self.met()) {
            (_, true) => "met",
            (true, false) => "short",
            (false, false) => "not measured",
        }
    }

    /// The same as an object.
    pub fn json(&self) -> Value {
        json!({
            "goal": self.number,
            "what": self.what,
            "unit": self.unit,
            "value": self.value,
            "peer": self.peer.as_ref().and_then(|peer| peer.1),
            "peer_name": self.peer.as_ref().map(|peer| &peer.0),
            "ratio": self.ratio(),
            "needed": self.need_text(),
            "met": self.met(),
        })
    }
}

/// A line for each.
pub fn lines(goals: &[Goal]) -> String {
    let rows: Vec<[String; 6]> = goals
        .iter()
        .map(|goal| {
            let ratio = goal.ratio().map_or_else(String::new, |ratio| format!("ratio {}", number(ratio)));
            let what = format!("{}  {}", goal.number, goal.what);
            [what, goal.value_text(), goal.peer_text(), ratio, goal.need_text(), goal.verdict().to_owned()]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn with_unit(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "?".to_owned(), |value| format!("{} {unit}", number(value)).trim_end().to_owned())
}

/// A number with three digits that count.
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

    fn goal(value: Option<f64>, peer: Option<f64>, need: Need) -> Goal {
        Goal::beside(1, "round trip", "us", value, ("UDP", peer), need)
    }

    #[test]
    fn a_goal_is_met_at_its_limit_and_short_behind_it() {
        let ratio = Need::RatioAtMost(0.05);
        assert!(goal(Some(20.0), Some(400.0), ratio).met());
        assert!(!goal(Some(20.1), Some(400.0), ratio).met());
        assert!(goal(Some(8000.0), Some(400.0), Need::RatioAtLeast(20.0)).met());
        assert!(!goal(Some(7999.0), Some(400.0), Need::RatioAtLeast(20.0)).met());
        assert!(Goal::own(5, "traps", "", Some(0.0), Need::AtMost(0.0)).met());
        assert!(!Goal::own(9, "packets", "", Some(9.9), Need::AtLeast(10.0)).met());
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        for (value, peer) in [(None, Some(1.0)), (Some(1.0), None), (None, None)] {
            assert!(!goal(value, peer, Need::RatioAtMost(2.0)).met());
        }
        assert_eq!(goal(None, None, Need::RatioAtMost(2.0)).verdict(), "not measured");
    }

    #[test]
    fn a_line_says_figure_goal_and_verdict() {
        let text = lines(&[goal(Some(92.34), Some(400.0), Need::RatioAtMost(0.05))]);
        assert_eq!(text, "1  round trip  92.3 us  UDP: 400 us  ratio 0.231  ratio at most 0.05  short\n");
    }

    #[test]
    fn an_object_has_the_promised_fields() {
        let object = goal(Some(10.0), Some(400.0), Need::RatioAtMost(0.05)).json();
        assert_eq!(object["goal"], 1);
        assert_eq!(object["value"], 10.0);
        assert_eq!(object["peer"], 400.0);
        assert_eq!(object["ratio"], 0.025);
        assert_eq!(object["met"], true);
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 0.012_345, 1.0, 1.5, 28.25, 412.6, 51_234.0].map(number);
        assert_eq!(texts, ["0", "0.0123", "1", "1.5", "28.2", "413", "51234"]);
    }
}
