//! The expected effects of a packet on a card, derived a second time from the datasheet
//! (`docs/hamlyn.md`, "Arrival").
//!
//! The judge knows what the driver has opened and what is in memory now. It never asks the card. It
//! returns the bytes that may change, their new values and order, and the counter that counts.

use std::sync::Arc;

use hamlyn_abi::family::sleep::ULN_ARMED_YES;
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_NO_QUEUE};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_MAX_METADATA};
use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::engine::memory::Write;
use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::machine::Machine;
use crate::hamlyn::tables::{ENTRY_ACCUMULATOR, ENTRY_HIGH, ENTRY_KEY, ENTRY_LOW, ENTRY_ONE_SHOT, OpenSlot};

/// Bytes of a packet's header.
pub(super) const HEADER: usize = 40;
const SILENT: u32 = 1;
const INTERRUPT: u32 = 2;
pub(super) const FETCH: u32 = 4;
pub(super) const ANSWER: u32 = 8;
/// In `flags`: from an operating system. It opens slots that take no other packets.
pub(super) const PRIVILEGED: u32 = 16;
/// In `flags`: takes back the counts of a message's packets.
const RETRACTION: u32 = 32;
/// Bytes that a fetch-and-op changes.
const WORD: u32 = 8;

/// A packet's header, Table 1 without its first line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PacketHeader {
    pub(super) slot: u32,
    pub(super) metadata_index: u32,
    pub(super) key: u64,
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) delta: u32,
    pub(super) metadata_length: u32,
    pub(super) flags: u32,
    pub(super) operation: u32,
}

impl PacketHeader {
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
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
            operation: next(),
        })
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
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
            self.operation,
        ];
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn is_sound(&self, packet: &[u8]) -> bool {
        let bytes = HEADER as u64 + u64::from(self.length) + u64::from(self.metadata_length);
        let fast = self.metadata_index == HAMLYN_FAST_MODE;
        bytes == packet.len() as u64
            && self.metadata_length <= HAMLYN_MAX_METADATA
            && self.is_of_a_kind()
            && !(fast && self.metadata_length != 0)
    }

    pub(super) fn is_fetch(&self) -> bool {
        self.flags & !PRIVILEGED == FETCH
    }

    pub(super) fn is_answer(&self) -> bool {
        self.flags == ANSWER
    }

    pub(super) fn is_retraction(&self) -> bool {
        self.flags & !PRIVILEGED == RETRACTION
    }

    fn is_of_a_kind(&self) -> bool {
        match self.flags {
            _ if self.is_retraction() => {
                let fast = self.metadata_index == HAMLYN_FAST_MODE;
                [self.length, self.metadata_length, self.operation] == [0; 3] && self.delta != 0 && !fast
            }
            _ if self.is_fetch() => {
                (1..=6).contains(&self.operation) && self.length == 16 && self.metadata_length == 0
            }
            ANSWER => {
                let unused = [self.slot, self.metadata_index, self.metadata_length, self.operation];
                self.length == 8 && self.offset <= 1 && self.key == 0 && unused == [0; 4]
            }
            flags => flags & !(SILENT | INTERRUPT | PRIVILEGED) == 0 && self.operation == 0,
        }
    }
}

/// The expected effects of a packet.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Only this counter changes.
    Counted(Statistic),
    /// It is deposited.
    Accepted(Effect),
    /// It is a fetch-and-op that is carried out.
    Fetched(Fetched),
    /// It is an answer that a terminus waits for.
    Answered(Answered),
    /// It takes packets back.
    Retracted(Retracted),
}

/// The effect of a retraction.
#[derive(Debug)]
pub(super) struct Retracted {
    /// The new value of the accumulator.
    accumulator: Write,
    /// As in [`Effect`].
    pub(super) loose: bool,
}

/// The effect of a fetch-and-op.
#[derive(Debug)]
pub(super) struct Fetched {
    /// The value that it finds.
    pub(super) found: u64,
    /// The new value of the word.
    word: Write,
    /// As in [`Effect`].
    loose: bool,
}

