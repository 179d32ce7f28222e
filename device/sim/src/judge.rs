//! What a card must do with a packet, worked out a second time from the datasheet (`docs/hamlyn.md`, "Arrival").
//!
//! The judge knows what the driver opened and what is in memory now; it never asks the card. It says which bytes may
//! change, to what, in which order, and which counter counts.

use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_NO_QUEUE};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_MAX_METADATA};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::HAMLYN_ARMED_YES;

use crate::host::{ENTRY_ACCUMULATOR, ENTRY_HIGH, ENTRY_KEY, ENTRY_LOW, ENTRY_ONE_SHOT, Host, OpenSlot};
use crate::memory::Write;
use crate::violation::{Violation, ensure};

/// Bytes of a packet's header.
pub(crate) const HEADER: usize = 40;
const SILENT: u32 = 1;
const INTERRUPT: u32 = 2;

/// A packet's header, Table 1 without its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketHeader {
    pub(crate) slot: u32,
    pub(crate) metadata_index: u32,
    pub(crate) key: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) delta: u32,
    pub(crate) metadata_length: u32,
    pub(crate) flags: u32,
    pub(crate) reserved: u32,
}

impl PacketHeader {
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        let mut words = packet
            .get(..HEADER)?
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let mut next = || words.next().unwrap_or(0);
        Some(Self {
            slot: next(),
            metadata_index: next(),
            key: u64::from(next()) | u64::from(next()) << 32,
            offset: next(),
            length: next(),
            delta: next(),
            metadata_length: next(),
            flags: next(),
            reserved: next(),
        })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let key = [self.key as u32, (self.key >> 32) as u32];
        let words = [
            self.slot,
            self.metadata_index,
            key[0],
            key[1],
            self.offset,
            self.length,
            self.delta,
            self.metadata_length,
            self.flags,
            self.reserved,
        ];
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn is_sound(&self, packet: &[u8]) -> bool {
        let bytes = HEADER as u64 + u64::from(self.length) + u64::from(self.metadata_length);
        let fast = self.metadata_index == HAMLYN_FAST_MODE;
        bytes == packet.len() as u64
            && self.metadata_length <= HAMLYN_MAX_METADATA
            && self.flags & !(SILENT | INTERRUPT) == 0
            && self.reserved == 0
            && !(fast && self.metadata_length != 0)
    }
}

/// What must come of a packet.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Nothing changes but this counter.
    Counted(Statistic),
    /// It is deposited.
    Accepted(Effect),
}

/// What a packet that is accepted changes.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) header: PacketHeader,
    /// Data, metadata, accumulator and lock: what these addresses hold afterwards.
    deposits: Vec<Write>,
    /// The message is whole.
    pub(crate) whole: bool,
    pub(crate) notification: Option<Notification>,
    /// The metadata changes meanwhile: the bytes of the accumulator and whether the packet is accepted cannot be
    /// foretold, but where the card may write can.
    pub(crate) loose: bool,
}

/// An entry of a notification queue that the card must write.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) queue: u32,
    entry: Write,
    /// The vector that must be raised.
    pub(crate) interrupt: Option<u16>,
}

/// Judges a packet that is about to reach a card. `loose`: somebody will change its metadata entry meanwhile.
pub(crate) fn judge(host: &Host, packet: &[u8], loose: bool) -> Verdict {
    match admit(host, packet, loose) {
        Err(reason) => Verdict::Counted(reason),
        Ok((header, slot)) => Verdict::Accepted(effect(host, packet, header, slot, loose)),
    }
}

