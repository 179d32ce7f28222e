//! A remote operating system: messages to it and from it, each once and in order, whether it lives, and whether it is
//! still the same.
//!
//! A message is kept, and sent again, until it has been acknowledged. Each side has an incarnation, a number that changes
//! whenever it forgets; who sees that the other's has changed ends the connections it had with it.

use std::collections::VecDeque;

use hamlyn_abi::kernel::wire::{HAMLYN_WIRE_ACK, HAMLYN_WIRE_PROBE, HamlynWire};
use hamlyn_abi::uapi::{
    HAMLYN_CONNECTION_CONNECTING, HAMLYN_END_HOST_LOST, HAMLYN_END_HOST_RESET, HAMLYN_MAX_NAME,
    HAMLYN_MAX_PRIVATE,
};

use super::{Action, PLACES, System};

/// How often peers are looked after, and how long a message may be without acknowledgement, in milliseconds.
pub(super) const TICK: u64 = 250;
/// Probes within the time after which a peer is given up: some may be late.
const PROBES: u64 = 8;
/// Refusals that may wait for a peer which does not take them: what is over is not said.
const MAX_QUEUED_REFUSALS: usize = 256;

/// A message that has not been acknowledged.
#[derive(Debug)]
pub(super) struct Message {
    /// Whose part it is; none of those that refuse.
    pub(super) connection: Option<u32>,
    /// It asks for or answers, and does not close.
    pub(super) opening: bool,
    /// It may have arrived.
    flown: bool,
    wire: HamlynWire,
    data: Vec<u8>,
}

impl Message {
    pub(super) fn new(connection: Option<u32>, opening: bool, wire: HamlynWire, data: Vec<u8>) -> Self {
        Self { connection, opening, flown: false, wire, data }
    }
}

/// What is known of a remote operating system, or of our own, which is reached in the same way.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Incarnations of our side and of the other, which may be unknown: 0.
    mine: u64,
    theirs: u64,
    /// When ours last changed.
    pub(super) renewed: u64,
    /// Messages that have not been acknowledged; the first has this number, so many are sent.
    pub(super) queue: VecDeque<Message>,
    first: u32,
    flying: usize,
    /// The number of the message that is to come next, and what lies in the places.
    expected: u32,
    arrived: [Option<(HamlynWire, Vec<u8>)>; PLACES as usize],
    /// Requests that were put to it; and the last that was taken from it, with the origin of its incarnation then. Neither is
    /// forgotten with an incarnation.
    pub(super) requests: u32,
    pub(super) asked: Option<(u32, u32)>,
    /// It is to hear from us, and in which entry.
    answer: bool,
    turn: u32,
    /// When it was last heard of, when messages and probes were last sent, and when it last acknowledged something.
    heard: u64,
    sent: u64,
    probed: u64,
    moved: u64,
}

impl System {
    /// One after the other, so that a later one is told from an earlier; never 0.
    fn make_incarnation(&mut self) -> u64 {
        self.incarnations = self.incarnations.wrapping_add(1);
        u64::from(self.origin) << 32 | u64::from(self.incarnations)
    }

    /// It is earlier than the one that is known, and was overtaken on its way.
    fn is_stale(&self, host: u32, incarnation: u64) -> bool {
        let known = self.peers[host as usize].theirs;
        known >> 32 == incarnation >> 32 && ((incarnation as u32).wrapping_sub(known as u32) as i32) < 0
    }

    fn reopen(&mut self, host: u32, entry: u32) {
        self.actions.push(Action::Reopen { host, entry });
    }

    /// Forgets which messages there have been.
    fn restart(&mut self, host: u32) {
        for place in 0..PLACES {
            if self.peer(host).arrived[place as usize].take().is_some() {
                self.reopen(host, place);
            }
        }
        let now = self.now;
        let peer = self.peer(host);
        (peer.first, peer.flying, peer.expected, peer.moved) = (0, 0, 0, now);
    }

    /// Its slot has been opened.
    pub(super) fn peer_open(&mut self, host: u32) {
        self.peer(host).arrived = Default::default();
        self.restart(host);
        self.renew(host);
    }

    /// We do not know any more what the peer has been told: this is a new incarnation.
    fn renew(&mut self, host: u32) {
        let (mine, now) = (self.make_incarnation(), self.now);
        let peer = self.peer(host);
        (peer.theirs, peer.mine, peer.renewed) = (0, mine, now);
    }

    /// Takes back a message that was never sent. `false`: it may have arrived, or is not on its way.
    pub(super) fn withdraw(&mut self, host: u32, connection: u32) -> bool {
        let own = |message: &Message| message.connection == Some(connection) && message.opening;
        let queue = &mut self.peer(host).queue;
        let Some(index) = queue.iter().position(|message| own(message) && !message.flown) else {
            return false;
        };
        queue.remove(index);
        self.sweep(connection);
        true
    }

