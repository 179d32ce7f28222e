//! What leaves a card: each word is one that was stored, or is a DMA request's, or was asked for.

use hamlyn_abi::clan::dma::{CLAN_DMA_READ, CLAN_DMA_WRITE};
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Accesses, Ledger, Made, Pending};
use super::model::{Clan, Origin, Reading};
use super::packet::{CREDIT, DATA, FROM_SYSTEM, HEAD, Letter, PROBE, READ, REFUSED, WRITE};

/// What a packet says of a store or load, without what is the packet's own.
pub(super) fn bare(letter: &Letter) -> Letter {
    Letter { epoch: 0, ..letter.clone() }
}

impl World<Clan> {
    /// A packet has left the card.
    pub(super) fn note_sent(&mut self, host: usize, to: u16, bytes: &[u8]) -> Result<(), Violation> {
        let wrong = |what: String| Violation::new(format!("host {host}: a packet to {to:#x} {what}"));
        let (letter, is_sound) = Letter::read(bytes).ok_or_else(|| wrong("is no packet".into()))?;
        ensure(is_sound, || wrong("has a wrong checksum".into()))?;
        let most = self.hosts[host].machine.options.burst as usize;
        ensure(letter.data.len() <= most, || wrong(format!("has {} bytes", letter.data.len())))?;
        self.note(|| format!("  it is {}, from {host} to {to}, epoch {}", letter.brief(), letter.epoch));
        self.settle_failures(host)?;
        self.model.ledgers[host].count(Counter::PacketsSent, 1);
        let is_right = match letter.kind {
            WRITE => self.note_write_sent(host, to, &letter)?,
            READ => self.note_read_sent(host, to, &letter)?,
            DATA => self.note_data_sent(host, to, &letter)?,
            REFUSED => self.note_refusal_sent(host, to, &letter),
            CREDIT | PROBE => true,
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
        self.fly(host, to, &letter);
        self.check_credits(host as u16, to, letter.epoch)
    }

    /// Puts a packet's words on their way.
    pub(super) fn fly(&mut self, host: usize, to: u16, letter: &Letter) {
        for there in self.receivers(host, to) {
            // The switch drops what is for a port without a card.
            let absent = self.hosts.get(usize::from(there)).is_none_or(|there| !there.uplink.is_up());
            let flight = self.model.flying.entry((host as u16, there)).or_default();
            letter.atoms().iter().for_each(|atom| flight.sent(atom.write(), absent));
        }
    }

    /// Who gets what is sent to a host, or to a group.
    fn receivers(&self, _host: usize, to: u16) -> Vec<u16> {
        vec![to]
    }

    fn note_write_sent(&mut self, host: usize, to: u16, letter: &Letter) -> Result<bool, Violation> {
        if letter.data.is_empty() || !letter.is_bounded() {
            return Ok(false);
        }
        self.model.ledgers[host].count(Counter::BytesSent, letter.data.len() as u64);
        for word in letter.atoms() {
            let life = self.model.tagged(host as u16, word.tag).map(|tagged| tagged.1);
            let made = take_made(&mut self.model.ledgers[host], to.into(), &word, life);
            let made = made.map(|made| (made.endpoint, made.life, made.owner, true));
            let Some((endpoint, life, owner, is_sure)) =
                made.or_else(|| self.take_dma_write(host, to, &word))
            else {
                return Ok(false);
            };
            ensure(self.model.note_tag(host as u16, letter.tag, (endpoint, life), is_sure), || {
                format!("host {host}: packets of endpoint {endpoint} say {:#x}, as another's did", letter.tag)
            })?;
            let target = u64::from(to) << 32 | u64::from(word.aperture);
            let (offset, length) = (word.offset, word.data.len() as u64);
            self.passed(host, Accesses { target, is_remote: true, is_read: false, owner, offset, length });
        }
        Ok(true)
    }

    /// The word is the next of a DMA request. Returns the endpoint, which that is, its owner, and whether that is sure.
    fn take_dma_write(&mut self, host: usize, to: u16, word: &Letter) -> Option<(u32, u64, u32, bool)> {
        let is_next = |pending: &Pending| {
            let request = &pending.request;
            request.opcode == CLAN_DMA_WRITE
                && request.host == u32::from(to)
                && (request.key, request.aperture) == (word.key, word.aperture)
                && request.offset.wrapping_add(pending.done) == word.offset
                && pending.done + word.data.len() as u64 <= request.length
        };
        let system = word.flags & FROM_SYSTEM != 0;
        let (length, ledger) = (word.data.len() as u64, &self.model.ledgers[host]);
        let tagged = self.model.tagged(host as u16, word.tag);
        // One of which nobody can say what was read is not taken for another.
        let found = [false, true].into_iter().find_map(|is_cut| {
            ledger.endpoints.iter().find_map(|(number, endpoint)| {
                tagged.is_none_or(|tagged| tagged == (*number, endpoint.life)).then_some(())?;
                (system == (endpoint.flags != 0)).then_some(())?;
                let front =
                    endpoint.pending.front().filter(|front| front.is_cut == is_cut && is_next(front))?;
                (is_cut || self.has(host, endpoint.owner, front, &word.data)).then_some((*number, 0_usize))
            })
        });
        let Some((number, index)) = found else {
            let ghosts = &mut self.model.ledgers[host].ghosts;
            let (number, life, owner, ghost) = ghosts.iter_mut().rfind(|(number, life, _, ghost)| {
                is_next(ghost) && tagged.is_none_or(|tagged| tagged == (*number, *life))
            })?;
            ghost.done += length;
            return Some((*number, *life, *owner, false));
        };
        let endpoint = self.model.ledgers[host].endpoints.get_mut(&number)?;
        let is_sure = !endpoint.pending[index].is_cut && length >= 4;
        endpoint.pending[index].done += length;
        self.model.words_sent += 1;
        Some((number, endpoint.life, endpoint.owner, is_sure))
    }

    /// Whether the next bytes of a request may be these.
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
        let burst = self.hosts[host].machine.options.burst.into();
        let ledger = &mut self.model.ledgers[host];
        let origin = match take_made(ledger, to.into(), letter, None) {
            Some(Made { load: Some(load), .. }) => {
                if let Some(load) = ledger.loads.get_mut(&load) {
                    load.has_left = true;
                }
                Origin::Load(load)
            }
            _ => match take_dma_read(ledger, to, letter, burst) {
                Some((endpoint, serial)) => Origin::Dma(endpoint, serial),
                None => return Ok(false),
            },
        };
        let (asker, server) = (host as u16, to);
        self.model.readings.push(Reading::new(asker, server, letter, origin));
        Ok(true)
    }

