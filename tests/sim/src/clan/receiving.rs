//! Packets that reach a card: their expected effects, and the checks of the actual ones.

use hamlyn_abi::clan::endpoint::{CLAN_FAULT_LOST, CLAN_FAULT_REFUSED};
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::driving::allows;
use super::ledger::{Accesses, Aperture, Landing};
use super::model::{Clan, Origin, Reading};
use super::packet::{
    CREDIT, DATA, FROM_SYSTEM, GROUPS, HEAD, Letter, PROBE, READ, REFUSED, TO_GROUP, WRITE, words,
};

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

    fn refused(reasons: Vec<Counter>) -> Self {
        Self { may_be_taken: false, reasons }
    }
}

impl World<Clan> {
    /// Hands a packet to its card. Its words must be the next of those that were sent from its
    /// source.
    pub(super) fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        self.settle(host)?;
        let Arrived { source, mut bytes } = arrived;
        let read = Letter::read(&bytes);
        self.expect_next(source, host, &bytes, read.as_ref())?;
        let read = read.map(|(letter, is_sound)| (self.starve(host, source, letter), is_sound));
        if let Some((letter, true)) = &read {
            bytes = letter.write();
        }
        let machine = self.hosts[host].machine.clone();
        let (verdict, end) = self.judge(host, source, read.as_ref())?;
        let letter = read.map(|(letter, _)| letter).unwrap_or_default();
        if letter.kind == REFUSED && verdict.may_be_taken {
            self.hear_refusal(host, source, &letter);
        }
        if letter.kind == CREDIT && verdict.may_be_taken {
            self.hear_grant(host as u16, source, &letter);
        }
        let before = machine.counters();
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        let after = machine.counters();
        let more = |counter: Counter| after[usize::from(counter)] - before[usize::from(counter)];
        let counted: Vec<Counter> = REFUSALS.into_iter().filter(|counter| more(*counter) > 0).collect();
        self.note(|| format!("host {host} gets {}: {verdict:?}, counted {counted:?}", letter.brief()));
        let wrong = || {
            format!(
                "host {host}: a packet from {source} was counted as {counted:?}, and must be {verdict:?}: {}",
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
            WRITE => self.note_write_arrived(host, source, &letter, is_taken, end, &counted),
            READ => self.note_read_arrived(host, source, &letter, is_taken),
            GROUPS if is_taken && usize::from(source) != host => {
                let ledger = &mut self.model.ledgers[host];
                ledger.members.insert(source, letter.offset);
                ledger.forget_copies(source, |group| letter.offset >> group & 1 == 0);
            }
            DATA if is_taken => {
                let landings = self.note_data_arrived(host, source, &letter).unwrap_or_default();
                self.model.ledgers[host].landings.extend(landings);
            }
            _ => {}
        }
        self.check_card(host)?;
        Ok(())
    }

    /// Checks that a host's words come in the order in which they were sent. Only those that a port
    /// took down with it may be missing.
    fn expect_next(
        &mut self,
        source: u16,
        host: usize,
        bytes: &[u8],
        read: Option<&(Letter, bool)>,
    ) -> Result<(), Violation> {
        let flight = self.model.flying.entry((source, host as u16)).or_default();
        let is_next = match read {
            Some((letter, true)) => letter.atoms().iter().all(|atom| flight.takes(&atom.write())),
            _ => flight.takes(bytes),
        };
        let what = || read.map_or_else(String::new, |(letter, _)| letter.brief());
        ensure(is_next, || {
            format!("host {host}: a packet from {source} is not the next that was sent: {}", what())
        })
    }

