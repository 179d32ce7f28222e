//! Finds the Tripwires that watch a place: the content-addressable memory of the paper's card
//! (section 2.5).
//!
//! A range has a *level*: the smallest `n` for which 2^n words are at least its length. The words
//! of an aperture are divided into aligned pieces of each level. A range lies in one or two pieces
//! of its own level, and is listed in those. An access looks at the pieces that it touches, in each
//! level that has any.
//!
//! **Cost.** Arming and disarming take two look-ups in a sorted map, whatever the length of the
//! range. An access takes one look-up in each level that was ever used for the aperture, 31 at
//! most, and a comparison for each Tripwire listed there. A piece lists at most
//! [`CLAN_TRIPWIRES_AT_ONCE`], so an access to one word compares at most that many in each level.

use std::collections::BTreeMap;

use hamlyn_abi::clan::tripwire::CLAN_TRIPWIRES_AT_ONCE;

/// A Tripwire: its endpoint, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Wire {
    pub(crate) endpoint: u32,
    pub(crate) number: u32,
}

/// The words of a range: the first, and the one behind the last.
pub(crate) type Words = std::ops::Range<u64>;

/// The highest level.
const TOP: u32 = 30;
/// The number of words that can be watched: 8 GiB.
pub(crate) const WORDS: u64 = 1 << TOP;

/// A Tripwire, and the words that it watches.
type Listed = (Words, Wire);

/// The Tripwires that watch words of one aperture.
#[derive(Debug, Default)]
pub(crate) struct Cam {
    /// The lists by level, then by the number of a piece. No list is empty.
    levels: Vec<BTreeMap<u64, Vec<Listed>>>,
    /// Number of listed Tripwires.
    count: usize,
}

/// Returns the level of a range that is not empty.
fn level(words: &Words) -> usize {
    (words.end - words.start).next_power_of_two().trailing_zeros() as usize
}

/// Returns the pieces of a level that contain any of these words.
fn pieces(level: usize, words: &Words) -> std::ops::RangeInclusive<u64> {
    words.start >> level..=(words.end - 1) >> level
}

