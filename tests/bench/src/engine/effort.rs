//! The effort of a run.

/// How often and how long the benchmark measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Finishes in a few minutes.
    Quick,
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

    /// Returns the value for this effort.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}
