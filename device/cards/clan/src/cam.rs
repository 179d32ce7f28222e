//! Which Tripwires watch a place: the content-addressable memory of the paper's card (section 2.5).
//!
//! A range of words is watched by the fewest aligned pieces that make it up, each of 64 to the power of its level words. A piece has those
//! of its 64 parts, pieces of the next level, that have anything in them. So a look at an access goes down from the whole of an aperture
//! only to where something is watched: it costs a few looks, however many Tripwires there are elsewhere. The whole is no larger than what
//! was ever watched of it: with a thousand apertures each look may be one at memory that is not in a processor's cache.

use hamlyn_abi::clan::tripwire::CLAN_TRIPWIRES_AT_ONCE;

/// A Tripwire: its endpoint, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Wire {
    pub(crate) endpoint: u32,
    pub(crate) number: u32,
}

/// Words of a range: the first, and the one behind the last.
pub(crate) type Words = std::ops::Range<u64>;

/// As a piece has 64 parts, so many words are the whole: 8 GiB.
const TOP: u32 = 5;
/// The words that can be watched.
pub(crate) const WORDS: u64 = span(TOP);

/// Words of a piece of a level.
const fn span(level: u32) -> u64 {
    1 << (6 * level)
}

#[derive(Debug, Default)]
struct Piece {
    /// Those that watch all of it.
    wires: Vec<Wire>,
    /// Which of its parts have something in them.
    present: u64,
    /// Those parts, in their order.
    parts: Vec<Piece>,
}

impl Piece {
    fn is_empty(&self) -> bool {
        self.wires.is_empty() && self.present == 0
    }

    fn has(&self, part: u64) -> bool {
        self.present & 1 << part != 0
    }

    /// Where a part is among those that are there, or would be.
    fn position(&self, part: u64) -> usize {
        (self.present & ((1 << part) - 1)).count_ones() as usize
    }

    fn part(&self, part: u64) -> Option<&Piece> {
        if self.has(part) { self.parts.get(self.position(part)) } else { None }
    }

    /// A part, which is there from now on.
    fn part_mut(&mut self, part: u64) -> &mut Piece {
        let at = self.position(part);
        if !self.has(part) {
            self.parts.insert(at, Piece::default());
            self.present |= 1 << part;
        }
        &mut self.parts[at]
    }

    /// Takes a Tripwire out of the piece that a path leads to, and each piece on it that has nothing else.
    fn remove(&mut self, mut path: impl Iterator<Item = u64>, wire: Wire) {
        let Some(part) = path.next() else { return self.wires.retain(|other| *other != wire) };
        if !self.has(part) {
            return;
        }
        let at = self.position(part);
        self.parts[at].remove(path, wire);
        if self.parts[at].is_empty() {
            self.parts.remove(at);
            self.present &= !(1 << part);
        }
    }

    /// Those that watch any of the words, of a piece of this level with something of them in it that begins at `start`.
    fn collect(&self, level: u32, start: u64, words: &Words, found: &mut Vec<Wire>) {
        found.extend_from_slice(&self.wires);
        if self.present == 0 {
            return;
        }
        let size = span(level - 1);
        let first = words.start.saturating_sub(start) / size;
        let last = ((words.end - 1).saturating_sub(start) / size).min(63);
        let mut left = self.present & (u64::MAX << first) & (u64::MAX >> (63 - last));
        while left != 0 {
            let part = u64::from(left.trailing_zeros());
            left &= left - 1;
            self.parts[self.position(part)].collect(level - 1, start + part * size, words, found);
        }
    }
}

/// Who watches the words of one aperture.
#[derive(Debug, Default)]
pub(crate) struct Cam {
    whole: Piece,
    /// Of the whole.
    level: u32,
}

impl Cam {
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// Has the whole be so large that it has these words.
    fn grow(&mut self, words: &Words) {
        while self.level < TOP && span(self.level) < words.end {
            let part = std::mem::take(&mut self.whole);
            if !part.is_empty() {
                self.whole = Piece { wires: Vec::new(), present: 1, parts: vec![part] };
            }
            self.level += 1;
        }
    }

    /// Has a Tripwire watch a range that is not empty. `false`: too many watch a part of it, or all around it, already.
    pub(crate) fn insert(&mut self, words: &Words, wire: Wire) -> bool {
        self.grow(words);
        let (places, top) = (decompose(words), self.level);
        let is_crowded = |place: &Place| {
            let piece = path(*place, top).try_fold(&self.whole, Piece::part);
            piece.is_some_and(|piece| piece.wires.len() >= CLAN_TRIPWIRES_AT_ONCE as usize)
        };
        if places.iter().any(is_crowded) {
            return false;
        }
        for place in places {
            path(place, top).fold(&mut self.whole, Piece::part_mut).wires.push(wire);
        }
        true
    }