fn admit<'a>(host: &'a Host, packet: &[u8], loose: bool) -> Result<(PacketHeader, &'a OpenSlot), Statistic> {
    if !host.enabled {
        return Err(Statistic::Discarded);
    }
    let header = PacketHeader::read(packet)
        .filter(|header| header.is_sound(packet))
        .ok_or(Statistic::RefusedPacket)?;
    let slot = host.slots.get(header.slot as usize).ok_or(Statistic::RefusedSlot)?;
    let slot = slot.as_ref().ok_or(Statistic::RefusedClosedSlot)?;
    let (offset, end) = (u64::from(header.offset), u64::from(header.offset) + u64::from(header.length));
    if slot.mode == HAMLYN_MODE_NORMAL && header.key != slot.key {
        return Err(Statistic::RefusedKey);
    }
    if end > slot.area.length {
        return Err(Statistic::RefusedBounds);
    }
    if header.metadata_index == HAMLYN_FAST_MODE {
        let normal = slot.mode == HAMLYN_MODE_NORMAL;
        return if normal { Ok((header, slot)) } else { Err(Statistic::RefusedFastParanoid) };
    }
    let entry = slot.entry_address(header.metadata_index).ok_or(Statistic::RefusedMetadataIndex)?;
    if slot.mode == HAMLYN_MODE_NORMAL || loose {
        return Ok((header, slot));
    }
    let memory = &host.memory;
    if memory.peek_u64(entry + ENTRY_KEY) != header.key {
        return Err(Statistic::RefusedParanoidKey);
    }
    if offset < memory.peek_u64(entry + ENTRY_LOW) || end > memory.peek_u64(entry + ENTRY_HIGH) {
        return Err(Statistic::RefusedParanoidBounds);
    }
    if slot.mode == HAMLYN_MODE_PARANOID_ONE_SHOT && memory.peek_u32(entry + ENTRY_ONE_SHOT) == 1 {
        return Err(Statistic::RefusedOneShot);
    }
    Ok((header, slot))
}

fn effect(host: &Host, packet: &[u8], header: PacketHeader, slot: &OpenSlot, loose: bool) -> Effect {
    let (metadata, mut data) = packet[HEADER..].split_at(header.metadata_length as usize);
    let mut deposits = Vec::new();
    for (address, length) in slot.area.pieces(header.offset.into(), header.length.into()) {
        let (here, rest) = data.split_at(length as usize);
        deposits.push(Write { address, bytes: here.to_vec() });
        data = rest;
    }
    let mut whole = true;
    if let Some(entry) = slot.entry_address(header.metadata_index) {
        let accumulator = entry + ENTRY_ACCUMULATOR;
        let sum = host.memory.peek_u32(accumulator).wrapping_add(header.delta);
        deposits.push(Write { address: entry, bytes: metadata.to_vec() });
        if header.delta != 0 || loose {
            deposits.push(Write { address: accumulator, bytes: sum.to_le_bytes().to_vec() });
            whole = sum == 0;
        }
        if slot.mode == HAMLYN_MODE_PARANOID_ONE_SHOT && (whole || loose) {
            deposits.push(Write { address: entry + ENTRY_ONE_SHOT, bytes: 1_u32.to_le_bytes().to_vec() });
        }
    }
    let notified = (whole || loose) && header.flags & SILENT == 0;
    let notification = notified.then(|| notification(host, &header, slot)).flatten();
    Effect { header, deposits, whole, notification, loose }
}

fn notification(host: &Host, header: &PacketHeader, slot: &OpenSlot) -> Option<Notification> {
    let queue = host.queues.get(slot.queue as usize).filter(|_| slot.queue != HAMLYN_NO_QUEUE)?.as_ref()?;
    let (metadata, kind) = match header.metadata_index {
        HAMLYN_FAST_MODE => (header.delta.into(), 2),
        entry => (slot.pointer.wrapping_add(u64::from(entry) * 128), 0),
    };
    let mut bytes = metadata.to_le_bytes().to_vec();
    bytes.extend(header.slot.to_le_bytes());
    bytes.extend(slot.notification_index.to_le_bytes());
    bytes.extend([0; 12]);
    bytes.extend((queue.wrap | kind).to_le_bytes());
    let asks = slot.interrupt || header.flags & INTERRUPT != 0;
    let sleeps = host.armed(slot.queue) == HAMLYN_ARMED_YES && host.pending(queue.vector) == 0;
    Some(Notification {
        queue: slot.queue,
        entry: Write { address: queue.next_entry(), bytes },
        interrupt: (asks && sleeps).then_some(queue.vector as u16),
    })
}

