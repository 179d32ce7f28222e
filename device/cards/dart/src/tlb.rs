//! Translations of endpoints' pages (section 3): a limited number, replaced according to a policy.

use std::collections::HashMap;
use std::ops::Range;

/// Which translation makes room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The least recently used one.
    LeastRecentlyUsed,
    /// Each in turn.
    InTurn,
    /// A random one.
    Random,
}

/// A page of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Page {
    pub(crate) space: u32,
    /// Virtual address, in pages.
    pub(crate) number: u64,
}

/// The place of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its address on the bus.
    pub(crate) address: u64,
    pub(crate) writable: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    page: Page,
    frame: Frame,
    /// The count of all uses when it was last used.
    used: u64,
}

/// The translation lookaside buffer.
#[derive(Debug)]
pub(crate) struct Tlb {
    size: usize,
    policy: Policy,
    entries: Vec<Entry>,
    places: HashMap<Page, usize>,
    uses: u64,
    /// The place whose turn it is, or the state of the random numbers.
    hand: u64,
}

impl Tlb {
    pub(crate) fn new(size: u32, policy: Policy) -> Self {
        Self {
            size: size as usize,
            policy,
            entries: Vec::new(),
            places: HashMap::new(),
            uses: 0,
            hand: u64::from(policy == Policy::Random),
        }
    }

    /// Returns the address of a page, if that is known. If `writes` is set, the page must also be
    /// writable.
    pub(crate) fn look_up(&mut self, page: Page, writes: bool) -> Option<u64> {
        let entry = &mut self.entries[*self.places.get(&page)?];
        self.uses += 1;
        entry.used = self.uses;
        (entry.frame.writable || !writes).then_some(entry.frame.address)
    }

    /// Adds a translation, which replaces an earlier one of its page or of another.
    pub(crate) fn fill(&mut self, page: Page, frame: Frame) {
        self.uses += 1;
        let entry = Entry { page, frame, used: self.uses };
        if let Some(place) = self.places.get(&page) {
            self.entries[*place] = entry;
        } else if self.entries.len() < self.size {
            self.places.insert(page, self.entries.len());
            self.entries.push(entry);
        } else {
            let place = self.victim();
            self.places.remove(&self.entries[place].page);
            self.places.insert(page, place);
            self.entries[place] = entry;
        }
    }

    /// Returns the entry that makes room. There must be at least one entry.
    fn victim(&mut self) -> usize {
        match self.policy {
            Policy::LeastRecentlyUsed => {
                let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
                oldest.map_or(0, |(place, _)| place)
            }
            Policy::InTurn => {
                let place = self.hand as usize % self.entries.len();
                self.hand += 1;
                place
            }
            Policy::Random => {
                // Marsaglia's xorshift: the same sequence every time.
                self.hand ^= self.hand << 13;
                self.hand ^= self.hand >> 7;
                self.hand ^= self.hand << 17;
                (self.hand % self.entries.len() as u64) as usize
            }
        }
    }

    /// Forgets the translations of a range of pages.
    pub(crate) fn invalidate(&mut self, space: u32, numbers: Range<u64>) {
        if numbers.end.saturating_sub(numbers.start) <= self.entries.len() as u64 {
            numbers.for_each(|number| self.forget(Page { space, number }));
        } else {
            // The order decides which entries the others are moved to, so it must not be random.
            let is_meant = |page: &Page| page.space == space && numbers.contains(&page.number);
            let pages: Vec<Page> = self.entries.iter().map(|entry| entry.page).filter(is_meant).collect();
            pages.into_iter().for_each(|page| self.forget(page));
        }
    }

    fn forget(&mut self, page: Page) {
        let Some(place) = self.places.remove(&page) else { return };
        self.entries.swap_remove(place);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(moved.page, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(number: u64) -> Page {
        Page { space: 1, number }
    }

    fn frame(address: u64) -> Frame {
        Frame { address, writable: true }
    }

    fn filled(policy: Policy) -> Tlb {
        let mut tlb = Tlb::new(4, policy);
        (0..4).for_each(|number| tlb.fill(page(number), frame(number + 100)));
        tlb
    }

    fn known(tlb: &mut Tlb) -> Vec<u64> {
        (0..10).filter(|number| tlb.look_up(page(*number), true).is_some()).collect()
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let mut tlb = filled(Policy::LeastRecentlyUsed);
        assert_eq!(tlb.look_up(page(0), false), Some(100));
        tlb.fill(page(2), frame(7));
        tlb.fill(page(5), frame(8));
        tlb.fill(page(6), frame(9));
        assert_eq!(known(&mut tlb), [0, 2, 5, 6]);
    }

    #[test]
    fn each_makes_room_in_its_turn() {
        let mut tlb = filled(Policy::InTurn);
        assert_eq!(tlb.look_up(page(0), false), Some(100));
        tlb.fill(page(5), frame(8));
        tlb.fill(page(6), frame(9));
        assert_eq!(known(&mut tlb), [2, 3, 5, 6]);
    }

    #[test]
    fn random_policy_picks_different_entries() {
        let mut tlb = filled(Policy::Random);
        let places: Vec<usize> = (0..100).map(|_| tlb.victim()).collect();
        assert!((0..4).all(|place| places.contains(&place)));
        tlb.fill(page(5), frame(8));
        assert_eq!(known(&mut tlb).len(), 4);
    }

    #[test]
    fn read_only_page_is_found_only_for_reading() {
        let mut tlb = Tlb::new(4, Policy::InTurn);
        tlb.fill(page(1), Frame { address: 5, writable: false });
        assert_eq!((tlb.look_up(page(1), false), tlb.look_up(page(1), true)), (Some(5), None));
        tlb.fill(page(1), frame(6));
        assert_eq!(tlb.look_up(page(1), true), Some(6));
        assert_eq!(tlb.look_up(Page { space: 2, number: 1 }, false), None);
    }

    proptest! {
        /// A translation in the TLB is always the latest one of its page, and none that was
        /// invalidated is left.
        #[test]
        fn nothing_is_stale(
            size in 1..8_u32,
            policy in prop::sample::select(vec![Policy::LeastRecentlyUsed, Policy::InTurn, Policy::Random]),
            steps in proptest::collection::vec((0..3_u8, 0..3_u32, 0..20_u64, 0..20_u64), 0..100),
        ) {
            let mut tlb = Tlb::new(size, policy);
            let mut told = HashMap::new();
            for (at, (kind, space, number, more)) in steps.into_iter().enumerate() {
                let page = Page { space, number };
                match kind {
                    0 => {
                        tlb.fill(page, frame(at as u64));
                        told.insert(page, at as u64);
                        prop_assert_eq!(tlb.look_up(page, true), Some(at as u64));
                    }
                    1 => {
                        tlb.invalidate(space, number..number + more);
                        told.retain(|page, _| page.space != space || !(number..number + more).contains(&page.number));
                    }
                    _ => {
                        let found = tlb.look_up(page, true);
                        prop_assert!(found.is_none() || found == told.get(&page).copied());
                    }
                }
                prop_assert!(tlb.entries.len() <= size as usize && tlb.entries.len() == tlb.places.len());
            }
        }
    }
}
