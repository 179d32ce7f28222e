//! The message size from which large packets are at least as fast as small ones (section 4.3).

/// A curve's points: message size, and the rate of each round.
pub(crate) type Rounds = Vec<(u64, Vec<f64>)>;

/// Comparison of the larger packets with the smaller ones at one message size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Slower in every round than any of the smaller ones' rounds.
    Behind,
    /// The rounds overlap: this run cannot decide.
    Even,
    /// Faster in every round.
    Ahead,
}

/// The comparison over all message sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lead {
    /// At least as fast from the first size on, and slower before it. Faster from the second size
    /// on, if there is one.
    From(u64, Option<u64>),
    /// Not slower at some size, and slower again at these.
    Inconsistent(Vec<u64>),
    /// Slower at every size.
    Never,
}

/// Compares two curves at their common sizes. Returns none if there are no common sizes.
pub(crate) fn lead(small: &Rounds, large: &Rounds) -> Option<Lead> {
    let standing = |(size, rates): &(u64, Vec<f64>)| {
        let beside = small.iter().find(|(other, _)| other == size)?;
        Some((*size, compare(&beside.1, rates)?))
    };
    let mut sizes: Vec<(u64, Standing)> = large.iter().filter_map(standing).collect();
    sizes.sort_unstable_by_key(|(size, _)| *size);
    sizes.first()?;
    let is_behind = |(_, standing): &(u64, Standing)| *standing == Standing::Behind;
    let Some(first) = sizes.iter().position(|size| !is_behind(size)) else { return Some(Lead::Never) };
    let again: Vec<u64> = sizes[first..].iter().filter(|size| is_behind(size)).map(|size| size.0).collect();
    let faster = sizes.iter().rev().take_while(|(_, standing)| *standing == Standing::Ahead).last();
    Some(match again.is_empty() {
        true => Lead::From(sizes[first].0, faster.map(|(size, _)| *size)),
        false => Lead::Inconsistent(again),
    })
}

/// Compares the rates. Returns none without rounds of both.
fn compare(small: &[f64], large: &[f64]) -> Option<Standing> {
    let low = |rates: &[f64]| rates.iter().copied().reduce(f64::min);
    let high = |rates: &[f64]| rates.iter().copied().reduce(f64::max);
    Some(match (low(small)?, high(small)?, low(large)?, high(large)?) {
        (_, most, least, _) if least > most => Standing::Ahead,
        (least, _, _, most) if most < least => Standing::Behind,
        _ => Standing::Even,
    })
}

impl Lead {
    /// Returns the answer to "from which size on" in words.
    pub(crate) fn text(&self) -> String {
        match self {
            Lead::From(size, None) => format!("from {size} bytes on, and nowhere faster to the end"),
            Lead::From(size, Some(faster)) if size == faster => format!("from {size} bytes on, and faster"),
            Lead::From(size, Some(faster)) => format!("from {size} bytes on, faster from {faster} on"),
            Lead::Inconsistent(again) => {
                let sizes: Vec<String> = again.iter().map(u64::to_string).collect();
                format!("inconsistent (slower again at {} bytes)", sizes.join(", "))
            }
            Lead::Never => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 5] = [256, 1024, 4096, 16384, 65536];

    /// Returns a curve with two rounds at each size, the second a tenth faster.
    fn curve(rates: [f64; 5]) -> Rounds {
        SIZES.into_iter().zip(rates.map(|rate| vec![rate, rate * 1.1])).collect()
    }

    fn of(rates: [f64; 5]) -> Lead {
        lead(&curve([10.0, 20.0, 30.0, 40.0, 50.0]), &curve(rates)).unwrap()
    }

    #[test]
    fn lead_starts_at_first_lasting_size() {
        let lead = of([9.0, 18.0, 30.0, 45.0, 60.0]);
        assert_eq!(lead, Lead::From(4096, Some(16384)), "as fast is enough");
        assert_eq!(lead.text(), "from 4096 bytes on, faster from 16384 on");
        assert_eq!(of([90.0; 5]).text(), "from 256 bytes on, and faster");
        assert_eq!(of([9.0, 18.0, 27.0, 36.0, 56.0]), Lead::From(65536, Some(65536)));
        assert_eq!(of([12.0, 24.0, 36.0, 48.0, 50.0]), Lead::From(256, None), "no more at the end");
    }

    #[test]
    fn overlapping_rounds_are_equally_fast() {
        // Messages of one packet take the same time with either size. Their medians would differ
        // anyway.
        assert_eq!(of([9.5, 21.0, 29.0, 41.0, 49.0]), Lead::From(256, None));
    }

    #[test]
    fn lost_lead_is_inconsistent() {
        let lost = of([9.0, 23.0, 27.0, 48.0, 45.0]);
        assert_eq!(lost, Lead::Inconsistent(vec![4096, 65536]));
        assert_eq!(lost.text(), "inconsistent (slower again at 4096, 65536 bytes)");
        assert_eq!(of([1.0; 5]).text(), "none");
    }

    #[test]
    fn only_common_sizes_count_in_any_order() {
        let one = |size, rate| (size, vec![rate]);
        let small = vec![one(4096, 30.0), one(256, 10.0), (512, Vec::new())];
        let large = vec![one(4096, 31.0), one(512, 99.0), one(1024, 1.0), one(256, 9.0)];
        assert_eq!(lead(&small, &large), Some(Lead::From(4096, Some(4096))));
        assert_eq!(lead(&small, &vec![one(512, 1.0)]), None);
        assert_eq!(lead(&Vec::new(), &large), None);
    }
}
