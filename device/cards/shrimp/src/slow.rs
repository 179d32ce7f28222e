//! Destinations that take too little. The Outgoing FIFO is one, as in the paper (section 4): while it is at its threshold no store of
//! any process is taken. A destination that keeps it there, and takes next to nothing, is cut off.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long the processors may be stopped, in sum, before the destination with the most bytes in the FIFO is judged.
const LIMIT: Duration = Duration::from_secs(3);
/// The time between two looks counts as no more than this: a card that stood still itself blames no destination.
const LOOK: Duration = Duration::from_millis(250);
/// It must have taken this part of the FIFO's bytes meanwhile.
const PART: usize = 16;
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
            self.stopped += now().saturating_sub(since).min(LOOK);
        }
        if recovered {
            self.restart();
        }
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

    /// When somebody is to be judged, or is no longer cut off.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let judged = self.since.map(|since| since + LIMIT.saturating_sub(self.stopped).min(LOOK));
        judged.into_iter().chain(self.cut.values().copied()).min()
    }

    /// Judges the destination that has the most bytes in the FIFO. Returns it if it is cut off from now on.
    pub(crate) fn judge(&mut self, now: Duration, fullest: Option<u16>, capacity: usize) -> Option<u16> {
        self.cut.retain(|_, until| *until > now);
        let since = self.since?;
        self.since = Some(now);
        self.stopped += now.saturating_sub(since).min(LOOK);
        if self.stopped < LIMIT {
            return None;
        }
        let taken = fullest.map(|node| self.taken.get(&node).copied().unwrap_or(0));
        self.restart();
        let node = fullest.filter(|_| taken.is_some_and(|taken| taken < capacity / PART))?;
        self.since = None;
        self.cut.insert(node, now + REST);
        Some(node)
    }

    pub(crate) fn is_cut_off(&self, node: u16) -> bool {
        !self.cut.is_empty() && self.cut.contains_key(&node)
    }

    /// A bit for each of the hosts 0 to 63 that are cut off.
    pub(crate) fn cut_off(&self) -> u64 {
        self.cut.keys().filter(|node| **node < 64).fold(0, |bits, node| bits | 1 << node)
    }
}
