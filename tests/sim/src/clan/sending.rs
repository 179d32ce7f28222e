//! Packets that leave a card: each word was stored, or belongs to a DMA request, or was asked for.

use std::collections::BTreeSet;

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_abi::clan::dma::{CLAN_DMA_DONE, CLAN_DMA_READ, CLAN_DMA_WRITE};
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;

use crate::engine::memory::Write;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Accesses, Ghost, Ledger, Part, Pending};
use super::model::{Clan, Origin, Reading};
use super::packet::{CREDIT, DATA, FROM_SYSTEM, GROUPS, HEAD, Letter, PROBE, READ, REFUSED, TO_GROUP, WRITE};
use super::processor::group_of;
use super::settling::result_at;

/// Returns the contents of a packet that come from a store or load, without the packet's own epoch.
pub(super) fn bare(letter: &Letter) -> Letter {
    Letter { epoch: 0, ..letter.clone() }
}

impl Pending {
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
}

impl World<Clan> {
    /// Checks a packet that has left the card.
    pub(super) fn note_sent(&mut self, host: usize, to: u16, bytes: &[u8]) -> Result<(), Violation> {
        let wrong = |what: String| Violation::new(format!("host {host}: a packet to {to:#x} {what}"));
        let (letter, is_sound) = Letter::read(bytes).ok_or_else(|| wrong("is no packet".into()))?;
        ensure(is_sound, || wrong("has a wrong checksum".into()))?;
        let most = self.hosts[host].machine.options.burst as usize;
        ensure(letter.data.len() <= most, || wrong(format!("has {} bytes", letter.data.len())))?;
        self.note(|| format!("  it is {}, from {host} to {to}, epoch {}", letter.brief(), letter.epoch));
        // A request that the engine ended in the same call is reported after the packet.
        self.model.ledgers[host].count(Counter::PacketsSent, 1);
        self.settle_ended(host)?;
        let is_right = match letter.kind {
            WRITE => self.note_write_sent(host, to, &letter)?,
            READ => self.note_read_sent(host, to, &letter)?,
            DATA => self.note_data_sent(host, to, &letter)?,
            REFUSED => self.note_refusal_sent(host, to, &letter),
            CREDIT | PROBE | GROUPS => true,
            _ => false,
        };
        ensure(is_right, || {
            let next: Vec<_> =
                self.model.ledgers[host].endpoints.values().filter_map(|one| one.pending.front()).collect();
            let readings: Vec<_> = self
                .model
                .readings
                .iter()
                .filter(|one| (one.server, one.asker, one.tag) == (host as u16, to, letter.tag))
                .collect();
            wrong(format!("is not what was to be sent: {letter:x?}, but {next:x?} {readings:x?}"))
        })?;
        if matches!(letter.kind, WRITE | READ | PROBE) {
            self.model.epochs.insert((host as u16, to), letter.epoch);
        }
        self.spend(host as u16, to, &letter)?;
        self.fly(host, to, &letter);
        self.check_credits(host as u16, to, letter.epoch)
    }

    /// Puts a packet's words in flight.
    pub(super) fn fly(&mut self, host: usize, to: u16, letter: &Letter) {
        // An announcement is for all cards that the switch knows when it passes.
        let to_all = letter.kind == GROUPS && group_of(to.into()).is_some();
        let all = if to_all { (0..self.hosts.len() as u16).collect() } else { vec![to] };
        for there in all {
            // The switch drops packets for a port without a card.
            let absent = !self.is_up(there) || to_all && !self.is_listed(there);
            let flight = self.model.flying.entry((host as u16, there)).or_default();
            letter.atoms().iter().for_each(|atom| flight.sent(atom.write(), absent));
        }
    }

    fn is_up(&self, host: u16) -> bool {
        self.hosts.get(usize::from(host)).is_some_and(|host| host.uplink.is_up())
    }

    /// Returns whether the switch knows a host's card.
    fn is_listed(&self, host: u16) -> bool {
        self.hosts[usize::from(host)].uplink.is_member(0)
    }