impl Cam {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Lists a Tripwire for a range that is not empty. Returns `false` if a piece has no room for
    /// it.
    pub(crate) fn insert(&mut self, words: &Words, wire: Wire) -> bool {
        let level = level(words);
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, BTreeMap::new);
        }
        let lists = &mut self.levels[level];
        let is_full = |list: &Vec<Listed>| list.len() >= CLAN_TRIPWIRES_AT_ONCE as usize;
        if pieces(level, words).any(|piece| lists.get(&piece).is_some_and(is_full)) {
            return false;
        }
        for piece in pieces(level, words) {
            lists.entry(piece).or_default().push((words.clone(), wire));
        }
        self.count += 1;
        true
    }

    /// Removes a Tripwire from the lists of a range, if it is there.
    pub(crate) fn remove(&mut self, words: &Words, wire: Wire) {
        let level = level(words);
        let Some(lists) = self.levels.get_mut(level) else { return };
        let mut was_listed = false;
        for piece in pieces(level, words) {
            let Some(list) = lists.get_mut(&piece) else { continue };
            let before = list.len();
            list.retain(|(of, other)| (of, *other) != (words, wire));
            was_listed |= list.len() < before;
            if list.is_empty() {
                lists.remove(&piece);
            }
        }
        self.count -= usize::from(was_listed);
        if self.count == 0 {
            // An aperture without Tripwires takes no memory here.
            self.levels = Vec::new();
        }
    }

    /// Returns the Tripwires that watch any of the words, each once.
    pub(crate) fn matching(&self, words: &Words) -> Vec<Wire> {
        let mut found = Vec::new();
        if words.is_empty() {
            return found;
        }
        for (level, lists) in self.levels.iter().enumerate().filter(|(_, lists)| !lists.is_empty()) {
            let near = lists.range(pieces(level, words)).flat_map(|(_, list)| list);
            let watching = near.filter(|(watched, _)| watched.start < words.end && words.start < watched.end);
            found.extend(watching.map(|(_, wire)| *wire));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wire(number: u32) -> Wire {
        Wire { endpoint: 7, number }
    }

    fn listed(cam: &Cam) -> usize {
        cam.levels.iter().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    #[test]
    fn ranges_around_a_word_all_match_it() {
        let mut cam = Cam::default();
        assert!(cam.insert(&(70..71), wire(1)));
        assert!(cam.insert(&(64..128), wire(2)));
        assert!(cam.insert(&(0..WORDS), wire(3)));
        assert_eq!(cam.matching(&(70..71)), [1, 2, 3].map(wire));
        assert_eq!(cam.matching(&(71..4096)), [2, 3].map(wire));
        assert_eq!(cam.matching(&(128..129)), [3].map(wire));
        for (words, number) in [(70..71, 1), (64..128, 2), (0..WORDS, 3)] {
            cam.remove(&words, wire(number));
        }
        assert!(cam.is_empty() && cam.levels.is_empty(), "{cam:?}");
    }

    #[test]
    fn arming_lists_a_range_twice_at_most() {
        for words in [0..1, 1..3, 63..65, 1..WORDS - 1, 3..(1 << 27) + 2, 0..WORDS] {
            let mut cam = Cam::default();
            assert!(cam.insert(&words, wire(1)));
            assert!((1..=2).contains(&listed(&cam)), "{words:?}: {}", listed(&cam));
            assert_eq!(cam.matching(&(words.end - 1..words.end)), [wire(1)]);
        }
    }

    #[test]
    fn piece_lists_no_more_than_its_limit() {
        let mut cam = Cam::default();
        for number in 0..CLAN_TRIPWIRES_AT_ONCE {
            assert!(cam.insert(&(5..9), wire(number)));
        }
        assert!(!cam.insert(&(8..12), wire(1000)));
        assert_eq!(cam.matching(&(9..200)), [], "a refused Tripwire watches nothing");
        assert!(cam.insert(&(12..16), wire(1000)) && cam.insert(&(8..200), wire(1001)));
    }

    #[test]
    fn removing_an_unknown_range_changes_nothing() {
        let mut cam = Cam::default();
        assert!(cam.insert(&(5..9), wire(1)));
        for words in [5..8, 4..8, 0..WORDS] {
            cam.remove(&words, wire(1));
        }
        cam.remove(&(5..9), wire(2));
        assert_eq!(cam.matching(&(8..9)), [wire(1)]);
    }

    proptest! {
        #[test]
        fn matches_equal_those_of_naive_search(
            ranges in prop::collection::vec(
                (
                    prop_oneof![0_u64..5000, 0..WORDS / 2],
                    prop_oneof![1_u64..5, 1_u64..5000, 1..=WORDS / 2],
                    any::<bool>(),
                ),
                1..40,
            ),
            looks in prop::collection::vec(
                (
                    prop_oneof![0_u64..10_000, 0..WORDS, WORDS - 9..WORDS + 9, 0..u64::MAX - 4000],
                    1_u64..3000,
                ),
                1..20,
            ),
        ) {
            let mut cam = Cam::default();
            let ranges: Vec<_> =
                ranges.into_iter().map(|(start, length, stays)| (start..start + length, stays)).collect();
            for (number, (words, _)) in (0..).zip(&ranges) {
                prop_assert!(cam.insert(words, wire(number)));
            }
            for (number, (words, _)) in (0..).zip(&ranges).filter(|(_, (_, stays))| !stays) {
                cam.remove(words, wire(number));
            }
            // Each range is also looked at from both ends.
            let ends = ranges.iter().flat_map(|(words, _)| {
                [words.start.saturating_sub(1)..words.start + 1, words.end - 1..words.end + 1]
            });
            for look in looks.into_iter().map(|(start, length)| start..start + length).chain(ends) {
                let naive: Vec<_> = (0..)
                    .zip(&ranges)
                    .filter(|(_, (words, stays))| *stays && words.start < look.end && look.start < words.end)
                    .map(|(number, _)| wire(number))
                    .collect();
                prop_assert_eq!(cam.matching(&look), naive);
            }
        }
    }
}
