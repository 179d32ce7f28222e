//! Pseudo-random numbers from a seed.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// SplitMix64 (Steele, Lea and Flood, OOPSLA '14).
#[derive(Debug)]
pub(crate) struct Chance(SplitMix64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(SplitMix64::seed_from_u64(seed))
    }

    /// Returns a number from 0 to `limit - 1`; 0 if `limit` is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit.max(1) as u64) as usize
    }
}
