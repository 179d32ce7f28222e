//! Messages, tags and remote memory access between endpoints, over links that deliver packets in
//! order. Nothing here knows libfabric's objects, cards or threads. `event` has what a program asks
//! for and hears, `transport` what a link has to do.
//!
//! A short message is one packet ([`wire::Kind::Eager`]). Of a longer one, only the envelope is
//! sent; the receiver pulls its bytes when a receive matches. So a receiver never holds more than
//! [`EAGER_CREDIT`] bytes of a peer's unexpected messages. Reads and writes of remote memory are
//! packets that the peer's endpoint executes when its program makes progress.

pub(crate) mod atomic;
#[cfg(test)]
mod atomic_tests;
pub(crate) mod event;
mod incoming;
pub(crate) mod matching;
mod outgoing;
pub(crate) mod regions;
#[cfg(test)]
mod tests;
pub(crate) mod transport;
pub(crate) mod wire;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use self::event::{Event, Message, Operation, Side, envelope_event, failed, finished};
use self::matching::{Envelope, Matching, Posted, Unexpected, Wanted};
use self::outgoing::{Outgoing, Source};
use self::regions::Regions;
use self::transport::Link;
use self::wire::{Header, Kind, flag};
use crate::abi::{FI_ECANCELED, FI_MSG, FI_RECV, FI_TAGGED};
use crate::address::Address;
use crate::memory::Area;

/// Longest eager message.
pub(crate) const LONGEST_EAGER: usize = 16 << 10;
/// Longest operand of an atomic operation.
pub(crate) const LONGEST_ATOMIC: usize = 8 << 10;
/// Longest injected message.
pub(crate) const LONGEST_INJECT: usize = 4 << 10;
/// Bytes of eager messages that a peer may have sent and the program not yet taken. Messages beyond
/// are pulled, however short they are.
pub(crate) const EAGER_CREDIT: u64 = 4 << 20;
/// Number of bytes after which they are reported as taken.
const CREDIT_STEP: u64 = EAGER_CREDIT / 8;
/// Number of packets that may wait for room to a peer, and of operations that may wait for answers.
pub(crate) const DEPTH: usize = 1024;
const MOST_PENDING: usize = 64 << 10;
/// Number of unexpected messages that a peer may have here.
const MOST_HELD: usize = 1 << 20;
/// Longest message, read and write.
pub(crate) const LONGEST: usize = usize::MAX >> 1;
/// Number of packets taken from a link before it is another one's turn.
const TURN: usize = 64;

/// An operation that waits for the peer.
#[derive(Debug)]
enum Pending {
    /// A message of which the peer has the envelope, or which it has to confirm.
    Send {
        source: Source,
        operation: Operation,
        delivery: bool,
        is_pulled: bool,
    },
    Write(Operation),
    Read(Filling, Operation),
    Receive(Filling, Posted, Envelope),
}

/// A buffer that pieces fill in order.
#[derive(Debug)]
struct Filling {
    area: Area,
    got: usize,
    length: usize,
}

#[derive(Debug)]
struct Peer {
    address: Address,
    /// The link that this end sends on.
    out: Option<usize>,
    is_connecting: bool,
    outbox: VecDeque<Outgoing>,
    /// Bytes of eager messages that the peer's program has not yet taken.
    eager: u64,
    /// Bytes of the peer's eager messages that are here, and that the program took since the peer
    /// was told.
    held: u64,
    taken: u64,
    /// Number of the peer's messages that are here.
    unexpected: usize,
}

/// A buffer that takes several messages.
#[derive(Debug)]
struct Multi {
    /// Number of messages whose bytes are on the way.
    pending: usize,
    is_full: bool,
}

/// An endpoint's messages.
#[derive(Debug)]
pub(crate) struct Engine<L> {
    own: Address,
    peers: Vec<Peer>,
    by_address: HashMap<Address, usize>,
    /// Links, with the peer as soon as it is known.
    links: Vec<Option<(L, Option<usize>)>>,
    tagged: Matching,
    plain: Matching,
    pending: HashMap<u64, (usize, Pending)>,
    claimed: HashMap<usize, Unexpected>,
    multis: HashMap<u64, Multi>,
    /// Room below which a buffer for several messages is full.
    pub(crate) least_room: usize,
    last: u64,
    regions: Arc<Mutex<Regions>>,
    /// What has happened since the caller has looked.
    pub(crate) events: Vec<Event>,
    /// Peers to connect to.
    pub(crate) wanted: Vec<usize>,
}

