//! What a card has to send, in the order in which its processors made it: stores and loads, and the
//! packets of DMA requests that have ended.
//!
//! While neither host is in trouble (`Standing::is_in_trouble`), the copies of requests to groups
//! are checked:
//!
//! * The copies of a request leave for a member in the order of their bytes. Each leaves, or a
//!   fault reports its loss.
//! * No store, load or DMA write leaves before the copies of a request that ended before it was
//!   made.
//! * No copy leaves before a store or load that was made before the copy's request was put.
//!
//! A packet does not name its request. If several requests of an endpoint have the same packet, the
//! judge gives it to the oldest one that must send it next. Only if there is none, the judge gives
//! it to a request that owes nothing.
//!
//! Not checked:
//!
//! * the contents of a copy;
//! * copies of a request that failed, or whose endpoint was closed before it ended;
//! * the order of copies with DMA reads;
//! * their order with stores that were made while the request was carried out.

use std::collections::{BTreeMap, VecDeque};

use hamlyn_abi::clan::dma::{CLAN_DMA_DONE, ClanRequest};

use super::ledger::Ledger;
use super::packet::{Letter, READ, TO_GROUP, WRITE, group_of};
use super::readings::Origin;
use super::requests::{Leftover, Pending};

/// A store or load that has not left.
#[derive(Debug)]
pub(super) struct Made {
    /// Its expected contents in a packet.
    letter: Letter,
    owner: u32,
    /// Its number among the events.
    made_at: u64,
    /// Its endpoint or load no longer exists, so its loss is not reported.
    excused: bool,
}

/// What a card has to send.
#[derive(Debug, Default)]
pub(super) struct Program {
    /// For each host, stores and loads that have not left, in the order in which they were made.
    made: BTreeMap<u32, VecDeque<Made>>,
    /// Counts stores and loads that were made, and requests that were put or ended.
    events: u64,
    /// Requests that have ended, or whose endpoints were closed, with a packet that may be about to
    /// leave.
    leftovers: Vec<Leftover>,
    /// Requests that ended when their packets were made. The packets may leave later.
    detached: Vec<Leftover>,
    /// Groups that other hosts have announced to be members of. The hosts may have been given up
    /// since.
    members: BTreeMap<u16, u64>,
}

impl Program {
    pub(super) fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Notes a store or load, until it leaves.
    pub(super) fn make(&mut self, to: u32, letter: Letter, owner: u32, excused: bool) {
        let made_at = self.next_event();
        self.made.entry(to).or_default().push_back(Made { letter, owner, made_at, excused });
    }

    /// Returns the number of stores for a host that have not left.
    pub(super) fn waiting(&self, to: u32) -> usize {
        self.made.get(&to).map_or(0, |queue| queue.iter().filter(|made| !made.excused).count())
    }

    pub(super) fn has_load(&self, number: u64) -> bool {
        self.made.values().flatten().any(|made| made.is_load(number))
    }

    pub(super) fn excuse_load(&mut self, number: u64) {
        let loads = self.made.values_mut().flatten().filter(|made| made.is_load(number));
        loads.for_each(|made| made.excused = true);
    }

    /// Notes that an endpoint is closed, and with it the request that was being carried out.
    pub(super) fn close(&mut self, of: (u32, u32, u32), pending: Option<Pending>) {
        if let Some(pending) = pending {
            let is_detached = pending.is_detached(of.2);
            let leftovers = if is_detached { &mut self.detached } else { &mut self.leftovers };
            leftovers.push(Leftover::new(of, pending, None));
        }
        let stores = self.made.values_mut().flatten();
        for made in stores.filter(|made| (made.letter.kind, made.letter.tag) == (WRITE, of.0)) {
            made.excused = true;
        }
    }

    /// Notes that a request has ended, of an endpoint with this tag, owner and flags. `goes` tells
    /// whether it had something to send.
    pub(super) fn end(&mut self, of: (u32, u32, u32), pending: Pending, result: u32, goes: bool) {
        let is_done = result == CLAN_DMA_DONE;
        let (is_detached, ended_at) = (pending.is_detached(of.2), is_done.then(|| self.next_event()));
        let leftover = Leftover::new(of, pending, ended_at);
        // All of its packets, or else one of them, may be about to leave.
        if is_detached {
            self.detached.extend(goes.then_some(leftover));
        } else {
            self.leftovers.extend((!is_done).then_some(leftover));
        }
    }

    /// Returns requests that have ended, with a packet that may be about to leave.
    pub(super) fn leftovers(&self) -> impl Iterator<Item = &Pending> {
        self.leftovers.iter().map(|leftover| &leftover.pending)
    }

    pub(super) fn members_of(&self, ledger: &Ledger, host: u16, group: u32) -> Vec<u16> {
        let others = self.members.iter().filter(|(_, groups)| **groups >> group & 1 == 1);
        let others = others.map(|(other, _)| *other).filter(|other| *other != host);
        others.chain(ledger.has_member(group).then_some(host)).collect()
    }

