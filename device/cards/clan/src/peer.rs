//! One destination: the packets that wait to leave for it, and the counts of both ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, VolatileSlice};
use zerocopy::IntoBytes;

use crate::credits::{Confirmed, Receiving, Sending};
use crate::packet::{self, ASKS, CREDIT, DATA, GROUPS, Header, OVERHEAD, PROBE, READ, WORD, WRITE};
use crate::refusals::Refusals;
use crate::tags::endpoint_of_tag;

/// Number of the engine's packets that wait for a host before the engine makes no more.
const ROOM: usize = 4;
/// The same for the operating system, whose requests do not wait for a host.
const SYSTEM_ROOM: usize = 64;
/// Bytes of answers that may wait for a host. An honest host requests no more at a time.
pub(crate) const ANSWERS: usize = 512 << 10;
/// Number of waiting answers from which on a host is sent no further refusals of its reads.
const REFUSED_READS: usize = 512;
/// How long the engine waits without a break for a member of a group that takes less than [`PACE`].
const LAG: Duration = Duration::from_millis(250);
/// Bytes that a member of a group must take for each microsecond that the engine waits for it.
const PACE: u64 = 1;

/// The origin of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A processor's stores, or a load.
    Processor,
    /// A DMA request that continues when the packet has left.
    Request,
    /// A DMA request that does not wait for the packet.
    Copy,
}

/// A packet that waits to leave.
#[derive(Debug, Clone)]
pub(crate) struct Leaving {
    pub(crate) header: Header,
    pub(crate) data: Vec<u8>,
    /// The owner of the packet, for Tripwires.
    pub(crate) owner: u32,
    pub(crate) by: By,
}

impl Leaving {
    /// Returns the number of words of credit that the packet takes.
    fn words(&self) -> u64 {
        match self.header.kind {
            READ => 1,
            _ => words(self.header.offset.get(), self.data.len() as u64),
        }
    }

    /// Returns the byte behind the packet's last.
    fn end(&self) -> u64 {
        self.header.offset.get() + self.data.len() as u64
    }

    pub(crate) fn bytes(&self) -> usize {
        OVERHEAD + self.data.len()
    }

    /// Returns the endpoint whose store this is. A load's tag names the read, not an endpoint.
    pub(crate) fn storer(&self) -> Option<u32> {
        let is_store = self.by == By::Processor && self.header.kind == WRITE;
        is_store.then(|| endpoint_of_tag(self.header.tag.get()))
    }
}

/// Returns the number of words that some bytes touch.
pub(crate) fn words(offset: u64, length: u64) -> u64 {
    if length == 0 { 0 } else { (offset + length - 1) / WORD - offset / WORD + 1 }
}

/// A packet that has left.
#[derive(Debug)]
pub(crate) enum Left {
    /// Data, or a read request.
    Packet(Leaving),
    /// A packet of the card's own.
    Own,
}

/// Everything that was given up: packets that waited, and endpoints whose words may not have
/// arrived.
pub(crate) type GivenUp = (Vec<Leaving>, BTreeSet<u32>);

/// The first and the last count of an endpoint's sent words that are not confirmed.
type Span = (u64, u64);

/// The current time, how long a host may take to answer, and the window of credits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) now: Duration,
    pub(crate) patience: Duration,
    pub(crate) window: u64,
}

