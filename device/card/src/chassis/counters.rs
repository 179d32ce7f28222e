//! A card's counters.

/// `N` counters, each named by a number below `N`: a model has a type of its own for these.
#[derive(Debug, Clone)]
pub struct Counters<const N: usize>([u64; N]);

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Counters<N> {
    /// Counts. A number that no counter has counts nothing.
    #[inline]
    pub fn add(&mut self, counter: impl Into<usize>, amount: u64) {
        if let Some(counter) = self.0.get_mut(counter.into()) {
            *counter = counter.wrapping_add(amount);
        }
    }

    /// All of them, in order.
    #[must_use]
    pub fn values(&self) -> [u64; N] {
        self.0
    }

    /// All of them, with their names in the same order.
    pub fn named(&self, names: impl IntoIterator<Item = &'static str>) -> Vec<(&'static str, u64)> {
        names.into_iter().zip(self.0).collect()
    }
}