    fn is_being_asked(&self, host: u32, connection: u32) -> bool {
        let own = |message: &Message| message.connection == Some(connection) && message.opening;
        self.connections[&connection].state == HAMLYN_CONNECTION_CONNECTING
            && self.peers[host as usize].queue.iter().any(own)
    }

    /// Ends what there was with a peer, and what is still to be said to it; but for requests, if they may be put to
    /// another incarnation of it, of which it has not acknowledged having heard.
    fn forget(&mut self, host: u32, reason: u32, ask_again: bool) {
        for number in self.connections_with(host) {
            if !ask_again || !self.is_being_asked(host, number) {
                self.end(number, reason);
            }
        }
        let queue = std::mem::take(&mut self.peer(host).queue);
        let (kept, dropped): (VecDeque<Message>, VecDeque<Message>) =
            queue.into_iter().partition(|message| self.is_connecting(message.connection));
        self.peer(host).queue = kept;
        dropped.into_iter().filter_map(|message| message.connection).for_each(|number| self.sweep(number));
        self.restart(host);
    }

    fn is_connecting(&self, number: Option<u32>) -> bool {
        let connection = number.and_then(|number| self.connections.get(&number));
        connection.is_some_and(|connection| connection.state == HAMLYN_CONNECTION_CONNECTING)
    }

    /// Gives a peer up.
    pub(super) fn peer_lost(&mut self, host: u32, reason: u32) {
        self.forget(host, reason, false);
        self.renew(host);
    }

    fn post(&mut self, host: u32, entry: u32, wire: HamlynWire, data: Vec<u8>) {
        let Peer { mine, theirs, expected, .. } = *self.peer(host);
        let wire = HamlynWire { incarnation: mine, to_incarnation: theirs, expected, ..wire };
        self.actions.push(Action::Send { host, entry, wire, data });
    }

    fn post_ack(&mut self, host: u32, kind: u32) {
        let turn = self.peer(host).turn;
        self.peer(host).turn = turn.wrapping_add(1);
        self.post(host, PLACES + turn % PLACES, HamlynWire { kind, ..HamlynWire::default() }, Vec::new());
    }

    /// Sends messages from the one at a position in the queue on, as far as there are places for them.
    fn fly(&mut self, host: u32, from: usize) {
        let now = self.now;
        for position in from..PLACES as usize {
            let peer = self.peer(host);
            let first = peer.first;
            let Some(message) = peer.queue.get_mut(position) else { break };
            message.wire.sequence = first.wrapping_add(position as u32);
            message.flown = true;
            let (wire, data) = (message.wire, message.data.clone());
            peer.sent = now;
            peer.flying = peer.flying.max(position + 1);
            self.post(host, wire.sequence % PLACES, wire, data);
        }
    }

    fn is_watched(&self, host: u32) -> bool {
        let with_it = |connection: &super::Connection| connection.peer == host && connection.is_live();
        !self.peers[host as usize].queue.is_empty() || self.connections.values().any(with_it)
    }

    /// There is about to be something that depends on the peer.
    pub(super) fn watch(&mut self, host: u32) {
        if self.is_watched(host) {
            return;
        }
        let now = self.now;
        (self.peer(host).heard, self.peer(host).probed) = (now, now);
        if self.due.is_none() {
            (self.due, self.ticked) = (Some(now + TICK), now);
        }
    }

    /// Takes a message to be sent; one that stands for itself may be dropped.
    pub(super) fn send(&mut self, host: u32, message: Message) {
        if message.connection.is_none() && self.peer(host).queue.len() >= MAX_QUEUED_REFUSALS {
            return;
        }
        self.watch(host);
        let now = self.now;
        let peer = self.peer(host);
        if peer.queue.is_empty() {
            peer.moved = now;
        }
        peer.queue.push_back(message);
        let flying = peer.flying;
        self.fly(host, flying);
    }

    /// Messages before `expected` have arrived there.
    fn acknowledged(&mut self, host: u32, expected: u32) {
        let now = self.now;
        let peer = self.peer(host);
        let count = expected.wrapping_sub(peer.first) as usize;
        if count == 0 || count > peer.flying {
            return;
        }
        (peer.first, peer.moved) = (expected, now);
        peer.flying -= count;
        let flying = peer.flying;
        let heard: Vec<Message> = peer.queue.drain(..count).collect();
        heard.into_iter().filter_map(|message| message.connection).for_each(|number| self.sweep(number));
        self.fly(host, flying);
    }