/// One destination.
#[derive(Debug)]
pub(crate) struct Peer {
    queue: VecDeque<Leaving>,
    /// Bytes of processors' stores in the queue, by the endpoint's number. A tag would not bound
    /// them, because a process can change its tag by one store.
    stores: BTreeMap<u32, usize>,
    /// Number of the engine's packets in the queue.
    engine: usize,
    /// Answers to reads.
    answers: VecDeque<Vec<u8>>,
    answer_bytes: usize,
    refusals: Refusals,
    /// Whether the last packet of the card's own was an answer.
    has_answered: bool,
    sending: Sending,
    receiving: Receiving,
    /// Groups that the host has announced.
    pub(crate) groups: u64,
    /// The host must be sent the groups of this host. With `Some(true)` it is also asked for its
    /// own.
    pub(crate) greets: Option<bool>,
    /// How much longer the engine waits for the host as a member of a group, and since when it
    /// waits.
    lag: Duration,
    awaited_since: Option<Duration>,
    /// The engine does not wait for the host until its queue is empty.
    pub(crate) is_lagging: bool,
    /// When the host is given up because its first packet cannot leave.
    blocked_until: Option<Duration>,
    /// When the host is given up because its first packet waits for credits.
    starved_until: Option<Duration>,
    /// The host was given up, and nothing has arrived from it since.
    pub(crate) is_dead: bool,
    /// Endpoints with words that were sent and are not confirmed.
    unconfirmed: BTreeMap<u32, Span>,
    /// Open endpoints that have written to the host.
    writers: BTreeSet<u32>,
}

impl Peer {
    pub(crate) fn new(sending: Sending) -> Self {
        Self {
            queue: VecDeque::new(),
            stores: BTreeMap::new(),
            engine: 0,
            answers: VecDeque::new(),
            answer_bytes: 0,
            refusals: Refusals::default(),
            has_answered: false,
            sending,
            receiving: Receiving::default(),
            groups: 0,
            greets: None,
            lag: LAG,
            awaited_since: None,
            is_lagging: false,
            blocked_until: None,
            starved_until: None,
            is_dead: false,
            unconfirmed: BTreeMap::new(),
            writers: BTreeSet::new(),
        }
    }

    pub(crate) fn is_idle(&self, window: u64) -> bool {
        self.queue.is_empty()
            && self.answers.is_empty()
            && self.refusals.is_empty()
            && self.greets.is_none()
            && self.receiving.due(window).is_none()
    }

    /// Returns whether the engine may put one more packet into the queue. The operating system's
    /// requests do not wait for a host, so more of them fit.
    pub(crate) fn has_room(&self, privileged: bool) -> bool {
        self.engine < if privileged { SYSTEM_ROOM } else { ROOM }
    }

    /// Returns how many bytes of an endpoint's stores wait.
    pub(crate) fn stores_of(&self, endpoint: u32) -> usize {
        self.stores.get(&endpoint).copied().unwrap_or(0)
    }

    /// Records that the engine waits for this member of a group. Returns whether it has waited too
    /// long. It then does not wait again until the queue is empty.
    pub(crate) fn awaited(&mut self, now: Duration) -> bool {
        let since = *self.awaited_since.get_or_insert(now);
        self.is_lagging |= now.saturating_sub(since) >= self.lag;
        self.is_lagging
    }

    /// Records that the engine has found room, or has stopped waiting.
    pub(crate) fn not_awaited(&mut self, now: Duration) {
        if let Some(since) = self.awaited_since.take() {
            self.lag = self.lag.saturating_sub(now.saturating_sub(since));
        }
    }

    /// Ends the engine's wait for the host if it has lasted too long.
    pub(crate) fn check_lag(&mut self, now: Duration) {
        if self.awaited_since.is_some_and(|since| now.saturating_sub(since) >= self.lag) {
            (self.awaited_since, self.lag) = (None, Duration::ZERO);
            self.is_lagging = !self.queue.is_empty();
        }
    }

    /// Appends a packet to the queue.
    pub(crate) fn put(&mut self, leaving: Leaving) {
        if let Some(endpoint) = leaving.storer() {
            *self.stores.entry(endpoint).or_default() += leaving.bytes();
        }
        self.engine += usize::from(leaving.by != By::Processor);
        self.queue.push_back(leaving);
    }

