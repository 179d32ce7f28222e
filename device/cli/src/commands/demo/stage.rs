//! Progress output for people: one line for each step, with its time.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::tell;

/// Prints steps as they are executed.
pub(in crate::commands) struct Stage {
    on_terminal: bool,
}

impl Stage {
    /// Creates a stage that writes to standard error.
    pub(in crate::commands) fn new() -> Stage {
        Stage { on_terminal: stderr().is_terminal() }
    }

    /// Prints a remark about the last step.
    pub(in crate::commands) fn note(&self, text: &str) {
        tell(&format!("    {text}"));
    }

    /// Prints a remark for each of these.
    pub(in crate::commands) fn note_each(&self, what: impl IntoIterator<Item = impl ToString>) {
        what.into_iter().for_each(|what| self.note(&what.to_string()));
    }

    /// Executes a step, which may report what it is waiting for.
    pub(in crate::commands) fn step<T>(
        &self,
        title: &str,
        act: impl FnOnce(Box<dyn Fn(&str)>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        let bar = if self.on_terminal { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        // A constant template: it parses always or never.
        if let Ok(style) = ProgressStyle::with_template("  {prefix:46} {elapsed:>4} {spinner} {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        let teller = bar.clone();
        let result = act(Box::new(move |what| teller.set_message(what.to_owned())));
        bar.finish_and_clear();
        let end = if result.is_ok() { "ok" } else { "failed" };
        tell(&format!("  {title:46} {:5.1} s  {end}", start.elapsed().as_secs_f64()));
        result
    }
}
