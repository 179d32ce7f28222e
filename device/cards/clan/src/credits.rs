//! Credits (section 2.2: "a new scheme combining Xon/Xoff with credits").
//!
//! A host may have a limited number of words in flight to another host. The sender counts the words
//! that it has sent there, and names each count by an epoch. The receiver counts the words that
//! have arrived, and grants a limit for the sender's count.
//!
//! A *probe* finds words that were lost on the way. It follows them and carries the sender's count.
//! The answer reports how many words have not arrived, and the counts agree again. So credits never
//! leak, and no loss goes unnoticed. Xon and Xoff are the switch's stops.

use std::time::Duration;

/// Time after a word was sent at which the sender asks whether all words have arrived, if that is
/// not yet confirmed.
const CONFIRM: Duration = Duration::from_millis(50);

/// The sender's side, for one receiver.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) epoch: u16,
    /// Number of words sent, and the number that may be sent.
    pub(crate) sent: u64,
    allowed: u64,
    window: u64,
    /// When to ask whether the unconfirmed words have arrived.
    ask_at: Option<Duration>,
    /// The deadline of the answer to a probe, and the count of words that the probe is about.
    asked: Option<(Duration, u64)>,
    /// A probe for credits was sent, and no word has left since. The next probe is not sent at
    /// once.
    has_begged: bool,
}

/// What the answer to a probe reports about the words that were sent before the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// Nothing.
    Nothing,
    /// All words up to this count have arrived.
    Arrived(u64),
    /// Some words up to this count were lost.
    Lost(u64),
}

impl Sending {
    pub(crate) fn new(epoch: u16, window: u64) -> Self {
        Self { epoch, sent: 0, allowed: window, window, ask_at: None, asked: None, has_begged: false }
    }

    /// Returns whether this number of words may be sent now.
    pub(crate) fn admits(&self, words: u64) -> bool {
        self.sent + words <= self.allowed
    }

    /// Takes credits for words that are sent now. The words known to be in flight never exceed the
    /// window.
    pub(crate) fn take(&mut self, words: u64, now: Duration) {
        self.sent += words;
        self.has_begged = false;
        debug_assert!(self.sent <= self.allowed);
        self.ask_at = self.ask_at.or(Some(now + CONFIRM));
    }

    /// Returns whether a probe is due. A sender that waits for credits asks at once, and again
    /// [`CONFIRM`] later if the answer granted too few. So a receiver that grants nothing does not
    /// make the card send probes without end.
    pub(crate) fn is_due(&self, now: Duration, starves: bool) -> bool {
        let begs = starves && !self.has_begged;
        self.asked.is_none() && (begs || self.ask_at.is_some_and(|at| at <= now))
    }

    /// Makes a probe due now.
    pub(crate) fn ask(&mut self, now: Duration) {
        self.ask_at = Some(now);
    }

    /// Records that a probe has been sent. Its answer is due within `patience`.
    pub(crate) fn asked(&mut self, now: Duration, patience: Duration, starves: bool) {
        self.ask_at = starves.then_some(now + CONFIRM);
        self.has_begged = starves;
        self.asked = Some((now + patience, self.sent));
    }

    /// Returns when something is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.asked.map(|(deadline, _)| deadline).or(self.ask_at)
    }

    /// Returns whether an answer is overdue.
    pub(crate) fn is_overdue(&self, now: Duration) -> bool {
        self.asked.is_some_and(|(deadline, _)| deadline <= now)
    }

    /// Handles a grant, which sets the limit of the count. If the grant answers a probe, `probe`
    /// holds the count in the probe and the number of words that were lost.
    pub(crate) fn granted(&mut self, epoch: u16, allowed: u64, probe: Option<Answer>) -> Confirmed {
        // No honest receiver grants more than a window beyond what was sent.
        if epoch != self.epoch || allowed > self.sent + self.window {
            return Confirmed::Nothing;
        }
        self.allowed = self.allowed.max(allowed);
        let (Some((at, lost)), Some((_, asked_at))) = (probe, self.asked) else { return Confirmed::Nothing };
        if at != asked_at {
            return Confirmed::Nothing;
        }
        self.asked = None;
        if lost == 0 { Confirmed::Arrived(at) } else { Confirmed::Lost(at) }
    }
}

/// The answer to a probe: the sender's count in it, and the number of lost words before it.
pub(crate) type Answer = (u64, u64);

/// The receiver's side, for one sender.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    epoch: Option<u16>,
    arrived: u64,
    /// The limit of the count that was last granted to the sender.
    granted: u64,
    /// The answer to a probe that must be sent.
    answer: Option<Answer>,
    /// A grant is due.
    due: bool,
}

impl Receiving {
    /// Counts words that have arrived, whatever happens to them. Returns `false` if they exceed the
    /// granted limit.
    pub(crate) fn arrived(&mut self, epoch: u16, words: u64, window: u64) -> bool {
        self.begin(epoch, window);
        if self.arrived + words > self.granted {
            return false;
        }
        self.arrived += words;
        self.due |= self.granted - self.arrived <= window / 2;
        true
    }

    /// Handles a probe. `sent` is the number of words that the sender has sent.
    pub(crate) fn probed(&mut self, epoch: u16, sent: u64, window: u64) {
        self.begin(epoch, window);
        // The count of an honest sender is never behind. A sender whose count is behind is granted
        // the same as before.
        let lost = sent.saturating_sub(self.arrived);
        self.arrived = self.arrived.max(sent.min(u64::MAX / 2));
        // An earlier receiver at this host may have granted more.
        self.granted = self.arrived + window;
        self.answer = Some((sent, lost));
        self.due = true;
    }

    fn begin(&mut self, epoch: u16, window: u64) {
        if self.epoch != Some(epoch) {
            *self = Self { epoch: Some(epoch), granted: window, ..Self::default() };
        }
    }

    /// Returns the grant that is due: the epoch, the limit of the count, and the answer to a probe.
    pub(crate) fn due(&self, window: u64) -> Option<(u16, u64, Option<Answer>)> {
        let epoch = self.epoch.filter(|_| self.due)?;
        Some((epoch, self.arrived + window, self.answer))
    }

    /// Records that the grant has been sent.
    pub(crate) fn said(&mut self, window: u64) {
        self.granted = self.arrived + window;
        (self.answer, self.due) = (None, false);
    }
}