    fn note_write_sent(&mut self, host: usize, to: u16, letter: &Letter) -> Result<bool, Violation> {
        if letter.data.is_empty() || !letter.is_bounded() {
            return Ok(false);
        }
        self.model.ledgers[host].count(Counter::BytesSent, letter.data.len() as u64);
        // A store may be equal to a request's data, byte for byte. Then the card's report about the
        // request decides.
        let ends = self.ends_request(host, letter.tag);
        let is_stored = !ends && !self.is_copy_due(host, to, letter);
        let made = if is_stored { take_made(&mut self.model.ledgers[host], to.into(), letter) } else { None };
        let stored = made.map(|(owner, made_at)| (owner, Some(made_at)));
        let waited = if stored.is_none() { self.take_dma_write(host, to, letter) } else { None };
        let (owner, made_at) = if let Some(taken) = stored.or(waited) {
            taken
        } else if letter.flags & TO_GROUP != 0 {
            let Some(owner) = self.take_copy(host, to, letter)? else { return Ok(false) };
            (owner, None)
        } else {
            let Some(owner) = self.take_detached(host, to, letter) else { return Ok(false) };
            (owner, None)
        };
        if let Some(made_at) = made_at {
            self.check_behind_copies(host, to, made_at)?;
        }
        if waited.is_some() {
            self.check_turns(host, to, letter.tag)?;
        }
        // A closed endpoint, or a later one with its number, is not told of a refusal.
        if self.model.ledgers[host].endpoints.values().any(|endpoint| endpoint.tag == letter.tag) {
            self.model.writers.insert((host as u16, to, letter.tag));
        }
        let target = match letter.flags & TO_GROUP {
            0 => u64::from(to) << 32 | u64::from(letter.aperture),
            _ => u64::from(CLAN_GROUP_HOST + letter.aperture) << 32,
        };
        let (offset, length) = (letter.offset, letter.data.len() as u64);
        self.passed(host, Accesses { target, is_remote: true, is_read: false, owner, offset, length });
        Ok(true)
    }

    /// Returns whether the card has reported with this packet that the next request of its endpoint
    /// is done.
    fn ends_request(&self, host: usize, tag: u32) -> bool {
        let ledger = &self.model.ledgers[host];
        let Some((number, endpoint)) = ledger.endpoints.iter().find(|(_, endpoint)| endpoint.tag == tag)
        else {
            return false;
        };
        let next = (endpoint.ended & (endpoint.requests - 1), CLAN_DMA_DONE);
        let is_it = |write: &Write| match ledger.place(write.address) {
            Some((Part::Endpoint(of), at)) => of == *number && result_at(at, &write.bytes) == Some(next),
            _ => false,
        };
        ledger.unsettled.iter().any(is_it)
    }

    /// Takes the next packet of a DMA request. It is as long as possible, and ends between two
    /// words, unless the request ends. Returns the request's owner, and when it was put if it has
    /// not ended.
    fn take_dma_write(&mut self, host: usize, to: u16, letter: &Letter) -> Option<(u32, Option<u64>)> {
        let (burst, length) = (u64::from(self.model.options.burst), letter.data.len() as u64);
        let is_next = |pending: &Pending| {
            let request = &pending.request;
            request.opcode == CLAN_DMA_WRITE
                && request.host == u32::from(to)
                && (request.key, request.aperture) == (letter.key, letter.aperture)
                && letter.flags & (TO_GROUP | FROM_SYSTEM) == 0
                && request.offset.wrapping_add(pending.done) == letter.offset
                && length == (burst - letter.offset % 8).min(request.length - pending.done)
        };
        let system = letter.flags & FROM_SYSTEM != 0;
        let ledger = &self.model.ledgers[host];
        let open = ledger.endpoints.iter().find(|(_, endpoint)| endpoint.tag == letter.tag);
        if let Some((&number, endpoint)) = open {
            let front =
                endpoint.pending.front().filter(|front| is_next(front) && system == (endpoint.flags != 0))?;
            if !front.is_cut && !self.has(host, endpoint.owner, front, &letter.data) {
                return None;
            }
            let endpoint = self.model.ledgers[host].endpoints.get_mut(&number)?;
            let front = endpoint.pending.front_mut()?;
            front.done += length;
            self.model.words_sent += 1;
            return Some((endpoint.owner, Some(front.put_at)));
        }
        // From an endpoint that was closed since.
        let is_it = |ghost: &Ghost| {
            ghost.tag == letter.tag && system == (ghost.flags != 0) && is_next(&ghost.pending)
        };
        let index = ledger.ghosts.iter().position(is_it)?;
        Some((self.model.ledgers[host].ghosts.swap_remove(index).owner, None))
    }

