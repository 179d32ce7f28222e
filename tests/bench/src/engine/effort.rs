//! How much is measured.

/// How often and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// In a few minutes.
    Quick,
    /// More points and more rounds.
    Full,
}

impl Effort {
    /// Rounds of the quantities that goals are about.
    pub fn rounds(self) -> usize {
        self.pick(5, 10)
    }

    /// Rounds of each point of a figure.
    pub fn figure_rounds(self) -> usize {
        self.pick(2, 4)
    }

    /// One of two.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}