    /// Has it watch that range no more.
    pub(crate) fn remove(&mut self, words: &Words, wire: Wire) {
        // What reaches beyond the whole nobody watches.
        if words.end.min(WORDS) > span(self.level) {
            return;
        }
        for place in decompose(words) {
            self.whole.remove(path(place, self.level), wire);
        }
    }

    /// Those that watch any of the words, each once.
    pub(crate) fn matching(&self, words: &Words) -> Vec<Wire> {
        // Nothing is watched behind the last word of the whole.
        let words = words.start..words.end.min(span(self.level));
        let mut found = Vec::new();
        if !words.is_empty() {
            self.whole.collect(self.level, 0, &words, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A piece: its level, and its place among those of the level.
type Place = (u32, u64);

/// The parts that lead from a whole of a level to a piece.
fn path((level, place): Place, top: u32) -> impl Iterator<Item = u64> {
    (level..top).rev().map(move |below| place >> (6 * (below - level)) & 63)
}

/// The aligned pieces that make up a range.
fn decompose(words: &Words) -> Vec<Place> {
    let (mut start, end) = (words.start, words.end.min(WORDS));
    let mut places = Vec::new();
    while start < end {
        let fits = |level: &u32| start % span(*level) == 0 && start + span(*level) <= end;
        let level = (0..=TOP).rev().find(fits).unwrap_or(0);
        places.push((level, start / span(level)));
        start += span(level);
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wire(number: u32) -> Wire {
        Wire { endpoint: 7, number }
    }

    #[test]
    fn who_watches_a_word_is_found_from_all_around_it() {
        let mut cam = Cam::default();
        assert!(
            cam.insert(&(70..71), wire(1))
                && cam.insert(&(64..128), wire(2))
                && cam.insert(&(0..WORDS), wire(3))
        );
        assert_eq!(cam.matching(&(70..71)), [1, 2, 3].map(wire));
        assert_eq!(cam.matching(&(71..4096)), [2, 3].map(wire));
        assert_eq!(cam.matching(&(128..129)), [3].map(wire));
        for (words, number) in [(70..71, 1), (64..128, 2), (0..WORDS, 3)] {
            cam.remove(&words, wire(number));
        }
        assert!(cam.is_empty(), "{cam:?}");
    }

    #[test]
    fn the_whole_is_as_large_as_what_is_watched_and_what_it_has_stays() {
        let mut cam = Cam::default();
        assert!(cam.insert(&(0..1), wire(1)) && cam.level == 0);
        assert!(cam.insert(&(0..64), wire(2)) && cam.level == 1);
        assert!(cam.insert(&(64..65), wire(3)) && cam.level == 2);
        cam.remove(&(0..WORDS), wire(1));
        assert_eq!(cam.matching(&(0..WORDS)), [1, 2, 3].map(wire), "nobody watches all of it");
        assert!(cam.insert(&(0..WORDS), wire(4)) && cam.level == TOP);
        assert_eq!(cam.matching(&(0..1)), [1, 2, 4].map(wire));
        assert_eq!(cam.matching(&(63..66)), [2, 3, 4].map(wire));
        for (words, number) in [(0..64, 2), (0..1, 1), (0..WORDS, 4), (64..65, 3)] {
            cam.remove(&words, wire(number));
        }
        assert!(cam.is_empty(), "{cam:?}");
    }

    #[test]
    fn a_range_is_a_few_pieces_and_a_place_has_room_for_so_many() {
        assert!(decompose(&(1..WORDS - 1)).len() <= 2 * 63 * 5);
        let mut cam = Cam::default();
        for number in 0..CLAN_TRIPWIRES_AT_ONCE {
            assert!(cam.insert(&(5..9), wire(number)));
        }
        assert!(!cam.insert(&(8..200), wire(1000)));
        assert_eq!(cam.matching(&(9..200)), [], "one that is refused watches nothing");
    }

    proptest! {
        #[test]
        fn it_finds_what_a_list_finds(
            ranges in prop::collection::vec((0_u64..5000, 1_u64..5000, any::<bool>()), 1..40),
            looks in prop::collection::vec((prop_oneof![0_u64..10_000, WORDS - 9..WORDS + 9, 0..u64::MAX - 4000], 1_u64..3000), 1..20),
        ) {
            let mut cam = Cam::default();
            let ranges: Vec<_> = ranges.into_iter().map(|(start, length, stays)| (start..start + length, stays)).collect();
            for (number, (words, _)) in (0..).zip(&ranges) {
                prop_assert!(cam.insert(words, wire(number)));
            }
            for (number, (words, _)) in (0..).zip(&ranges).filter(|(_, (_, stays))| !stays) {
                cam.remove(words, wire(number));
            }
            for (start, length) in looks {
                let look = start..start + length;
                let by_list: Vec<_> = (0..)
                    .zip(&ranges)
                    .filter(|(_, (words, stays))| *stays && words.start < look.end && look.start < words.end)
                    .map(|(number, _)| wire(number))
                    .collect();
                prop_assert_eq!(cam.matching(&look), by_list);
            }
        }
    }
}
