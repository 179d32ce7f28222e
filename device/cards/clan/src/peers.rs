//! What leaves, by the host that it is for: in order for each, in turn among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, VolatileSlice};
use zerocopy::IntoBytes;

use crate::credits::{Receiving, Sending};
use crate::packet::{self, CREDIT, DATA, Header, OVERHEAD, PROBE, READ, TO_GROUP, WORD, WRITE};

/// Bytes that wait for a host before stores to it have to wait, too.
const MARK: usize = 64 << 10;
/// Packets that wait for a host before the engine makes no more.
const ROOM: usize = 4;
/// Answers that wait for a host, in bytes: an honest one asks for no more at a time.
pub(crate) const ANSWERS: usize = 512 << 10;
/// What waits for a host, in packets of the card's own making, refusals among them.
const REFUSALS: usize = 256;

/// A packet that waits to leave.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) header: Header,
    pub(crate) data: Vec<u8>,
    /// Whose it is, for Tripwires.
    pub(crate) owner: u32,
    /// It is the engine's, and what a request is waiting for.
    pub(crate) of_engine: bool,
}

impl Leaving {
    /// Words of credit that it takes.
    fn words(&self) -> u64 {
        match self.header.kind {
            _ if self.header.flags & TO_GROUP != 0 => 0,
            READ => 1,
            _ => words(self.header.offset.get(), self.data.len() as u64),
        }
    }

    /// The byte behind its last.
    fn end(&self) -> u64 {
        self.header.offset.get() + self.data.len() as u64
    }

    fn bytes(&self) -> usize {
        OVERHEAD + self.data.len()
    }
}

/// How many words some bytes touch.
pub(crate) fn words(offset: u64, length: u64) -> u64 {
    if length == 0 { 0 } else { (offset + length - 1) / WORD - offset / WORD + 1 }
}

/// An answer that waits to leave.
#[derive(Debug)]
struct Answer {
    packet: Vec<u8>,
    /// It tells of a write that was refused.
    of_write: bool,
}

/// One host, as what leaves sees it.
#[derive(Debug)]
struct Peer {
    queue: VecDeque<Leaving>,
    /// Bytes of the queue, and how many are of processors' stores.
    bytes: usize,
    stores: usize,
    /// Answers to what it has asked for, and what was refused.
    answers: VecDeque<Answer>,
    answer_bytes: usize,
    /// An answer was the last that left of the card's own.
    has_answered: bool,
    sending: Sending,
    receiving: Receiving,
    /// When it is given up, as its first packet finds no way out.
    blocked_until: Option<Duration>,
    /// It has taken nothing, or said nothing, for so long that what is for it was dropped; and nothing was heard of it since.
    is_dead: bool,
    /// Waits for credits, and was counted.
    starves: bool,
    /// Endpoints of what was sent since it was last known that all had arrived.
    unconfirmed: BTreeSet<u32>,
    /// Endpoints that have written there, as long as they are open: nobody else is told that he was refused something.
    writers: BTreeSet<u32>,
}

/// All hosts that something was sent to or has come from.
#[derive(Debug)]
pub(crate) struct Peers {
    peers: BTreeMap<u16, Peer>,
    /// Those for which something waits, which is all that is looked at.
    active: BTreeSet<u16>,
    /// Nothing is due before that at any of them. It may come too early, and is found anew then.
    due: Option<Duration>,
    turn: u16,
    window: u64,
    /// The number of the next count that begins.
    epoch: u16,
    burst: usize,
}

/// What has left.
#[derive(Debug)]
pub(crate) enum Left {
    /// Data, or a question.
    Packet(Leaving),
    /// Something of the card's own.
    Own,
}

/// What became of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    New,
    Joined,
    /// There is no room, as the host takes nothing.
    Lost,
}

impl Peers {
    pub(crate) fn new(window: u32, burst: u32) -> Self {
        Self {
            peers: BTreeMap::new(),
            active: BTreeSet::new(),
            due: None,
            turn: 0,
            window: window.into(),
            epoch: 0,
            burst: burst as usize,
        }
    }

    /// Forgets everything. Counts that begin later are not taken for earlier ones.
    pub(crate) fn clear(&mut self) {
        self.peers.clear();
        self.active.clear();
        self.due = None;
    }

    /// Begins counts with numbers that no earlier card at this port is likely to have had.
    pub(crate) fn begin_at(&mut self, now: Duration) {
        self.epoch = self.epoch.wrapping_add(now.as_millis() as u16).wrapping_add(1);
    }

