//! Pages that are known not to be watched, by their virtual address: to ask QEMU for a physical one
//! takes several times as long as to look here.
//!
//! This is a translation look-aside buffer of its own, of which the processor's own rule holds:
//! what a virtual address means changes only if the page tables do, and software must then
//! invalidate what processors remember of them, on each of them. Until it does, a real processor
//! may use either page. So all is forgotten at the instructions that invalidate any of it
//! (`decode`) and at interrupts and exceptions; and whenever the card changes what it watches. Only
//! pages that a store has reached are remembered: that is a present, writable one, and no other may
//! take its place without an invalidation. A guest that breaks the rule has stores of its own left
//! out, and harms nobody else. A processor that has ever run a machine within the machine remembers
//! nothing: leaving that changes all, and is told to no plugin.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// A store at most this far from the end of a page might reach the next.
const WIDEST: u64 = 16;
/// Pages remembered, at most one of those that share a place.
const PLACES: usize = 256;

/// What a processor remembers. Its own thread alone uses it, so that nothing needs an order.
#[derive(Debug)]
pub(crate) struct Known {
    /// What the card said when all this was learnt.
    watch: AtomicU64,
    /// Which of the entries are valid: 1 to 4095.
    epoch: AtomicU64,
    /// Nothing can be relied on any more.
    given_up: AtomicBool,
    /// Virtual addresses of pages, with the epoch in which they were learnt in place of the offset.
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

    /// Whether a store to a virtual address is known not to be watched, by what the card says now.
    #[inline]
    pub(crate) fn is_unwatched(&self, address: u64, watch: u64) -> bool {
        if self.watch.load(Ordering::Relaxed) != watch {
            self.watch.store(watch, Ordering::Relaxed);
            self.forget();
        }
        let known = self.place(address).load(Ordering::Relaxed) == self.entry(address);
        known && address % PAGE <= PAGE - WIDEST
    }

    /// The page of a virtual address is not watched.
    pub(crate) fn remember(&self, address: u64) {
        if !self.given_up.load(Ordering::Relaxed) {
            self.place(address).store(self.entry(address), Ordering::Relaxed);
        }
    }

    /// Virtual addresses may mean other pages at any time.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.forget();
    }

    /// Virtual addresses may mean other pages from now on.
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
        // Pages that share places, and the highest there are.
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
        fn nothing_is_known_that_was_not_learnt_since(steps in prop::collection::vec(step(), 1..200)) {
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
                    // What the card says is a count of its changes, among others: it never says the
                    // same again.
                    Step::Watch => {
                        watch += 1;
                        learnt.clear();
                    }
                }
            }
        }
    }

    #[test]
    fn who_has_given_up_knows_nothing() {
        let known = Known::new();
        known.remember(PAGE);
        known.give_up();
        assert!(!known.is_unwatched(PAGE, 0));
        known.remember(PAGE);
        assert!(!known.is_unwatched(PAGE, 0));
    }

    #[test]
    fn what_was_learnt_long_ago_does_not_come_back() {
        let known = Known::new();
        known.remember(PAGE);
        for _ in 0..2 * PAGE {
            known.forget();
            assert!(!known.is_unwatched(PAGE, 0));
        }
    }
}