    /// Takes a packet of a DMA request to one host that does not wait for its packets, after those
    /// that have left. Returns the request's owner.
    fn take_detached(&mut self, host: usize, to: u16, letter: &Letter) -> Option<u32> {
        let burst = self.model.options.burst.into();
        let is_next = |pending: &Pending, flags: u32| {
            let last = pending.copied.get(&to).and_then(BTreeSet::last);
            pending.has_packet(to, flags, letter, burst) && last.is_none_or(|last| *last < letter.offset)
        };
        let (owner, _, pending) = self.model.ledgers[host]
            .copiers(letter.tag)
            .find(|(_, flags, pending)| is_next(pending, *flags))?;
        pending.copied.entry(to).or_default().insert(letter.offset);
        Some(owner)
    }

    /// Checks that the engine serves the writers to a host, of the same privilege, in turn: no
    /// endpoint is passed over again and again.
    fn check_turns(&mut self, host: usize, to: u16, tag: u32) -> Result<(), Violation> {
        let most = 2 * self.model.options.endpoints + 8;
        let endpoints = &mut self.model.ledgers[host].endpoints;
        let Some(flags) = endpoints.values().find(|one| one.tag == tag).map(|one| one.flags) else {
            return Ok(());
        };
        for (number, endpoint) in endpoints.iter_mut().filter(|(_, endpoint)| endpoint.flags == flags) {
            let waits = |front: &Pending| {
                front.request.opcode == CLAN_DMA_WRITE && front.request.host == u32::from(to)
            };
            let waits = endpoint.pending.front().is_some_and(waits) && !endpoint.overstates;
            endpoint.passed_over = if waits && endpoint.tag != tag { endpoint.passed_over + 1 } else { 0 };
            ensure(endpoint.passed_over <= most, || {
                format!(
                    "host {host}: endpoint {number} has waited for {most} packets of others, and has no turn"
                )
            })?;
        }
        Ok(())
    }

    /// Returns whether these may be the next bytes of a request.
    fn has(&self, host: usize, owner: u32, pending: &Pending, bytes: &[u8]) -> bool {
        let length = bytes.len() as u64;
        let aperture = self.model.ledgers[host].apertures.get(&pending.request.local_aperture);
        let local = pending.request.local_offset.checked_add(pending.done);
        let (Some(aperture), Some(local)) = (aperture.filter(|one| one.owner == owner), local) else {
            return false;
        };
        local.checked_add(length).is_some_and(|end| end <= aperture.area.length)
            && self.might_be(host, &aperture.area.pieces(local, length), pending.since, bytes)
    }

    fn note_read_sent(&mut self, host: usize, to: u16, letter: &Letter) -> Result<bool, Violation> {
        let burst = self.model.options.burst.into();
        let ledger = &mut self.model.ledgers[host];
        let origin = if let Some((_, made_at)) = take_made(ledger, to.into(), letter) {
            self.check_behind_copies(host, to, made_at)?;
            Origin::Load(letter.tag.into())
        } else {
            match take_dma_read(ledger, to, letter, burst) {
                Some(origin) => origin,
                None => return Ok(false),
            }
        };
        let (asker, server) = (host as u16, to);
        self.model.readings.push(Reading::new(asker, server, letter, origin));
        Ok(true)
    }

    /// Checks data that a host asked for: it must have been in memory at some moment since then.
    fn note_data_sent(&mut self, host: usize, to: u16, letter: &Letter) -> Result<bool, Violation> {
        let length = letter.data.len() as u64;
        let is_it = |reading: &&mut Reading| {
            (reading.server, reading.asker) == (host as u16, to) && reading.can_be_answered(letter)
        };
        let Some(reading) = self.model.readings.iter_mut().find(is_it) else { return Ok(false) };
        let (start, from) = (reading.start, reading.sent);
        let Some(area) = reading.area.clone() else { return Ok(false) };
        reading.sent += length;
        let pieces = area.pieces(reading.place + from, length);
        if !self.might_be(host, &pieces, start, &letter.data) {
            return Ok(false);
        }
        Ok(true)
    }

