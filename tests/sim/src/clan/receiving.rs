//! What reaches a card: what must become of it, and what did.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::dma::CLAN_DMA_READ;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::driving::allows;
use super::ledger::{Accesses, Aperture, Landing};
use super::model::{Clan, Origin, Reading};
use super::packet::{CREDIT, DATA, FROM_SYSTEM, HEAD, Letter, PROBE, READ, REFUSED, WRITE, words};

/// What makes a packet none that is taken.
const REFUSALS: [Counter; 7] = [
    Counter::RefusedAperture,
    Counter::RefusedAccess,
    Counter::RefusedRange,
    Counter::BadChecksum,
    Counter::Malformed,
    Counter::Discarded,
    Counter::OverCredit,
];

/// What must become of a packet.
#[derive(Debug)]
enum Verdict {
    /// It is taken.
    Taken,
    /// It is counted as one of these.
    Refused(Vec<Counter>),
    /// Either: it comes from a hostile host, or of a time that is over.
    Either,
}

impl World<Clan> {
    /// A packet is handed to its card: words that are the next of those that were sent from there.
    pub(super) fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        self.settle(host)?;
        let Arrived { source, mut bytes } = arrived;
        let read = Letter::read(&bytes);
        self.expect_next(source, host, &bytes, read.as_ref())?;
        let machine = self.hosts[host].machine.clone();
        let (verdict, end) = self.judge(host, source, read.as_ref())?;
        let letter = read.map(|(letter, _)| letter).unwrap_or_default();
        if letter.kind == REFUSED && !matches!(verdict, Verdict::Refused(_)) {
            self.hear_refusal(host, source, &letter);
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
        match &verdict {
            Verdict::Taken => ensure(counted.is_empty(), wrong)?,
            Verdict::Refused(faults) => {
                ensure(counted.len() == 1 && faults.contains(&counted[0]), wrong)?;
            }
            Verdict::Either => {}
        }
        let is_taken = counted.is_empty();
        if letter.kind == DATA {
            let answer = (source, letter.aperture, letter.offset, letter.data.clone());
            self.model.ledgers[host].answers.push(answer);
        }
        match letter.kind {
            WRITE => self.note_write_arrived(host, source, &letter, is_taken, end, &counted),
            READ => self.note_read_arrived(host, source, &letter, is_taken),
            DATA if !is_taken => self.model.answers_another(host as u16, source, &letter),
            DATA => {
                let landings = self.note_data_arrived(host, source, &letter).unwrap_or_default();
                self.model.ledgers[host].landings.extend(landings);
            }
            _ => {}
        }
        self.check_card(host)?;
        self.start_readings(host, source);
        Ok(())
    }

    /// Words of a host come in the order in which they were sent, and only those that a port took with it are missing.
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

    /// What must become of a packet, and where the part of it ends that an aperture takes.
    fn judge(
        &self,
        host: usize,
        source: u16,
        read: Option<&(Letter, bool)>,
    ) -> Result<(Verdict, u64), Violation> {
        let refused = |counter| Ok((Verdict::Refused(vec![counter]), 0));
        if !self.hosts[host].machine.is_enabled()? {
            let mut all = vec![Counter::Discarded, Counter::Malformed, Counter::BadChecksum];
            all.push(Counter::OverCredit);
            return Ok((Verdict::Refused(all), 0));
        }
        let Some((letter, is_sound)) = read else { return refused(Counter::Malformed) };
        let most = self.model.options.burst as usize;
        if !is_sound || letter.data.len() > most {
            return Ok((Verdict::Refused(vec![Counter::BadChecksum, Counter::Malformed]), 0));
        }
        let tainted = self.model.is_tainted(source, host as u16);
        if !matches!(letter.kind, WRITE..=PROBE) {
            return refused(Counter::Malformed);
        }
        if matches!(letter.kind, DATA | REFUSED | CREDIT | PROBE) {
            return Ok((Verdict::Either, 0));
        }
        let (refusal, end) = self.refusal(host, letter);
        Ok(match refusal {
            Some(_) if tainted => (Verdict::Either, end),
            Some(counters) => (Verdict::Refused(counters), end),
            None if tainted || self.was_cut_off(source, host) => (Verdict::Either, end),
            None => (Verdict::Taken, end),
        })
    }

