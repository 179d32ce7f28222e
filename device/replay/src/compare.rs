//! How two recordings differ, as their drivers see it.
//!
//! Compared are accesses to registers, commands with their fields and results, interrupts, resets
//! and changes of the link. Times are left out, and reads of a command's status, whose number
//! depends on time; the command's result has it. Addresses and random numbers differ with each
//! boot, so large values are numbered as they appear. A line that repeats itself, as polling does,
//! counts once.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use hamlyn_trace::event::{Event, Field};
use hamlyn_trace::record::Kind;
use similar::TextDiff;

/// Values from this one on are large, but for those that stand for "none".
const LEAST_LARGE: u64 = 1 << 20;
const NONE: [u64; 2] = [u32::MAX as u64, u64::MAX];
/// Register that a driver polls while it waits.
const STATUS: &str = "ULN_REG_COMMAND_STATUS";
/// How long the best difference is looked for. After that one that is longer is found.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lines around a difference.
const CONTEXT: usize = 4;

/// What a driver sees of a recording, as lines.
#[derive(Debug, Default)]
pub struct DriverView {
    lines: Vec<String>,
    /// Numbers of large values.
    values: HashMap<u64, usize>,
}

impl DriverView {
    /// Adds an event.
    pub fn push(&mut self, event: &Event) {
        let of_command = matches!(event.what, "command" | "body" | "result");
        let is_seen = matches!(
            event.kind,
            Kind::RegisterRead
                | Kind::LateRead
                | Kind::RegisterWrite
                | Kind::Interrupt
                | Kind::Link
                | Kind::Reset
        );
        let is_poll = event.kind == Kind::RegisterRead && event.subject == STATUS;
        if is_poll || !is_seen && !of_command {
            return;
        }
        let mut line = format!("{}{} {}", if of_command { "  " } else { "" }, event.what, event.subject);
        for field in &event.fields {
            let equals = if field.name.is_empty() { "" } else { "=" };
            // Writing to a string cannot fail.
            let _ = write!(line, " {}{equals}{}", field.name, self.value(field));
        }
        if self.lines.last() != Some(&line) {
            self.lines.push(line);
        }
    }

    fn value(&mut self, field: &Field) -> String {
        match &field.meaning {
            Some(meaning) => meaning.clone(),
            None if field.value >= LEAST_LARGE && !NONE.contains(&field.value) => {
                let next = self.values.len() + 1;
                format!("value{}", self.values.entry(field.value).or_insert(next))
            }
            None => field.value.to_string(),
        }
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether nothing was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// Returns the difference as a unified diff, empty if there is none.
#[must_use]
pub fn difference(before: &DriverView, after: &DriverView, names: [&str; 2]) -> String {
    let [old, new] = [before, after].map(|view| view.lines.iter().map(String::as_str).collect::<Vec<_>>());
    let diff = TextDiff::configure().timeout(PATIENCE).diff_slices(&old, &new);
    diff.unified_diff().context_radius(CONTEXT).header(names[0], names[1]).to_string()
}
