//! The cards and the switch of a report.

use hamlyn_host::stat::Report;
use serde_json::Value;

/// Returns the cards that the process of this report runs, by name, with their counters.
pub(in crate::commands) fn cards(report: &Report) -> Vec<(&String, &Value)> {
    match report.kind.as_str() {
        "card" => vec![(&report.name, &report.counters)],
        "switch" => Vec::new(),
        _ => object(&report.counters["cards"]).collect(),
    }
}

/// Returns the counters of the switch that the process of this report runs; null if it runs none.
pub(in crate::commands) fn switch(report: &Report) -> &Value {
    match report.kind.as_str() {
        "card" => &Value::Null,
        "switch" => &report.counters,
        _ => &report.counters["switch"],
    }
}

/// Returns the members of an object; none if it is not an object.
pub(in crate::commands) fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Refusals without the word in their name.
const REFUSALS: &[&str] =
    &["bad_checksum", "malformed", "no_mailbox", "not_mapped_in", "over_credit", "wrong_node"];

/// Returns the number of refusals of all kinds, by a card and its bus; none if they are not
/// counted.
pub(in crate::commands) fn refusals(card: &Value) -> Option<u64> {
    let is_refusal = |name: &str| {
        name.split('_').any(|word| word == "refused")
            || name.starts_with("traps_")
            || REFUSALS.contains(&name)
    };
    let parts = [&card["card"], &card["bus"]].map(|part| sum(part, is_refusal));
    parts.into_iter().flatten().reduce(u64::saturating_add)
}

/// Returns the sum of the counters that are chosen by name; none if there are none.
pub(in crate::commands) fn sum(counters: &Value, is_part: impl Fn(&str) -> bool) -> Option<u64> {
    let parts = object(counters).filter(|(name, _)| is_part(name));
    parts.filter_map(|(_, count)| count.as_u64()).reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use hamlyn_host::catalogue::{Choice, MODELS};
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_process_has_its_parts() {
        let report = |kind: &str, counters| Report { kind: kind.into(), name: "x".into(), pid: 1, counters };
        let parts = |report: &Report| {
            let cards: Vec<_> =
                cards(report).into_iter().map(|(name, card)| (name.clone(), card.clone())).collect();
            (cards, switch(report).clone())
        };
        let (card, ports) = (json!({ "host": 1 }), json!({ "ports": {} }));
        let named = |name: &str| vec![(name.to_owned(), card.clone())];
        assert_eq!(parts(&report("card", card.clone())), (named("x"), Value::Null));
        assert_eq!(parts(&report("switch", ports.clone())), (Vec::new(), ports.clone()));
        let both = json!({ "cards": { "c": card }, "switch": ports });
        assert_eq!(parts(&report("fabric", both)), (named("c"), ports));
    }

    #[test]
    fn refusals_are_of_card_and_bus() {
        let card =
            json!({ "refused_key": 1, "commands_refused": 2, "traps_index": 4, "malformed": 8, "sent": 16 });
        assert_eq!(refusals(&json!({ "card": card, "bus": { "refused": 32, "DMA_MAP": 64 } })), Some(47));
        assert_eq!(refusals(&json!({ "card": { "sent": 1 }, "refused": 1 })), None);
    }

    #[test]
    fn refusals_are_counters_of_models() {
        let counters = MODELS.iter().flat_map(|model| Choice::of(model).make().unwrap().counters());
        let names: Vec<_> = counters.map(|(name, _)| name).collect();
        for name in REFUSALS {
            assert!(names.contains(name), "{name}");
        }
    }
}
