//! The card's counters: one for each [`Statistic`].

use hamlyn_abi::hamlyn::statistics::{HAMLYN_STATISTICS, Statistic};
use hamlyn_card::chassis::counters;
use hamlyn_card::chassis::sleeper::Wake;

pub(super) type Counters = counters::Counters<{ HAMLYN_STATISTICS as usize }>;

/// Counts the result of a wake-up.
#[inline]
pub(super) fn count_wake(counters: &mut Counters, wake: Wake) {
    match wake {
        Wake::NotAsleep => {}
        Wake::Coalesced => counters.add(Statistic::InterruptsCoalesced, 1),
        Wake::Interrupted => counters.add(Statistic::Interrupts, 1),
    }
}