    /// Whether a message is from the other's present incarnation to our present one; it also tells what the other knows
    /// of us. Any other is answered, so that it learns, and not taken: numbers count between two incarnations, and one that
    /// was meant for nobody in particular may have been for an earlier one.
    fn is_current(&mut self, host: u32, wire: &HamlynWire) -> bool {
        if wire.incarnation == 0 || self.is_stale(host, wire.incarnation) {
            return false;
        }
        let now = self.now;
        self.peer(host).heard = now;
        let theirs = std::mem::replace(&mut self.peer(host).theirs, wire.incarnation);
        if theirs != wire.incarnation {
            if theirs != 0 {
                self.forget(host, HAMLYN_END_HOST_RESET, true);
                // Which of two origins is the later nobody can tell: if this one is not, then the other must know that its
                // numbers are forgotten, too.
                if theirs >> 32 != wire.incarnation >> 32 {
                    let mine = self.make_incarnation();
                    let peer = self.peer(host);
                    (peer.mine, peer.renewed) = (mine, now);
                }
            }
            self.fly(host, 0);
        }
        let current = wire.to_incarnation == self.peer(host).mine;
        if current {
            self.acknowledged(host, wire.expected);
        } else {
            self.peer(host).answer = true;
        }
        current
    }

    /// Takes the messages that are next, as far as they are there.
    fn take(&mut self, host: u32) {
        loop {
            let place = self.peer(host).expected % PLACES;
            let Some((wire, data)) = self.peer(host).arrived[place as usize].take() else { return };
            self.peer(host).expected = self.peer(host).expected.wrapping_add(1);
            if wire.name_length <= HAMLYN_MAX_NAME && wire.private_length <= HAMLYN_MAX_PRIVATE {
                self.message(host, &wire, &data);
            }
            self.reopen(host, place);
        }
    }

    /// A message is whole in an entry, and stays as it is until that is opened again. `place` is what its place holds, if
    /// it has one.
    pub fn arrived(&mut self, host: u32, entry: u32, wire: HamlynWire, place: Vec<u8>) {
        let current = self.is_current(host, &wire);
        let peer = self.peer(host);
        if entry >= PLACES {
            peer.answer |= current && wire.kind == HAMLYN_WIRE_PROBE;
        } else if current {
            peer.answer = true;
            if wire.sequence.wrapping_sub(peer.expected) < PLACES && wire.sequence % PLACES == entry {
                peer.arrived[entry as usize] = Some((wire, place));
                self.take(host);
                return;
            }
        }
        self.reopen(host, entry);
    }

    /// Tells those peers what has arrived from them that are to be told.
    pub fn answer_peers(&mut self) {
        for host in 0..self.peers.len() as u32 {
            if std::mem::take(&mut self.peer(host).answer) {
                self.post_ack(host, HAMLYN_WIRE_ACK);
            }
        }
    }

    /// One that is heard but acknowledges nothing is as good as lost: else it would keep what waits for it.
    fn is_lost(&self, host: u32) -> bool {
        let peer = &self.peers[host as usize];
        self.now > peer.heard + self.timeout || (peer.flying > 0 && self.now > peer.moved + self.timeout)
    }

    fn tick_peer(&mut self, host: u32) {
        if self.is_lost(host) {
            self.peer_lost(host, HAMLYN_END_HOST_LOST);
            return;
        }
        let (now, timeout) = (self.now, self.timeout);
        let Peer { flying, sent, probed, .. } = *self.peer(host);
        if flying > 0 && now >= sent + TICK {
            self.fly(host, 0);
        }
        // In any case: a place may still hold what an earlier incarnation of ours sent.
        if now >= probed + timeout / PROBES {
            self.peer(host).probed = now;
            self.post_ack(host, HAMLYN_WIRE_PROBE);
        }
    }

    /// Sends again what was not acknowledged, and finds out which peers have died, if it is time.
    pub fn tick(&mut self) {
        if !self.open || self.due.is_none_or(|due| due > self.now) {
            return;
        }
        self.due = None;
        // This host stood still itself, which says nothing of others.
        let (now, late) = (self.now, self.now > self.ticked + self.timeout / 2);
        self.ticked = now;
        // Each is the first in turn, as there may not be room for all.
        self.turn += 1;
        let mut again = false;
        for index in 0..self.peers.len() {
            let host = ((self.turn + index) % self.peers.len()) as u32;
            if !self.is_watched(host) {
                continue;
            }
            if late {
                (self.peer(host).heard, self.peer(host).moved) = (now, now);
            }
            self.tick_peer(host);
            again |= self.is_watched(host);
        }
        if again {
            self.due.get_or_insert(now + TICK);
        }
    }
}
