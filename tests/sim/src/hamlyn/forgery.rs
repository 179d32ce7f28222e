//! Actions of hostile processes and hosts: requests and packets with any contents, duplicate
//! packets, metadata that changes.
//!
//! A forger knows the keys of prey slots, which their owners gave away, and no others. It knows
//! everything about other slots except the key. A packet that it sends there is valid except for
//! some bits of the key.

use hamlyn_abi::hamlyn::command::HAMLYN_MODE_NORMAL;
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_REQUEST_FETCH, HamlynRequest};
use hamlyn_fabric::{Header, HostId};
use zerocopy::IntoBytes;

use crate::engine::memory::Mischief;
use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::hamlyn::around::Around;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::judge::{ANSWER, FETCH, PRIVILEGED, PacketHeader};
use crate::hamlyn::kernel::SYSTEM;
use crate::hamlyn::process::Role;
use crate::hamlyn::tables::{ENTRY_HIGH, ENTRY_KEY, OpenSlot};

/// Forges requests, packets and metadata.
pub(super) struct Forger<'a> {
    pub(super) around: Around<'a>,
    pub(super) fetches: &'a Fetches,
    pub(super) max_packet: usize,
}

impl Forger<'_> {
    /// Returns the host and number of a random open slot, which is a prey half of the time.
    fn target(&mut self) -> Option<(usize, u32)> {
        let only_prey = self.around.rng.percent(50);
        let mut targets = Vec::new();
        for (host, at) in self.around.hosts.iter().enumerate() {
            let tables = at.machine.tables();
            let open = tables.slots.iter().zip(0..).filter_map(|(slot, index)| Some((slot.as_ref()?, index)));
            let fit = open.filter(|(slot, _)| slot.prey || !only_prey);
            targets.extend(fit.map(|(_, index)| (host, index)));
        }
        self.around.rng.pick(&targets)
    }

    /// Returns a packet's header, any part of which may be wrong, and its destination.
    fn forged_header(&mut self) -> Option<(usize, PacketHeader)> {
        let (host, index) = self.target()?;
        let machine = self.around.hosts[host].machine.clone();
        let slot = machine.slot(index)?;
        let rng = &mut self.around.rng;
        let entry = if rng.percent(80) { rng.range(0, slot.entries) } else { HAMLYN_FAST_MODE };
        let key = match slot.entry_address(entry).filter(|_| slot.mode != HAMLYN_MODE_NORMAL) {
            Some(entry) => machine.memory.peek_u64(entry + ENTRY_KEY),
            None => slot.key,
        };
        let length = rng.range(0, 300);
        let limit = match slot.entry_address(entry).filter(|_| rng.percent(60)) {
            Some(entry) => machine.memory.peek_u64(entry + ENTRY_HIGH).min(slot.area.length),
            None => slot.area.length,
        };
        let mut header = PacketHeader {
            slot: index,
            metadata_index: entry,
            key: if slot.prey || slot.pid == SYSTEM { key } else { key ^ wrong_bits(rng) },
            offset: forged_offset(rng, limit, length),
            length,
            delta: match rng.below(4) {
                0 => rng.next() as u32,
                1 => 1,
                2 => rng.range(1, 4).wrapping_neg(),
                _ => 0,
            },
            metadata_length: if entry == HAMLYN_FAST_MODE { 0 } else { rng.range(0, 60) },
            flags: rng.range(0, 3) | if rng.percent(20) { PRIVILEGED } else { 0 },
            operation: 0,
        };
        if self.around.rng.percent(15) {
            as_fetch(self.around.rng, &mut header);
        }
        if self.around.rng.percent(30) {
            spoil(self.around.rng, &mut header);
            // Whichever field was changed, the packet must not carry the key of a slot that is not
            // prey.
            let hit = machine.slot(header.slot);
            if header.slot != index && hit.is_some_and(|slot| !slot.prey) {
                header.key = self.around.rng.next();
            }
        }
        // The keys of operating systems are public, but a privileged packet would not be a forgery.
        if machine.slot(header.slot).is_some_and(|slot| slot.pid == SYSTEM) {
            header.flags &= !PRIVILEGED;
        }
        Some((host, header))
    }

    /// Posts a request with any contents as a hostile process. It may claim to have posted more
    /// than it has.
    pub(super) fn forge_request(&mut self, host: usize, process: usize) -> Result<(), Violation> {
        let Some((target, header)) = self.forged_header() else { return Ok(()) };
        let Role::Hostile(forger) = &self.around.hosts[host].processes[process].role else { return Ok(()) };
        let request = forged_request(self.around.rng, target, &header);
        let mut entry = request.as_bytes().to_vec();
        // Tuples that are valid, or reach one byte too far, or name an unused tag.
        let (rng, tag) = (&mut self.around.rng, forger.tag);
        let tuples = [
            tag,
            0,
            rng.range(0, 4097),
            header.length,
            if rng.percent(50) { tag } else { rng.range(0, 9) },
            0,
            rng.next() as u32,
            rng.range(0, 70),
        ];
        entry.extend(tuples.into_iter().flat_map(u32::to_le_bytes));
        entry.extend(rng.bytes(512 - entry.len()));
        let jump = if rng.percent(5) { rng.next() as u32 } else { 0 };
        self.around.note(|| {
            format!("host {host} forges a request to host {target} {header:?}, tail jumps by {jump}")
        });
        let at = &mut self.around.hosts[host];
        let Role::Hostile(forger) = &mut at.processes[process].role else { return Ok(()) };
        forger.post(&at.machine, &entry, jump)
    }

    /// Puts packets of a hostile host on its link, bypassing its card: any header, any source, or
    /// the same packet twice.
    pub(super) fn forge_packets(&mut self, host: usize) -> Result<(), Violation> {
        let Some((target, header)) = self.forged_header() else { return Ok(()) };
        let limit = self.max_packet;
        let rng = &mut self.around.rng;
        let source = HostId(rng.range(0, 9) as u16);
        let destination = if rng.percent(90) { HostId(target as u16) } else { HostId(rng.next() as u16) };
        let mut outer =
            Header { destination, source, protocol: self.around.hosts[host].uplink.traffic.protocol }
                .to_bytes();
        if rng.percent(10) {
            // Version, protocol, reserved: the switch must drop it.
            outer[4 + rng.index(4)] |= 0xe0;
        }
        let header = if rng.percent(10) { self.forged_answer(host, target) } else { header };
        let rng = &mut self.around.rng;
        let mut packet = header.to_bytes();
        packet.extend(rng.bytes((header.length + header.metadata_length) as usize));
        if rng.percent(10) {
            let cut = rng.index(packet.len() + 20);
            packet.resize(cut, 0);
        }
        packet.truncate(limit);
        let copies = if rng.percent(50) { 2 } else { 1 };
        self.around
            .note(|| format!("host {host} injects {copies} packets for host {} {header:?}", destination.0));
        for _ in 0..copies {
            if !self.around.hosts[host].uplink.inject(outer, &packet)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns an answer that is not awaited, or is awaited from another host.
    fn forged_answer(&mut self, host: usize, target: usize) -> PacketHeader {
        let awaited = self.fetches.tickets_of(target, host);
        let any = self.around.rng.next() as u32;
        let delta = self.around.rng.pick(&awaited).unwrap_or(any);
        PacketHeader {
            flags: ANSWER,
            delta,
            offset: self.around.rng.range(0, 1),
            length: 8,
            ..PacketHeader::default()
        }
    }

    /// Scribbles on the metadata of a prey slot as its owner.
    pub(super) fn scribble(&mut self) {
        let Some((host, index)) = self.target() else { return };
        let Some(slot) = self.around.hosts[host].machine.slot(index).filter(|slot| slot.prey) else { return };
        let entry = self.around.rng.range(0, slot.entries);
        let Some(address) = slot.entry_address(entry) else { return };
        let bytes = scribbles(self.around.rng, &slot);
        self.around.note(|| format!("host {host} scribbles on entry {entry} of slot {index}"));
        self.around.hosts[host].machine.memory.poke(address, &bytes);
    }

    /// Plans a change of a prey slot's entry while the card handles a packet for it. Returns
    /// `false` if the packet is not for one.
    pub(super) fn plan_mischief(&mut self, host: usize, packet: &[u8]) -> bool {
        let Some(header) = PacketHeader::read(packet) else { return false };
        let Some(slot) = self.around.hosts[host].machine.slot(header.slot) else { return false };
        let Some(address) = slot.entry_address(header.metadata_index).filter(|_| slot.prey) else {
            return false;
        };
        if !self.around.rng.percent(30) {
            return false;
        }
        let mischief = Mischief {
            reads: self.around.rng.range(1, 12),
            address,
            bytes: scribbles(self.around.rng, &slot),
        };
        self.around.note(|| {
            format!("host {host}: entry of slot {} changes after {} reads", header.slot, mischief.reads)
        });
        self.around.hosts[host].machine.memory.plan_mischief(Some(mischief));
        true
    }
}

/// Returns a request for a packet with this header. Any part of it may be wrong.
fn forged_request(rng: &mut Rng, target: usize, header: &PacketHeader) -> HamlynRequest {
    let mut request = HamlynRequest {
        destination: target as u32,
        slot: header.slot,
        metadata_index: header.metadata_index,
        key: header.key,
        offset: header.offset,
        length: if rng.percent(80) { header.length } else { rng.next() as u32 },
        delta: header.delta,
        metadata_length: header.metadata_length,
        flags: if rng.percent(80) { rng.range(0, 7) } else { rng.next() as u32 },
        gather_count: if rng.percent(70) { rng.range(0, 2) } else { rng.range(0, 40) },
        ..HamlynRequest::default()
    };
    if header.is_fetch() {
        request = HamlynRequest {
            flags: HAMLYN_REQUEST_FETCH,
            operation: header.operation,
            delta: 0,
            metadata_length: 0,
            length: 16,
            gather_count: 0,
            ..request
        };
    }
    match rng.below(12) {
        0 => request.destination = rng.next() as u32,
        1 => request.operation = rng.next() as u32,
        2 => request.reserved1 = rng.next(),
        _ => {}
    }
    request
}

/// Turns a header into that of a fetch-and-op.
fn as_fetch(rng: &mut Rng, header: &mut PacketHeader) {
    header.flags = FETCH;
    header.operation = rng.range(0, 7);
    header.length = 16;
    header.metadata_length = 0;
    header.delta = rng.next() as u32;
    if rng.percent(80) {
        header.offset &= !7;
    }
}

/// Sets one field of a header to a random value.
fn spoil(rng: &mut Rng, header: &mut PacketHeader) {
    let any = rng.next() as u32;
    match rng.below(7) {
        0 => header.slot = if rng.percent(50) { any } else { any % 41 },
        1 => header.metadata_index = any,
        2 => header.offset = any,
        3 => header.metadata_length = any % 71,
        4 => header.flags = any,
        5 => header.operation = any,
        _ => header.delta = any,
    }
}

/// Returns bits of a key to invert, at least one: in its low half, its high half, or anywhere.
fn wrong_bits(rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => 1 << rng.below(32),
        1 => 1 << (32 + rng.below(32)),
        _ => rng.next() | 1,
    }
}

