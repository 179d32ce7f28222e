//! Packets that reach a card: their expected effects, and the checks of the actual ones.

use hamlyn_abi::clan::endpoint::{CLAN_FAULT_LOST, CLAN_FAULT_REFUSED};
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::violation::{Violation, ensure};

use super::account::{Account, Shared};
use super::credits::Credits;
use super::objects::Accesses;
use super::packet::{BEGINS, CREDIT, DATA, FROM_SYSTEM, GROUPS, Letter, PROBE, READ, REFUSED, WRITE, words};
use super::readings::Origin;

/// Reasons for which a packet is not taken.
const REFUSALS: [Counter; 7] = [
    Counter::RefusedAperture,
    Counter::RefusedAccess,
    Counter::RefusedRange,
    Counter::BadChecksum,
    Counter::Malformed,
    Counter::Discarded,
    Counter::OverCredit,
];

/// The expected fate of a packet.
#[derive(Debug)]
struct Verdict {
    may_be_taken: bool,
    /// Possible counters if it is not taken.
    reasons: Vec<Counter>,
}

impl Verdict {
    fn taken_if(is_taken: bool, else_counted: Counter) -> Self {
        Self { may_be_taken: is_taken, reasons: if is_taken { Vec::new() } else { vec![else_counted] } }
    }

    fn refused(reason: Counter) -> Self {
        Self::taken_if(false, reason)
    }
}

/// A packet that reaches a card.
#[derive(Debug)]
pub(super) struct Arrival {
    source: u16,
    letter: Letter,
    verdict: Verdict,
    /// The end of the part of a write that an aperture takes.
    end: u64,
    counted: Vec<Counter>,
}

impl Arrival {
    /// Hands a packet to its card. `read` is what the packet says, and whether its checksum is
    /// right.
    pub(super) fn hand_over(
        (source, mut bytes): (u16, Vec<u8>),
        read: Option<(Letter, bool)>,
        (account, shared, credits): (&mut Account, &mut Shared, &mut Credits),
    ) -> Result<Self, Violation> {
        let machine = account.machine.clone();
        let is_sound = read.as_ref().map(|(_, is_sound)| *is_sound);
        let letter = read.map(|(letter, _)| letter).unwrap_or_default();
        let verdict = Verdict::taken_if(true, Counter::Discarded);
        let mut arrival = Self { source, end: 0, letter, verdict, counted: Vec::new() };
        arrival.verdict = if !machine.is_enabled()? {
            Verdict::refused(Counter::Discarded)
        } else {
            match is_sound {
                None => Verdict::refused(Counter::Malformed),
                Some(false) => Verdict::refused(Counter::BadChecksum),
                Some(true) => arrival.judge(account, shared, credits)?,
            }
        };
        let letter = &arrival.letter;
        if letter.kind == REFUSED && arrival.verdict.may_be_taken {
            arrival.take_refusal(account, shared);
        }
        if letter.kind == CREDIT && arrival.verdict.may_be_taken {
            credits.note_grant(account.id, source, letter);
        }
        if is_sound == Some(true) {
            bytes = letter.write();
        }
        let before = machine.counters();
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        let after = machine.counters();
        let more = |counter: Counter| after[usize::from(counter)] - before[usize::from(counter)];
        arrival.counted = REFUSALS.into_iter().filter(|counter| more(*counter) > 0).collect();
        Ok(arrival)
    }

    pub(super) fn tag(&self) -> u32 {
        self.letter.tag
    }

    pub(super) fn describe(&self) -> String {
        format!("{}: {:?}, counted {:?}", self.letter.brief(), self.verdict, self.counted)
    }

    /// Checks what the card has counted, and accounts for the packet's effects. `is_open` tells
    /// whether the endpoint that has sent it is open.
    pub(super) fn settle(
        &self,
        account: &mut Account,
        shared: &mut Shared,
        is_open: bool,
    ) -> Result<(), Violation> {
        let Self { source, letter, verdict, counted, .. } = self;
        let wrong = || {
            format!(
                "host {}: a packet from {source} was counted as {counted:?}, and must be {verdict:?}: {}",
                account.id,
                letter.brief()
            )
        };
        match counted[..] {
            [] => ensure(verdict.may_be_taken, wrong)?,
            [reason] => ensure(verdict.reasons.contains(&reason), wrong)?,
            _ => return Err(Violation::new(wrong())),
        }
        let is_taken = counted.is_empty();
        match letter.kind {
            WRITE => self.note_write(account, shared, is_open),
            READ => self.note_read(account, shared),
            GROUPS if is_taken && *source != account.id => {
                account.program.announced(&mut account.ledger, *source, letter.offset);
            }
            DATA if is_taken => drop(self.note_data(account, shared)),
            _ => {}
        }
        account.hears_beginning = letter.kind == GROUPS && letter.flags & BEGINS != 0;
        let checked = account.check(shared);
        account.hears_beginning = false;
        checked
    }

