//! Outgoing packets by destination: in order for each host, in turn among the hosts.
//!
//! A write to a group is copied into the queue of each member. So it keeps its order with all other
//! packets to that member, and takes the member's credits. A copy that a member loses is reported
//! like any other loss.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_card::card::{Place, Progress};
use hamlyn_card::ports::Link;

use crate::credits::Sending;
use crate::packet::{ASKS, BEGINS, DATA, Header};
use crate::peer::{GivenUp, Leaving, Left, Peer, Terms, announce};
use crate::windows::Remote;

/// The most hosts on a switch that does not report its number of ports.
const MOST_PORTS: u16 = 1024;

/// Bytes of processors' stores that share one pool, for all hosts. An endpoint may have as many
/// bytes waiting for a host as the pool has free. So the more bytes wait, the fewer each endpoint
/// may have.
const STORES: usize = 8 << 20;
/// Bytes that each endpoint may have waiting for each host even if the pool is empty, so that no
/// other endpoint takes them. At most [`STORES`] and this for each endpoint and host wait in the
/// card.
const SHARE: usize = 4 << 10;
/// Bytes of an endpoint's stores that may wait for a host that was given up.
const STORES_TO_DEAD: usize = 64 << 10;
/// The switch's group of all CLAN cards, for announcements.
const ALL_CARDS: u16 = CLAN_GROUP_HOST as u16;
/// The bit of that group in the mask for the switch.
const ALL_CARDS_BIT: u64 = 1;

/// All hosts that this card has sent to or received from.
#[derive(Debug)]
pub(crate) struct Peers {
    peers: BTreeMap<u16, Peer>,
    /// Hosts for which something waits. Only these are looked at.
    active: BTreeSet<u16>,
    /// Nothing is due at any host before this time. It may be too early, and is then computed
    /// again.
    due: Option<Duration>,
    turn: u16,
    /// The place of this host on the link.
    here: Option<Place>,
    /// The switch sends this card the packets for all CLAN cards.
    is_listed: bool,
    window: u64,
    /// The epoch of the count that began last.
    epoch: u16,
    burst: usize,
    /// Bytes of processors' stores that wait.
    stores: usize,
    /// Groups that this host is a member of.
    groups: u64,
    /// The groups must be announced to all cards. With `Some(true)` all cards are also asked for
    /// theirs.
    announces: Option<bool>,
}

/// The result of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    New,
    Joined,
    /// The card discards the store: the endpoint's stores that wait for the host exceed both its
    /// share and the pool's free bytes.
    Lost,
}

impl Peers {
    pub(crate) fn new(window: u32, burst: u32) -> Self {
        Self {
            peers: BTreeMap::new(),
            active: BTreeSet::new(),
            due: None,
            turn: 0,
            here: None,
            is_listed: false,
            window: window.into(),
            epoch: 0,
            burst: burst as usize,
            stores: 0,
            groups: 0,
            announces: None,
        }
    }

    /// Forgets everything but the link. Later counts are not mistaken for earlier ones.
    pub(crate) fn clear(&mut self) {
        self.peers.clear();
        self.active.clear();
        (self.due, self.stores, self.groups) = (None, 0, 0);
        self.announces = Some(false);
    }

    /// Begins another link, with epochs that an earlier card at its port is unlikely to have used.
    pub(crate) fn begin(&mut self, place: Option<Place>, now: Duration) {
        self.epoch = self.epoch.wrapping_add(now.as_millis() as u16).wrapping_add(1);
        self.here = place;
        self.greet();
    }

    /// Returns whether there is a link on which such a host may exist.
    pub(crate) fn can_reach(&self, remote: Remote) -> bool {
        let ports = |place: Place| if place.ports == 0 { MOST_PORTS } else { place.ports };
        self.here.is_some_and(|place| remote.group().is_some() || remote.host < ports(place))
    }

    /// Returns the most data in a packet, in bytes.
    pub(crate) fn burst(&self) -> u64 {
        self.burst as u64
    }

    fn peer(&mut self, host: u16) -> &mut Peer {
        let (epoch, window) = (&mut self.epoch, self.window);
        self.peers.entry(host).or_insert_with(|| {
            *epoch = epoch.wrapping_add(1);
            Peer::new(Sending::new(*epoch, window))
        })
    }

    /// Sets the groups that this host is a member of, and has them announced to all cards. The card
    /// records its own groups like those of other hosts.
    pub(crate) fn join_groups(&mut self, groups: u64) {
        if let Some(here) = self.here.filter(|_| self.groups != groups) {
            self.peer(here.host).groups = groups;
        }
        if std::mem::replace(&mut self.groups, groups) != groups {
            self.announces.get_or_insert(false);
        }
    }