    /// Returns the members that a request owes copies to if it is put now.
    pub(super) fn owed_by(&self, ledger: &Ledger, host: u16, request: &ClanRequest) -> Vec<u16> {
        group_of(request.host).map_or_else(Vec::new, |group| self.members_of(ledger, host, group))
    }

    /// Notes the groups that a host has announced.
    pub(super) fn announced(&mut self, ledger: &mut Ledger, source: u16, groups: u64) {
        self.members.insert(source, groups);
        self.forget_copies(ledger, source, |group| groups >> group & 1 == 0);
    }

    /// Cancels the copies that requests owe a host for groups that it has left.
    pub(super) fn forget_copies(&mut self, ledger: &mut Ledger, member: u16, has_left: impl Fn(u32) -> bool) {
        let open = ledger.endpoints_mut().flat_map(|(_, endpoint)| endpoint.requests.all_mut());
        let ended = self.detached.iter_mut().map(|leftover| &mut leftover.pending);
        ended.chain(open).for_each(|pending| pending.forget_copies(member, &has_left));
    }

    /// Drops everything for a host that the card has given up: it will never leave.
    pub(super) fn give_up(&mut self, ledger: &mut Ledger, peer: u32) {
        self.made.remove(&peer);
        self.forget_copies(ledger, peer as u16, |_| true);
        for leftovers in [&mut self.leftovers, &mut self.detached] {
            leftovers.retain(|leftover| leftover.pending.request.host != peer);
        }
    }

    /// Drops everything: the port has gone down.
    pub(super) fn clear(&mut self) {
        *self = Self { events: self.events, ..Self::default() };
    }