/// The effect of an answer: it changes the status words of a terminus, for its oldest request.
#[derive(Debug)]
pub(super) struct Answered {
    status: u64,
    entry: u64,
}

/// The effect of a packet that is accepted.
#[derive(Debug)]
pub(super) struct Effect {
    pub(super) header: PacketHeader,
    /// The new values of data, metadata, accumulator and lock.
    deposits: Vec<Write>,
    /// The message is whole.
    pub(super) whole: bool,
    pub(super) notification: Option<Notification>,
    /// The metadata changes meanwhile. The bytes of the accumulator and whether the packet is
    /// accepted cannot be predicted, but where the card may write can.
    pub(super) loose: bool,
}

/// An entry of a notification queue that the card must write.
#[derive(Debug)]
pub(super) struct Notification {
    pub(super) queue: u32,
    entry: Write,
    /// From the second pass on: the word that tells a reader of the old entry that it is being
    /// overwritten.
    warning: Option<u32>,
    /// The vector that must be raised.
    pub(super) interrupt: Option<u16>,
}

/// Judges a packet that is about to reach a card. If `loose`, its metadata entry will be changed
/// meanwhile. `awaited` is the terminus that waits for it, if it is an answer.
pub(super) fn judge(
    machine: &Machine,
    source: u16,
    packet: &[u8],
    loose: bool,
    awaited: Option<u32>,
) -> Verdict {
    let header = match sound(machine, packet) {
        Err(reason) => return Verdict::Counted(reason),
        Ok(header) => header,
    };
    if header.is_answer() {
        let answered = awaited.map(|terminus| Answered::of(machine, terminus));
        return answered.map_or(Verdict::Counted(Statistic::RefusedAnswer), Verdict::Answered);
    }
    match admit(machine, source, &header, loose) {
        Err(reason) => Verdict::Counted(reason),
        Ok(slot) if header.is_fetch() => {
            let fetched = Fetched::of(machine, packet, &header, &slot, loose);
            fetched.map_or_else(Verdict::Counted, Verdict::Fetched)
        }
        Ok(slot) if header.is_retraction() => {
            Verdict::Retracted(Retracted::of(machine, &header, &slot, loose))
        }
        Ok(slot) => Verdict::Accepted(effect(machine, packet, header, &slot, loose)),
    }
}

/// Returns the header, if the card takes packets and this is a valid one.
fn sound(machine: &Machine, packet: &[u8]) -> Result<PacketHeader, Statistic> {
    if !machine.tables().enabled {
        return Err(Statistic::Discarded);
    }
    PacketHeader::read(packet).filter(|header| header.is_sound(packet)).ok_or(Statistic::RefusedPacket)
}

fn admit(
    machine: &Machine,
    source: u16,
    header: &PacketHeader,
    loose: bool,
) -> Result<Arc<OpenSlot>, Statistic> {
    let tables = machine.tables();
    let slot = tables.slots.get(header.slot as usize).ok_or(Statistic::RefusedSlot)?;
    let slot = slot.clone().ok_or(Statistic::RefusedClosedSlot)?;
    let admits = |host| host == source && header.flags & (PRIVILEGED | SILENT) == PRIVILEGED;
    if slot.privileged.is_some_and(|host| !admits(host)) {
        return Err(Statistic::RefusedPrivilege);
    }
    let length = if header.is_fetch() { WORD } else { header.length };
    let (offset, end) = (u64::from(header.offset), u64::from(header.offset) + u64::from(length));
    if slot.mode == HAMLYN_MODE_NORMAL && header.key != slot.key {
        return Err(Statistic::RefusedKey);
    }
    if end > slot.area.length {
        return Err(Statistic::RefusedBounds);
    }
    if header.metadata_index == HAMLYN_FAST_MODE {
        let normal = slot.mode == HAMLYN_MODE_NORMAL;
        return if normal { Ok(slot) } else { Err(Statistic::RefusedFastParanoid) };
    }
    let entry = slot.entry_address(header.metadata_index).ok_or(Statistic::RefusedMetadataIndex)?;
    if slot.mode == HAMLYN_MODE_NORMAL || loose {
        return Ok(slot);
    }
    let memory = &machine.memory;
    if memory.peek_u64(entry + ENTRY_KEY) != header.key {
        return Err(Statistic::RefusedParanoidKey);
    }
    if offset < memory.peek_u64(entry + ENTRY_LOW) || end > memory.peek_u64(entry + ENTRY_HIGH) {
        return Err(Statistic::RefusedParanoidBounds);
    }
    if slot.mode == HAMLYN_MODE_PARANOID_ONE_SHOT && memory.peek_u32(entry + ENTRY_ONE_SHOT) == 1 {
        return Err(Statistic::RefusedOneShot);
    }
    Ok(slot)
}

