//! Percentiles and median_is_the_middle_value.

use hdrhistogram::Histogram;
use serde::Serialize;

/// A latency's distribution, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// The shortest.
    pub min: f64,
    /// The 50th percentile.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

impl Latency {
    /// Computes it from samples in nanoseconds. Returns none if there are none.
    pub fn of(samples: &Histogram<u64>) -> Option<Self> {
        let at = |quantile: f64| samples.value_at_quantile(quantile) as f64 / 1e3;
        (!samples.is_empty()).then(|| Self {
            count: samples.len(),
            min: samples.min() as f64 / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: samples.max() as f64 / 1e3,
            mean: samples.mean() / 1e3,
        })
    }
}

/// Returns the middle value, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut samples = Histogram::new(3).unwrap();
        assert_eq!(Latency::of(&samples), None);
        for value in 1..=1000_u64 {
            samples.record(value * 1000).unwrap();
        }
        let latency = Latency::of(&samples).unwrap();
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 2e-3;
        assert_eq!(latency.count, 1000);
        assert!(
            near(latency.min, 1.0) && near(latency.p50, 500.0) && near(latency.p90, 900.0),
            "{latency:?}"
        );
        assert!(
            near(latency.p99, 990.0) && near(latency.p999, 999.0) && near(latency.max, 1000.0),
            "{latency:?}"
        );
        assert!(near(latency.mean, 500.5), "{latency:?}");
    }
}
