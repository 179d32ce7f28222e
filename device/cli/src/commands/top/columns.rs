//! What is shown of cards, ports and links: which counters make a column.

use serde_json::Value;

use crate::commands::stat::parts::{refusals, sum};

/// A column of a table.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    /// Takes the column's number from the counters of one row.
    pub(super) value: fn(&Value) -> Option<u64>,
}

/// How a column's number is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As its change per second.
    Rate,
    /// As it is.
    Amount,
}

const fn rate(title: &'static str, value: fn(&Value) -> Option<u64>) -> Column {
    Column { title, kind: Kind::Rate, value }
}

const fn amount(title: &'static str, value: fn(&Value) -> Option<u64>) -> Column {
    Column { title, kind: Kind::Amount, value }
}

/// Columns of a card. Models without packets of their own count messages.
pub(super) const CARD: &[Column] = &[
    rate("sent/s", |all| first(&all["card"], &["packets_sent", "messages_sent"])),
    rate("bytes/s", |all| first(&all["card"], &["bytes_sent"])),
    rate("received/s", |all| {
        let names = ["packets_received", "packets_arrived", "packets_deposited", "messages_received"];
        first(&all["card"], &names)
    }),
    rate("bytes/s", |all| first(&all["card"], &["bytes_received", "bytes_deposited"])),
    rate("refused/s", refusals),
    amount("refused", refusals),
    rate("wake-ups/s", |all| sum(&all["card"], |name| WAKE_UPS.contains(&name))),
    rate("waits/s", |all| sum(&all["card"], |name| WAITS.contains(&name))),
];

/// Columns of a port of a switch. What comes in is what the port's card sends.
pub(super) const PORT: &[Column] = &[
    rate("in/s", |port| first(port, &["packets_in"])),
    rate("bytes/s", |port| first(port, &["bytes_in"])),
    rate("out/s", |port| first(port, &["packets_out"])),
    rate("bytes/s", |port| first(port, &["bytes_out"])),
    amount(WAITING, |port| first(port, &["waiting"])),
    rate("stalls/s", |port| first(port, &["stalls"])),
    rate("stops/s", |port| first(port, &["stops"])),
    rate("blocked/s", |port| first(port, &["blocked"])),
    rate("lost/s", |port| sum(port, |name| LOST.contains(&name))),
    amount("lost", |port| sum(port, |name| LOST.contains(&name))),
];

/// Columns of a link of a mesh.
pub(super) const LINK: &[Column] = &[
    rate("packets/s", |link| first(link, &["packets"])),
    rate("flits/s", |link| first(link, &["flits"])),
    rate("waits/s", |link| first(link, &["waits"])),
];

/// Title of the column with the packets that wait for a port.
pub(super) const WAITING: &str = "waiting";

/// Sleepers that were woken: programs by interrupts, the card by doorbells.
const WAKE_UPS: &[&str] = &["interrupts", "doorbells"];

/// Times that a card, or its FIFO, had to wait for room.
const WAITS: &[&str] =
    &["link_stalls", "credit_waits", "queue_waits", "outgoing_full", "incoming_full", "inbox_full"];

/// Packets that a switch did not deliver.
const LOST: &[&str] = &["copies_lost", "dropped_absent", "dropped_malformed", "orphaned", "undelivered"];

/// Returns the first counter of these names that exists.
fn first(counters: &Value, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| counters[*name].as_u64())
}

#[cfg(test)]
mod tests {
    use hamlyn_host::catalogue::{Choice, MODELS};
    use serde_json::{Map, json};

    use super::*;

    /// Returns the names of each model's counters.
    fn models() -> Vec<Vec<&'static str>> {
        let of = |model| Choice::of(model).make().unwrap().counters();
        MODELS.iter().map(|model| of(model).into_iter().map(|(name, _)| name).collect()).collect()
    }

    fn values(columns: &[Column], counters: &Value) -> Vec<Option<u64>> {
        columns.iter().map(|column| (column.value)(counters)).collect()
    }

    #[test]
    fn every_model_has_traffic_refusals_and_wakeups() {
        for names in models() {
            let counters: Map<String, Value> = names.iter().map(|name| ((*name).into(), 1.into())).collect();
            let found = values(CARD, &json!({ "card": counters }));
            // Not every model counts bytes.
            for at in [0, 2, 4, 5, 6, 7] {
                assert!(found[at].is_some_and(|count| count > 0), "{}: {names:?}", CARD[at].title);
            }
        }
    }

    #[test]
    fn every_named_counter_exists() {
        let listed = [WAKE_UPS, WAITS].concat();
        for name in listed {
            assert!(models().iter().any(|names| names.contains(&name)), "{name}");
        }
    }

    #[test]
    fn card_columns_add_their_counters() {
        let card = json!({
            "packets_sent": 1, "messages_sent": 50, "bytes_sent": 2, "packets_received": 3,
            "bytes_received": 4, "refused_key": 5, "commands_refused": 6, "traps_index": 7,
            "bad_checksum": 8, "interrupts": 9, "doorbells": 10, "link_stalls": 11, "credit_waits": 12,
        });
        let counters = json!({ "host": 0, "card": card, "bus": { "refused": 100, "DMA_MAP": 50 } });
        let expected = [1, 2, 3, 4, 126, 126, 19, 23].map(Some);
        assert_eq!(values(CARD, &counters), expected);
        assert_eq!(values(CARD, &json!({})), [None; 8]);
    }

    #[test]
    fn port_columns_add_their_counters() {
        let port = json!({
            "packets_in": 1, "bytes_in": 2, "packets_out": 3, "bytes_out": 4, "waiting": 5, "stalls": 6,
            "stops": 7, "blocked": 8, "dropped_absent": 9, "orphaned": 10, "copied": 50,
        });
        assert_eq!(values(PORT, &port), [1, 2, 3, 4, 5, 6, 7, 8, 19, 19].map(Some));
        assert_eq!(values(LINK, &json!({ "packets": 1, "flits": 2, "waits": 3 })), [1, 2, 3].map(Some));
    }
}
