//! DMA requests of an endpoint, until they have ended and all of their packets have left.
//!
//! A request to a group owes its copies to the hosts that are members of the group when the
//! processor puts it, and stay members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::once;

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::CLAN_FAULT_MEMORY;

use super::packet::{FROM_SYSTEM, Letter, TO_GROUP, group_of};

/// When a request was put.
#[derive(Debug, Clone, Copy)]
pub(super) struct Put {
    /// Its number among the events of its card.
    pub(super) event: u64,
    pub(super) moment: u64,
    /// The time in milliseconds.
    pub(super) time: u64,
}

/// A DMA request that has not ended.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Its number among all requests.
    pub(super) serial: u64,
    pub(super) request: ClanRequest,
    pub(super) put: Put,
    /// Bytes that have left, or come.
    done: u64,
    /// For a request that does not wait for its packets: by host, the first bytes of packets that
    /// have left, or whose loss was reported.
    copied: BTreeMap<u16, BTreeSet<u64>>,
    /// Members of its group that have not got all their copies.
    owed: BTreeSet<u16>,
    /// Bytes that were asked for.
    asked: u64,
    /// Reason that the other host has reported: `CLAN_FAULT_*`.
    refused: u32,
    /// Its local aperture was closed, so the bytes read from it are unknown.
    pub(super) is_cut: bool,
}

/// Returns the first byte of each packet of a request. Each packet is as long as possible and ends
/// between two words.
fn starts(request: &ClanRequest, burst: u64) -> impl Iterator<Item = u64> {
    let (offset, length) = (request.offset, request.length);
    let first = burst - offset % 8;
    let others = (0..).map(move |packet| first + packet * burst);
    once(0).chain(others).take_while(move |at| *at < length).map(move |at| offset + at)
}

/// Returns whether a request is valid.
fn means_something(request: &ClanRequest) -> bool {
    let is_group = group_of(request.host).is_some();
    let is_host = request.host < CLAN_GROUP_HOST || is_group && request.aperture == 0;
    let opcode = request.opcode == CLAN_DMA_WRITE || request.opcode == CLAN_DMA_READ && !is_group;
    let length = (1..=CLAN_MAX_TRANSFER).contains(&request.length);
    let flags = request.flags & !(CLAN_DMA_CHAIN | CLAN_DMA_NOTIFY) == 0;
    let end = request.offset.checked_add(request.length).is_some();
    opcode && length && flags && end && request.reserved == 0 && is_host
}

impl Pending {
    pub(super) fn new(serial: u64, request: ClanRequest, put: Put, owed: Vec<u16>) -> Self {
        Self {
            serial,
            request,
            put,
            done: 0,
            copied: BTreeMap::new(),
            owed: owed.into_iter().collect(),
            asked: 0,
            refused: 0,
            is_cut: false,
        }
    }

    /// Returns whether it ends when its packets are made, without waiting for them to leave.
    /// `flags` are its endpoint's.
    pub(super) fn is_detached(&self, flags: u32) -> bool {
        self.request.opcode == CLAN_DMA_WRITE && (flags != 0 || self.request.host >= CLAN_GROUP_HOST)
    }

    /// Replaces the request, of which the card has read nothing.
    pub(super) fn replace(&mut self, request: ClanRequest, put: Put, owed: Vec<u16>) {
        (self.request, self.put, self.owed) = (request, put, owed.into_iter().collect());
        self.is_cut = false;
    }

    pub(super) fn cut(&mut self, aperture: u32) {
        self.is_cut |= self.request.local_aperture == aperture;
    }

    pub(super) fn next_local(&self) -> Option<u64> {
        self.request.local_offset.checked_add(self.done)
    }

    /// Notes that its next bytes have left, or come. Returns where they are in its local aperture.
    pub(super) fn advance(&mut self, length: u64) -> u64 {
        let local = self.request.local_offset + self.done;
        self.done += length;
        local
    }

    pub(super) fn refuse(&mut self, reason: u32) {
        self.refused = reason;
    }

    fn is_for(&self, to: u16, letter: &Letter) -> bool {
        let request = &self.request;
        request.host == u32::from(to) && (request.key, request.aperture) == (letter.key, letter.aperture)
    }

    /// Returns whether a packet has its next bytes. It is as long as possible, and ends between two
    /// words, unless the request ends. `flags` are its endpoint's.
    pub(super) fn is_next(&self, to: u16, flags: u32, letter: &Letter, burst: u64) -> bool {
        let (request, length) = (&self.request, letter.data.len() as u64);
        request.opcode == CLAN_DMA_WRITE
            && self.is_for(to, letter)
            // A request of an operating system does not wait for its packets.
            && flags == 0
            && letter.flags & (TO_GROUP | FROM_SYSTEM) == 0
            && request.offset.wrapping_add(self.done) == letter.offset
            && length == (burst - letter.offset % 8).min(request.length - self.done)
    }