    /// Returns the expected fate of a packet, and the end of the part that an aperture takes.
    fn judge(
        &mut self,
        host: usize,
        source: u16,
        read: Option<&(Letter, bool)>,
    ) -> Result<(Verdict, u64), Violation> {
        if !self.hosts[host].machine.is_enabled()? {
            return Ok((Verdict::refused(vec![Counter::Discarded]), 0));
        }
        let Some((letter, is_sound)) = read else {
            return Ok((Verdict::refused(vec![Counter::Malformed]), 0));
        };
        if !is_sound {
            return Ok((Verdict::refused(vec![Counter::BadChecksum]), 0));
        }
        let (asker, tag, length) = (host as u16, letter.tag, letter.data.len());
        let verdict = match letter.kind {
            WRITE | READ => return self.judge_access(host, source, letter),
            DATA if length > 0 => {
                let is_next = self.model.awaited(asker, source, tag).is_some_and(|reading| {
                    reading.offset + reading.came == letter.offset
                        && length as u64 <= reading.length - reading.came
                });
                Verdict::taken_if(is_next, Counter::Discarded)
            }
            REFUSED => match letter.refusal() {
                Some((CLAN_FAULT_REFUSED..=CLAN_FAULT_LOST, is_read)) => {
                    let is_heard = match is_read {
                        true => self.model.awaited(asker, source, tag).is_some(),
                        false => self.model.can_refuse(asker, source, tag),
                    };
                    Verdict::taken_if(is_heard, Counter::Discarded)
                }
                _ => Verdict::refused(vec![Counter::Malformed]),
            },
            CREDIT => Verdict::taken_if(matches!(length, 0 | 16), Counter::Malformed),
            GROUPS => Verdict::taken_if(length == 0, Counter::Malformed),
            PROBE if length == 0 => Verdict::taken_if(self.earn(asker, source, letter), Counter::Malformed),
            _ => Verdict::refused(vec![Counter::Malformed]),
        };
        Ok((verdict, 0))
    }

    /// Returns the expected fate of a write or read.
    fn judge_access(
        &mut self,
        host: usize,
        source: u16,
        letter: &Letter,
    ) -> Result<(Verdict, u64), Violation> {
        if let Some(nonsense) = letter.nonsense() {
            return Ok((Verdict::refused(vec![nonsense]), letter.offset));
        }
        if !self.earn(host as u16, source, letter) {
            ensure(self.model.is_tainted(source, host as u16), || {
                format!("host {host}: more comes from {source} than was granted: {}", letter.brief())
            })?;
            return Ok((Verdict::refused(vec![Counter::OverCredit]), letter.offset));
        }
        let (refusal, end) = self.refusal(host, source, letter);
        let may_be_taken = refusal.is_none();
        let mut reasons = refusal.unwrap_or_default();
        // There may be no room for that many answers.
        let is_odd = self.model.is_tainted(source, host as u16) || self.was_cut_off(source, host);
        if letter.kind == READ && is_odd {
            reasons.push(Counter::OverCredit);
        }
        Ok((Verdict { may_be_taken, reasons }, end))
    }

    /// Returns whether traffic between two hosts was lost, so that credits have to be agreed upon
    /// again.
    fn was_cut_off(&self, source: u16, host: usize) -> bool {
        self.model.was_reset[host] || self.model.was_reset[usize::from(source)]
    }

    /// Returns why a write or read is refused, if it is, and the end of the part of a write that is
    /// taken.
    fn refusal(&self, host: usize, source: u16, letter: &Letter) -> (Option<Vec<Counter>>, u64) {
        let is_read = letter.kind == READ;
        let Some((_, aperture)) = self.aperture_of(host, letter) else {
            return (Some(vec![Counter::RefusedAperture]), letter.offset);
        };
        let length = if is_read { letter.asked() } else { letter.data.len() as u64 };
        if !allows(aperture.flags, is_read, letter.flags & FROM_SYSTEM != 0) {
            return (Some(vec![Counter::RefusedAccess]), letter.offset);
        }
        let part = aperture.part(source);
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
        (Some(vec![Counter::RefusedRange]), end)
    }