impl<L: Link> Engine<L> {
    pub(crate) fn new(own: Address, regions: Arc<Mutex<Regions>>) -> Self {
        Self {
            own,
            peers: Vec::new(),
            by_address: HashMap::new(),
            links: Vec::new(),
            tagged: Matching::default(),
            plain: Matching::default(),
            pending: HashMap::new(),
            claimed: HashMap::new(),
            multis: HashMap::new(),
            least_room: 64,
            last: 0,
            regions,
            events: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// The number of the peer with this address.
    pub(crate) fn peer(&mut self, address: Address) -> usize {
        *self.by_address.entry(address).or_insert_with(|| {
            self.peers.push(Peer {
                address,
                out: None,
                is_connecting: false,
                outbox: VecDeque::new(),
                eager: 0,
                held: 0,
                taken: 0,
                unexpected: 0,
            });
            self.peers.len() - 1
        })
    }

    pub(crate) fn address(&self, peer: usize) -> Address {
        self.peers[peer].address
    }

    /// Takes the outcome of a connection that [`Engine::wanted`] asked for.
    pub(crate) fn connected(&mut self, peer: usize, outcome: Result<L, i32>) {
        self.peers[peer].is_connecting = false;
        let opened =
            self.links.iter().position(|link| link.as_ref().is_some_and(|(_, of)| *of == Some(peer)));
        match (outcome, opened) {
            (Err(error), None) => self.lose(peer, error),
            // The peer has opened a link meanwhile.
            (Err(_), Some(link)) => {
                self.peers[peer].out = Some(link);
                self.flush(peer);
            }
            (Ok(link), _) => {
                let at = self.add(link, Some(peer));
                let bytes = Source::Bytes(self.own.0.to_vec());
                let hello = Outgoing::packet(Header::new(Kind::Hello), bytes, None);
                self.peers[peer].outbox.push_front(hello);
                self.peers[peer].out = Some(at);
                self.flush(peer);
            }
        }
    }

    /// Takes a link that a peer has opened.
    pub(crate) fn accepted(&mut self, link: L) {
        self.add(link, None);
    }

    fn add(&mut self, link: L, peer: Option<usize>) -> usize {
        match self.links.iter().position(Option::is_none) {
            Some(free) => {
                self.links[free] = Some((link, peer));
                free
            }
            None => {
                self.links.push(Some((link, peer)));
                self.links.len() - 1
            }
        }
    }

    /// Calls `visit` with each link.
    pub(crate) fn each_link(&mut self, mut visit: impl FnMut(&mut L)) {
        self.links.iter_mut().flatten().for_each(|(link, _)| visit(link));
    }

    /// Whether something waits for room.
    pub(crate) fn is_idle(&self) -> bool {
        self.peers.iter().all(|peer| peer.outbox.is_empty())
    }

    /// Sends a message. Fails with `EAGAIN` if too many wait for this peer: try again after
    /// [`Engine::progress`].
    pub(crate) fn send(
        &mut self,
        peer: usize,
        area: Area,
        message: Message,
        operation: Operation,
    ) -> Result<(), i32> {
        let length = area.len();
        self.has_room(peer, length)?;
        if message.inject && length > LONGEST_INJECT {
            return Err(libc::EMSGSIZE);
        }
        let mut header = Header::new(Kind::Eager);
        header.length = length as u64;
        (header.tag, header.data) = (message.tag.unwrap_or(0), message.data.unwrap_or(0));
        header.flags |= if message.tag.is_some() { flag::TAGGED } else { 0 };
        header.flags |= if message.data.is_some() { flag::DATA } else { 0 };
        header.flags |= if message.delivery { flag::ACK } else { 0 };
        let has_credit = length == 0 || self.peers[peer].eager + length as u64 <= EAGER_CREDIT;
        let is_eager = length <= LONGEST_EAGER && has_credit;
        if is_eager {
            self.peers[peer].eager += length as u64;
        } else {
            header.kind = Kind::Long;
        }
        if message.delivery || !is_eager {
            header.id = self.number();
        }
        if is_eager && self.send_at_once(peer, &header, &area) {
            if message.delivery {
                let source = Source::default();
                let send = Pending::Send { source, operation, delivery: true, is_pulled: true };
                self.pending.insert(header.id, (peer, send));
            } else {
                self.events.push(finished(operation, length, 0));
            }
            return Ok(());
        }
        let source = match message.inject {
            true => Source::Bytes(area.to_vec()),
            false => Source::Area(area),
        };
        let (body, kept) = if is_eager { (source, Source::default()) } else { (Source::default(), source) };
        let mut then = Some(operation);
        if header.id != 0 {
            let delivery = message.delivery;
            let send = Pending::Send { source: kept, operation, delivery, is_pulled: is_eager };
            self.pending.insert(header.id, (peer, send));
            then = None;
        }
        self.post(peer, Outgoing::packet(header, body, then));
        Ok(())
    }

    /// Receives a message, now or later.
    pub(crate) fn receive(&mut self, posted: Posted, tagged: bool) {
        let Some(multi) = posted.multi else {
            match self.queue(tagged).take(posted.wanted()) {
                Some(held) => self.deliver(posted, held),
                None => self.queue(tagged).post(posted),
            }
            return;
        };
        let wanted = posted.wanted();
        self.multis.insert(multi, Multi { pending: 0, is_full: false });
        self.queue(tagged).post(posted);
        while self.multis.get(&multi).is_some_and(|multi| !multi.is_full) {
            let Some(held) = self.queue(tagged).take(wanted) else { return };
            match self.find_posted(&held.envelope) {
                Some(part) => self.deliver(part, held),
                None => return,
            }
        }
    }

    /// Reports the oldest message that would match, or `FI_ENOMSG`. A message that is claimed can
    /// only be received by [`Engine::receive_claimed`], or discarded.
    pub(crate) fn peek(
        &mut self,
        wanted: Wanted,
        tagged: bool,
        context: usize,
        claims: bool,
        discards: bool,
    ) {
        let found = match claims || discards {
            true => self.queue(tagged).take(wanted),
            false => {
                let found = self.queue(tagged).peek(wanted).map(|held| held.envelope);
                self.events.push(envelope_event(found, tagged, context));
                return;
            }
        };
        self.events.push(envelope_event(found.as_ref().map(|held| held.envelope), tagged, context));
        match found {
            Some(held) if discards => self.discard(held),
            Some(held) => {
                self.claimed.insert(context, held);
            }
            None => {}
        }
    }

    /// Receives the message that was claimed with the context of `posted`.
    pub(crate) fn receive_claimed(&mut self, posted: Posted, discards: bool) -> Result<(), i32> {
        let held = self.claimed.remove(&posted.context).ok_or(libc::EINVAL)?;
        if discards {
            let event = envelope_event(Some(held.envelope), held.envelope.tagged, posted.context);
            self.events.push(event);
            self.discard(held);
        } else {
            self.deliver(posted, held);
        }
        Ok(())
    }

    /// Cancels a posted receive. Returns whether there was one.
    pub(crate) fn cancel(&mut self, context: usize) -> bool {
        let (tagged, found) = match self.tagged.cancel(context) {
            Some(found) => (true, found),
            None => match self.plain.cancel(context) {
                Some(found) => (false, found),
                None => return false,
            },
        };
        if let Some(multi) = found.multi {
            self.multis.remove(&multi);
        }
        let flags = FI_RECV | if tagged { FI_TAGGED } else { FI_MSG };
        self.events.push(Event { context, flags, ..failed(Side::Receive, FI_ECANCELED) });
        true
    }

    /// Writes to a peer's region.
    pub(crate) fn write(
        &mut self,
        peer: usize,
        area: Area,
        (key, place): (u64, u64),
        message: Message,
        operation: Operation,
    ) -> Result<(), i32> {
        self.has_room(peer, area.len())?;
        if message.inject && area.len() > LONGEST_INJECT {
            return Err(libc::EMSGSIZE);
        }
        let (mut header, length) = (Header::new(Kind::Write), area.len());
        header.id = self.number();
        (header.tag, header.place, header.data) = (key, place, message.data.unwrap_or(0));
        header.flags = if message.data.is_some() { flag::DATA } else { 0 };
        self.pending.insert(header.id, (peer, Pending::Write(operation)));
        let source = if message.inject { Source::Bytes(area.to_vec()) } else { Source::Area(area) };
        self.post(peer, Outgoing::pieces(header, source, length, None));
        Ok(())
    }

    /// Reads from a peer's region.
    pub(crate) fn read(
        &mut self,
        peer: usize,
        area: Area,
        (key, place): (u64, u64),
        operation: Operation,
    ) -> Result<(), i32> {
        self.has_room(peer, area.len())?;
        let mut header = Header::new(Kind::Read);
        let length = area.len();
        header.id = self.number();
        (header.tag, header.place, header.length) = (key, place, length as u64);
        let filling = Filling { area, got: 0, length };
        self.pending.insert(header.id, (peer, Pending::Read(filling, operation)));
        self.post(peer, Outgoing::packet(header, Source::default(), None));
        Ok(())
    }

    /// Takes what has arrived, and sends what waits for room.
    pub(crate) fn progress(&mut self) {
        for at in 0..self.links.len() {
            let Some((mut link, mut peer)) = self.links[at].take() else { continue };
            let mut lost = None;
            let host = link.host();
            for _ in 0..TURN {
                let mut refused = Ok(());
                let received =
                    link.receive(&mut |packet| refused = self.handle(packet, (at, host), &mut peer));
                match received.and_then(|found| refused.map(|()| found)) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        lost = Some(error);
                        break;
                    }
                }
            }
            match (lost, peer) {
                (None, _) => self.links[at] = Some((link, peer)),
                (Some(error), Some(peer)) => {
                    drop(link);
                    self.lose(peer, error);
                }
                // A stranger.
                (Some(_), None) => {}
            }
        }
        for peer in 0..self.peers.len() {
            if !self.peers[peer].outbox.is_empty() {
                self.flush(peer);
            }
        }
    }