/// Returns an offset for data of `length` bytes that must end at `limit` or before.
fn forged_offset(rng: &mut Rng, limit: u64, length: u32) -> u32 {
    let limit = limit as u32;
    match rng.below(4) {
        // The last valid offset, and one byte further.
        0 => limit.saturating_sub(length),
        1 => limit.saturating_sub(length) + 1,
        2 => rng.range(0, limit),
        _ => rng.range(0, limit.saturating_sub(length)),
    }
}

/// Returns a metadata entry with any contents.
fn scribbles(rng: &mut Rng, slot: &OpenSlot) -> Vec<u8> {
    let mut entry = rng.bytes(60);
    let accumulator = if rng.percent(50) { 0 } else { rng.next() as u32 };
    entry.extend(accumulator.to_le_bytes());
    entry.extend((if rng.percent(70) { slot.key } else { rng.next() }).to_le_bytes());
    let limits = [0, 100, slot.area.length, u64::MAX, rng.next()];
    for _ in 0..2 {
        entry.extend(rng.pick(&limits).unwrap_or(0).to_le_bytes());
    }
    entry.extend(rng.next().to_le_bytes());
    let lock = rng.pick(&[0, 1, 2, u32::MAX]).unwrap_or(0);
    entry.extend(lock.to_le_bytes());
    entry.extend(rng.bytes(28));
    entry
}