    /// Returns whether a packet asks for its next bytes. A card asks for all that is left, or as
    /// much as fits into a packet between two words.
    pub(super) fn asks(&self, to: u16, letter: &Letter, burst: u64) -> bool {
        let (request, length) = (&self.request, letter.asked());
        request.opcode == CLAN_DMA_READ
            && self.is_for(to, letter)
            && request.offset.wrapping_add(self.asked) == letter.offset
            && length > 0
            && length == (burst - letter.offset % 8).min(request.length - self.asked)
    }

    pub(super) fn note_asked(&mut self, length: u64) {
        self.asked += length;
    }

    /// Returns whether a packet to a host belongs to the request, which does not wait for its
    /// packets. `flags` are its endpoint's. Each packet but the last is as long as possible, and
    /// ends between two words.
    pub(super) fn has_packet(&self, to: u16, flags: u32, letter: &Letter, burst: u64) -> bool {
        let request = &self.request;
        let (group, aperture) =
            group_of(request.host).map_or((0, request.aperture), |group| (TO_GROUP, group));
        let at = letter.offset.checked_sub(request.offset).filter(|at| *at < request.length);
        let first = burst - request.offset % 8;
        self.is_detached(flags)
            && (letter.flags & FROM_SYSTEM != 0) == (flags != 0)
            && (group != 0 || request.host == u32::from(to))
            && (request.key, aperture, group) == (letter.key, letter.aperture, letter.flags & TO_GROUP)
            && at.is_some_and(|at| {
                (at == 0 || at >= first && (at - first) % burst == 0)
                    && letter.data.len() as u64 == (burst - letter.offset % 8).min(request.length - at)
            })
    }

    /// Returns whether a fault may name a byte of one of its packets to a peer.
    pub(super) fn may_lose(&self, peer: u32, (aperture, offset): (u32, u64)) -> bool {
        let request = &self.request;
        let target = group_of(request.host).map_or((request.host, request.aperture), |it| (peer, it));
        let at = offset.checked_sub(request.offset);
        target == (peer, aperture) && at.is_some_and(|at| at < request.length)
    }

    fn next_copy(&self, member: u16, burst: u64) -> Option<u64> {
        let left = self.copied.get(&member);
        starts(&self.request, burst).find(|start| left.is_none_or(|left| !left.contains(start)))
    }

    /// Notes that a copy has left, or that its loss was reported.
    pub(super) fn note_copy(&mut self, member: u16, start: u64, burst: u64) {
        self.copied.entry(member).or_default().insert(start);
        if self.next_copy(member, burst).is_none() {
            self.owed.remove(&member);
        }
    }

    /// Notes that a packet to its only host has left.
    pub(super) fn note_packet(&mut self, to: u16, start: u64) {
        self.copied.entry(to).or_default().insert(start);
    }

    pub(super) fn has_left(&self, to: u16, start: u64) -> bool {
        self.copied.get(&to).is_some_and(|starts| starts.contains(&start))
    }

    /// Returns whether a packet comes after all that have left.
    pub(super) fn is_behind_all(&self, to: u16, start: u64) -> bool {
        self.copied.get(&to).and_then(BTreeSet::last).is_none_or(|last| *last < start)
    }

    /// Returns whether a packet for a member is the next that the request owes it.
    pub(super) fn owes_next(&self, member: u16, letter: &Letter, burst: u64) -> bool {
        self.owes(member) && self.next_copy(member, burst) == Some(letter.offset)
    }

    pub(super) fn owes(&self, member: u16) -> bool {
        self.owed.contains(&member)
    }

    pub(super) fn owed(&self) -> impl Iterator<Item = u16> {
        self.owed.iter().copied()
    }

    /// Cancels the copies for a member that has left its group, if it is one of `groups`.
    pub(super) fn forget_copies(&mut self, member: u16, groups: impl Fn(u32) -> bool) {
        if group_of(self.request.host).is_some_and(groups) {
            self.owed.remove(&member);
        }
    }
}

/// A request that has ended, and may still have a packet that is about to leave.
#[derive(Debug)]
pub(super) struct Leftover {
    /// Tag and owner of its endpoint.
    pub(super) tag: u32,
    pub(super) owner: u32,
    pub(super) flags: u32,
    pub(super) pending: Pending,
    /// When it ended as done: its number among the events of its card. All its packets had been
    /// made by then.
    pub(super) ended_at: Option<u64>,
}

impl Leftover {
    /// Creates a leftover of an endpoint with this tag, owner and flags. If it has not ended as
    /// done, it owes no copies.
    pub(super) fn new((tag, owner, flags): (u32, u32, u32), pending: Pending, ended_at: Option<u64>) -> Self {
        let mut pending = pending;
        if ended_at.is_none() {
            pending.owed.clear();
        }
        Self { tag, owner, flags, pending, ended_at }
    }
}