    fn peer(&mut self, host: u16) -> &mut Peer {
        let (epoch, window) = (&mut self.epoch, self.window);
        self.peers.entry(host).or_insert_with(|| {
            *epoch = epoch.wrapping_add(1);
            Peer {
                queue: VecDeque::new(),
                bytes: 0,
                stores: 0,
                answers: VecDeque::new(),
                answer_bytes: 0,
                has_answered: false,
                sending: Sending::new(*epoch, window),
                receiving: Receiving::default(),
                blocked_until: None,
                is_dead: false,
                starves: false,
                unconfirmed: BTreeSet::new(),
                writers: BTreeSet::new(),
            }
        })
    }

    /// Whether a store can be taken: none of the hosts has too much before it, but for those that take nothing.
    pub(crate) fn take_stores(&self) -> bool {
        self.active
            .iter()
            .filter_map(|host| self.peers.get(host))
            .all(|peer| peer.stores < MARK || peer.is_dead)
    }

    /// Whether the engine may make one more packet for a host.
    /// Operating systems do not wait for what processes store.
    pub(crate) fn has_room(&self, host: u16, privileged: bool) -> bool {
        let counts = |leaving: &&Leaving| leaving.of_engine || !privileged;
        self.peers.get(&host).is_none_or(|peer| peer.queue.iter().filter(counts).take(ROOM).count() < ROOM)
    }

    /// Whether a host has not answered, or taken anything, and was not heard of since. It is asked again. A group says nothing: it lives as
    /// soon as it takes something.
    pub(crate) fn is_dead(&mut self, host: u16, now: Duration) -> bool {
        let Some(peer) = self.peers.get_mut(&host).filter(|peer| peer.is_dead) else { return false };
        if is_group(host) {
            return true;
        }
        peer.sending.ask(now);
        self.due = earlier(self.due, peer.deadline());
        self.active.insert(host);
        true
    }

    /// Puts a packet behind what waits for its host.
    pub(crate) fn put(&mut self, host: u16, leaving: Leaving) {
        let peer = self.peer(host);
        peer.bytes += leaving.bytes();
        peer.stores += if leaving.of_engine { 0 } else { leaving.bytes() };
        peer.queue.push_back(leaving);
        self.active.insert(host);
    }

    /// The same with a processor's store, which goes into the packet of the one before if that waits still, and it follows it.
    pub(crate) fn put_store(&mut self, host: u16, leaving: Leaving, join: bool) -> Put {
        let most = self.burst;
        let peer = self.peer(host);
        if peer.stores >= MARK && peer.is_dead {
            return Put::Lost;
        }
        if let Some(last) = peer.queue.back_mut().filter(|last| join && !last.of_engine) {
            let follows = last.end() % WORD == 0
                && Header { offset: last.end().into(), ..last.header } == leaving.header
                && last.owner == leaving.owner;
            if follows && last.data.len() + leaving.data.len() <= most {
                peer.bytes += leaving.data.len();
                peer.stores += leaving.data.len();
                last.data.extend_from_slice(&leaving.data);
                return Put::Joined;
            }
        }
        self.put(host, leaving);
        Put::New
    }

    /// Puts an answer in; `false`: the host has asked for more than it may, or there is no room for one more refusal. Of a write that
    /// was refused it hears as a loss then.
    pub(crate) fn answer(&mut self, host: u16, header: Header, data: &[u8], of_write: bool) -> bool {
        let peer = self.peer(host);
        let bytes = OVERHEAD + data.len();
        let has_room = peer.answer_bytes + bytes <= ANSWERS + REFUSALS * OVERHEAD
            && (header.kind == DATA || peer.answers.len() < 2 * REFUSALS);
        if has_room {
            peer.answer_bytes += bytes;
            peer.answers.push_back(Answer { packet: packet::seal(header, data), of_write });
            self.active.insert(host);
        } else if of_write {
            peer.receiving.leave_untold();
        }
        has_room
    }

    /// Words have come from a host. `false`: more than may be.
    pub(crate) fn arrived(&mut self, host: u16, epoch: u16, words: u64) -> bool {
        let window = self.window;
        let peer = self.peer(host);
        peer.is_dead = false;
        let fits = peer.receiving.arrived(epoch, words, window);
        if peer.receiving.due(window).is_some() {
            self.active.insert(host);
        }
        fits
    }

    /// A host asks for credits.
    pub(crate) fn probed(&mut self, host: u16, epoch: u16, sent: u64) {
        let window = self.window;
        let peer = self.peer(host);
        peer.is_dead = false;
        peer.receiving.probed(epoch, sent, window);
        self.active.insert(host);
    }