    /// What passed between two hosts was lost, so that credits have to be agreed upon anew.
    fn was_cut_off(&self, source: u16, host: usize) -> bool {
        self.model.was_reset[host] || self.model.was_reset[usize::from(source)]
    }

    /// Why a write or read is refused, if it is; and where the part of a write ends that is not.
    fn refusal(&self, host: usize, letter: &Letter) -> (Option<Vec<Counter>>, u64) {
        let is_read = letter.kind == READ;
        let Some(aperture) = self.aperture_of(host, letter) else {
            return (Some(vec![Counter::RefusedAperture]), letter.offset);
        };
        let length = if is_read { letter.asked() } else { letter.data.len() as u64 };
        if length == 0 || is_read && letter.data.len() != 4 {
            return (Some(vec![Counter::Malformed]), letter.offset);
        }
        if !allows(aperture.flags, is_read, letter.flags & FROM_SYSTEM != 0) {
            return (Some(vec![Counter::RefusedAccess]), letter.offset);
        }
        let bound = aperture.area.length;
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

    /// The aperture that a packet is for, if it has its key.
    fn aperture_of(&self, host: usize, letter: &Letter) -> Option<Aperture> {
        let apertures = &self.model.ledgers[host].apertures;
        let of_group =
            |aperture: &&Aperture| aperture.flags & CLAN_APERTURE_GROUP != 0 && aperture.key == letter.key;
        let found = apertures.get(&letter.aperture).filter(|aperture| aperture.key == letter.key);
        found.or_else(|| apertures.values().find(of_group)).cloned()
    }

    /// What of a write the aperture takes is to be in memory.
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
            let unsaid = [Counter::Discarded, Counter::BadChecksum, Counter::Malformed];
            if !unsaid.iter().any(|counter| counted.contains(counter)) {
                let told = (host as u16, source, letter.tag);
                self.model.refused_ever.insert(told);
                if self.hosts[host].uplink.is_up() && !self.was_cut_off(source, host) {
                    self.model.refused.insert(told);
                }
            }
        }
        let is_range = counted == [Counter::RefusedRange];
        let Some(aperture) = self.aperture_of(host, letter) else { return };
        if !is_taken && !is_range {
            return;
        }
        let Some(length) = end.checked_sub(letter.offset).filter(|length| *length > 0) else { return };
        let offset = letter.offset;
        let accesses = Accesses {
            target: letter.aperture.into(),
            is_remote: false,
            is_read: false,
            owner: aperture.owner,
            offset,
            length,
        };
        let landings = landings(&aperture, offset, &letter.data[..length as usize], accesses);
        self.model.ledgers[host].landings.extend(landings);
    }

    /// A host asks for bytes.
    fn note_read_arrived(&mut self, host: usize, source: u16, letter: &Letter, is_taken: bool) {
        let (refusal, _) = self.refusal(host, letter);
        let aperture = self.aperture_of(host, letter);
        let is_it = |reading: &Reading| {
            (reading.asker, reading.server) == (source, host as u16)
                && !reading.arrived
                && (reading.tag, reading.key, reading.aperture) == (letter.tag, letter.key, letter.aperture)
                && (reading.offset, reading.length) == (letter.offset, letter.asked())
        };
        let moment = self.model.moment;
        let index = self.model.readings.iter().position(is_it);
        let index = index.unwrap_or_else(|| {
            // Of a hostile host.
            self.model.readings.push(Reading::new(source, host as u16, letter, Origin::Nobody));
            self.model.readings.len() - 1
        });
        let reading = &mut self.model.readings[index];
        reading.arrived = true;
        reading.is_allowed = refusal.is_none();
        reading.start = moment;
        reading.area = aperture.map(|aperture| aperture.area).filter(|_| refusal.is_none());
        let is_served = is_taken && reading.is_allowed;
        reading.is_revoked |= !is_taken && reading.is_allowed;
        if is_served {
            let (target, offset, length) = (letter.aperture.into(), letter.offset, letter.asked());
            let accesses = Accesses { target, is_remote: false, is_read: true, owner: 0, offset, length };
            self.passed(host, accesses);
        }
    }

    /// A read that has come finds what had come before it in memory.
    fn start_readings(&mut self, host: usize, source: u16) {
        let moment = self.model.moment;
        if !self.model.ledgers[host].landings.is_empty() {
            return;
        }
        let last = self.model.readings.iter_mut().rev().find(|reading| {
            (reading.asker, reading.server) == (source, host as u16) && reading.arrived && reading.sent == 0
        });
        if let Some(reading) = last.filter(|reading| !reading.is_started) {
            reading.start = moment;
            reading.is_started = true;
        }
    }

    /// Data comes that was asked for. Returns what is to be in memory then, for a DMA request.
    fn note_data_arrived(&mut self, host: usize, source: u16, letter: &Letter) -> Option<Vec<Landing>> {
        let is_it = |reading: &&mut Reading| {
            (reading.asker, reading.server) == (host as u16, source)
                && (reading.tag, reading.aperture) == (letter.tag, letter.aperture)
                && reading.offset + reading.came == letter.offset
                && reading.came < reading.length
                && reading.origin != Origin::Nobody
        };
        let reading = self.model.readings.iter_mut().find(is_it)?;
        let length = letter.data.len() as u64;
        reading.came += length;
        let origin = reading.origin;
        let target = u64::from(source) << 32 | u64::from(letter.aperture);
        match origin {
            Origin::Load(number) => {
                let load = self.model.ledgers[host].loads.get_mut(&number)?;
                let mut value = [0; 8];
                value.get_mut(..letter.data.len())?.copy_from_slice(&letter.data);
                load.value = Some(u64::from_le_bytes(value));
                let (owner, offset) = (load.owner, letter.offset);
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
                let local_aperture = pending.request.local_aperture;
                let aperture = ledger.apertures.get(&local_aperture)?;
                let accesses = Accesses { target, is_remote: true, is_read: true, owner, offset, length };
                (aperture.owner == owner && local + length <= aperture.area.length)
                    .then(|| landings(aperture, local, &data, accesses))
            }
            Origin::Nobody => None,
        }
    }

    /// A host says that it has refused something: the endpoint has to hear of it.
    fn hear_refusal(&mut self, host: usize, source: u16, letter: &Letter) {
        let Some((reason, is_read)) = letter.refusal() else { return };
        let tainted = self.model.is_tainted(source, host as u16);
        let cause = (reason, u32::from(source), letter.aperture, letter.offset);
        if !is_read {
            let is_owed = !tainted && !self.model.was_reset[host];
            if self.model.tagged(host as u16, letter.tag).is_none() {
                // Whose it is, only the card knows.
                self.model.ledgers[host].endpoints.values_mut().for_each(|one| one.causes.push(cause));
            } else if let Some(endpoint) = self.model.by_tag(host as u16, letter.tag) {
                endpoint.causes.push(cause);
                endpoint.owed_faults += u32::from(is_owed);
            }
            return;
        }
        let is_it = |reading: &&mut Reading| {
            (reading.asker, reading.server) == (host as u16, source)
                && (reading.tag, reading.aperture) == (letter.tag, letter.aperture)
                && reading.is_refused
                && reading.came < reading.length
        };
        if let Some(reading) = self.model.readings.iter_mut().find(is_it) {
            reading.came = reading.length;
        }
        // Which of those that read there it is, only the card knows.
        let ledger = &mut self.model.ledgers[host];
        for load in ledger.loads.values_mut() {
            let place = (load.window.host, load.window.aperture, load.offset);
            if place == (source.into(), letter.aperture, letter.offset) {
                load.refused = reason;
            }
        }
        for endpoint in ledger.endpoints.values_mut() {
            let Some(front) = endpoint.pending.front_mut() else { continue };
            let request = &front.request;
            let place = (request.opcode, request.host, request.aperture);
            if place == (CLAN_DMA_READ, source.into(), letter.aperture) {
                front.refused = reason;
                endpoint.causes.push(cause);
            }
        }
    }
}

/// The pieces of memory that bytes for an aperture go to.
fn landings(aperture: &Aperture, offset: u64, data: &[u8], accesses: Accesses) -> Vec<Landing> {
    let pieces = aperture.area.pieces(offset, data.len() as u64);
    let (mut rest, last) = (data, pieces.len());
    let piece = |(index, (address, length)): (usize, (u64, u64))| {
        let (here, behind) = rest.split_at(length as usize);
        rest = behind;
        Landing { address, bytes: here.to_vec(), then: (index + 1 == last).then_some(accesses) }
    };
    pieces.into_iter().enumerate().map(piece).collect()
}

const _: () = assert!(HEAD == 32);