    /// Appends a store to the packet of the previous store, if that packet still waits and the
    /// store follows it.
    pub(crate) fn join(&mut self, leaving: &Leaving, most: usize) -> bool {
        let Some(last) = self.queue.back_mut().filter(|last| last.by == By::Processor) else { return false };
        let follows = last.end() % WORD == 0
            && Header { offset: last.end().into(), ..last.header } == leaving.header
            && last.owner == leaving.owner
            && last.data.len() + leaving.data.len() <= most;
        if follows {
            last.data.extend_from_slice(&leaving.data);
            *self.stores.entry(endpoint_of_tag(leaving.header.tag.get())).or_default() += leaving.data.len();
        }
        follows
    }

    /// Records that a packet has left the queue.
    fn taken_out(&mut self, leaving: &Leaving) {
        self.engine -= usize::from(leaving.by != By::Processor);
        let Some(endpoint) = leaving.storer() else { return };
        let left = self.stores_of(endpoint).saturating_sub(leaving.bytes());
        if left == 0 {
            self.stores.remove(&endpoint);
        } else {
            self.stores.insert(endpoint, left);
        }
    }

    /// Adds an answer to a read. Returns `false` if the host has requested more than it may.
    pub(crate) fn answer(&mut self, header: Header, data: &[u8]) -> bool {
        let bytes = OVERHEAD + data.len();
        let has_room = self.answer_bytes + bytes <= ANSWERS + REFUSED_READS * OVERHEAD / 2
            && (header.kind == DATA || self.answers.len() < REFUSED_READS);
        if has_room {
            self.answer_bytes += bytes;
            self.answers.push_back(packet::seal(header, data));
        }
        has_room
    }

    /// Adds the refusal of a write.
    pub(crate) fn refuse(&mut self, header: Header, data: &[u8]) {
        self.refusals.add(header, data);
    }

    /// Records that something has arrived from the host. A host that was given up is asked for its
    /// groups, because it is in no group meanwhile.
    pub(crate) fn heard(&mut self) {
        if std::mem::take(&mut self.is_dead) {
            self.greets = Some(true);
        }
    }

    /// Counts words that have arrived. Returns `false` if they exceed the granted limit.
    pub(crate) fn arrived(&mut self, epoch: u16, words: u64, window: u64) -> bool {
        self.receiving.arrived(epoch, words, window)
    }

    pub(crate) fn probed(&mut self, epoch: u16, sent: u64, window: u64) {
        self.receiving.probed(epoch, sent, window);
    }

    /// Handles a grant of credits. Returns the endpoints that have sent some of the lost words.
    pub(crate) fn granted(&mut self, header: &Header, probe: Option<(u64, u64)>) -> BTreeSet<u32> {
        match self.sending.granted(header.epoch.get(), header.offset.get(), probe) {
            Confirmed::Nothing => BTreeSet::new(),
            Confirmed::Arrived(at) => {
                self.confirm(at);
                BTreeSet::new()
            }
            Confirmed::Lost(at) => {
                let concerned = |(_, (first, _)): &(&u32, &Span)| *first <= at;
                let lost = self.unconfirmed.iter().filter(concerned).map(|(tag, _)| *tag).collect();
                self.confirm(at);
                lost
            }
        }
    }

    /// Removes all words up to a count from the unconfirmed ones, because their fate is known.
    fn confirm(&mut self, at: u64) {
        self.unconfirmed.retain(|_, (first, last)| {
            *first = (*first).max(at + 1);
            *last > at
        });
    }

    /// Begins another count: the host's card has begun anew, and does not know the previous one.
    /// The packets that wait leave with the new one. Returns the endpoints whose words may not have
    /// arrived. Those that have sent nothing before are not among them.
    pub(crate) fn begun_anew(&mut self, sending: Sending) -> BTreeSet<u32> {
        (self.sending, self.starved_until) = (sending, None);
        std::mem::take(&mut self.unconfirmed).into_keys().collect()
    }

