//! Cutting and extending of worms (section 2.2 of the CLAN paper).

use hamlyn_fabric::HostId;

use super::link::Link;
use super::{Mesh, Worm, flits};
use crate::held::Packet;

impl Mesh {
    /// Cuts a worm that is about to move, as often as `cut` returns two parts. The remaining parts
    /// follow it.
    pub(super) fn cut_up(
        &mut self,
        at: usize,
        cut: &mut impl FnMut(&Packet, bool) -> Option<(Vec<u8>, Vec<u8>)>,
    ) {
        while let Some(is_contended) = self.worms[at].may_be_cut(&self.links) {
            let Some(parts) = cut(&self.worms[at].packet, is_contended) else { return };
            let rest = self.worms[at].split(&mut self.links, parts, self.came);
            self.came += 1;
            self.worms.insert(at + 1, rest);
        }
    }

    /// Returns whether the latest packet of a source waits, and its tail has not entered the mesh
    /// yet.
    pub(crate) fn may_extend(&self, source: HostId) -> bool {
        self.latest(source).is_some_and(|at| self.worms[at].may_be_joined(&self.links))
    }

    /// Joins the latest packet of a source with its next one, if `join` returns the result. The
    /// last argument of `join` is whether worms of other sources wait for the same links. Returns
    /// whether they were joined.
    pub(crate) fn extend(
        &mut self,
        next: &Packet,
        join: impl FnOnce(&Packet, &Packet, bool) -> Option<Vec<u8>>,
    ) -> bool {
        let Some(at) = self.latest(next.header.source) else { return false };
        let worm = &mut self.worms[at];
        if !worm.may_be_joined(&self.links) {
            return false;
        }
        let is_contended = worm.is_contended(&self.links);
        let Some(payload) = join(&worm.packet, next, is_contended) else { return false };
        let Some(more) = flits(payload.len()).checked_sub(worm.left) else { return false };
        worm.packet = Packet::new(worm.packet.header, payload);
        worm.behind += more;
        worm.left += more;
        true
    }

    fn latest(&self, source: HostId) -> Option<usize> {
        self.worms.iter().rposition(|worm| worm.packet.header.source == source)
    }
}

impl Worm {
    /// Returns the link that its head needs next, or the last one when its head is at its node.
    fn next_link(&self) -> usize {
        self.route.link(self.head.min(self.route.len() - 1))
    }

    /// Returns whether worms of other sources wait for its links or for its next one. Returns
    /// `None` if it does not move now, or if its node has it.
    fn may_be_cut(&self, links: &[Link]) -> Option<bool> {
        let next = &links[self.next_link()];
        let moves = if self.head < self.route.len() { next.is_next(self.number) } else { !self.arrived };
        moves.then(|| self.is_contended(links))
    }

    fn is_contended(&self, links: &[Link]) -> bool {
        let source = self.packet.header.source;
        let mut held = (self.tail..self.head).map(|step| &links[self.route.link(step)]);
        links[self.next_link()].is_contended(source) || held.any(|link| link.is_contended(source))
    }

    /// Returns whether it has to wait and its tail has not entered the mesh yet.
    fn may_be_joined(&self, links: &[Link]) -> bool {
        let waits = if self.head < self.route.len() {
            !links[self.next_link()].is_next(self.number)
        } else {
            !self.arrived
        };
        waits && self.behind > 0
    }

    /// Keeps the first part, with the links nearest to the head. Returns a worm with the rest,
    /// which needs the link behind those next.
    fn split(&mut self, links: &mut [Link], (first, rest): (Vec<u8>, Vec<u8>), number: u64) -> Worm {
        let header = self.packet.header;
        let (all, behind) = (flits(first.len()), flits(rest.len()));
        let front = all.min(self.head - self.tail);
        let head = self.head - front;
        for step in self.tail..head {
            links[self.route.link(step)].owner = Some(number);
        }
        let worm = Worm {
            number,
            packet: Packet::new(header, rest),
            route: self.route.clone(),
            head,
            tail: self.tail,
            behind: behind.saturating_sub(head - self.tail),
            left: behind,
            arrived: false,
        };
        let next = &mut links[worm.next_link()];
        match front {
            // No flit is in the mesh yet, so both parts need the same link.
            0 => next.queue_behind(self.claim(), worm.claim()),
            _ => next.queue_rest(worm.claim()),
        }
        self.packet = Packet::new(header, first);
        (self.tail, self.left, self.behind) = (head, all, all - front);
        worm
    }
}
