//! Description of a SHRIMP card.

use std::fs;

use hamlyn::shrimp::MAX_BUFFER;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic;
use hamlyn_abi::shrimp::uapi::{SHRIMP_MAX_OBJECTS, ShrimpQuery};
use serde_json::Value;

use super::facts::{Facts, class, driven};
use crate::Outcome;

pub(crate) fn facts(name: &str) -> Outcome<Facts> {
    let (query, counters) = driven::<hamlyn::shrimp::Shrimp>(name, &ShrimpStatistic::NAMES)?;
    let own = query.of_card::<ShrimpQuery>().unwrap_or_default();
    let mut facts = Facts::of(&query, counters);
    facts.fields = vec![
        ("pages", own.pages.into(), ""),
        ("columns", own.columns.into(), ""),
        ("fifo", own.fifo.into(), " bytes"),
        ("snoops", (own.snoops != 0).into(), ""),
        ("exports", held(name, "exports"), ""),
        ("mappings", held(name, "mappings"), ""),
    ];
    let objects = SHRIMP_MAX_OBJECTS.into();
    facts.limits = vec![
        ("max_exports", objects, ""),
        ("max_mappings", SHRIMP_MAX_OBJECTS.into(), ""),
        ("max_buffer", MAX_BUFFER.into(), " bytes"),
    ];
    Ok(facts)
}

/// Returns how many of these objects all users of the card hold, if the driver reports it.
fn held(name: &str, what: &str) -> Value {
    let class = name.strip_prefix("/dev/").and_then(class);
    let holders = class.and_then(|class| fs::read_to_string(class.join("holders")).ok());
    holders.and_then(|text| sum(&text, what)).into()
}

/// Sums up a column. The first line has the columns' names, each other line a user's numbers.
fn sum(holders: &str, what: &str) -> Option<u64> {
    let mut lines = holders.lines();
    let column = lines.next()?.split_whitespace().position(|name| name == what)?;
    lines.map(|line| line.split_whitespace().nth(column)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holdings_of_all_users_are_summed() {
        let holders = "user exports mappings connections\n0 1 2 0\n1000 30 0 4\n";
        assert_eq!((sum(holders, "exports"), sum(holders, "mappings")), (Some(31), Some(2)));
        assert_eq!((sum(holders, "slots"), sum("", "exports")), (None, None));
        assert_eq!(sum("user exports\n", "exports"), Some(0), "an empty table");
        assert_eq!(sum("user exports\n0 many\n", "exports"), None);
    }
}