    /// Asks all cards for their groups, and announces this host's own. Called when another link
    /// begins or the card is enabled.
    pub(crate) fn greet(&mut self) {
        let Some(here) = self.here else { return };
        let groups = self.groups;
        self.peer(here.host).groups = groups;
        self.announces = Some(true);
    }

    /// Handles a card's announcement of its host's groups. Returns the endpoints with words that
    /// were sent before that card began anew, and are not known to have arrived.
    pub(crate) fn announced(&mut self, host: u16, groups: u64, flags: u8) -> BTreeSet<u32> {
        // The card knows its own groups itself, and earlier than its announcement comes back.
        if self.here.is_some_and(|here| here.host == host) {
            return BTreeSet::new();
        }
        let lost = if flags & BEGINS != 0 { self.begun_anew(host) } else { BTreeSet::new() };
        let has_groups = self.groups != 0;
        let peer = self.peer(host);
        peer.heard();
        peer.groups = groups;
        if flags & ASKS != 0 && has_groups {
            peer.greets.get_or_insert(false);
        }
        self.active.insert(host);
        lost
    }

    /// Begins another count of the words to a host, whose card has begun anew.
    fn begun_anew(&mut self, host: u16) -> BTreeSet<u32> {
        let Some(peer) = self.peers.get_mut(&host) else { return BTreeSet::new() };
        self.epoch = self.epoch.wrapping_add(1);
        peer.begun_anew(Sending::new(self.epoch, self.window))
    }

    /// Returns the hosts that are members of a group.
    pub(crate) fn members(&self, group: u32) -> Vec<u16> {
        let is_member = |(_, peer): &(&u16, &Peer)| peer.groups >> group & 1 == 1;
        self.peers.iter().filter(is_member).map(|(host, _)| *host).collect()
    }

    /// Returns whether the engine may make one more packet for a host.
    pub(crate) fn has_room(&self, host: u16, privileged: bool) -> bool {
        self.peers.get(&host).is_none_or(|peer| peer.has_room(privileged))
    }

    /// Returns `None` if the engine must wait for a member of a group that has no room. Otherwise
    /// returns the members that have kept it waiting too long, and do not get the packet.
    pub(crate) fn group_room(&mut self, members: &[u16], now: Duration) -> Option<Vec<u16>> {
        let (mut lagging, mut waits) = (Vec::new(), false);
        for host in members {
            let Some(peer) = self.peers.get_mut(host) else { continue };
            if peer.has_room(false) {
                peer.not_awaited(now);
            } else if peer.is_lagging || peer.awaited(now) {
                peer.not_awaited(now);
                lagging.push(*host);
            } else {
                waits = true;
            }
            self.due = earlier(self.due, peer.deadline());
        }
        (!waits).then_some(lagging)
    }

    /// Returns whether a host was given up and nothing has arrived from it since. Such a host is
    /// asked again.
    pub(crate) fn is_dead(&mut self, host: u16, now: Duration) -> bool {
        let Some(peer) = self.peers.get_mut(&host).filter(|peer| peer.is_dead) else { return false };
        peer.ask(now);
        self.due = earlier(self.due, peer.deadline());
        self.active.insert(host);
        true
    }

    /// Appends a packet to the queue of its host.
    pub(crate) fn put(&mut self, host: u16, leaving: Leaving) {
        self.stores += store_bytes(&leaving);
        self.peer(host).put(leaving);
        self.active.insert(host);
    }

    /// Does the same with a processor's store. The store joins the packet of the previous one, if
    /// that packet still waits and the store follows it.
    pub(crate) fn put_store(&mut self, host: u16, leaving: Leaving, join: bool) -> Put {
        let (most, free) = (self.burst, STORES.saturating_sub(self.stores));
        let peer = self.peer(host);
        let free = if peer.is_dead { free.min(STORES_TO_DEAD) } else { free };
        let waits = leaving.storer().map_or(0, |endpoint| peer.stores_of(endpoint));
        if waits + leaving.bytes() > free.max(SHARE) {
            return Put::Lost;
        }
        if join && peer.join(&leaving, most) {
            self.stores += leaving.data.len();
            return Put::Joined;
        }
        self.put(host, leaving);
        Put::New
    }

    /// Queues an answer to a read. Returns `false` if the host has requested more than it may.
    pub(crate) fn answer(&mut self, host: u16, header: Header, data: &[u8]) -> bool {
        debug_assert!(header.kind == DATA || data.len() == 8, "an answer is data, or a refusal");
        self.active.insert(host);
        self.peer(host).answer(header, data)
    }

    /// Queues the refusal of a write.
    pub(crate) fn refuse(&mut self, host: u16, header: Header, data: &[u8]) {
        self.active.insert(host);
        self.peer(host).refuse(header, data);
    }

