//! Credits (section 2.2: "a new scheme combining Xon/Xoff with credits").
//!
//! A host may have so many words on their way to another; each counts what it has sent there, from
//! a number that it calls an epoch. The receiver counts what has arrived, and says how far the
//! count may go. What is lost on the way is found by a *probe*, which comes behind it and says how
//! far the sender's count has gone: the answer says what has not arrived, and the counts agree
//! again. So credits never leak, and no loss stays unnoticed. Xon and Xoff are the switch's stops.

use std::time::Duration;

/// How long after a word has been sent it is asked for whether all has arrived, if nobody has said
/// so.
const CONFIRM: Duration = Duration::from_millis(50);

/// A sender's side, for one receiver.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) epoch: u16,
    /// Words sent, and how many may be.
    pub(crate) sent: u64,
    allowed: u64,
    window: u64,
    /// When to ask: there are words of which nobody has said that they have arrived.
    ask_at: Option<Duration>,
    /// When an answer is given up, once it was asked for; and the words that it is about.
    asked: Option<(Duration, u64)>,
    /// A probe for credits was sent, and no word has left since. The next one is not sent at once.
    has_begged: bool,
}

/// What the answer to a probe said of the words that were sent before the probe.
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

    /// Whether so many words may be sent now.
    pub(crate) fn admits(&self, words: u64) -> bool {
        self.sent + words <= self.allowed
    }

    /// Words under way, as far as is known: never more than the window.
    pub(crate) fn take(&mut self, words: u64, now: Duration) {
        self.sent += words;
        self.has_begged = false;
        debug_assert!(self.sent <= self.allowed);
        self.ask_at = self.ask_at.or(Some(now + CONFIRM));
    }

    /// Whether a probe is due. A sender that waits for credits asks at once, and again [`CONFIRM`]
    /// later if the answer granted too few: so a receiver that grants nothing does not make the
    /// card send probes without end.
    pub(crate) fn is_due(&self, now: Duration, starves: bool) -> bool {
        let begs = starves && !self.has_begged;
        self.asked.is_none() && (begs || self.ask_at.is_some_and(|at| at <= now))
    }

    /// It is to be asked now, if it was not.
    pub(crate) fn ask(&mut self, now: Duration) {
        self.ask_at = Some(now);
    }

    /// A probe has been sent, which is to be answered in time.
    pub(crate) fn asked(&mut self, now: Duration, patience: Duration, starves: bool) {
        self.ask_at = starves.then_some(now + CONFIRM);
        self.has_begged = starves;
        self.asked = Some((now + patience, self.sent));
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.asked.map(|(deadline, _)| deadline).or(self.ask_at)
    }

    /// Whether an answer was not given in time.
    pub(crate) fn is_overdue(&self, now: Duration) -> bool {
        self.asked.is_some_and(|(deadline, _)| deadline <= now)
    }

    /// The receiver says how far the count may go; and if that answers a probe, at which count that
    /// was and how many words have been lost.
    pub(crate) fn granted(&mut self, epoch: u16, allowed: u64, probe: Option<Answer>) -> Confirmed {
        // More than a window beyond what was sent no honest receiver says.
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

/// The answer to a probe: the sender's count in it, and how many words before it were lost.
pub(crate) type Answer = (u64, u64);

/// A receiver's side, for one sender.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    epoch: Option<u16>,
    arrived: u64,
    /// How far the sender has been told that the count may go.
    granted: u64,
    /// The answer to a probe that is to be sent.
    answer: Option<Answer>,
    /// It is time to say how far the count may go.
    due: bool,
}

impl Receiving {
    /// So many words have come, whatever becomes of them. `false`: more than may be.
    pub(crate) fn arrived(&mut self, epoch: u16, words: u64, window: u64) -> bool {
        self.begin(epoch, window);
        if self.arrived + words > self.granted {
            return false;
        }
        self.arrived += words;
        self.due |= self.granted - self.arrived <= window / 2;
        true
    }

    /// The sender asks: so many it has sent.
    pub(crate) fn probed(&mut self, epoch: u16, sent: u64, window: u64) {
        self.begin(epoch, window);
        // A count that is behind is no honest sender's; it is told the same as before.
        let lost = sent.saturating_sub(self.arrived);
        self.arrived = self.arrived.max(sent.min(u64::MAX / 2));
        // It may have been told more by a receiver that was here before.
        self.granted = self.arrived + window;
        self.answer = Some((sent, lost));
        self.due = true;
    }

    fn begin(&mut self, epoch: u16, window: u64) {
        if self.epoch != Some(epoch) {
            *self = Self { epoch: Some(epoch), granted: window, ..Self::default() };
        }
    }

    /// What is to be said: epoch, how far the count may go, and the answer to a probe.
    pub(crate) fn due(&self, window: u64) -> Option<(u16, u64, Option<Answer>)> {
        let epoch = self.epoch.filter(|_| self.due)?;
        Some((epoch, self.arrived + window, self.answer))
    }

    /// It has been said.
    pub(crate) fn said(&mut self, window: u64) {
        self.granted = self.arrived + window;
        (self.answer, self.due) = (None, false);
    }
}