    /// Bytes of memory that a host asked for: what was there at some moment since.
    fn note_data_sent(&mut self, host: usize, to: u16, letter: &Letter) -> Result<bool, Violation> {
        let length = letter.data.len() as u64;
        let is_it = |reading: &&mut Reading| {
            (reading.server, reading.asker) == (host as u16, to) && reading.can_be_answered(letter)
        };
        let Some(reading) = self.model.readings.iter_mut().find(is_it) else { return Ok(false) };
        let (start, from) = (reading.start, reading.sent);
        let Some(area) = reading.area.clone() else { return Ok(false) };
        reading.sent += length;
        let pieces = area.pieces(reading.offset + from, length);
        if !self.might_be(host, &pieces, start, &letter.data) {
            return Ok(false);
        }
        Ok(true)
    }

    /// A host is told that it was refused something, which it was.
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

    /// No more words are under way than a host may have. Those of an earlier count were given up.
    fn check_credits(&self, host: u16, to: u16, epoch: u16) -> Result<(), Violation> {
        let flight = self.model.flying.get(&(host, to));
        let words = flight.map_or(0, |flight| {
            flight.count(|atom| atom.len() > HEAD && atom[0] == WRITE && atom[2..4] == epoch.to_le_bytes())
        });
        let most = self.hosts[usize::from(host)].machine.options.credits as usize;
        let most = if self.model.is_hostile[usize::from(host)] { usize::MAX } else { most };
        ensure(words <= most, || {
            format!("host {host}: {words} words are under way to {to}, and {most} may be")
        })
    }
}

/// Takes a word from what was stored to a host and has not left. Only what the link may have taken with it is passed over.
fn take_made(ledger: &mut Ledger, to: u32, word: &Letter, life: Option<u64>) -> Option<Made> {
    let queue = ledger.program.get_mut(&to)?;
    let word = bare(word);
    let first = queue.iter().position(|made| !made.excused).unwrap_or(queue.len());
    // Of equal loads, one that somebody waits for.
    let expected = queue.get(first).filter(|made| made.load.is_some() && made.is(&word)).map(|_| first);
    let index = expected.or_else(|| {
        queue
            .iter()
            .take(first + 1)
            .position(|made| made.is(&word) && life.is_none_or(|life| life == made.life))
    })?;
    // Of equal loads, one that has ended may leave still.
    if expected.is_some() { queue.remove(index) } else { queue.drain(..=index).next_back() }
}

/// A packet asks for the next bytes of a DMA request. Returns the endpoint, and which request.
fn take_dma_read(ledger: &mut Ledger, to: u16, letter: &Letter, burst: u64) -> Option<(u32, u64)> {
    let length = letter.asked();
    // As a card asks: for all that is left, or as much as a packet has between two words.
    let is_usual = |pending: &Pending| {
        let most = burst - letter.offset % 8;
        length == most.min(pending.request.length - pending.asked)
    };
    let asks = |pending: &Pending| {
        let request = &pending.request;
        request.opcode == CLAN_DMA_READ
            && request.host == u32::from(to)
            && (request.key, request.aperture) == (letter.key, letter.aperture)
            && request.offset.wrapping_add(pending.asked) == letter.offset
            && pending.asked + length <= request.length
            && is_usual(pending)
    };
    let found = ledger.endpoints.iter().find_map(|(number, endpoint)| {
        endpoint.pending.iter().take(1).position(asks).map(|index| (*number, index))
    });
    let Some((number, index)) = found else {
        // Of an endpoint that was closed: nobody waits for the answer.
        let (number, .., ghost) = ledger.ghosts.iter_mut().find(|(.., ghost)| asks(ghost))?;
        ghost.asked += length;
        return Some((*number, ghost.serial));
    };
    let endpoint = ledger.endpoints.get_mut(&number)?;
    endpoint.pending[index].asked += length;
    (length > 0).then_some((number, endpoint.pending[index].serial))
}