    /// Returns the expected fate of a packet.
    fn judge(
        &mut self,
        account: &Account,
        shared: &mut Shared,
        credits: &mut Credits,
    ) -> Result<Verdict, Violation> {
        let (letter, pair) = (&self.letter, (account.id, self.source));
        let waits = |origin| account.awaits(origin);
        Ok(match (letter.kind, letter.data.len()) {
            (WRITE | READ, _) => return self.judge_access(account, shared, credits),
            (DATA, 1..) => {
                Verdict::taken_if(shared.readings.expects(pair, letter, true, waits), Counter::Discarded)
            }
            (REFUSED, _) => match letter.refusal() {
                Some((CLAN_FAULT_REFUSED..=CLAN_FAULT_LOST, is_read)) => {
                    let is_heard = match is_read {
                        true => shared.readings.expects(pair, letter, false, waits),
                        false => shared.refusals.can_refuse(pair.0, pair.1, letter.tag),
                    };
                    Verdict::taken_if(is_heard, Counter::Discarded)
                }
                _ => Verdict::refused(Counter::Malformed),
            },
            (CREDIT, length) => Verdict::taken_if(matches!(length, 0 | 16), Counter::Malformed),
            (GROUPS, length) => Verdict::taken_if(length == 0, Counter::Malformed),
            (PROBE, 0) => Verdict::taken_if(
                credits.earn(pair.0, pair.1, letter, account.machine.is_linked()),
                Counter::Malformed,
            ),
            _ => Verdict::refused(Counter::Malformed),
        })
    }

    /// Returns the expected fate of a write or read.
    fn judge_access(
        &mut self,
        account: &Account,
        shared: &Shared,
        credits: &mut Credits,
    ) -> Result<Verdict, Violation> {
        let (host, source, letter) = (account.id, self.source, &self.letter);
        let is_tainted = shared.standing.is_tainted(source, host);
        self.end = letter.offset;
        if let Some(nonsense) = letter.nonsense() {
            return Ok(Verdict::refused(nonsense));
        }
        if !credits.earn(host, source, letter, account.machine.is_linked()) {
            ensure(is_tainted, || {
                format!("host {host}: more comes from {source} than was granted: {}", letter.brief())
            })?;
            return Ok(Verdict::refused(Counter::OverCredit));
        }
        let (refusal, end) = self.refusal(account);
        let mut verdict = refusal.map_or(Verdict::taken_if(true, Counter::Discarded), Verdict::refused);
        // There may be no room for that many answers.
        let is_odd = is_tainted || shared.standing.was_cut_off(source, host);
        if letter.kind == READ && is_odd {
            verdict.reasons.push(Counter::OverCredit);
        }
        self.end = end;
        Ok(verdict)
    }

    /// Returns why a write or read is refused, if it is, and the end of the part of a write that is
    /// taken.
    fn refusal(&self, account: &Account) -> (Option<Counter>, u64) {
        let letter = &self.letter;
        let is_read = letter.kind == READ;
        let Some((_, aperture)) = account.ledger.meant(letter) else {
            return (Some(Counter::RefusedAperture), letter.offset);
        };
        let length = if is_read { letter.asked() } else { letter.data.len() as u64 };
        if !aperture.allows(is_read, letter.flags & FROM_SYSTEM != 0) {
            return (Some(Counter::RefusedAccess), letter.offset);
        }
        let part = aperture.part(self.source);
        let bound = part.end - part.start;
        if letter.offset.checked_add(length).is_some_and(|end| end <= bound) {
            return (None, letter.offset + length);
        }
        let whole = |(at, length): &(u64, u64)| *at + *length <= bound;
        let end = if is_read || !letter.is_bounded() {
            letter.offset
        } else {
            words(letter.offset, length)
                .take_while(whole)
                .last()
                .map_or(letter.offset, |(at, length)| at + length)
        };
        (Some(Counter::RefusedRange), end)
    }

