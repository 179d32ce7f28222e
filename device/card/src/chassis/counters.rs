//! A card's counters.

/// `N` counters, indexed by numbers below `N`. A model has its own type for these.
#[derive(Debug, Clone)]
pub struct Counters<const N: usize>([u64; N]);

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Counters<N> {
    /// Adds to a counter. Out-of-range indices are ignored.
    #[inline]
    pub fn add(&mut self, counter: impl Into<usize>, amount: u64) {
        if let Some(counter) = self.0.get_mut(counter.into()) {
            *counter = counter.wrapping_add(amount);
        }
    }

    /// Returns all counters, in order.
    #[must_use]
    pub fn values(&self) -> [u64; N] {
        self.0
    }

    /// Returns all counters, in order, in place.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// Returns all counters with their names, which are in the same order.
    pub fn named(&self, names: impl IntoIterator<Item = &'static str>) -> Vec<(&'static str, u64)> {
        names.into_iter().zip(self.0).collect()
    }
}
