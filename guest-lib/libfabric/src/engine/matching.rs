//! Matching of messages with posted receives, in the order of fi_msg(3) and fi_tagged(3).

use std::collections::VecDeque;

use crate::memory::Area;

/// A posted receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) context: usize,
    pub(crate) area: Area,
    /// Only messages of this peer match.
    pub(crate) peer: Option<usize>,
    pub(crate) tag: u64,
    /// Bits of the tag that do not matter.
    pub(crate) ignore: u64,
    /// Whether success is reported to the completion queue.
    pub(crate) report: bool,
    /// The number of the buffer, if it takes several messages.
    pub(crate) multi: Option<u64>,
}

/// A message, up to its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) peer: usize,
    pub(crate) tagged: bool,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) length: usize,
    /// The sender's number of the message, if it waits for an answer.
    pub(crate) ack: Option<u64>,
}

/// A message that came before its receive was posted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unexpected {
    pub(crate) envelope: Envelope,
    pub(crate) body: Body,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// The bytes are at the sender, under this number.
    AtSender(u64),
}

/// Queues of one kind of message: with tags, or without.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<Posted>,
    unexpected: VecDeque<Unexpected>,
}

/// What a receive asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) peer: Option<usize>,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
}

impl Wanted {
    fn takes(&self, envelope: &Envelope) -> bool {
        self.peer.is_none_or(|peer| peer == envelope.peer) && (self.tag ^ envelope.tag) & !self.ignore == 0
    }
}

impl Posted {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { peer: self.peer, tag: self.tag, ignore: self.ignore }
    }
}

impl Matching {
    pub(crate) fn post(&mut self, posted: Posted) {
        self.posted.push_back(posted);
    }

    pub(crate) fn hold(&mut self, unexpected: Unexpected) {
        self.unexpected.push_back(unexpected);
    }

    /// The oldest receive that matches. `keeps` says whether it stays posted, for more messages.
    pub(crate) fn find_posted(
        &mut self,
        envelope: &Envelope,
        mut keeps: impl FnMut(&mut Posted) -> Option<Posted>,
    ) -> Option<Posted> {
        let at = self.posted.iter().position(|posted| posted.wanted().takes(envelope))?;
        match keeps(&mut self.posted[at]) {
            Some(part) => Some(part),
            None => self.posted.remove(at),
        }
    }

    /// The oldest message that matches.
    pub(crate) fn peek(&self, wanted: Wanted) -> Option<&Unexpected> {
        self.unexpected.iter().find(|held| wanted.takes(&held.envelope))
    }

    pub(crate) fn take(&mut self, wanted: Wanted) -> Option<Unexpected> {
        let at = self.unexpected.iter().position(|held| wanted.takes(&held.envelope))?;
        self.unexpected.remove(at)
    }

    /// Removes the oldest receive with this context.
    pub(crate) fn cancel(&mut self, context: usize) -> Option<Posted> {
        let at = self.posted.iter().position(|posted| posted.context == context)?;
        self.posted.remove(at)
    }

    /// Removes a buffer that has no room for another message.
    pub(crate) fn retire(&mut self, multi: u64) {
        self.posted.retain(|posted| posted.multi != Some(multi));
    }

    /// Drops messages whose bytes are at a peer that is lost. Returns their number.
    pub(crate) fn forget_bytes_of(&mut self, peer: usize) -> usize {
        let before = self.unexpected.len();
        self.unexpected.retain(|held| held.envelope.peer != peer || !matches!(held.body, Body::AtSender(_)));
        before - self.unexpected.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(context: usize, peer: Option<usize>, tag: u64, ignore: u64) -> Posted {
        Posted { context, area: Area::default(), peer, tag, ignore, report: true, multi: None }
    }

    fn envelope(peer: usize, tag: u64) -> Envelope {
        Envelope { peer, tagged: true, tag, data: None, length: 0, ack: None }
    }

    #[test]
    fn oldest_receive_that_matches_is_taken() {
        let mut matching = Matching::default();
        matching.post(posted(1, Some(7), 5, 0));
        matching.post(posted(2, None, 4, 1));
        matching.post(posted(3, None, 0, u64::MAX));
        let mut find =
            |peer, tag| matching.find_posted(&envelope(peer, tag), |_| None).map(|posted| posted.context);
        assert_eq!([find(8, 5), find(7, 5), find(8, 5), find(8, 5)], [Some(2), Some(1), Some(3), None]);
    }

    #[test]
    fn messages_of_one_peer_keep_their_order() {
        let mut matching = Matching::default();
        for (peer, byte) in [(1, b'a'), (2, b'b'), (1, b'c')] {
            matching.hold(Unexpected { envelope: envelope(peer, 9), body: Body::Whole(vec![byte]) });
        }
        let from = |peer| Wanted { peer, tag: 9, ignore: 0 };
        let mut take = |peer| matching.take(from(peer)).map(|held| held.body);
        assert_eq!(take(Some(1)), Some(Body::Whole(b"a".to_vec())));
        assert_eq!(take(None), Some(Body::Whole(b"b".to_vec())));
        assert_eq!(take(Some(2)), None);
        assert_eq!(take(Some(1)), Some(Body::Whole(b"c".to_vec())));
    }
}
