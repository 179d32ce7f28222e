//! Copies of DMA requests to groups: each member gets one of each packet, in order with the host's
//! other writes to it.
//!
//! A request owes its copies to the hosts that are members of the group when the processor puts the
//! request, and stay members. While neither host is in trouble (`is_in_trouble`), the judge checks:
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

use std::iter::once;

use hamlyn_abi::clan::dma::ClanRequest;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Ghost, Ledger, Pending};
use super::model::Clan;
use super::packet::{Letter, TO_GROUP};
use super::processor::group_of;

/// Returns the first byte of each packet of a request. Each packet is as long as possible and ends
/// between two words.
fn starts(request: &ClanRequest, burst: u64) -> impl Iterator<Item = u64> {
    let (offset, length) = (request.offset, request.length);
    let first = burst - offset % 8;
    let others = (0..).map(move |packet| first + packet * burst);
    once(0).chain(others).take_while(move |at| *at < length).map(move |at| offset + at)
}

impl Pending {
    /// Returns the first byte of the next copy for a member.
    fn next_copy(&self, member: u16, burst: u64) -> Option<u64> {
        let left = self.copied.get(&member);
        starts(&self.request, burst).find(|start| left.is_none_or(|left| !left.contains(start)))
    }

    /// Notes that a copy has left, or that its loss was reported.
    fn note_copy(&mut self, member: u16, start: u64, burst: u64) {
        self.copied.entry(member).or_default().insert(start);
        if self.next_copy(member, burst).is_none() {
            self.owed.remove(&member);
        }
    }

    /// Returns whether a packet for a member is the next that the request owes it.
    fn owes_next(&self, member: u16, letter: &Letter, burst: u64) -> bool {
        self.owed.contains(&member) && self.next_copy(member, burst) == Some(letter.offset)
    }
}

impl Ledger {
    /// Returns the members that a request owes copies to if it is put now.
    pub(super) fn owed_by(&self, host: u16, request: &ClanRequest) -> Vec<u16> {
        group_of(request.host).map_or_else(Vec::new, |group| self.members_of(host, group))
    }

    /// Cancels the copies that requests owe a host for groups that it has left.
    pub(super) fn forget_copies(&mut self, member: u16, has_left: impl Fn(u32) -> bool) {
        let open = self.endpoints.values_mut().flat_map(|endpoint| &mut endpoint.pending);
        let ended = self.detached.iter_mut().map(|ghost| &mut ghost.pending);
        for pending in ended.chain(open).filter(|one| group_of(one.request.host).is_some_and(&has_left)) {
            pending.owed.remove(&member);
        }
    }

    /// Notes the reported loss of a member's copy. The copy is of the request that is carried out.
    pub(super) fn copy_lost(&mut self, number: u32, member: u16, (group, start): (u32, u64), burst: u64) {
        let endpoint = self.endpoints.get_mut(&number);
        let front = endpoint.and_then(|endpoint| endpoint.pending.front_mut());
        if let Some(front) = front.filter(|front| group_of(front.request.host) == Some(group)) {
            front.note_copy(member, start, burst);
        }
    }

    /// Returns requests that do not wait for their packets and may have made one with a tag, oldest
    /// first, each with its owner and flags.
    pub(super) fn copiers(&mut self, tag: u32) -> impl Iterator<Item = (u32, u32, &mut Pending)> {
        let ended = self.detached.iter_mut().filter(move |ghost| ghost.tag == tag);
        let open = self.endpoints.values_mut().filter(move |endpoint| endpoint.tag == tag);
        let front = open.filter_map(|endpoint| {
            let (owner, flags) = (endpoint.owner, endpoint.flags);
            endpoint.pending.front_mut().map(|front| (owner, flags, front))
        });
        ended.map(|ghost| (ghost.owner, ghost.flags, &mut ghost.pending)).chain(front)
    }
}

impl World<Clan> {
    /// Returns whether a packet can only be a copy: its request ended before the first store that
    /// waits was made.
    pub(super) fn is_copy_due(&self, host: usize, to: u16, letter: &Letter) -> bool {
        if letter.flags & TO_GROUP == 0 || self.is_in_trouble(host, to.into()) {
            return false;
        }
        let (ledger, burst) = (&self.model.ledgers[host], self.model.options.burst.into());
        let first = ledger.program.get(&to.into()).and_then(|queue| queue.front());
        let is_due = |ghost: &Ghost| {
            ghost.tag == letter.tag
                && ghost.ended_at.is_some_and(|ended| first.is_none_or(|made| ended < made.made_at))
                && ghost.pending.has_packet(to, ghost.flags, letter, burst)
                && ghost.pending.owes_next(to, letter, burst)
        };
        ledger.detached.iter().any(is_due)
    }

    /// Takes a packet that is a copy for a member of a group. Returns the owner of its request.
    pub(super) fn take_copy(
        &mut self,
        host: usize,
        to: u16,
        letter: &Letter,
    ) -> Result<Option<u32>, Violation> {
        let (burst, sure) = (self.model.options.burst.into(), !self.is_in_trouble(host, to.into()));
        let has_left =
            |pending: &Pending| pending.copied.get(&to).is_some_and(|starts| starts.contains(&letter.offset));
        let ledger = &mut self.model.ledgers[host];
        let mut fits: Vec<_> = ledger
            .copiers(letter.tag)
            .filter(|(_, flags, one)| one.has_packet(to, *flags, letter, burst) && !has_left(one))
            .collect();
        let Some(put_at) = fits.iter().map(|(.., one)| one.put_at).min() else { return Ok(None) };
        let owes = fits.iter().position(|(.., one)| sure && one.owes_next(to, letter, burst));
        let may = || fits.iter().position(|(.., one)| !sure || !one.owed.contains(&to));
        let Some(index) = owes.or_else(may) else { return Ok(None) };
        let (owner, _, pending) = &mut fits[index];
        pending.note_copy(to, letter.offset, burst);
        let owner = *owner;
        self.check_behind_stores(host, to, put_at)?;
        Ok(Some(owner))
    }

    /// Checks a copy that leaves: all stores and loads that were made before its request was put
    /// have left.
    fn check_behind_stores(&self, host: usize, to: u16, put_at: u64) -> Result<(), Violation> {
        let waits = self.model.ledgers[host].program.get(&to.into()).into_iter().flatten();
        let overtaken = waits.into_iter().find(|made| !made.excused && made.made_at < put_at);
        ensure(overtaken.is_none() || self.is_in_trouble(host, to.into()), || {
            format!("host {host}: a copy for {to} overtakes {overtaken:x?}")
        })
    }

    /// Checks a packet that leaves: all copies of requests that ended before `made_at` have left.
    pub(super) fn check_behind_copies(&self, host: usize, to: u16, made_at: u64) -> Result<(), Violation> {
        let is_before = |ghost: &&Ghost| {
            ghost.ended_at.is_some_and(|ended| ended < made_at) && ghost.pending.owed.contains(&to)
        };
        let overtaken = self.model.ledgers[host].detached.iter().find(is_before);
        ensure(overtaken.is_none() || self.is_in_trouble(host, to.into()), || {
            format!("host {host}: a write or load to {to} overtakes copies of {overtaken:x?}")
        })
    }

    /// Returns a request that has ended and owes copies.
    pub(super) fn owing(&self, host: usize) -> Option<&Ghost> {
        let owes = |ghost: &&Ghost| {
            let mut owed = ghost.pending.owed.iter();
            ghost.ended_at.is_some() && owed.any(|member| !self.is_in_trouble(host, (*member).into()))
        };
        self.model.ledgers[host].detached.iter().find(owes)
    }
}