    /// Returns whether an endpoint has written to the host.
    pub(crate) fn has_writer(&self, tag: u32) -> bool {
        self.writers.contains(&tag)
    }

    pub(crate) fn forget_writer(&mut self, tag: u32) {
        self.writers.remove(&tag);
    }

    /// Asks again whether all words have arrived.
    pub(crate) fn ask(&mut self, now: Duration) {
        self.sending.ask(now);
    }

    /// Returns when something is due that no other event triggers. A blocked host cannot be asked.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let asks = || self.starved_until.into_iter().chain(self.sending.deadline()).min();
        let lags = self.awaited_since.map(|since| since + self.lag);
        self.blocked_until.or_else(asks).into_iter().chain(lags).min()
    }

    /// Returns whether a probe is due.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.sending.is_due(now, self.starved_until.is_some())
    }

    /// Returns whether the host is to be given up: it has taken, granted or answered nothing for
    /// too long.
    pub(crate) fn is_overdue(&self, now: Duration) -> bool {
        let is_over = |until: Option<Duration>| until.is_some_and(|until| until <= now);
        is_over(self.blocked_until) || is_over(self.starved_until) || self.sending.is_overdue(now)
    }

    /// Gives the host up: drops the packets that wait for it. It is in no group until something
    /// arrives from it. Refusals stay.
    pub(crate) fn give_up(&mut self, sending: Sending) -> GivenUp {
        if self.blocked_until.is_some() {
            // The readers have their own deadlines.
            self.answers.clear();
            self.answer_bytes = 0;
        }
        let queue = std::mem::take(&mut self.queue);
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        self.sending = sending;
        self.stores.clear();
        self.engine = 0;
        (self.blocked_until, self.starved_until, self.awaited_since) = (None, None, None);
        (self.groups, self.is_lagging, self.lag) = (0, false, LAG);
        self.is_dead = true;
        (queue.into(), unconfirmed.into_keys().collect())
    }

    /// Returns all packets that wait, and the endpoints whose words may not have arrived.
    pub(crate) fn into_given_up(self) -> GivenUp {
        (self.queue.into(), self.unconfirmed.into_keys().collect())
    }

    /// Sends one packet that waits: the card's own first, then data.
    pub(crate) fn send(
        &mut self,
        host: u16,
        link: &mut dyn Link,
        terms: Terms,
        groups: u64,
        starved: &mut dyn FnMut(),
    ) -> Result<Left, Progress> {
        if self.is_idle(terms.window) && !self.is_due(terms.now) {
            return Err(Progress::Idle);
        }
        if link.is_stopped(host) {
            self.blocked(terms);
            return Err(Progress::LinkFull);
        }
        let sent = self
            .send_groups(host, link, groups)
            .or_else(|| self.send_own(host, link, terms))
            .or_else(|| self.send_data(host, link, terms, starved));
        match &sent {
            Some(Ok(_)) | None => self.blocked_until = None,
            Some(Err(Progress::LinkFull)) => self.blocked(terms),
            Some(Err(_)) => {}
        }
        sent.unwrap_or(Err(Progress::Idle))
    }

    /// Starts the deadline of a host to which nothing can leave. There is no deadline for packets
    /// that are kept for a host that was already given up.
    fn blocked(&mut self, terms: Terms) {
        if !self.is_dead || !self.queue.is_empty() || !self.answers.is_empty() {
            self.blocked_until.get_or_insert(terms.now + terms.patience);
        }
    }

    fn send_groups(&mut self, host: u16, link: &mut dyn Link, groups: u64) -> Option<Result<Left, Progress>> {
        let flags = if self.greets? { ASKS } else { 0 };
        if !announce(link, host, groups, flags) {
            return Some(Err(Progress::LinkFull));
        }
        self.greets = None;
        Some(Ok(Left::Own))
    }

    /// Sends a packet of the card's own. Returns `None` if none is due.
    fn send_own(&mut self, host: u16, link: &mut dyn Link, terms: Terms) -> Option<Result<Left, Progress>> {
        let credits = self.receiving.due(terms.window);
        // Answers and grants alternate. So a host that requests much, or is refused much, does not
        // wait longer for the answer to its probe.
        let answers_first = credits.is_none() || !self.has_answered;
        if let Some(sent) = if answers_first { self.send_answer(host, link) } else { None } {
            return Some(sent);
        }
        if let Some((epoch, allowed, probe)) = credits {
            let data = probe.map(|(at, lost)| [at, lost].as_bytes().to_vec()).unwrap_or_default();
            if !send(link, host, CREDIT, (epoch, allowed), &data) {
                return Some(Err(Progress::LinkFull));
            }
            self.has_answered = false;
            self.receiving.said(terms.window);
            return Some(Ok(Left::Own));
        }
        let starves = self.queue.front().is_some_and(|first| !self.sending.admits(first.words()));
        if self.sending.is_due(terms.now, starves) {
            if !send(link, host, PROBE, (self.sending.epoch, self.sending.sent), &[]) {
                return Some(Err(Progress::LinkFull));
            }
            self.sending.asked(terms.now, terms.patience, starves);
            return Some(Ok(Left::Own));
        }
        None
    }

    /// Sends a refusal or, if there is none, an answer. So a host gets a refusal before the answers
    /// to its later requests.
    fn send_answer(&mut self, host: u16, link: &mut dyn Link) -> Option<Result<Left, Progress>> {
        let is_refusal = !self.refusals.is_empty();
        let packet = if is_refusal { self.refusals.first() } else { self.answers.front_mut() }?;
        let length = packet.len();
        if !link.send(host, &[VolatileSlice::from(&mut packet[..])]) {
            return Some(Err(Progress::LinkFull));
        }
        self.has_answered = true;
        if is_refusal {
            self.refusals.pop();
        } else {
            self.answer_bytes -= length;
            self.answers.pop_front();
        }
        Some(Ok(Left::Own))
    }

    /// Sends the first packet of the queue. Returns `None` if there is none, or if it waits for
    /// credits.
    fn send_data(
        &mut self,
        host: u16,
        link: &mut dyn Link,
        terms: Terms,
        starved: &mut dyn FnMut(),
    ) -> Option<Result<Left, Progress>> {
        let first = self.queue.front()?;
        let words = first.words();
        if !self.sending.admits(words) {
            if self.starved_until.is_none() {
                self.starved_until = Some(terms.now + terms.patience);
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
        self.taken_out(&first);
        self.starved_until = None;
        self.lag = LAG.min(self.lag + Duration::from_micros(first.bytes() as u64 / PACE));
        self.is_lagging &= !self.queue.is_empty();
        let (tag, begin) = (first.header.tag.get(), self.sending.sent + 1);
        self.sending.take(words, terms.now);
        if first.header.kind == WRITE {
            self.writers.insert(tag);
            self.unconfirmed.entry(tag).or_insert((begin, begin)).1 = self.sending.sent;
        }
        Some(Ok(Left::Packet(first)))
    }
}

/// Announces the groups of this host. Returns `false` if the link has no room.
pub(crate) fn announce(link: &mut dyn Link, to: u16, groups: u64, flags: u8) -> bool {
    let header = Header { flags, offset: groups.into(), ..Header::of(GROUPS) };
    let mut bytes = packet::seal(header, &[]);
    link.send(to, &[VolatileSlice::from(&mut bytes[..])])
}

/// Sends a packet about credits. Returns `false` if the link has no room.
fn send(link: &mut dyn Link, host: u16, kind: u8, (epoch, count): (u16, u64), data: &[u8]) -> bool {
    let header = Header { epoch: epoch.into(), offset: count.into(), ..Header::of(kind) };
    let mut bytes = packet::seal(header, data);
    link.send(host, &[VolatileSlice::from(&mut bytes[..])])
}
