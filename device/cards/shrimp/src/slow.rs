//! Destinations that take too little. There is one Outgoing FIFO, as in the paper (section 4):
//! while it is at its threshold, no store of any process is accepted. Destinations that keep it
//! there and take too little are cut off.

use std::collections::BTreeMap;
use std::time::Duration;

/// For how long in total the processors may be stopped before the destinations that fill the FIFO
/// are judged.
#[derive(Debug, Clone, Copy)]
struct Limit {
    time: Duration,
    /// The most that counts between two looks, so that a card that stood still itself cuts off no
    /// destination.
    look: Duration,
}

const FIRST: Limit = Limit { time: Duration::from_secs(3), look: Duration::from_millis(250) };
/// The limit after a destination was cut off, so that several destinations do not stop the
/// processors for 3 s each.
const AGAIN: Limit = Limit { time: Duration::from_millis(250), look: Duration::from_millis(50) };
/// For how long after that the shorter limit holds.
const AGAIN_FOR: Duration = Duration::from_secs(3);
/// All destinations together must take this part of the FIFO's bytes in [`FIRST`], and in a shorter
/// time in proportion.
const PART: usize = 16;
/// A destination that takes the FIFO's size in this time is fast. The card waits a little longer
/// for it if an access is overdue.
const FAST: Duration = Duration::from_secs(1);
/// How much longer that is, for all destinations together.
const SPARE: Duration = Duration::from_millis(300);
/// Calls for one overdue access all come within this time, and those for the next one later.
const CALLS: Duration = Duration::from_secs(2);
/// How long a destination stays cut off.
const REST: Duration = Duration::from_secs(60);

/// The state of the destinations that take too little.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    /// The time of the last look, while no store is accepted.
    since: Option<Duration>,
    /// For how long none was accepted before that, and when counting began. `None`: the FIFO has
    /// not been at its threshold since it was last down to half of that, or since a destination was
    /// cut off.
    stopped: Option<Duration>,
    began: Duration,
    /// The destinations that are cut off, and until when.
    cut: BTreeMap<u16, Duration>,
    /// Until when the shorter limit holds.
    again: Duration,
    /// When the card was first asked to make room for an overdue access.
    overdue: Option<Duration>,
}

/// Returns the part of the FIFO's bytes that destinations must take in a time.
pub(crate) fn part(capacity: usize, time: Duration) -> usize {
    in_proportion(capacity / PART, time, FIRST.time)
}

/// Returns the share of bytes that belongs to a part of the whole time.
fn in_proportion(bytes: usize, part: Duration, whole: Duration) -> usize {
    bytes * part.as_millis() as usize / whole.as_millis() as usize
}

impl Slow {
    /// Returns the state after a reset of the card. A host that was cut off stays cut off.
    pub(crate) fn renewed(&self) -> Self {
        Self { cut: self.cut.clone(), ..Self::default() }
    }

    /// Records that no store is accepted. Returns whether counting begins: bytes that destinations
    /// have taken before do not count.
    pub(crate) fn stopped(&mut self, now: Duration) -> bool {
        self.since.get_or_insert(now);
        let begins = self.stopped.is_none();
        if begins {
            self.begin(now);
        }
        begins
    }

    fn begin(&mut self, now: Duration) {
        self.stopped = Some(Duration::ZERO);
        self.began = now;
    }

    /// Records that stores are accepted. `recovered` means that the FIFO is down to half of its
    /// threshold.
    pub(crate) fn goes_on(&mut self, recovered: bool, now: &dyn Fn() -> Duration) {
        if let Some(since) = self.since.take() {
            self.count(since, now());
        }
        if recovered {
            self.stopped = None;
        }
    }

    /// Counts the time since the last look.
    fn count(&mut self, since: Duration, now: Duration) {
        let time = now.saturating_sub(since).min(self.limit(since).look);
        self.stopped = self.stopped.map(|stopped| stopped + time);
    }

    /// Returns the limit that holds at a time.
    fn limit(&self, at: Duration) -> Limit {
        if at < self.again { AGAIN } else { FIRST }
    }

    /// Returns the time of the next judgement, or of the end of a cut-off if that is earlier.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let next = |since| {
            let Limit { time, look } = self.limit(since);
            since + time.saturating_sub(self.stopped.unwrap_or_default()).min(look)
        };
        self.since.map(next).into_iter().chain(self.cut.values().copied()).min()
    }

    /// Looks at the time. If destinations are judged now, returns the time for which they are
    /// judged, and begins a new count.
    pub(crate) fn look(&mut self, now: Duration) -> Option<Duration> {
        self.cut.retain(|_, until| *until > now);
        let since = self.since?;
        self.since = Some(now);
        let limit = self.limit(since);
        self.count(since, now);
        if self.stopped? < limit.time {
            return None;
        }
        self.begin(now);
        Some(limit.time)
    }

    /// Handles an overdue access. Returns the number of bytes above which a destination is still
    /// waited for, or `None` if no destination is.
    pub(crate) fn spared_above(&mut self, capacity: usize, now: Duration) -> Option<usize> {
        let first = self.overdue.filter(|first| now.saturating_sub(*first) < CALLS).unwrap_or(now);
        self.overdue = Some(first);
        (now < first + SPARE).then(|| in_proportion(capacity, now.saturating_sub(self.began), FAST))
    }

    /// Cuts a destination off.
    pub(crate) fn cut(&mut self, node: u16, now: Duration) {
        (self.since, self.stopped) = (None, None);
        self.cut.insert(node, now + REST);
        self.again = now + AGAIN_FOR;
    }

    pub(crate) fn is_cut_off(&self, node: u16) -> bool {
        !self.cut.is_empty() && self.cut.contains_key(&node)
    }

    /// Returns a bit for each of the hosts 0 to 63 that are cut off.
    pub(crate) fn cut_off(&self) -> u64 {
        self.cut.keys().filter(|node| **node < 64).fold(0, |bits, node| bits | 1 << node)
    }
}