impl Write {
    fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    fn lies_in(&self, other: &Write) -> bool {
        self.address >= other.address && self.end() <= other.end()
    }

    fn agrees_with(&self, other: &Write) -> bool {
        let at = (self.address - other.address) as usize;
        other.bytes[at..at + self.bytes.len()] == self.bytes
    }
}

impl Effect {
    /// Checks what the card wrote: these bytes and no other, the notification behind all the rest, its wrap word last.
    pub(crate) fn check(&self, host: &Host, writes: &[Write]) -> Result<(), Violation> {
        let fail = |write: &Write, what: &str| {
            let Write { address, bytes } = write;
            Err(Violation::new(format!(
                "host {}: the card wrote {} bytes at {address:#x} {what}: {:?}",
                host.id,
                bytes.len(),
                self.header
            )))
        };
        let mut notifying = false;
        for write in writes {
            match self.deposits.iter().find(|deposit| write.lies_in(deposit)) {
                Some(_) if notifying => return fail(write, "after the notification"),
                Some(deposit) if !self.loose && !write.agrees_with(deposit) => {
                    return fail(write, "with a wrong value");
                }
                Some(_) => {}
                None => match &self.notification {
                    Some(notification) if write.lies_in(&notification.entry) => notifying = true,
                    _ => return fail(write, "that this packet has nothing to do with"),
                },
            }
        }
        if self.loose { Ok(()) } else { self.check_result(host, writes) }
    }

    /// Everything that must be there is there.
    fn check_result(&self, host: &Host, writes: &[Write]) -> Result<(), Violation> {
        for deposit in &self.deposits {
            ensure(host.memory.peek(deposit.address, deposit.bytes.len()) == deposit.bytes, || {
                format!(
                    "host {}: {} bytes are not at {:#x}: {:?}",
                    host.id,
                    deposit.bytes.len(),
                    deposit.address,
                    self.header
                )
            })?;
        }
        let Some(Notification { entry, .. }) = &self.notification else { return Ok(()) };
        ensure(host.memory.peek(entry.address, 32) == entry.bytes, || {
            format!("host {}: the notification is not at {:#x}: {:?}", host.id, entry.address, self.header)
        })?;
        let word = Write { address: entry.address + 28, bytes: vec![0; 4] };
        let early = writes.iter().rev().skip(1).find(|write| {
            write.lies_in(entry)
                && word.lies_in(write)
                && write.bytes[write.bytes.len() - 4] & 1 == entry.bytes[28] & 1
        });
        ensure(early.is_none() && writes.last().is_some_and(|last| word.lies_in(last)), || {
            format!("host {}: the wrap flag was not written last: {:?}", host.id, self.header)
        })
    }

    /// Checks the counters and the interrupt. `before` and `after` are by number; `raised` vectors were raised.
    pub(crate) fn check_counters(&self, before: &[u64], after: &[u64]) -> Result<(), Violation> {
        if self.loose {
            return Ok(());
        }
        let grown = |statistic: Statistic| after[statistic as usize] - before[statistic as usize];
        let interrupts =
            self.notification.as_ref().is_some_and(|notification| notification.interrupt.is_some());
        let expected = [
            (Statistic::PacketsReceived, 1),
            (
                Statistic::BytesReceived,
                u64::from(self.header.length) + u64::from(self.header.metadata_length),
            ),
            (Statistic::MessagesReceived, self.whole.into()),
            (Statistic::Notifications, self.notification.is_some().into()),
            (Statistic::Interrupts, interrupts.into()),
        ];
        for (statistic, growth) in expected {
            ensure(grown(statistic) == growth, || {
                format!(
                    "{} grew by {} (must be {growth}): {:?}",
                    statistic.name(),
                    grown(statistic),
                    self.header
                )
            })?;
        }
        Ok(())
    }
}
