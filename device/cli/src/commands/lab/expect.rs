//! What a lab file expects after its runs.

use anyhow::ensure;
use hamlyn_lab::{Lab, first_complaint, without_foreign_races};
use serde_json::Value;

use super::file::{Description, Expect};
use crate::commands::stat::table::flatten;

/// Lines of a kernel's log that an error shows.
const LINES: usize = 20;

impl Expect {
    /// Returns what it expects, in words.
    pub(super) fn title(&self) -> String {
        let of = self.of.as_deref().unwrap_or("all machines");
        let Some(counter) = &self.counter else { return format!("no kernel warnings: {of}") };
        let limits = [("", self.equals), ("at least ", self.at_least), ("at most ", self.at_most)];
        let limits = limits.iter().filter_map(|(word, limit)| limit.map(|limit| format!("{word}{limit}")));
        format!("{counter} of {of}: {}", limits.collect::<Vec<_>>().join(" and "))
    }

    /// Fails if the lab is not as expected.
    pub(super) fn check(&self, lab: &Lab, description: &Description) -> anyhow::Result<()> {
        let own = self.of.as_deref().and_then(|name| description.index_of(name));
        let all = (0..lab.vms().len()).filter(|index| own.is_none_or(|own| own == *index));
        let Some(counter) = &self.counter else { return all.into_iter().try_for_each(|vm| quiet(lab, vm)) };
        let counters: Vec<Value> = match self.of.as_deref() {
            Some("switch") => vec![lab.switch_counters()?],
            _ => all.map(|card| lab.card_counters(card)).collect::<anyhow::Result<_>>()?,
        };
        let found = values(counter, &counters)?;
        let value = found.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
        let parts = found.iter().filter(|(name, value)| *value != 0 && name != counter);
        let parts: Vec<String> = parts.map(|(name, value)| format!("{name} {value}")).collect();
        ensure!(self.holds(value), "it is {value} {}", parts.join(", "));
        Ok(())
    }

    fn holds(&self, value: u64) -> bool {
        self.equals.is_none_or(|limit| value == limit)
            && self.at_least.is_none_or(|limit| value >= limit)
            && self.at_most.is_none_or(|limit| value <= limit)
    }
}

/// Returns a counter, or all that begin like it if it ends in `*`, of each of these.
fn values(counter: &str, all: &[Value]) -> anyhow::Result<Vec<(String, u64)>> {
    let prefix = counter.strip_suffix('*');
    let is_wanted = |name: &str| prefix.map_or(name == counter, |prefix| name.starts_with(prefix));
    let leaves = all.iter().flat_map(flatten);
    let wanted = leaves.filter(|(name, _)| is_wanted(name));
    let found: Vec<_> = wanted.filter_map(|(name, value)| Some((name, value.as_u64()?))).collect();
    ensure!(!found.is_empty(), "counter {counter:?} does not exist: hamlyn stat --all lists all");
    Ok(found)
}

/// Fails if the kernel of a machine has warned.
fn quiet(lab: &Lab, vm: usize) -> anyhow::Result<()> {
    let vm = lab.vm(vm);
    if !vm.is_running() {
        return Ok(());
    }
    let log = without_foreign_races(vm.run_as(0, ["dmesg"])?.finish_text()?);
    let shown = first_complaint(&log).map(|at| log[at..log.len().min(at + LINES)].join("\n"));
    ensure!(shown.is_none(), "{} has a warning:\n{}", vm.name(), shown.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expect(equals: Option<u64>, at_least: Option<u64>, at_most: Option<u64>) -> Expect {
        let counter = Some("packets".to_owned());
        Expect { of: None, counter, equals, at_least, at_most, no_kernel_warnings: false }
    }

    #[test]
    fn limits_are_inclusive() {
        let holds = |expect: Expect| (0..6).filter(|value| expect.holds(*value)).collect::<Vec<_>>();
        assert_eq!(holds(expect(Some(3), None, None)), [3]);
        assert_eq!(holds(expect(None, Some(2), Some(4))), [2, 3, 4]);
        assert_eq!(holds(expect(None, None, Some(1))), [0, 1]);
        assert_eq!(
            expect(None, Some(2), Some(4)).title(),
            "packets of all machines: at least 2 and at most 4"
        );
    }

    #[test]
    fn star_stands_for_all_counters_that_begin_so() {
        let card = |refused: u64| json!({ "card": { "refused_key": refused, "refused_size": 1 }, "host": 7 });
        let all = [card(2), card(3)];
        let of = |name| values(name, &all).unwrap().iter().map(|(_, value)| *value).collect::<Vec<_>>();
        assert_eq!(of("card.refused_key"), [2, 3]);
        assert_eq!(of("card.refused_*"), [2, 1, 3, 1]);
        let error = values("card.refused", &all).unwrap_err().to_string();
        assert!(error.contains("counter \"card.refused\" does not exist"), "{error}");
    }
}
