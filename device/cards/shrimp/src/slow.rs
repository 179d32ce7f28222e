//! Destinations that take too little. The Outgoing FIFO is one, as in the paper (section 4): while it is at its threshold no store of
//! any process is taken. Destinations that keep it there, and take too little, are cut off.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long the processors may be stopped, in sum, before the destinations that fill the FIFO are judged.
const LIMIT: Duration = Duration::from_secs(3);
/// The same for this long after a destination was cut off: several must not stop the processors for [`LIMIT`] each.
const LIMIT_AGAIN: Duration = Duration::from_millis(250);
/// The limit is counted in so many looks, and the time between two counts as one: a card that stood still itself blames no destination.
const LOOKS: u32 = 12;
/// In [`LIMIT`] a destination must take this part of the FIFO's bytes, and in a shorter time in proportion.
const PART: usize = 2;
/// How long a destination stays cut off.
const REST: Duration = Duration::from_secs(60);

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    /// While no store is taken, the last look; and for how long none was taken before that, since the FIFO was last down to half of
    /// its threshold.
    since: Option<Duration>,
    stopped: Duration,
    /// Bytes that each has taken since then.
    taken: HashMap<u16, usize>,
    /// Those that are cut off, and until when.
    cut: BTreeMap<u16, Duration>,
    /// Until when the shorter limit holds.
    again: Duration,
}

/// The part of the FIFO's bytes that a destination must take in a time.
fn part(capacity: usize, time: Duration) -> usize {
    capacity / PART * time.as_millis() as usize / LIMIT.as_millis() as usize
}

impl Slow {
    /// After a reset of the card: a host that was cut off stays so.
    pub(crate) fn renewed(&self) -> Self {
        Self { cut: self.cut.clone(), ..Self::default() }
    }

    /// No store is taken.
    pub(crate) fn stopped(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Stores are taken; `recovered`: the FIFO is down to half of its threshold.
    pub(crate) fn goes_on(&mut self, recovered: bool, now: &dyn Fn() -> Duration) {
        if let Some(since) = self.since.take() {
            self.stopped += now().saturating_sub(since).min(self.limit(since) / LOOKS);
        }
        if recovered {
            self.restart();
        }
    }

    /// The limit that holds at a time.
    fn limit(&self, at: Duration) -> Duration {
        if at < self.again { LIMIT_AGAIN } else { LIMIT }
    }

    fn restart(&mut self) {
        self.stopped = Duration::ZERO;
        self.taken.clear();
    }

    /// A destination has taken a packet.
    pub(crate) fn took(&mut self, node: u16, bytes: usize) {
        if self.since.is_some() || !self.stopped.is_zero() {
            *self.taken.entry(node).or_default() += bytes;
        }
    }

    /// When destinations are judged next, or one is no longer cut off.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let next =
            |since| since + self.limit(since).saturating_sub(self.stopped).min(self.limit(since) / LOOKS);
        self.since.map(next).into_iter().chain(self.cut.values().copied()).min()
    }

    /// Judges the destinations that fill the FIFO. Returns those that are cut off from now on.
    pub(crate) fn judge(
        &mut self,
        now: Duration,
        filling: impl Iterator<Item = u16>,
        capacity: usize,
    ) -> Vec<u16> {
        self.cut.retain(|_, until| *until > now);
        let Some(since) = self.since else { return Vec::new() };
        let limit = self.limit(since);
        self.since = Some(now);
        self.stopped += now.saturating_sub(since).min(limit / LOOKS);
        if self.stopped < limit {
            return Vec::new();
        }
        let taken = std::mem::take(&mut self.taken);
        let is_slow = |node: &u16| taken.get(node).copied().unwrap_or(0) < part(capacity, limit);
        let slow: Vec<u16> = filling.filter(is_slow).collect();
        self.restart();
        slow.iter().for_each(|node| self.cut(*node, now));
        slow
    }

    /// Cuts a destination off.
    pub(crate) fn cut(&mut self, node: u16, now: Duration) {
        self.restart();
        self.since = None;
        self.cut.insert(node, now + REST);
        self.again = now + LIMIT;
    }

    pub(crate) fn is_cut_off(&self, node: u16) -> bool {
        !self.cut.is_empty() && self.cut.contains_key(&node)
    }

    /// A bit for each of the hosts 0 to 63 that are cut off.
    pub(crate) fn cut_off(&self) -> u64 {
        self.cut.keys().filter(|node| **node < 64).fold(0, |bits, node| bits | 1 << node)
    }
}
