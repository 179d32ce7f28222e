//! A card's counters over a period.

use serde_json::{Map, Value};

use crate::engine::result::Outcome;

/// A card's counters, by name.
pub(crate) type Statistics = Vec<(&'static str, u64)>;

/// A card's counter values over a period.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Counts(Statistics);

/// Runs `act` and returns its result together with the increase of the card's counters.
pub(crate) fn counted<T>(
    statistics: impl Fn() -> Outcome<Statistics>,
    act: impl FnOnce() -> Outcome<T>,
) -> Outcome<(T, Counts)> {
    let before = statistics()?;
    let done = act()?;
    let after = statistics()?.into_iter().zip(before);
    let differences = after.map(|((name, after), (_, before))| (name, after - before));
    Ok((done, Counts(differences.collect())))
}

impl Counts {
    /// Adds the counters of another period.
    pub(crate) fn add(&mut self, more: Counts) {
        if self.0.is_empty() {
            *self = more;
            return;
        }
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| sum.1 += more.1);
    }

    /// Converts the counters to a JSON object.
    pub(crate) fn json(self) -> Value {
        Value::Object(
            self.0.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect::<Map<_, _>>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_add_up_by_their_names() {
        let mut sum = Counts::default();
        sum.add(Counts(vec![("stores", 2), ("packets", 1)]));
        sum.add(Counts(vec![("stores", 3), ("packets", 0)]));
        assert_eq!(sum.json(), json!({ "stores": 5, "packets": 1 }));
    }
}
