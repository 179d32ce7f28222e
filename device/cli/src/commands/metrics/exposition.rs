//! Counters in the text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write;

use hamlyn_host::stat::Report;
use serde_json::Value;

use crate::commands::stat::parts::{cards, object, refusals, switch};

/// What is now, and not since the start.
const GAUGES: [&str; 6] = ["attached", "enabled", "host", "machine", "snooped", "waiting"];

/// Metrics by name, each with its samples: labels and value.
#[derive(Debug, Default)]
struct Metrics(BTreeMap<String, Vec<(String, u64)>>);

/// Returns the text for these reports. The process's id is a label, because two labs have cards of
/// the same name.
pub(super) fn exposition(reports: &[Report]) -> String {
    let mut metrics = Metrics::default();
    for report in reports {
        let process = format!("pid=\"{}\"", report.pid);
        for (name, card) in cards(report) {
            metrics.card(&process, name, card);
        }
        metrics.switch(&process, switch(report));
    }
    metrics.text()
}

impl Metrics {
    fn card(&mut self, process: &str, name: &str, counters: &Value) {
        let labels = format!("{process},card=\"{}\"", escaped(name));
        // A sum: a query cannot make it, as models and versions have different refusals.
        if let Some(refusals) = refusals(counters) {
            self.sample("card", "refusals", &labels, &refusals.into());
        }
        for (part, value) in object(counters) {
            match (part.as_str(), value) {
                ("card", own) => {
                    for (name, count) in object(own) {
                        self.sample("card", name, &labels, count);
                    }
                }
                ("bus", messages) => {
                    for (name, count) in object(messages) {
                        let labels = format!("{labels},message=\"{}\"", escaped(name));
                        self.sample("bus", "messages", &labels, count);
                    }
                }
                (part, Value::Object(more)) => {
                    for (name, count) in more {
                        self.sample(part, name, &labels, count);
                    }
                }
                (part, value) => self.sample("card", part, &labels, value),
            }
        }
    }

    fn switch(&mut self, process: &str, counters: &Value) {
        for (label, all) in [("port", "ports"), ("link", "links")] {
            for (which, counters) in object(&counters[all]) {
                let labels = format!("{process},{label}=\"{}\"", escaped(which));
                for (name, count) in object(counters) {
                    self.sample(&format!("switch_{label}"), name, &labels, count);
                }
            }
        }
    }

    fn sample(&mut self, part: &str, name: &str, labels: &str, value: &Value) {
        let value = value.as_bool().map(u64::from).or_else(|| value.as_u64());
        // A host id is not there while the link is down.
        let Some(value) = value else { return };
        let end = if GAUGES.contains(&name) { "" } else { "_total" };
        let name: String = name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
        let name = format!("hamlyn_{part}_{}{end}", name.to_lowercase());
        self.0.entry(name).or_default().push((labels.to_owned(), value));
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, samples) in &self.0 {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
        text
    }
}

/// Returns the value of a label, as the format wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(kind: &str, name: &str, pid: u32, counters: Value) -> Report {
        Report { kind: kind.into(), name: name.into(), pid, counters }
    }

    #[test]
    fn card_and_fabric_have_the_same_metrics() {
        let card =
            json!({ "card": { "bytes_sent": 7 }, "bus": { "DMA_MAP": 2 }, "enabled": true, "host": null });
        let own = exposition(&[report("card", "a\"b", 3, card.clone())]);
        let expected = "# TYPE hamlyn_bus_messages_total counter\n\
            hamlyn_bus_messages_total{pid=\"3\",card=\"a\\\"b\",message=\"DMA_MAP\"} 2\n\
            # TYPE hamlyn_card_bytes_sent_total counter\n\
            hamlyn_card_bytes_sent_total{pid=\"3\",card=\"a\\\"b\"} 7\n\
            # TYPE hamlyn_card_enabled gauge\n\
            hamlyn_card_enabled{pid=\"3\",card=\"a\\\"b\"} 1\n";
        assert_eq!(own, expected);
        let all = json!({ "cards": { "a\"b": card }, "switch": { "ports": {} } });
        assert_eq!(exposition(&[report("fabric", "fabric", 3, all)]), expected);
    }

    #[test]
    fn refusals_have_a_sum() {
        let card = json!({ "card": { "refused_key": 2, "refused_slot": 3 }, "bus": { "refused": 4 } });
        let text = exposition(&[report("card", "c", 3, card)]);
        let sum = "hamlyn_card_refusals_total{pid=\"3\",card=\"c\"} 9";
        assert!(text.lines().any(|found| found == sum), "{text}");
    }

    #[test]
    fn switch_has_metrics_by_port_and_link() {
        let switch = json!({
            "ports": { "0": { "attached": true, "waiting": 4 } }, "links": { "5.east": { "flits": 9 } }
        });
        let text = exposition(&[report("switch", "switch", 8, switch)]);
        for line in [
            "hamlyn_switch_port_attached{pid=\"8\",port=\"0\"} 1",
            "hamlyn_switch_port_waiting{pid=\"8\",port=\"0\"} 4",
            "hamlyn_switch_link_flits_total{pid=\"8\",link=\"5.east\"} 9",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
