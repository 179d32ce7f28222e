//! Progress on standard error.

use std::cell::RefCell;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows the current part, and the time of each part.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    bar: RefCell<ProgressBar>,
}

impl Progress {
    /// Shows progress on standard error.
    pub fn new() -> Self {
        Self { start: Instant::now(), bar: RefCell::new(ProgressBar::hidden()) }
    }

    /// Runs a part of the work, and shows it under its title.
    pub fn part<T>(&self, title: &str, act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let start = Instant::now();
        let bar = if stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        // The template is constant, so parsing it succeeds always or never.
        if let Ok(style) = ProgressStyle::with_template("  {prefix:50} {elapsed:>4} {spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        let outer = self.bar.replace(bar);
        let result = act();
        self.bar.replace(outer).finish_and_clear();
        let end = if result.is_ok() { "" } else { "  failed" };
        eprintln!("  {title:50} {:5.1} s{end}", start.elapsed().as_secs_f64());
        result
    }

    /// Shows the current step.
    pub fn step(&self, what: &str) {
        self.bar.borrow().set_message(what.to_owned());
    }

    /// Prints a permanent line.
    pub fn note(&self, line: &str) {
        self.bar.borrow().suspend(|| eprintln!("    {}", line.replace('\n', "\n    ")));
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