    /// Returns the aperture that a packet is for, if the packet has its key.
    fn aperture_of(&self, host: usize, letter: &Letter) -> Option<(u32, Aperture)> {
        let mut apertures = self.model.ledgers[host].apertures.iter();
        let to_group = letter.flags & TO_GROUP != 0;
        let is_it = |(number, one): &(&u32, &Aperture)| {
            let called = if to_group { one.group } else { **number };
            (called, one.key, one.is_member()) == (letter.aperture, letter.key, to_group)
        };
        apertures.find(is_it).map(|(number, aperture)| (*number, aperture.clone()))
    }

    /// Adds the part of a write that the aperture takes to the data to be written.
    fn note_write_arrived(
        &mut self,
        host: usize,
        source: u16,
        letter: &Letter,
        is_taken: bool,
        end: u64,
        counted: &[Counter],
    ) {
        if !is_taken {
            self.model.refusals += 1;
            let unsaid = [Counter::Discarded, Counter::BadChecksum, Counter::Malformed, Counter::OverCredit];
            if !unsaid.iter().any(|counter| counted.contains(counter)) {
                let told = (host as u16, source, letter.tag);
                self.model.refused_ever.insert(told);
                let is_told = self.model.over.contains(&(source, host as u16, letter.epoch));
                let is_there = !is_told && self.model.by_tag(source, letter.tag).is_some();
                if is_there && self.hosts[host].uplink.is_up() && !self.was_cut_off(source, host) {
                    self.model.refused.insert(told);
                }
            }
        }
        let is_range = counted == [Counter::RefusedRange];
        let Some((number, aperture)) = self.aperture_of(host, letter) else { return };
        if !is_taken && !is_range {
            return;
        }
        let Some(length) = end.checked_sub(letter.offset).filter(|length| *length > 0) else { return };
        let offset = aperture.part(source).start + letter.offset;
        let accesses = Accesses {
            target: number.into(),
            is_remote: false,
            is_read: false,
            owner: aperture.owner,
            offset,
            length,
        };
        let landings = landings(&aperture, offset, &letter.data[..length as usize], accesses);
        self.model.ledgers[host].landings.extend(landings);
    }

    /// Accounts for a read that a host asks for.
    fn note_read_arrived(&mut self, host: usize, source: u16, letter: &Letter, is_taken: bool) {
        let (refusal, _) = self.refusal(host, source, letter);
        let aperture = self.aperture_of(host, letter).map(|(_, aperture)| aperture);
        let is_it = |reading: &Reading| {
            (reading.asker, reading.server) == (source, host as u16)
                && !reading.arrived
                && (reading.tag, reading.key, reading.aperture) == (letter.tag, letter.key, letter.aperture)
                && (reading.offset, reading.length) == (letter.offset, letter.asked())
        };
        let (moment, behind) = (self.model.moment, self.model.ledgers[host].landings.len());
        let index = self.model.readings.iter().position(is_it);
        let index = index.unwrap_or_else(|| {
            // It is from a hostile host.
            self.model.readings.push(Reading::new(source, host as u16, letter, Origin::Nobody));
            self.model.readings.len() - 1
        });
        let reading = &mut self.model.readings[index];
        reading.arrived = true;
        reading.is_allowed = refusal.is_none();
        (reading.start, reading.behind) = (moment, behind);
        let place = aperture.as_ref().map_or(0, |aperture| aperture.part(source).start + letter.offset);
        reading.place = place;
        reading.area = aperture.map(|aperture| aperture.area).filter(|_| refusal.is_none());
        let is_served = is_taken && reading.is_allowed;
        reading.is_revoked |= !is_taken && reading.is_allowed;
        if is_served {
            let (target, offset, length) = (letter.aperture.into(), place, letter.asked());
            let accesses = Accesses { target, is_remote: false, is_read: true, owner: 0, offset, length };
            self.passed(host, accesses);
        }
    }