/// The queue of an endpoint's requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    size: u32,
    put: u32,
    done: u32,
    /// Requests whose results are written, as reported by `done`.
    ended: u32,
    pending: VecDeque<Pending>,
    /// Packets of other endpoints' requests to the same host that have left since its last turn.
    passed_over: u32,
    /// Its owner counts requests that cannot exist.
    overstates: bool,
    /// The last request failed, and the next one is chained to it.
    chain_failed: bool,
}

impl Requests {
    pub(super) fn new(size: u32) -> Self {
        Self { size, ..Self::default() }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of requests that fit into the queue.
    pub(super) fn room(&self) -> u32 {
        self.size - self.put.wrapping_sub(self.done)
    }

    pub(super) fn count(&self) -> u32 {
        self.put
    }

    pub(super) fn ended(&self) -> u32 {
        self.ended
    }

    pub(super) fn push(&mut self, pending: Pending) {
        self.put = self.put.wrapping_add(1);
        self.pending.push_back(pending);
    }

    pub(super) fn front(&self) -> Option<&Pending> {
        self.pending.front()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Pending> {
        self.pending.front_mut()
    }

    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &Pending> {
        self.pending.iter()
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.pending.iter_mut()
    }

    /// Returns the place in the queue of the request that ends next.
    pub(super) fn next(&self) -> u32 {
        self.ended & (self.size - 1)
    }

    /// Returns a count of requests that cannot exist. A count up to the size of the queue becomes
    /// possible when the last of the present requests has ended. The claimed count exceeds it.
    pub(super) fn overstate(&mut self, beyond: u32) -> u32 {
        self.overstates = true;
        self.put.wrapping_add(self.size + 1 + beyond % (u32::MAX - 2 * self.size))
    }

    pub(super) fn restate(&mut self) {
        (self.overstates, self.passed_over) = (false, 0);
    }

    /// Notes that a packet of a request has left for a host. Returns the number of packets for
    /// which the endpoint has waited.
    pub(super) fn pass_over(&mut self, to: u16, is_own: bool) -> u32 {
        let waits =
            |front: &Pending| front.request.opcode == CLAN_DMA_WRITE && front.request.host == u32::from(to);
        let waits = self.front().is_some_and(waits) && !self.overstates && !is_own;
        self.passed_over = if waits { self.passed_over + 1 } else { 0 };
        self.passed_over
    }

    /// Notes the number of ended requests that the card has stored.
    pub(super) fn note_done(&mut self, done: Option<u32>) -> bool {
        self.done = done.unwrap_or(0);
        done.is_some_and(|done| self.ended.wrapping_sub(done) < self.size)
    }

    /// Returns whether the next request may end with a result. `flags` are its endpoint's. Its
    /// local memory may be missing, its host may be hostile, or may not have answered in time.
    pub(super) fn may_end(
        &self,
        result: u32,
        flags: u32,
        (has_local, is_tainted, is_late): (bool, bool, bool),
    ) -> bool {
        let Some(pending) = self.front() else { return false };
        let Pending { request, done, refused, .. } = pending;
        let (means, skipped) = (means_something(request), self.chain_failed);
        let goes = means && !skipped;
        let is_detached = pending.is_detached(flags);
        // A request of an operating system, even a read, fails at once if many others wait for its
        // host.
        let may_find_no_room = flags != 0;
        match result {
            CLAN_DMA_DONE => goes && (is_detached || *done == request.length),
            CLAN_DMA_BAD_REQUEST => !means && !skipped,
            CLAN_DMA_BAD_LOCAL => (!has_local || pending.is_cut) && !skipped,
            CLAN_DMA_REFUSED => goes && (*refused != 0 || is_tainted),
            CLAN_DMA_TIMEOUT => goes && (is_late || is_detached || may_find_no_room),
            CLAN_DMA_MEMORY => goes && (*refused == CLAN_FAULT_MEMORY || is_tainted),
            CLAN_DMA_SKIPPED => skipped,
            _ => false,
        }
    }

    /// Ends the next request. Also returns whether it had something to send.
    pub(super) fn end(&mut self, result: u32) -> Option<(Pending, bool)> {
        let ended = self.pending.pop_front()?;
        let goes = means_something(&ended.request) && !self.chain_failed;
        self.passed_over = 0;
        self.ended = self.ended.wrapping_add(1);
        self.chain_failed = ended.request.flags & CLAN_DMA_CHAIN != 0 && result != CLAN_DMA_DONE;
        Some((ended, goes))
    }

    /// Closes the endpoint. Returns the request that was being carried out.
    pub(super) fn close(mut self) -> Option<Pending> {
        self.pending.pop_front()
    }
}
