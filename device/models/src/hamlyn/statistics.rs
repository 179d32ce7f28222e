//! The card's counters.

use hamlyn_abi::hamlyn::statistics::{HAMLYN_STATISTICS, Statistic};

/// One counter for each [`Statistic`].
#[derive(Debug, Clone)]
pub(super) struct Counters([u64; HAMLYN_STATISTICS as usize]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; HAMLYN_STATISTICS as usize])
    }
}

impl Counters {
    pub(super) fn add(&mut self, statistic: Statistic, amount: u64) {
        let counter = &mut self.0[statistic as usize];
        *counter = counter.wrapping_add(amount);
    }

    pub(super) fn values(&self) -> [u64; HAMLYN_STATISTICS as usize] {
        self.0
    }

    pub(super) fn named(&self) -> Vec<(&'static str, u64)> {
        Statistic::ALL.iter().map(|statistic| (statistic.name(), self.0[*statistic as usize])).collect()
    }
}