    /// Counts words that have arrived from a host. Returns `false` if they exceed the granted
    /// limit.
    pub(crate) fn arrived(&mut self, host: u16, epoch: u16, words: u64) -> bool {
        let window = self.window;
        let peer = self.peer(host);
        peer.heard();
        let fits = peer.arrived(epoch, words, window);
        if !peer.is_idle(window) {
            self.active.insert(host);
        }
        fits
    }

    /// Handles a probe for credits.
    pub(crate) fn probed(&mut self, host: u16, epoch: u16, sent: u64) {
        let window = self.window;
        let peer = self.peer(host);
        peer.heard();
        peer.probed(epoch, sent, window);
        self.active.insert(host);
    }

    /// Handles a grant of credits. Returns the endpoints whose words are known to be lost.
    pub(crate) fn granted(&mut self, host: u16, header: &Header, probe: Option<(u64, u64)>) -> BTreeSet<u32> {
        let Some(peer) = self.peers.get_mut(&host) else { return BTreeSet::new() };
        peer.heard();
        let lost = peer.granted(header, probe);
        self.due = earlier(self.due, peer.deadline());
        self.active.insert(host);
        lost
    }

    /// Returns whether a host can have refused a write of an endpoint.
    pub(crate) fn can_refuse(&self, host: u16, tag: u32) -> bool {
        self.peers.get(&host).is_some_and(|peer| peer.has_writer(tag))
    }

    /// Forgets the writes with a tag that has gone out of use.
    pub(crate) fn forget_writer(&mut self, tag: u32) {
        self.peers.values_mut().for_each(|peer| peer.forget_writer(tag));
    }

    /// Returns when something may be due that no other event triggers. Each verb calls this, so it
    /// searches nothing.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// Handles an alarm: lists the hosts that must be asked, and gives up those that are overdue.
    /// Returns what was given up.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<(u16, GivenUp)> {
        let mut given_up = Vec::new();
        self.due = None;
        for (host, peer) in &mut self.peers {
            peer.check_lag(now);
            if peer.is_overdue(now) {
                self.epoch = self.epoch.wrapping_add(1);
                let gone = peer.give_up(Sending::new(self.epoch, self.window));
                self.stores -= gone.0.iter().map(store_bytes).sum::<usize>();
                given_up.push((*host, gone));
            } else if peer.is_due(now) {
                self.active.insert(*host);
            }
            self.due = earlier(self.due, peer.deadline());
        }
        given_up
    }

    /// Gives everything up, because another link begins.
    pub(crate) fn take_all(&mut self) -> Vec<(u16, GivenUp)> {
        self.active.clear();
        (self.due, self.stores) = (None, 0);
        let peers = std::mem::take(&mut self.peers);
        peers.into_iter().map(|(host, peer)| (host, peer.into_given_up())).collect()
    }

    /// Sends the next packet. The hosts take turns. Calls `starved` for a packet that has to wait
    /// for credits.
    pub(crate) fn send_next(
        &mut self,
        link: &mut dyn Link,
        (now, patience): (Duration, Duration),
        starved: &mut dyn FnMut(),
    ) -> Result<(u16, Left), Progress> {
        if !std::mem::replace(&mut self.is_listed, true) {
            link.set_groups(ALL_CARDS_BIT);
        }
        // Announcements go first, so that a host that learns of the membership from another host
        // also writes to this one.
        if let Some(asks) = self.announces {
            // A card that asks all cards begins anew, and its counts with it.
            let flags = if asks { ASKS | BEGINS } else { 0 };
            if !announce(link, ALL_CARDS, self.groups, flags) {
                return Err(Progress::LinkFull);
            }
            self.announces = None;
            return Ok((ALL_CARDS, Left::Own));
        }
        let terms = Terms { now, patience, window: self.window };
        let mut progress = Progress::Idle;
        for _ in 0..self.active.len() {
            let next = self.active.range(self.turn..).next().or(self.active.first());
            let Some(&host) = next else { break };
            self.turn = host.wrapping_add(1);
            let Some(peer) = self.peers.get_mut(&host) else {
                self.active.remove(&host);
                continue;
            };
            let sent = peer.send(host, link, terms, self.groups, starved);
            self.due = earlier(self.due, peer.deadline());
            match sent {
                Ok(left) => {
                    if let Left::Packet(packet) = &left {
                        self.stores -= store_bytes(packet);
                    }
                    return Ok((host, left));
                }
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

/// Returns the bytes of [`STORES`] that a packet takes.
fn store_bytes(leaving: &Leaving) -> usize {
    leaving.storer().map_or(0, |_| leaving.bytes())
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