    /// Returns whether a store or copy that has not left is at a place of an endpoint's peer.
    /// `open` are the endpoint's other requests.
    pub(super) fn may_lose<'a>(
        &'a self,
        (tag, peer): (u32, u32),
        place: (u32, u64),
        open: impl Iterator<Item = &'a Pending>,
    ) -> bool {
        let is_store = |made: &Made| {
            let letter = &made.letter;
            letter.kind == WRITE && letter.tag == tag && (letter.aperture, letter.offset) == place
        };
        let ended =
            self.detached.iter().filter(|leftover| leftover.tag == tag).map(|leftover| &leftover.pending);
        self.made.get(&peer).is_some_and(|queue| queue.iter().any(is_store))
            || ended.chain(open).any(|pending| pending.may_lose(peer, place))
    }

    /// Takes the next words that leave now, which were stored to a host or asked of it by a load,
    /// in order. Only words whose loss would not be reported may be skipped. Returns the owner, and
    /// when the last was made.
    pub(super) fn take_made(&mut self, to: u16, letter: &Letter) -> Option<(u32, u64)> {
        let queue = self.made.get_mut(&to.into())?;
        let (mut next, mut last) = (0, None);
        // Stores and loads have no epoch.
        for word in (Letter { epoch: 0, ..letter.clone() }).atoms() {
            let first = queue.iter().skip(next).position(|made| !made.excused);
            let first = first.map_or(queue.len(), |first| next + first);
            let mut candidates = queue.iter().enumerate().take(first + 1).skip(next);
            let (index, made) = candidates.find(|(_, made)| made.letter == word)?;
            (next, last) = (index + 1, Some((made.owner, made.made_at)));
        }
        queue.drain(..next);
        last
    }

    /// Takes a packet of a request whose endpoint was closed. Returns the request's owner.
    pub(super) fn take_ghost(&mut self, to: u16, letter: &Letter, burst: u64) -> Option<u32> {
        let is_it = |leftover: &Leftover| {
            leftover.tag == letter.tag && leftover.pending.is_next(to, leftover.flags, letter, burst)
        };
        let index = self.leftovers.iter().position(is_it)?;
        Some(self.leftovers.swap_remove(index).owner)
    }

    /// Takes a packet that asks for the next bytes of a DMA request.
    pub(super) fn take_read(
        &mut self,
        ledger: &mut Ledger,
        to: u16,
        letter: &Letter,
        burst: u64,
    ) -> Option<Origin> {
        for (number, endpoint) in ledger.endpoints_mut() {
            let front = endpoint.requests.front_mut().filter(|front| front.asks(to, letter, burst));
            if let Some(front) = front {
                front.note_asked(letter.asked());
                return Some(Origin::Dma(number, front.serial));
            }
        }
        // The request has ended: the answer is not awaited.
        let index = self.leftovers.iter().position(|leftover| leftover.pending.asks(to, letter, burst))?;
        self.leftovers.swap_remove(index);
        Some(Origin::Gone)
    }

    /// Returns requests that do not wait for their packets and may have made one with a tag, oldest
    /// first, each with its owner and flags.
    fn copiers<'a>(
        &'a mut self,
        ledger: &'a mut Ledger,
        tag: u32,
    ) -> impl Iterator<Item = (u32, u32, &'a mut Pending)> {
        let ended = self.detached.iter_mut().filter(move |leftover| leftover.tag == tag);
        let open = ledger.endpoints_mut().filter(move |(_, endpoint)| endpoint.tag == tag);
        let front = open.filter_map(|(_, endpoint)| {
            let (owner, flags) = (endpoint.owner, endpoint.flags);
            endpoint.requests.front_mut().map(|front| (owner, flags, front))
        });
        ended.map(|leftover| (leftover.owner, leftover.flags, &mut leftover.pending)).chain(front)
    }

    /// Takes a packet of a DMA request to one host that does not wait for its packets, after those
    /// that have left. Returns the request's owner.
    pub(super) fn take_detached(
        &mut self,
        ledger: &mut Ledger,
        to: u16,
        letter: &Letter,
        burst: u64,
    ) -> Option<u32> {
        let (owner, _, pending) = self.copiers(ledger, letter.tag).find(|(_, flags, pending)| {
            pending.has_packet(to, *flags, letter, burst) && pending.is_behind_all(to, letter.offset)
        })?;
        pending.note_packet(to, letter.offset);
        Some(owner)
    }

    /// Takes a packet that is a copy for a member of a group. Returns the owner of its request, and
    /// when the first request was put that it may belong to. If `is_sure`, neither host is in
    /// trouble.
    pub(super) fn take_copy(
        &mut self,
        ledger: &mut Ledger,
        to: u16,
        letter: &Letter,
        (burst, is_sure): (u64, bool),
    ) -> Option<(u32, u64)> {
        let fits = self.copiers(ledger, letter.tag).filter(|(_, flags, one)| {
            one.has_packet(to, *flags, letter, burst) && !one.has_left(to, letter.offset)
        });
        let mut fits: Vec<_> = fits.collect();
        let put_at = fits.iter().map(|(.., one)| one.put.event).min()?;
        let owes = fits.iter().position(|(.., one)| is_sure && one.owes_next(to, letter, burst));
        let may = || fits.iter().position(|(.., one)| !is_sure || !one.owes(to));
        let index = owes.or_else(may)?;
        let (owner, _, pending) = &mut fits[index];
        pending.note_copy(to, letter.offset, burst);
        Some((*owner, put_at))
    }

    /// Returns whether a packet can only be a copy: its request ended before the first store that
    /// waits was made.
    pub(super) fn is_copy_due(&self, to: u16, letter: &Letter, burst: u64) -> bool {
        let first = self.made.get(&to.into()).and_then(|queue| queue.front());
        let is_due = |leftover: &Leftover| {
            leftover.tag == letter.tag
                && leftover.ended_at.is_some_and(|ended| first.is_none_or(|made| ended < made.made_at))
                && leftover.pending.has_packet(to, leftover.flags, letter, burst)
                && leftover.pending.owes_next(to, letter, burst)
        };
        letter.flags & TO_GROUP != 0 && self.detached.iter().any(is_due)
    }

    /// Returns a store or load that was made before a request was put, and has not left.
    pub(super) fn made_before(&self, to: u16, put_at: u64) -> Option<&Made> {
        let mut waits = self.made.get(&to.into()).into_iter().flatten();
        waits.find(|made| !made.excused && made.made_at < put_at)
    }

    /// Returns a request that ended before `made_at`, and owes a copy.
    pub(super) fn copy_before(&self, to: u16, made_at: u64) -> Option<&Leftover> {
        let is_before = |leftover: &&Leftover| {
            leftover.ended_at.is_some_and(|ended| ended < made_at) && leftover.pending.owes(to)
        };
        self.detached.iter().find(is_before)
    }

    /// Returns a request that has ended and owes copies to a host that is not in trouble.
    pub(super) fn owing(&self, is_in_trouble: impl Fn(u32) -> bool) -> Option<&Leftover> {
        let owes = |leftover: &&Leftover| {
            let mut owed = leftover.pending.owed();
            leftover.ended_at.is_some() && owed.any(|member| !is_in_trouble(member.into()))
        };
        self.detached.iter().find(owes)
    }

    /// Returns packets that wait to leave for existing hosts, or wait for an answer.
    pub(super) fn unfinished(&self, ledger: &Ledger, hosts: u32) -> Vec<(u32, String)> {
        let made = self.made.iter().flat_map(|(to, queue)| {
            queue.iter().filter(|made| !made.excused).map(|made| (*to, format!("{made:x?}")))
        });
        let pending = ledger.endpoints().iter().flat_map(|(number, endpoint)| {
            let all = endpoint.requests.all();
            all.map(move |pending| (pending.request.host, format!("endpoint {number}: {pending:?}")))
        });
        made.chain(pending).filter(|(to, _)| *to < hosts || group_of(*to).is_some()).collect()
    }
}

impl Made {
    fn is_load(&self, number: u64) -> bool {
        self.letter.kind == READ && u64::from(self.letter.tag) == number
    }
}