    /// A host grants credits. Says which endpoints' words are known to be lost.
    pub(crate) fn granted(&mut self, host: u16, header: &Header, probe: Option<(u64, u64)>) -> BTreeSet<u32> {
        use crate::credits::Confirmed;
        let Some(peer) = self.peers.get_mut(&host) else { return BTreeSet::new() };
        peer.is_dead = false;
        match peer.sending.granted(header.epoch.get(), header.offset.get(), probe) {
            Confirmed::Nothing => BTreeSet::new(),
            Confirmed::All => {
                peer.unconfirmed.clear();
                BTreeSet::new()
            }
            Confirmed::Lost => std::mem::take(&mut peer.unconfirmed),
        }
    }

    /// Whether a host can have refused what an endpoint has written: to it, or to a group, whose members these are nobody says.
    pub(crate) fn can_refuse(&self, host: u16, tag: u32) -> bool {
        let groups = self.peers.range(CLAN_GROUP_HOST as u16..).map(|(_, peer)| peer);
        self.peers.get(&host).into_iter().chain(groups).any(|peer| peer.writers.contains(&tag))
    }

    /// An endpoint is no more.
    pub(crate) fn forget_writer(&mut self, tag: u32) {
        self.peers.values_mut().for_each(|peer| {
            peer.writers.remove(&tag);
        });
    }

    /// When something may be due that nothing else brings about: asked at every verb, so nothing is searched for it.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// The time has come: hosts that want to be asked are listed. What is given up comes back: packets that waited for a host which takes nothing or
    /// says nothing, and the endpoints of what it may not have got.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<(u16, Vec<Leaving>, BTreeSet<u32>)> {
        let mut given_up = Vec::new();
        self.due = None;
        for (host, peer) in &mut self.peers {
            let is_blocked = peer.blocked_until.is_some_and(|until| until <= now);
            if is_blocked || peer.sending.is_overdue(now) {
                self.epoch = self.epoch.wrapping_add(1);
                let (packets, endpoints) = peer.give_up(Sending::new(self.epoch, self.window), is_blocked);
                given_up.push((*host, packets, endpoints));
            } else if peer.sending.is_due(now, peer.starves) {
                self.active.insert(*host);
            }
            self.due = earlier(self.due, peer.deadline());
        }
        given_up
    }

    /// Gives everything up: another link begins.
    pub(crate) fn take_all(&mut self) -> Vec<(u16, Vec<Leaving>, BTreeSet<u32>)> {
        self.active.clear();
        self.due = None;
        let peers = std::mem::take(&mut self.peers);
        peers.into_iter().map(|(host, peer)| (host, peer.queue.into(), peer.unconfirmed)).collect()
    }

    /// Sends the next packet, of each host in turn. `starved`: told of a packet that has to wait for credits.
    pub(crate) fn send_next(
        &mut self,
        link: &mut dyn Link,
        (now, patience): (Duration, Duration),
        starved: &mut dyn FnMut(),
    ) -> Result<(u16, Left), Progress> {
        let mut progress = Progress::Idle;
        for _ in 0..self.active.len() {
            let next = self.active.range(self.turn..).next().or(self.active.first());
            let Some(&host) = next else { break };
            self.turn = host.wrapping_add(1);
            let Some(peer) = self.peers.get_mut(&host) else {
                self.active.remove(&host);
                continue;
            };
            let sent = peer.send(host, link, (now, patience, self.window), starved);
            self.due = earlier(self.due, peer.deadline());
            match sent {
                Ok(left) => return Ok((host, left)),
                Err(Progress::LinkFull) => progress = Progress::LinkFull,
                Err(_) if peer.is_idle(self.window) => {
                    self.active.remove(&host);
                }
                Err(_) => {}
            }
        }
        Err(progress)
    }
}

impl Peer {
    fn is_idle(&self, window: u64) -> bool {
        self.queue.is_empty() && self.answers.is_empty() && self.receiving.due(window).is_none()
    }

    /// When something is due. Who is blocked cannot be asked.
    fn deadline(&self) -> Option<Duration> {
        self.blocked_until.or_else(|| self.sending.deadline())
    }

    fn give_up(&mut self, sending: Sending, is_blocked: bool) -> (Vec<Leaving>, BTreeSet<u32>) {
        self.sending = sending;
        (self.bytes, self.stores, self.blocked_until) = (0, 0, None);
        (self.is_dead, self.starves) = (true, false);
        if is_blocked {
            // Its readers have their own deadlines. What was refused it hears of as a loss, if it asks.
            for _ in self.answers.drain(..).filter(|answer| answer.of_write) {
                self.receiving.leave_untold();
            }
            self.answer_bytes = 0;
        }
        (self.queue.drain(..).collect(), std::mem::take(&mut self.unconfirmed))
    }