impl Fetched {
    fn of(
        machine: &Machine,
        packet: &[u8],
        header: &PacketHeader,
        slot: &OpenSlot,
        loose: bool,
    ) -> Result<Self, Statistic> {
        if !slot.fetch {
            return Err(Statistic::RefusedFetch);
        }
        let address = slot.area.address(header.offset.into());
        if address % u64::from(WORD) != 0 {
            return Err(Statistic::RefusedFetchAddress);
        }
        let operand = |at: usize| {
            let bytes = packet.get(HEADER + at..HEADER + at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        let (found, operand, compare) = (machine.memory.peek_u64(address), operand(0), operand(8));
        let word = match header.operation {
            1 => found.wrapping_add(operand),
            2 => found & operand,
            3 => found | operand,
            4 => found ^ operand,
            6 if found != compare => found,
            _ => operand,
        };
        Ok(Self { found, word: Write { address, bytes: word.to_le_bytes().to_vec() }, loose })
    }

    /// Checks that the card changed the word in one piece, and nothing else. Returns the value
    /// found. If the metadata entry changed meanwhile, the card may have refused.
    pub(super) fn check(&self, machine: &Machine, writes: &[Write]) -> Result<Result<u64, ()>, Violation> {
        let refused = self.loose && writes.is_empty();
        ensure(refused || writes == [self.word.clone()], || {
            format!("host {}: a fetch-and-op wrote {writes:?} (must be {:?})", machine.id, self.word)
        })?;
        Ok(if refused { Err(()) } else { Ok(self.found) })
    }
}

impl Retracted {
    fn of(machine: &Machine, header: &PacketHeader, slot: &OpenSlot, loose: bool) -> Self {
        let address = slot.entry_address(header.metadata_index).unwrap_or(0) + ENTRY_ACCUMULATOR;
        let held = machine.memory.peek_u32(address);
        let left = if held < header.delta { held } else { held - header.delta };
        Self { accumulator: Write { address, bytes: left.to_le_bytes().to_vec() }, loose }
    }

    /// Checks that the card changed the accumulator and nothing else.
    pub(super) fn check(&self, machine: &Machine, writes: &[Write]) -> Result<(), Violation> {
        let Self { accumulator, loose } = self;
        let elsewhere = writes.iter().any(|write| !write.lies_in(accumulator));
        let right = machine.memory.peek(accumulator.address, 4) == accumulator.bytes;
        ensure(!elsewhere && (right || *loose), || {
            format!("host {}: a retraction wrote {writes:?} (must be {accumulator:?})", machine.id)
        })
    }
}

impl Answered {
    fn of(machine: &Machine, terminus: u32) -> Self {
        let status = machine.tables().termini[terminus as usize].as_ref().map_or(0, |open| open.status);
        Self { status, entry: u64::from(machine.completed(terminus) % 64) }
    }

    /// Checks that the card wrote the fetched word, the reason, the number of refused requests and,
    /// last, the number of completed requests.
    pub(super) fn check(&self, machine: &Machine, writes: &[Write]) -> Result<(), Violation> {
        let Self { status, entry } = *self;
        let words = [(320 + 8 * entry, 8), (64 + 4 * entry, 4), (4, 4), (0, 4)];
        let is = |write: &Write, (at, length): (u64, usize)| {
            write.address == status + at && write.bytes.len() == length
        };
        let known = writes.iter().all(|write| words.iter().any(|word| is(write, *word)));
        let last = writes.last().is_some_and(|last| is(last, (0, 4)));
        ensure(known && last, || format!("host {}: an answer wrote {writes:?}", machine.id))
    }
}

fn effect(machine: &Machine, packet: &[u8], header: PacketHeader, slot: &OpenSlot, loose: bool) -> Effect {
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
        let sum = machine.memory.peek_u32(accumulator).wrapping_add(header.delta);
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
    let notification = notified.then(|| notification(machine, &header, slot)).flatten();
    Effect { header, deposits, whole, notification, loose }
}

fn notification(machine: &Machine, header: &PacketHeader, slot: &OpenSlot) -> Option<Notification> {
    let tables = machine.tables();
    let queue = tables.queues.get(slot.queue as usize).filter(|_| slot.queue != HAMLYN_NO_QUEUE)?.as_ref()?;
    let (metadata, kind) = match header.metadata_index {
        HAMLYN_FAST_MODE => (header.delta.into(), 2),
        entry => (slot.pointer.wrapping_add(u64::from(entry) * 128), 0),
    };
    let mut bytes = metadata.to_le_bytes().to_vec();
    bytes.extend(header.slot.to_le_bytes());
    bytes.extend(slot.notification_index.to_le_bytes());
    bytes.extend([0; 12]);
    bytes.extend((queue.wrap() | kind).to_le_bytes());
    let asks = slot.interrupt || header.flags & INTERRUPT != 0;
    let sleeps = machine.armed(slot.queue) == ULN_ARMED_YES && machine.pending(queue.vector) == 0;
    Some(Notification {
        queue: slot.queue,
        entry: Write { address: queue.next_entry(), bytes },
        warning: (queue.wrap() >> 2 != 0).then_some(queue.wrap() ^ 1),
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
    /// Checks that the card wrote these bytes and no others, with the notification after all others
    /// and its wrap word last.
    pub(super) fn check(&self, machine: &Machine, writes: &[Write]) -> Result<(), Violation> {
        let fail = |write: &Write, what: &str| {
            let Write { address, bytes } = write;
            Err(Violation::new(format!(
                "host {}: the card wrote {} bytes at {address:#x} {what}: {:?}",
                machine.id,
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
        if self.loose { Ok(()) } else { self.check_result(machine, writes) }
    }

    /// Checks that all expected bytes are in memory.
    fn check_result(&self, machine: &Machine, writes: &[Write]) -> Result<(), Violation> {
        for deposit in &self.deposits {
            ensure(machine.memory.peek(deposit.address, deposit.bytes.len()) == deposit.bytes, || {
                format!(
                    "host {}: {} bytes are not at {:#x}: {:?}",
                    machine.id,
                    deposit.bytes.len(),
                    deposit.address,
                    self.header
                )
            })?;
        }
        let Some(Notification { entry, warning, .. }) = &self.notification else { return Ok(()) };
        ensure(machine.memory.peek(entry.address, 32) == entry.bytes, || {
            format!("host {}: the notification is not at {:#x}: {:?}", machine.id, entry.address, self.header)
        })?;
        let word = Write { address: entry.address + 28, bytes: vec![0; 4] };
        let first = writes.iter().find(|write| write.lies_in(entry));
        let warned = first.is_some_and(|first| {
            first.address == word.address
                && warning.is_some_and(|warning| first.bytes == warning.to_le_bytes())
        });
        ensure(warning.is_none() || warned, || {
            format!("host {}: an entry is overwritten without a warning: {:?}", machine.id, self.header)
        })?;
        let early = writes.iter().rev().skip(1).find(|write| {
            write.lies_in(entry)
                && word.lies_in(write)
                && write.bytes[write.bytes.len() - 4] & 1 == entry.bytes[28] & 1
        });
        ensure(early.is_none() && writes.last().is_some_and(|last| word.lies_in(last)), || {
            format!("host {}: the wrap flag was not written last: {:?}", machine.id, self.header)
        })
    }

    /// Checks the counters, including that of interrupts. `before` and `after` are indexed by the
    /// counter's number.
    pub(super) fn check_counters(&self, before: &[u64], after: &[u64]) -> Result<(), Violation> {
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
