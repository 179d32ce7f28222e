//! Packets that leave a card: each word was stored, or belongs to a DMA request, or was asked for.

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;

use crate::engine::violation::{Violation, ensure};

use super::account::{Account, Shared};
use super::objects::Accesses;
use super::packet::{CREDIT, DATA, GROUPS, Letter, PROBE, READ, REFUSED, TO_GROUP, WRITE};
use super::readings::Origin;

/// A packet that leaves a card.
#[derive(Debug)]
pub(super) struct Departure {
    to: u16,
    letter: Letter,
}

impl Departure {
    /// Reads a packet that has left.
    pub(super) fn new(account: &Account, to: u16, bytes: &[u8]) -> Result<Self, Violation> {
        let wrong = |what: String| Violation::new(format!("host {}: a packet to {to:#x} {what}", account.id));
        let (letter, is_sound) = Letter::read(bytes).ok_or_else(|| wrong("is not a packet".into()))?;
        ensure(is_sound, || wrong("has a wrong checksum".into()))?;
        let length = letter.data.len();
        ensure(length as u64 <= account.burst(), || wrong(format!("has {length} bytes")))?;
        Ok(Self { to, letter })
    }

    pub(super) fn letter(&self) -> &Letter {
        &self.letter
    }

    /// Checks the packet, and accounts for what it has.
    pub(super) fn settle(&self, account: &mut Account, shared: &mut Shared) -> Result<(), Violation> {
        let Self { to, letter } = self;
        // A request that the engine ended in the same call is reported after the packet.
        account.count(Counter::PacketsSent, 1);
        account.settle_ended(shared)?;
        let is_right = match letter.kind {
            WRITE => self.write(account, shared)?,
            READ => self.read(account, shared)?,
            DATA => self.data(account, shared),
            REFUSED => self.refusal(account, shared),
            CREDIT | PROBE | GROUPS => true,
            _ => false,
        };
        ensure(is_right, || {
            let endpoints = account.ledger.endpoints().values();
            let next: Vec<_> = endpoints.filter_map(|one| one.requests.front()).collect();
            let (id, readings) = (account.id, shared.readings.describe((*to, account.id), letter.tag));
            format!(
                "host {id}: a packet to {to:#x} is not what was to be sent: {letter:x?}, but {next:x?} {readings}"
            )
        })?;
        if matches!(letter.kind, WRITE | READ | PROBE) {
            shared.refusals.sent(account.id, *to, letter.epoch);
        }
        Ok(())
    }

    fn is_in_trouble(&self, account: &Account, shared: &Shared) -> bool {
        shared.standing.is_in_trouble(account.id, self.to.into())
    }

    fn write(&self, account: &mut Account, shared: &mut Shared) -> Result<bool, Violation> {
        let Self { to, letter } = self;
        if letter.data.is_empty() || !letter.is_bounded() {
            return Ok(false);
        }
        let burst = account.burst();
        account.count(Counter::BytesSent, letter.data.len() as u64);
        // A store may be equal to a request's data, byte for byte. Then the card's report about the
        // request decides.
        let is_copy = !self.is_in_trouble(account, shared) && account.program.is_copy_due(*to, letter, burst);
        let is_stored = !account.ends_request(letter.tag) && !is_copy;
        let made = if is_stored { account.program.take_made(*to, letter) } else { None };
        let stored = made.map(|(owner, made_at)| (owner, Some(made_at)));
        let waited = if stored.is_none() { self.take_request(account, shared) } else { None };
        let Account { ledger, program, .. } = &mut *account;
        let (owner, made_at) = if let Some(taken) = stored.or(waited) {
            taken
        } else if letter.flags & TO_GROUP != 0 {
            let Some(owner) = self.take_copy(account, shared)? else { return Ok(false) };
            (owner, None)
        } else {
            let Some(owner) = program.take_detached(ledger, *to, letter, burst) else { return Ok(false) };
            (owner, None)
        };
        if let Some(made_at) = made_at {
            self.check_behind_copies(account, shared, made_at)?;
        }
        if waited.is_some() {
            self.check_turns(account)?;
        }
        // A closed endpoint, or a later one with its number, is not told of a refusal.
        if account.ledger.by_tag(letter.tag).is_some() {
            shared.refusals.wrote(account.id, *to, letter.tag);
        }
        let target = match letter.flags & TO_GROUP {
            0 => u64::from(*to) << 32 | u64::from(letter.aperture),
            _ => u64::from(CLAN_GROUP_HOST + letter.aperture) << 32,
        };
        let (offset, length) = (letter.offset, letter.data.len() as u64);
        account.passed(Accesses { target, is_remote: true, is_read: false, owner, offset, length });
        Ok(true)
    }

