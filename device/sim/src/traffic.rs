//! Honest messages: all kinds, as the seed has it.

use hamlyn_abi::hamlyn::command::HAMLYN_MODE_NORMAL;
use hamlyn_abi::hamlyn::request::HAMLYN_MAX_METADATA;

use crate::host::{ENTRY_HIGH, ENTRY_KEY, ENTRY_LOW, ENTRY_ONE_SHOT};
use crate::ledger::NewPart;
use crate::violation::Violation;
use crate::world::World;

/// The most data in a message: what send buffers can hold.
const MOST: u32 = 2600;

impl World {
    /// Makes a delivery to a place that is free: a message, or a group of them.
    pub(crate) fn compose(&mut self) -> Result<(), Violation> {
        let free = self.ledger.free_places();
        let (Some(number), senders) = (self.rng.pick(&free), self.senders()) else { return Ok(()) };
        let place = self.ledger.places[number].clone();
        let fast = place.entry.is_none();
        let count = if fast || self.rng.percent(65) { 1 } else { self.rng.range(2, 4) };
        let chosen: Vec<(usize, usize)> = (0..count).filter_map(|_| self.rng.pick(&senders)).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let parts = self.divide(&chosen, place.start, place.length, fast);
        let receiver = self.hosts[place.host].processes.iter().find(|process| process.pid == place.pid);
        let interrupting = receiver.is_some_and(|process| process.interrupting);
        let slot_interrupts =
            self.hosts[place.host].slots[place.slot as usize].as_ref().is_some_and(|slot| slot.interrupt);
        let interrupt = (interrupting && !slot_interrupts) || self.rng.percent(20);
        let silent = self.rng.percent(15);
        let low = parts.iter().map(|part| part.offset).min().unwrap_or(0);
        let high = parts.iter().map(|part| part.offset + part.data.len() as u32).max().unwrap_or(0);
        self.expect(number, low, high);
        let hosts: Vec<usize> = chosen.iter().map(|(host, _)| *host).collect();
        let parts = self.ledger.enter(number, silent, interrupt, parts);
        self.note(|| {
            format!(
                "parts {parts:?} of hosts {hosts:?} to host {} slot {} entry {:?} silent {silent}",
                place.host, place.slot, place.entry
            )
        });
        for ((host, process), part) in chosen.into_iter().zip(parts) {
            self.hosts[host].processes[process].outbox.push_back(part);
        }
        let down: Vec<usize> = (0..self.hosts.len())
            .filter(|host| !self.hosts[*host].uplink.is_up() || !self.hosts[*host].enabled)
            .collect();
        self.ledger.excuse(|host, _| down.contains(&host));
        Ok(())
    }

    /// Honest processes that live.
    fn senders(&self) -> Vec<(usize, usize)> {
        let all = self.hosts.iter().enumerate().flat_map(|(host, at)| {
            at.processes
                .iter()
                .enumerate()
                .filter(|(_, process)| process.alive && !process.hostile)
                .map(move |(index, _)| (host, index))
        });
        all.collect()
    }

    /// Divides a place's memory and its counter among senders (section 2.5): the Y of a group add up to 2^32, and each
    /// is larger than the number of its message's packets.
    fn divide(&mut self, senders: &[(usize, usize)], start: u32, length: u32, fast: bool) -> Vec<NewPart> {
        let share = length / senders.len() as u32;
        let alone = senders.len() == 1;
        let mut rest = 0_u32;
        let mut parts = Vec::new();
        for (i, (host, process)) in senders.iter().enumerate() {
            let packet_size = self.hosts[*host].options.packet_size;
            let most = if fast { share.min(packet_size) } else { share.min(MOST) };
            // Sizes next to a packet's are of most interest.
            let length = match self.rng.below(6) {
                0 => 0,
                1 => most,
                2 => (packet_size * self.rng.range(1, 3)).min(most),
                3 => (packet_size + self.rng.range(0, 2)).saturating_sub(1).min(most),
                _ => self.rng.range(0, most),
            };
            let offset = start + share * i as u32 + self.rng.range(0, share - length);
            let last = i + 1 == senders.len();
            let y = match (alone, last) {
                _ if fast => self.next_word(),
                (true, _) => 0,
                (false, true) => rest.wrapping_neg(),
                (false, false) => self.rng.range(16, 1 << 29),
            };
            rest = rest.wrapping_add(y);
            // A group has one metadata entry: one of its messages fills it.
            let metadata = if fast || i > 0 { 0 } else { self.rng.range(0, HAMLYN_MAX_METADATA) };
            parts.push(NewPart {
                host: *host,
                pid: self.hosts[*host].processes[*process].pid,
                offset,
                data: self.rng.bytes(length as usize),
                metadata: self.rng.bytes(metadata as usize),
                y,
                packet_size,
            });
        }
        parts
    }

    /// The receiver opens its metadata entry for what is coming: a new key, tight bounds, no lock.
    fn expect(&mut self, place: usize, low: u32, high: u32) {
        let key = self.rng.next();
        let place = &mut self.ledger.places[place];
        let host = &self.hosts[place.host];
        let Some(slot) =
            host.slots[place.slot as usize].as_ref().filter(|slot| slot.mode != HAMLYN_MODE_NORMAL)
        else {
            return;
        };
        let Some(entry) = place.entry.and_then(|entry| slot.entry_address(entry)) else { return };
        host.memory.poke(entry + ENTRY_KEY, &key.to_le_bytes());
        host.memory.poke(entry + ENTRY_LOW, &u64::from(low).to_le_bytes());
        host.memory.poke(entry + ENTRY_HIGH, &u64::from(high).to_le_bytes());
        host.memory.poke(entry + ENTRY_ONE_SHOT, &0_u32.to_le_bytes());
        place.key = key;
    }
}