    /// Fails everything that waits for a peer.
    fn lose(&mut self, peer: usize, error: i32) {
        for link in &mut self.links {
            if link.as_ref().is_some_and(|(_, other)| *other == Some(peer)) {
                *link = None;
            }
        }
        let lost = &mut self.peers[peer];
        (lost.out, lost.eager, lost.held, lost.taken) = (None, 0, 0, 0);
        for outgoing in std::mem::take(&mut lost.outbox) {
            if let Some(operation) = outgoing.then {
                self.events.push(finished(operation, 0, error));
            }
        }
        let forgotten = self.plain.forget_bytes_of(peer) + self.tagged.forget_bytes_of(peer);
        let unexpected = &mut self.peers[peer].unexpected;
        *unexpected = unexpected.saturating_sub(forgotten);
        let of_peer: Vec<u64> =
            self.pending.iter().filter(|(_, (other, _))| *other == peer).map(|(id, _)| *id).collect();
        for (_, pending) in of_peer.iter().filter_map(|id| self.pending.remove(id)).collect::<Vec<_>>() {
            match pending {
                Pending::Send { operation, .. } | Pending::Write(operation) | Pending::Read(_, operation) => {
                    self.events.push(finished(operation, 0, error));
                }
                Pending::Receive(filling, posted, envelope) => {
                    self.finish_receive(&posted, &envelope, filling.got, error);
                }
            }
        }
    }

    fn queue(&mut self, tagged: bool) -> &mut Matching {
        if tagged { &mut self.tagged } else { &mut self.plain }
    }

    /// A number for a buffer that takes several messages.
    pub(crate) fn next_multi(&mut self) -> u64 {
        self.number()
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn has_room(&self, peer: usize, length: usize) -> Result<(), i32> {
        if length > LONGEST {
            return Err(libc::EMSGSIZE);
        }
        if self.peers[peer].outbox.len() < DEPTH && self.pending.len() < MOST_PENDING {
            return Ok(());
        }
        Err(libc::EAGAIN)
    }
}