    /// Takes the next packet of a DMA request. Returns the request's owner, and when it was put if
    /// it has not ended.
    fn take_request(&self, account: &mut Account, shared: &Shared) -> Option<(u32, Option<u64>)> {
        let (Self { to, letter }, burst) = (self, account.burst());
        let Account { id, machine, ledger, program, .. } = account;
        let Some((number, endpoint)) = ledger.by_tag(letter.tag) else {
            // From an endpoint that was closed since.
            return program.take_ghost(*to, letter, burst).map(|owner| (owner, None));
        };
        let (owner, flags) = (endpoint.owner, endpoint.flags);
        let front = endpoint.requests.front().filter(|front| front.is_next(*to, flags, letter, burst))?;
        let (length, put) = (letter.data.len() as u64, front.put);
        if !front.is_cut {
            // These may be the next bytes of the request.
            let (number, local) = (front.request.local_aperture, front.next_local()?);
            let area = &ledger.own_aperture(number, owner)?.area;
            local.checked_add(length).filter(|end| *end <= area.length)?;
            let (pieces, host) = (area.pieces(local, length), (usize::from(*id), &machine.memory));
            if !shared.memories.might_be(host, &pieces, put.moment, &letter.data) {
                return None;
            }
        }
        ledger.endpoint(number)?.requests.front_mut()?.advance(length);
        Some((owner, Some(put.event)))
    }

    /// Takes a packet that is a copy for a member of a group: all stores and loads that were made
    /// before its request was put have left. Returns the owner of its request.
    fn take_copy(&self, account: &mut Account, shared: &Shared) -> Result<Option<u32>, Violation> {
        let (Self { to, letter }, is_sure) = (self, !self.is_in_trouble(account, shared));
        let how = (account.burst(), is_sure);
        let Account { id, ledger, program, .. } = account;
        let Some((owner, put_at)) = program.take_copy(ledger, *to, letter, how) else { return Ok(None) };
        let overtaken = program.made_before(*to, put_at);
        ensure(overtaken.is_none() || !is_sure, || {
            format!("host {id}: a copy for {to} overtakes {overtaken:x?}")
        })?;
        Ok(Some(owner))
    }

    /// Checks that all copies of requests that ended before `made_at` have left.
    fn check_behind_copies(&self, account: &Account, shared: &Shared, made_at: u64) -> Result<(), Violation> {
        let overtaken = account.program.copy_before(self.to, made_at);
        ensure(overtaken.is_none() || self.is_in_trouble(account, shared), || {
            let (id, to) = (account.id, self.to);
            format!("host {id}: a write or load to {to} overtakes copies of {overtaken:x?}")
        })
    }

    /// Checks that the engine serves the writers to a host, of the same privilege, in turn: no
    /// endpoint is passed over again and again.
    fn check_turns(&self, account: &mut Account) -> Result<(), Violation> {
        let (id, most) = (account.id, 2 * account.machine.options.endpoints + 8);
        let tag = self.letter.tag;
        let Some(flags) = account.ledger.by_tag(tag).map(|(_, one)| one.flags) else { return Ok(()) };
        for (number, endpoint) in account.ledger.endpoints_mut().filter(|(_, one)| one.flags == flags) {
            let passed_over = endpoint.requests.pass_over(self.to, endpoint.tag == tag);
            ensure(passed_over <= most, || {
                format!(
                    "host {id}: endpoint {number} has waited for {most} packets of others, and has no turn"
                )
            })?;
        }
        Ok(())
    }

    fn read(&self, account: &mut Account, shared: &mut Shared) -> Result<bool, Violation> {
        let (Self { to, letter }, burst) = (self, account.burst());
        let Account { ledger, program, .. } = &mut *account;
        let origin = if let Some((_, made_at)) = program.take_made(*to, letter) {
            self.check_behind_copies(account, shared, made_at)?;
            Origin::Load(letter.tag.into())
        } else {
            match program.take_read(ledger, *to, letter, burst) {
                Some(origin) => origin,
                None => return Ok(false),
            }
        };
        shared.readings.ask((account.id, *to), letter, origin);
        Ok(true)
    }

    /// Checks data that a host asked for: it must have been in memory at some moment since then.
    fn data(&self, account: &Account, shared: &mut Shared) -> bool {
        let answer = shared.readings.answer((self.to, account.id), &self.letter);
        let host = (account.id.into(), &account.machine.memory);
        answer
            .is_some_and(|(pieces, start)| shared.memories.might_be(host, &pieces, start, &self.letter.data))
    }

    /// Checks a refusal that is sent to a host: it must have been refused something.
    fn refusal(&self, account: &Account, shared: &mut Shared) -> bool {
        let (Self { to, letter }, host) = (self, account.id);
        let Some((_, is_read)) = letter.refusal() else { return false };
        let was_refused = match is_read {
            true => shared.readings.refuse((*to, host), letter),
            false => shared.refusals.tell(host, *to, letter.tag),
        };
        was_refused || shared.standing.is_hostile(*to)
    }
}
