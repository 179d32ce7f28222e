//! Which stations may have something to do, and which ticks are due.
//!
//! What nobody uses costs nobody anything: whoever is woken looks at this, and not at the stations
//! one by one.

use std::collections::BTreeSet;
use std::time::Duration;

/// The most stations: a bit for each.
pub(super) const MOST: usize = u64::BITS as usize;

/// Stations by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Set(u64);

impl Set {
    /// The first so many.
    pub(super) fn first(count: usize) -> Self {
        (0..count.min(MOST)).fold(Self::default(), |set, station| Self(set.0 | 1 << station))
    }

    pub(super) fn add(&mut self, station: usize) {
        if station < MOST {
            self.0 |= 1 << station;
        }
    }

    pub(super) fn remove(&mut self, station: usize) {
        if station < MOST {
            self.0 &= !(1 << station);
        }
    }

    /// Adds it, or removes it.
    pub(super) fn set(&mut self, station: usize, is_in: bool) {
        if is_in { self.add(station) } else { self.remove(station) }
    }

    pub(super) fn has(self, station: usize) -> bool {
        station < MOST && self.0 >> station & 1 != 0
    }

    /// The lowest number from `station` on.
    pub(super) fn from(self, station: usize) -> Option<usize> {
        let left = if station < MOST { self.0 >> station << station } else { 0 };
        (left != 0).then(|| left.trailing_zeros() as usize)
    }

    /// All of them, from the lowest on.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.from(0), move |station| self.from(station + 1))
    }
}

/// When stations want their next ticks. A station's is asked for only when something may have
/// changed it.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    of: Vec<Option<Duration>>,
    order: BTreeSet<(Duration, usize)>,
}

impl Ticks {
    /// This is when a station wants its next.
    pub(super) fn note(&mut self, station: usize, next: Option<Duration>) {
        if self.of.len() <= station {
            self.of.resize(station + 1, None);
        }
        let before = std::mem::replace(&mut self.of[station], next);
        if before != next {
            before.map(|time| self.order.remove(&(time, station)));
            next.map(|time| self.order.insert((time, station)));
        }
    }

    /// The first of all.
    pub(super) fn next(&self) -> Option<Duration> {
        self.order.first().map(|first| first.0)
    }

    /// The stations whose time has come.
    pub(super) fn due(&self, now: Duration) -> Vec<usize> {
        self.order.iter().take_while(|tick| tick.0 <= now).map(|tick| tick.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added() {
        let mut set = Set::first(3);
        for station in [63, 10, 64, 1000] {
            set.add(station);
        }
        set.remove(1);
        set.remove(64);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2, 10, 63]);
        assert_eq!([set.from(3), set.from(63), set.from(64)], [Some(10), Some(63), None]);
        assert_eq!(Set::first(64).iter().count(), 64);
    }

    #[test]
    fn the_first_tick_is_the_next() {
        let second = Duration::from_secs;
        let mut ticks = Ticks::default();
        ticks.note(5, Some(second(8)));
        ticks.note(1, Some(second(4)));
        ticks.note(2, Some(second(4)));
        assert_eq!((ticks.next(), ticks.due(second(3))), (Some(second(4)), vec![]));
        assert_eq!(ticks.due(second(4)), [1, 2]);
        ticks.note(1, None);
        ticks.note(2, Some(second(9)));
        assert_eq!(ticks.next(), Some(second(8)));
        assert_eq!(ticks.due(second(10)), [5, 2]);
    }
}