    /// Checks a refusal that is sent to a host: it must have been refused something.
    fn note_refusal_sent(&mut self, host: usize, to: u16, letter: &Letter) -> bool {
        let Some((_, is_read)) = letter.refusal() else { return false };
        if !is_read {
            return self.model.refused.remove(&(host as u16, to, letter.tag))
                || self.model.is_hostile[usize::from(to)]
                || self.model.refused_ever.contains(&(host as u16, to, letter.tag));
        }
        let is_it = |reading: &&mut Reading| {
            (reading.server, reading.asker) == (host as u16, to)
                && reading.arrived
                && !reading.is_refused
                && (reading.tag, reading.aperture) == (letter.tag, letter.aperture)
                && (!reading.is_allowed || reading.is_revoked)
        };
        match self.model.readings.iter_mut().find(is_it) {
            Some(reading) => {
                reading.is_refused = true;
                true
            }
            None => self.model.is_hostile[usize::from(to)],
        }
    }

    /// Checks that no more words are in flight than allowed. Words of an earlier epoch were given
    /// up.
    fn check_credits(&self, host: u16, to: u16, epoch: u16) -> Result<(), Violation> {
        let flight = self.model.flying.get(&(host, to));
        let words = flight.map_or(0, |flight| {
            flight.count(|atom| atom.len() > HEAD && atom[0] == WRITE && atom[2..4] == epoch.to_le_bytes())
        });
        let most = self.hosts[usize::from(host)].machine.options.credits as usize;
        // A hostile receiver may have confirmed more words than have come. `spend` checks against
        // its claims.
        let most = if self.model.is_tainted(host, to) { usize::MAX } else { most };
        ensure(words <= most, || {
            format!("host {host}: {words} words are under way to {to}, and {most} may be")
        })
    }
}

/// Takes the next words that leave now, which were stored to a host or asked of it by a load, in
/// order. Only words whose loss would not be reported may be skipped. Returns the owner, and when
/// the last was made.
fn take_made(ledger: &mut Ledger, to: u32, letter: &Letter) -> Option<(u32, u64)> {
    let queue = ledger.program.get_mut(&to)?;
    let (mut next, mut last) = (0, None);
    for word in bare(letter).atoms() {
        let first =
            queue.iter().skip(next).position(|made| !made.excused).map_or(queue.len(), |first| next + first);
        let mut candidates = queue.iter().enumerate().take(first + 1).skip(next);
        let (index, made) = candidates.find(|(_, made)| made.letter == word)?;
        (next, last) = (index + 1, Some((made.owner, made.made_at)));
    }
    queue.drain(..next);
    last
}

/// Takes a packet that asks for the next bytes of a DMA request. A card asks for all that is left,
/// or as much as fits into a packet between two words.
fn take_dma_read(ledger: &mut Ledger, to: u16, letter: &Letter, burst: u64) -> Option<Origin> {
    let length = letter.asked();
    let asks = |pending: &Pending| {
        let request = &pending.request;
        request.opcode == CLAN_DMA_READ
            && request.host == u32::from(to)
            && (request.key, request.aperture) == (letter.key, letter.aperture)
            && request.offset.wrapping_add(pending.asked) == letter.offset
            && length > 0
            && length == (burst - letter.offset % 8).min(request.length - pending.asked)
    };
    for (number, endpoint) in &mut ledger.endpoints {
        if let Some(front) = endpoint.pending.front_mut().filter(|front| asks(front)) {
            front.asked += length;
            return Some(Origin::Dma(*number, front.serial));
        }
    }
    // The request has ended: the answer is not awaited.
    let index = ledger.ghosts.iter().position(|ghost| asks(&ghost.pending))?;
    ledger.ghosts.swap_remove(index);
    Some(Origin::Nobody)
}