    /// Sends one packet of what waits: answers, then credits, then what is to go.
    fn send(
        &mut self,
        host: u16,
        link: &mut dyn Link,
        (now, patience, window): (Duration, Duration, u64),
        starved: &mut dyn FnMut(),
    ) -> Result<Left, Progress> {
        if self.is_idle(window) && !self.sending.is_due(now, self.starves) {
            return Err(Progress::Idle);
        }
        if link.is_stopped(host) {
            self.blocked_until.get_or_insert(now + patience);
            return Err(Progress::LinkFull);
        }
        let sent = self
            .send_own(host, link, now, patience, window)
            .or_else(|| self.send_data(host, link, now, starved));
        match &sent {
            Some(Ok(_)) | None => self.blocked_until = None,
            Some(Err(Progress::LinkFull)) => {
                self.blocked_until.get_or_insert(now + patience);
            }
            Some(Err(_)) => {}
        }
        sent.unwrap_or(Err(Progress::Idle))
    }

    /// `None`: there is nothing of the card's own to say.
    fn send_own(
        &mut self,
        host: u16,
        link: &mut dyn Link,
        now: Duration,
        patience: Duration,
        window: u64,
    ) -> Option<Result<Left, Progress>> {
        let credits = self.receiving.due(window);
        // In turn: who is refused a lot, or asks for a lot, waits no longer for the answer to its probe.
        let answers_first = credits.is_none() || !self.has_answered;
        if let Some(Answer { packet, .. }) = self.answers.front_mut().filter(|_| answers_first) {
            if !link.send(host, &[VolatileSlice::from(&mut packet[..])]) {
                return Some(Err(Progress::LinkFull));
            }
            self.has_answered = true;
            self.answer_bytes -= packet.len();
            self.answers.pop_front();
            return Some(Ok(Left::Own));
        }
        if let Some((epoch, allowed, probe)) = credits {
            let data = probe.map(|(at, lost)| [at, lost].as_bytes().to_vec()).unwrap_or_default();
            if !send(link, host, CREDIT, (epoch, allowed), &data) {
                return Some(Err(Progress::LinkFull));
            }
            self.has_answered = false;
            self.receiving.said(window);
            return Some(Ok(Left::Own));
        }
        let starves = self.queue.front().is_some_and(|first| !self.sending.admits(first.words()));
        if self.sending.is_due(now, starves) {
            if !send(link, host, PROBE, (self.sending.epoch, self.sending.sent), &[]) {
                return Some(Err(Progress::LinkFull));
            }
            self.sending.asked(now, patience);
            return Some(Ok(Left::Own));
        }
        None
    }

    /// `None`: there is nothing, or it waits for credits.
    fn send_data(
        &mut self,
        host: u16,
        link: &mut dyn Link,
        now: Duration,
        starved: &mut dyn FnMut(),
    ) -> Option<Result<Left, Progress>> {
        let first = self.queue.front()?;
        let words = first.words();
        if !self.sending.admits(words) {
            if !std::mem::replace(&mut self.starves, true) {
                starved();
            }
            return None;
        }
        let header = Header { epoch: self.sending.epoch.into(), ..first.header };
        let mut bytes = packet::seal(header, &first.data);
        if !link.send(host, &[VolatileSlice::from(&mut bytes[..])]) {
            return Some(Err(Progress::LinkFull));
        }
        let first = self.queue.pop_front()?;
        self.bytes -= first.bytes();
        self.stores -= if first.of_engine { 0 } else { first.bytes() };
        self.starves = false;
        self.is_dead &= !is_group(host);
        let tag = first.header.tag.get();
        if words > 0 {
            self.sending.take(words, now);
        }
        if first.header.kind == WRITE {
            self.writers.insert(tag);
            // Of groups there is no account.
            if words > 0 {
                self.unconfirmed.insert(tag);
            }
        }
        Some(Ok(Left::Packet(first)))
    }
}

fn is_group(host: u16) -> bool {
    u32::from(host) >= CLAN_GROUP_HOST
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// Sends a packet about credits.
fn send(link: &mut dyn Link, host: u16, kind: u8, (epoch, count): (u16, u64), data: &[u8]) -> bool {
    let header = Header { epoch: epoch.into(), offset: count.into(), ..Header::of(kind) };
    let mut bytes = packet::seal(header, data);
    link.send(host, &[VolatileSlice::from(&mut bytes[..])])
}
