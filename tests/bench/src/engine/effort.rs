//! The effort of a run.

/// How often and how long the benchmark measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Finishes in a few minutes.
    Quick,
    /// The same for one figure alone, which may take longer.
    Alone,
    /// Measures more points and more rounds.
    Full,
}

impl Effort {
    /// Returns the rounds of each quantity with a goal.
    pub fn rounds(self) -> usize {
        self.pick(5, 10)
    }

    /// Returns the rounds of each point of a figure.
    pub fn figure_rounds(self) -> usize {
        self.pick(2, 4)
    }

    /// Returns the powers of two from `1 << least` to 1 MiB, as sizes of messages: every other one
    /// if the effort is quick.
    pub fn sizes(self, least: u32) -> impl Iterator<Item = u64> {
        (least..=20).step_by(self.pick(2, 1)).map(|power| 1 << power)
    }

    /// Returns the value for this effort.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick | Effort::Alone => quick,
            Effort::Full => full,
        }
    }
}
