//! Tracks which stations may have work, and which ticks are due.
//!
//! Unused stations cost nothing: a thread that is woken checks this state and not each station.

use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum number of stations: one bit for each.
pub(super) const MOST: usize = u64::BITS as usize;

/// A set of stations, by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Set(u64);

impl Set {
    /// Returns the set of the first `count` stations.
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

    /// Adds or removes a station.
    pub(super) fn set(&mut self, station: usize, is_in: bool) {
        if is_in { self.add(station) } else { self.remove(station) }
    }

    pub(super) fn has(self, station: usize) -> bool {
        station < MOST && self.0 >> station & 1 != 0
    }

    /// Returns the lowest number in the set from `station` on.
    pub(super) fn from(self, station: usize) -> Option<usize> {
        let left = if station < MOST { self.0 >> station << station } else { 0 };
        (left != 0).then(|| left.trailing_zeros() as usize)
    }

    /// Returns the numbers in the set, in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.from(0), move |station| self.from(station + 1))
    }
}

/// The times of the stations' next ticks. A station is asked only when its time may have changed.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    of: Vec<Option<Duration>>,
    order: BTreeSet<(Duration, usize)>,
}

impl Ticks {
    /// Records a station's next tick.
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

    /// Returns the time of the earliest tick.
    pub(super) fn next(&self) -> Option<Duration> {
        self.order.first().map(|first| first.0)
    }

    /// Returns the stations whose ticks are due.
    pub(super) fn due(&self, now: Duration) -> Vec<usize> {
        self.order.iter().take_while(|tick| tick.0 <= now).map(|tick| tick.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_contains_added_stations() {
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
    fn next_tick_is_the_earliest() {
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
