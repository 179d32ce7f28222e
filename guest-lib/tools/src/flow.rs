//! Flow control of numbered messages in one or both directions: which may be sent, which have
//! arrived, and which are confirmed.

use crate::word::{self, CONFIRM, LAST};

/// Number of messages per confirmation.
pub(crate) const CHUNK: u64 = 16;

/// State of a flow at one of its ends.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Number of messages that may be in flight: sent, and not confirmed.
    depth: u64,
    sent: u64,
    confirmed: u64,
    /// Whether this end's last message has been sent.
    ended: bool,
    /// Number of messages received.
    came: u64,
    /// Whether the peer's last message has arrived.
    peer_has_ended: bool,
}

/// Meaning of a received word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A word that is not part of the exchange.
    Stale,
    /// This many more of this end's messages have arrived.
    Confirmed(u64),
    /// A message has arrived; the word to send now, if a confirmation is due.
    Came(Option<u32>),
}

impl Flow {
    pub(crate) fn new(depth: u64) -> Self {
        Self { depth, sent: 0, confirmed: 0, ended: false, came: 0, peer_has_ended: false }
    }

    /// Returns the number of messages sent so far: the number of the next.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn may_send(&self) -> bool {
        !self.ended && self.sent < self.confirmed + self.depth
    }

    /// Returns the word of the next message, which counts as sent.
    pub(crate) fn next_word(&mut self, is_last: bool) -> u32 {
        let word = word::number(self.sent) | if is_last { LAST } else { 0 };
        self.sent += 1;
        self.ended = is_last;
        word
    }

    /// Handles a received word.
    pub(crate) fn take(&mut self, word: u32) -> Event {
        if word >= word::READY {
            return Event::Stale;
        }
        if word & CONFIRM == 0 {
            self.came += 1;
            self.peer_has_ended |= word & LAST != 0;
            let is_due = self.peer_has_ended || self.came % CHUNK == 0;
            return Event::Came(is_due.then_some(CONFIRM | word::number(self.came)));
        }
        let ahead = word::ahead(word, self.confirmed);
        if ahead == 0 || self.confirmed + ahead > self.sent {
            return Event::Stale;
        }
        self.confirmed += ahead;
        Event::Confirmed(ahead)
    }

    /// Returns whether everything that this end sends has been sent and confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.ended && self.confirmed == self.sent
    }

    /// Returns whether the peer's last message has arrived.
    pub(crate) fn peer_has_ended(&self) -> bool {
        self.peer_has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_and_the_last_message_are_confirmed() {
        let mut flow = Flow::new(64);
        let words = (0..24).chain([24 | LAST]);
        let confirmed: Vec<Event> =
            words.map(|word| flow.take(word)).filter(|event| *event != Event::Came(None)).collect();
        assert_eq!(confirmed, [16, 25].map(|sum| Event::Came(Some(CONFIRM | sum))));
        assert!(flow.peer_has_ended());
    }

    #[test]
    fn a_stale_or_foreign_word_confirms_nothing() {
        let mut flow = Flow::new(64);
        (0..40).for_each(|_| assert_eq!(flow.next_word(false) & (LAST | CONFIRM), 0));
        assert_eq!(flow.take(CONFIRM | 16), Event::Confirmed(16));
        for word in [CONFIRM | 16, CONFIRM | 15, CONFIRM, CONFIRM | 41, word::READY, word::HELLO] {
            assert_eq!(flow.take(word), Event::Stale, "word {word:#x}");
        }
        assert_eq!(flow.take(CONFIRM | 40), Event::Confirmed(24));
    }

    #[test]
    fn no_more_than_the_depth_is_under_way() {
        let mut flow = Flow::new(CHUNK);
        while flow.may_send() {
            flow.next_word(false);
        }
        assert_eq!(flow.sent(), CHUNK);
        flow.take(CONFIRM | 3);
        while flow.may_send() {
            flow.next_word(flow.sent() == CHUNK + 1);
        }
        assert_eq!(flow.sent(), CHUNK + 2);
        assert!(!flow.is_confirmed());
        flow.take(CONFIRM | 18);
        assert!(flow.is_confirmed() && !flow.peer_has_ended());
    }

    #[test]
    fn bidirectional_flows_both_finish() {
        let mut ends = [Flow::new(CHUNK), Flow::new(64)];
        let mut ways = [Vec::new(), Vec::new()];
        while !ends.iter().all(|end| end.is_confirmed() && end.peer_has_ended()) {
            for (at, count) in [(0, 100), (1, 333)] {
                while ends[at].may_send() {
                    let is_last = ends[at].sent() + 1 == count;
                    let word = ends[at].next_word(is_last);
                    ways[at].push(word);
                }
                for word in std::mem::take(&mut ways[1 - at]) {
                    if let Event::Came(Some(answer)) = ends[at].take(word) {
                        ways[at].push(answer);
                    }
                }
            }
        }
        assert_eq!(ends.map(|end| (end.sent, end.came)), [(100, 333), (333, 100)]);
    }
}