    /// Accounts for data that was asked for. Returns the data to be written to memory, if it is for
    /// a DMA request.
    fn note_data_arrived(&mut self, host: usize, source: u16, letter: &Letter) -> Option<Vec<Landing>> {
        let reading = self.model.awaited(host as u16, source, letter.tag)?;
        let length = letter.data.len() as u64;
        reading.came += length;
        let origin = reading.origin;
        let target = u64::from(source) << 32 | u64::from(reading.aperture);
        match origin {
            Origin::Load(number) => {
                reading.data.extend_from_slice(&letter.data);
                if reading.came < reading.length {
                    return None;
                }
                let (offset, length) = (reading.offset, reading.length);
                let mut value = [0; 8];
                value.get_mut(..reading.data.len())?.copy_from_slice(&reading.data);
                let load = self.model.ledgers[host].loads.get_mut(&number)?;
                load.value = Some(u64::from_le_bytes(value));
                let owner = load.owner;
                let accesses = Accesses { target, is_remote: true, is_read: true, owner, offset, length };
                load.accesses = Some(accesses);
                None
            }
            Origin::Dma(number, serial) => {
                reading.data.extend_from_slice(&letter.data);
                // It is written when all of it has come.
                if reading.came < reading.length {
                    return None;
                }
                let (data, offset, length) =
                    (std::mem::take(&mut reading.data), reading.offset, reading.length);
                let ledger = &mut self.model.ledgers[host];
                let endpoint = ledger.endpoints.get_mut(&number)?;
                let owner = endpoint.owner;
                let pending = endpoint.pending.iter_mut().find(|pending| pending.serial == serial)?;
                let local = pending.request.local_offset + pending.done;
                pending.done += length;
                let aperture = ledger.apertures.get(&pending.request.local_aperture);
                let aperture = aperture.filter(|one| one.owner == owner && local + length <= one.area.length);
                let accesses = Accesses { target, is_remote: true, is_read: true, owner, offset, length };
                let landings = aperture.map(|aperture| landings(aperture, local, &data, accesses));
                if landings.is_none() {
                    // It has come, although there is no place to write it.
                    self.passed(host, accesses);
                }
                landings
            }
            Origin::Nobody => None,
        }
    }

    /// Takes in a refusal by a host: the endpoint has to be told of it.
    fn hear_refusal(&mut self, host: usize, source: u16, letter: &Letter) {
        let Some((reason, is_read)) = letter.refusal() else { return };
        let cause = (reason, u32::from(source), letter.aperture, letter.offset);
        if !is_read {
            if let Some(endpoint) = self.model.by_tag(host as u16, letter.tag) {
                endpoint.causes.push(cause);
                endpoint.owed_faults += 1;
            }
            return;
        }
        let Some(reading) = self.model.awaited(host as u16, source, letter.tag) else { return };
        reading.came = reading.length;
        match reading.origin {
            Origin::Load(number) => {
                let load = self.model.ledgers[host].loads.get_mut(&number);
                load.into_iter().for_each(|load| load.refused = reason);
            }
            Origin::Dma(number, _) => {
                let endpoint = self.model.ledgers[host].endpoints.get_mut(&number);
                let front = endpoint.and_then(|endpoint| endpoint.pending.front_mut());
                front.into_iter().for_each(|front| front.refused = reason);
            }
            Origin::Nobody => {}
        }
    }
}

/// Returns the pieces of memory for data of an aperture. Accesses by this host are complete with
/// the last piece, those of other hosts piece by piece.
fn landings(aperture: &Aperture, offset: u64, data: &[u8], accesses: Accesses) -> Vec<Landing> {
    let pieces = aperture.area.pieces(offset, data.len() as u64);
    let (mut rest, last) = (data, pieces.len());
    let piece = |(index, (address, length)): (usize, (u64, u64))| {
        let at = accesses.offset + (data.len() - rest.len()) as u64;
        let (here, behind) = rest.split_at(length as usize);
        rest = behind;
        let then = match accesses.is_remote {
            true => (index + 1 == last).then_some(accesses),
            false => Some(Accesses { offset: at, length, ..accesses }),
        };
        Landing { address, bytes: here.to_vec(), then }
    };
    pieces.into_iter().enumerate().map(piece).collect()
}

const _: () = assert!(HEAD == 32);
