//! Pages that are known not to be watched, by virtual address. Asking QEMU for a physical address
//! takes several times as long as a look-up here.
//!
//! This is a translation look-aside buffer, and relies on the processor's own rule. The mapping of
//! a virtual address changes only if the page tables do. Software must then invalidate the entries
//! that processors cache, on each processor. Until it does, a real processor may use either page.
//! So the plugin discards everything at instructions that invalidate any of it (`decode`), at
//! interrupts and exceptions, and whenever the card changes what it watches.
//!
//! Only pages that a store has reached are cached. Such a page is present and writable, and no
//! other page may replace it without an invalidation. If a guest breaks this rule, some of its own
//! stores are not reported; other machines are not affected. A processor that has ever run a nested
//! virtual machine caches nothing. The exit from it changes everything, and is not reported to
//! plugins.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// A store that begins at most this far from the end of a page might extend into the next page.
const WIDEST: u64 = 16;
/// Number of cache entries. Pages with the same index share an entry.
const PLACES: usize = 256;

/// The pages cached for one processor. Only its own thread uses them, so no memory ordering is
/// needed.
#[derive(Debug)]
pub(crate) struct Known {
    /// The card's watch word when the entries were cached.
    watch: AtomicU64,
    /// Epoch of the valid entries: 1 to 4095.
    epoch: AtomicU64,
    /// Set once nothing can be cached any longer.
    given_up: AtomicBool,
    /// Virtual addresses of pages, with the epoch in place of the page offset.
    entries: Box<[AtomicU64; PLACES]>,
}

impl Known {
    pub(crate) fn new() -> Known {
        let entries = Box::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Known {
            watch: AtomicU64::new(0),
            epoch: AtomicU64::new(1),
            given_up: AtomicBool::new(false),
            entries,
        }
    }

    fn place(&self, address: u64) -> &AtomicU64 {
        &self.entries[(address / PAGE) as usize % PLACES]
    }

    fn entry(&self, address: u64) -> u64 {
        address & !(PAGE - 1) | self.epoch.load(Ordering::Relaxed)
    }

    /// Returns whether a store to a virtual address is known not to be watched, given the card's
    /// current watch word.
    #[inline]
    pub(crate) fn is_unwatched(&self, address: u64, watch: u64) -> bool {
        if self.watch.load(Ordering::Relaxed) != watch {
            self.watch.store(watch, Ordering::Relaxed);
            self.forget();
        }
        let known = self.place(address).load(Ordering::Relaxed) == self.entry(address);
        known && address % PAGE <= PAGE - WIDEST
    }

    /// Caches that the page of a virtual address is not watched.
    pub(crate) fn remember(&self, address: u64) {
        if !self.given_up.load(Ordering::Relaxed) {
            self.place(address).store(self.entry(address), Ordering::Relaxed);
        }
    }

    /// Stops caching, because the mapping of virtual addresses may change at any time.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.forget();
    }

    /// Discards all entries, because the mapping of virtual addresses may have changed.
    pub(crate) fn forget(&self) {
        let mut epoch = self.epoch.load(Ordering::Relaxed) + 1;
        if epoch == PAGE {
            self.entries.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
            epoch = 1;
        }
        self.epoch.store(epoch, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Store(u64),
        Remember(u64),
        Forget(u16),
        Watch,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Pages that share entries, and the highest pages.
        let address = (0u64..1024, 0u64..PAGE, any::<bool>()).prop_map(|(page, offset, high)| {
            if high { !(page * PAGE) - offset } else { page * PAGE + offset }
        });
        prop_oneof![
            4 => address.clone().prop_map(Step::Store),
            4 => address.prop_map(Step::Remember),
            1 => (1u16..5000).prop_map(Step::Forget),
            1 => Just(Step::Watch),
        ]
    }

    proptest! {
        #[test]
        fn only_pages_learnt_since_are_known(steps in prop::collection::vec(step(), 1..200)) {
            let (known, mut learnt, mut watch) = (Known::new(), BTreeSet::new(), 0);
            for step in steps {
                match step {
                    Step::Store(address) => {
                        let says = known.is_unwatched(address, watch);
                        prop_assert!(!says || learnt.contains(&(address / PAGE)));
                        prop_assert!(!says || address / PAGE == (address + 15) / PAGE);
                    }
                    Step::Remember(address) => {
                        // As after a store.
                        known.is_unwatched(address, watch);
                        known.remember(address);
                        learnt.insert(address / PAGE);
                        prop_assert!(known.is_unwatched(address & !(PAGE - 1), watch));
                    }
                    Step::Forget(times) => {
                        (0..times).for_each(|_| known.forget());
                        learnt.clear();
                    }
                    // The watch word contains a count of changes, so it never returns to an earlier
                    // value.
                    Step::Watch => {
                        watch += 1;
                        learnt.clear();
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_cached_after_give_up() {
        let known = Known::new();
        known.remember(PAGE);
        known.give_up();
        assert!(!known.is_unwatched(PAGE, 0));
        known.remember(PAGE);
        assert!(!known.is_unwatched(PAGE, 0));
    }

    #[test]
    fn old_entries_do_not_reappear() {
        let known = Known::new();
        known.remember(PAGE);
        for _ in 0..2 * PAGE {
            known.forget();
            assert!(!known.is_unwatched(PAGE, 0));
        }
    }
}