    /// Adds the part of a write that the aperture takes to the data to be written.
    fn note_write(&self, account: &mut Account, shared: &mut Shared, is_open: bool) {
        let Self { source, letter, counted, .. } = self;
        let (host, is_taken) = (account.id, counted.is_empty());
        if !is_taken {
            account.tally.refusals += 1;
            let unsaid = [Counter::Discarded, Counter::BadChecksum, Counter::Malformed, Counter::OverCredit];
            if !unsaid.iter().any(|counter| counted.contains(counter)) {
                let is_heard =
                    is_open && account.machine.is_linked() && !shared.standing.was_cut_off(*source, host);
                shared.refusals.refuse(host, *source, (letter.tag, letter.epoch), is_heard);
            }
        }
        let is_range = *counted == [Counter::RefusedRange];
        let Some((number, aperture)) = account.ledger.meant(letter) else { return };
        if !is_taken && !is_range {
            return;
        }
        let length = self.end.checked_sub(letter.offset).filter(|length| *length > 0);
        let Some(length) = length else { return };
        let (offset, owner) = (aperture.part(*source).start + letter.offset, aperture.owner);
        let target = number.into();
        let accesses = Accesses { target, is_remote: false, is_read: false, owner, offset, length };
        account.landings.add(aperture, offset, &letter.data[..length as usize], accesses);
    }

    /// Accounts for a read that a host asks for.
    fn note_read(&self, account: &mut Account, shared: &mut Shared) {
        let (Self { source, letter, .. }, is_taken) = (self, self.counted.is_empty());
        let is_allowed = self.refusal(account).0.is_none();
        let aperture = account.ledger.meant(letter).filter(|_| is_allowed);
        let memory = aperture.map(|(_, one)| (one.area.clone(), one.part(*source).start + letter.offset));
        let place = memory.as_ref().map(|(_, place)| *place);
        let since = (shared.memories.moment(), account.landings.count());
        shared.readings.arrived((*source, account.id), letter, memory, is_taken, since);
        if let Some(offset) = place.filter(|_| is_taken) {
            let (target, length) = (letter.aperture.into(), letter.asked());
            account.passed(Accesses { target, is_remote: false, is_read: true, owner: 0, offset, length });
        }
    }

    /// Accounts for data that was asked for. For a DMA request, it is written when all of it has
    /// come.
    fn note_data(&self, account: &mut Account, shared: &mut Shared) -> Option<()> {
        let pair = (account.id, self.source);
        let (origin, answer) =
            shared.readings.take_data(pair, &self.letter, |origin| account.awaits(origin))?;
        let target = u64::from(self.source) << 32 | u64::from(answer.aperture);
        let (offset, length) = (answer.offset, answer.data.len() as u64);
        let accesses = Accesses { target, is_remote: true, is_read: true, owner: 0, offset, length };
        match origin {
            Origin::Load(number) => {
                let mut value = [0; 8];
                value.get_mut(..answer.data.len())?.copy_from_slice(&answer.data);
                account.loads.answer(number, u64::from_le_bytes(value), accesses);
            }
            Origin::Dma(number, _) => {
                let Account { ledger, landings, .. } = &mut *account;
                let endpoint = ledger.endpoint(number)?;
                let owner = endpoint.owner;
                let accesses = Accesses { owner, ..accesses };
                let front = endpoint.requests.front_mut()?;
                let (number, local) = (front.request.local_aperture, front.advance(length));
                let aperture = ledger.own_aperture(number, owner);
                match aperture.filter(|one| local + length <= one.area.length) {
                    Some(aperture) => landings.add(aperture, local, &answer.data, accesses),
                    // It has come, although no aperture takes it.
                    None => account.passed(accesses),
                }
            }
            Origin::Gone => {}
        }
        Some(())
    }

    /// Takes in a refusal by a host: the endpoint has to be told of it.
    fn take_refusal(&self, account: &mut Account, shared: &mut Shared) {
        let Self { source, letter, .. } = self;
        let Some((reason, is_read)) = letter.refusal() else { return };
        if !is_read {
            if let Some((_, endpoint)) = account.ledger.by_tag(letter.tag) {
                let cause = (reason, u32::from(*source), letter.aperture, letter.offset);
                endpoint.faults.permit(cause, true);
            }
            return;
        }
        let waits = |origin| account.awaits(origin);
        match shared.readings.take_refusal((account.id, *source), letter.tag, waits) {
            Some(Origin::Load(number)) => account.loads.refuse(number, reason),
            Some(Origin::Dma(number, _)) => {
                let endpoint = account.ledger.endpoint(number);
                let front = endpoint.and_then(|endpoint| endpoint.requests.front_mut());
                front.into_iter().for_each(|front| front.refuse(reason));
            }
            _ => {}
        }
    }
}
