//! Goal 8, everything in one process: the library at two cards of this very thread, with no socket and no switch.
//!
//! It is what remains of a round trip when nobody has to be woken: the library, the card's logic, the copies.

use std::fmt;
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hamlyn::attach::{Attachment, Doorbell, QueueFile, QueueParts, QueueWait, TerminusParts};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Card, Error, Memory, Message, NotificationQueue, Result, Terminus, Ticket, random_key};
use hamlyn_abi::family::area::HamlynArea;
use hamlyn_abi::family::command::{
    HAMLYN_COMMAND_BODY, HAMLYN_REG_COMMAND_GO, HAMLYN_REG_COMMAND_PAGE, HAMLYN_REG_COMMAND_STATUS,
    HAMLYN_STATUS_OK, HamlynCommand,
};
use hamlyn_abi::family::control::{HAMLYN_CONTROL_ENABLE, HAMLYN_REG_CONTROL};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::uapi::{HamlynQuery, HamlynSelfTest, HamlynSendBuffer, HamlynSlotCreate, HamlynStatistics};
use hamlyn_bench_guest::pattern::{check_mark, mark};
use hamlyn_card::card::{Card as _, Place, Progress};
use hamlyn_card::ports::{Dma, DmaFault, Operation, Packet, Ports, VolatileSlice, Window};
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_sys::{Mapping, window};
use hdrhistogram::Histogram;
use zerocopy::IntoBytes;

use crate::effort::Effort;
use crate::exchange::Outcome;
use crate::quiet::{Silent, Stopped, Wire};
use crate::track::Track;

/// What the report calls it.
pub const NAME: &str = "host, 16-byte tagged remote write, library and two cards in one thread";

const PAGE: u64 = 4096;
/// Addresses that fit a page: one list's worth is all that is needed here.
const LIST: u64 = PAGE / 8;
const COMMAND_PAGE: u64 = PAGE;

/// What its rounds go into.
pub fn track() -> Track {
    Track { name: NAME.to_owned(), commands: Vec::new(), rounds: Vec::new(), failure: None }
}

/// Measures a round of it.
pub fn round(effort: Effort) -> anyhow::Result<Outcome> {
    let count = effort.pick(20_000, 100_000);
    let samples = round_trips(count)?;
    let ns = (samples.mean() * samples.len() as f64) as u64;
    let counters = [serde_json::Value::Null, serde_json::Value::Null];
    Ok(Outcome {
        samples,
        messages: count,
        all: count,
        bytes: 0,
        ns,
        cpu_ns: [ns, 0],
        watched_ns: Default::default(),
        counters,
    })
}

/// Times round trips of 16-byte tagged remote writes, in nanoseconds.
pub fn round_trips(count: u64) -> anyhow::Result<Histogram<u64>> {
    let options = HamlynOptions { termini: 1, queues: 1, handshake_ms: 0, ..HamlynOptions::default() };
    let (near, far) = (Local::create(0, options)?, Local::create(1, options)?);
    let end = |local: &Local| {
        let card = Card::attached(Arc::new(local.clone()));
        let receiver = TagReceiver::create(&card, 16, 64)?;
        anyhow::Ok((TagSender::new(card.create_terminus()?), receiver))
    };
    let ((near_sends, mut near_receives), (far_sends, mut far_receives)) = (end(&near)?, end(&far)?);
    let (to_near, to_far) = (near_receives.ticket()?, far_receives.ticket()?);
    let mut samples = Histogram::new(3).context("no histogram")?;
    let (mut data, mut there, mut back) = ([0; 16], [0; 16], [0; 16]);
    for round in 0..count + count / 10 {
        let tag = round as u32;
        let start = Instant::now();
        mark(&mut data, round);
        near_sends.send(&to_far, &data, 0, tag)?;
        carry(&near, &far);
        let heard = far_receives.get_tag()?;
        far_receives.read(0, &mut there)?;
        far_sends.send(&to_near, &there, 0, tag)?;
        carry(&far, &near);
        let answered = near_receives.get_tag()?;
        near_receives.read(0, &mut back)?;
        let time = start.elapsed();
        ensure!(heard == Some(tag) && answered == Some(tag), "tag {tag} came as {heard:?} and {answered:?}");
        check_mark(&back, round).map_err(anyhow::Error::msg)?;
        if round >= count / 10 {
            samples.record(time.as_nanos() as u64).context("a time out of range")?;
        }
    }
    Ok(samples)
}

/// Makes so many messages by each of the library's paths. Each path has a function of its own, which is never inlined:
/// `callgrind` counts within it.
pub fn walk_paths(count: u64) -> anyhow::Result<()> {
    let options = HamlynOptions { termini: 1, queues: 1, handshake_ms: 0, ..HamlynOptions::default() };
    let pair = || anyhow::Ok([Local::create(0, options)?, Local::create(1, options)?]);
    let card = |local: &Local| Card::attached(Arc::new(local.clone()));
    let tagged = pair()?;
    let sender = TagSender::new(card(&tagged[0]).create_terminus()?);
    let mut receiver = TagReceiver::create(&card(&tagged[1]), 16, 64)?;
    let tags = receiver.ticket()?;
    let plain = pair()?;
    let terminus = card(&plain[0]).create_terminus()?;
    let far = card(&plain[1]);
    let (queue, area) = (far.create_queue(64)?, far.create_area(64)?);
    let slot = far.slot(&area).metadata_entries(1).queue(&queue).create()?;
    let ticket = slot.ticket(0)?;
    for _ in 0..count {
        path_write(&sender, &tags)?;
        carry(&tagged[0], &tagged[1]);
        ensure!(path_get_tag(&mut receiver)? == Some(7), "a tag is missing");
        path_send(&terminus, &ticket)?;
        carry(&plain[0], &plain[1]);
        ensure!(path_receive(&queue)?, "a message is missing");
        ensure!(path_look(&queue)?, "a message came that nobody sent");
    }
    Ok(())
}

// What they return is looked at once more, so that none ends in a jump, which callgrind would take for its end.

#[inline(never)]
fn path_write(sender: &TagSender, ticket: &Ticket) -> Result<()> {
    black_box(sender.send(ticket, &[0xa5; 16], 0, 7).map(drop))
}

#[inline(never)]
fn path_get_tag(receiver: &mut TagReceiver) -> Result<Option<u32>> {
    black_box(receiver.get_tag())
}

#[inline(never)]
fn path_send(terminus: &Terminus, ticket: &Ticket) -> Result<()> {
    black_box(terminus.send(&Message::to(ticket), &[0xa5; 64]).map(drop))
}

#[inline(never)]
fn path_receive(queue: &NotificationQueue) -> Result<bool> {
    Ok(black_box(queue.recv()?).is_some())
}

#[inline(never)]
fn path_look(queue: &NotificationQueue) -> Result<bool> {
    Ok(black_box(queue.recv()?).is_none())
}

/// Takes every packet of one card to the other.
fn carry(from: &Local, to: &Local) {
    while from.lock().with_card(|card, ports, wire| card.transmit(ports, wire)) == Progress::Worked {
        let mut bytes = std::mem::take(&mut from.lock().wire.bytes);
        if bytes.is_empty() {
            continue;
        }
        let packet = Packet { source: from.host as u16, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        to.lock().with_card(|card, ports, _| card.packet_arrived(ports, &packet));
        // Its memory serves the next.
        bytes.clear();
        from.lock().wire.bytes = bytes;
    }
}

/// A card of this process, and the driver's part.
#[derive(Clone)]
struct Local {
    host: u32,
    packet_size: u32,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    card: HamlynCard,
    lent: Lent,
    window: Pages,
    wire: Wire,
    slots: u32,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Local {
    fn create(host: u32, options: HamlynOptions) -> anyhow::Result<Self> {
        let card = HamlynCard::new(options).context("no card")?;
        let window = card.identity().bars.iter().map(|bar| bar.size).max().unwrap_or_default() as usize;
        let window = Pages(Arc::new(Mapping::anonymous(window).context("no memory for the window")?));
        let lent = Lent { regions: Vec::new(), next: COMMAND_PAGE };
        let inner = Inner { card, lent, window, wire: Wire::default(), slots: 0 };
        let local = Self { host, packet_size: options.packet_size, inner: Arc::new(Mutex::new(inner)) };
        local.allocate(PAGE as usize)?;
        let mut inner = local.lock();
        let place = Place { host: host as u16, ports: 0 };
        inner.with_card(|card, ports, _| card.link_changed(ports, Some(place)));
        inner.write_register(HAMLYN_REG_COMMAND_PAGE, 8, COMMAND_PAGE);
        inner.write_register(HAMLYN_REG_CONTROL, 4, HAMLYN_CONTROL_ENABLE.into());
        drop(inner);
        Ok(local)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes memory for the card. The page lists stay for as long as the card.
    fn area(&self, address: u64, length: u64) -> Result<HamlynArea> {
        let first = address % PAGE;
        let pages = (first + length).div_ceil(PAGE);
        if pages > LIST {
            return Err(Error::Unsupported("an area of more than 2 MiB"));
        }
        let lists = self.allocate(2 * PAGE as usize)?;
        lists.write(0, (lists.card_address() + PAGE).as_bytes())?;
        for page in 0..pages {
            lists.write((PAGE + page * 8) as usize, (address - first + page * PAGE).as_bytes())?;
        }
        Ok(HamlynArea { directory: lists.card_address(), length, first: first as u32, reserved: 0 })
    }
}

impl Inner {
    fn with_card<T>(&mut self, verb: impl FnOnce(&mut HamlynCard, &Ports<'_>, &mut Wire) -> T) -> T {
        let ports = Ports { dma: &self.lent, windows: &self.window, interrupt: &Silent, clock: &Stopped };
        verb(&mut self.card, &ports, &mut self.wire)
    }

    fn write_register(&mut self, register: u32, width: u8, value: u64) {
        self.with_card(|card, ports, _| card.register_write(ports, 0, register.into(), width, value));
    }

    fn command(&mut self, action: &'static str, opcode: u32, index: u32, body: &[u8]) -> Result<()> {
        let head = HamlynCommand { opcode, index, ..Default::default() };
        if let Ok((page, at)) = self.lent.find(COMMAND_PAGE, PAGE as usize) {
            page.write(at, head.as_bytes());
            page.write(at + HAMLYN_COMMAND_BODY as usize, body);
        }
        self.write_register(HAMLYN_REG_COMMAND_GO, 4, 1);
        let status = HAMLYN_REG_COMMAND_STATUS.into();
        match self.with_card(|card, ports, _| card.register_read(ports, 0, status, 4)).now() {
            Some(status) if status == u64::from(HAMLYN_STATUS_OK) => Ok(()),
            _ => Err(Error::Unsupported(action)),
        }
    }
}

impl Attachment for Local {
    fn query(&self) -> Result<HamlynQuery> {
        Ok(HamlynQuery { host: self.host, packet_size: self.packet_size, ..Default::default() })
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        let size = length.next_multiple_of(PAGE as usize);
        let mapping = Mapping::anonymous(size).map(Arc::new);
        let mapping = mapping.map_err(|_| Error::Unsupported("no memory left"))?;
        let address = self.lock().lent.add(&mapping);
        Ok(Memory::lent(mapping, length, Some(address), None))
    }

    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        let failed = |_| Error::Unsupported("the card's window is too small");
        let status = self.allocate(PAGE as usize)?;
        let body = HamlynOpenTerminus { status: status.card_address(), weight, ..Default::default() };
        let mut inner = self.lock();
        inner.command("open a terminus", HAMLYN_COMMAND_OPEN_TERMINUS, 0, body.as_bytes())?;
        Ok(TerminusParts {
            terminus: 0,
            // The only terminus' window starts where all windows do.
            window: window::Window::new(inner.window.0.clone()).map_err(failed)?,
            status: window::StatusWords::new(status.mapping().clone()).map_err(failed)?,
            doorbell: Box::new(Ring(self.clone())),
        })
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        self.lock().command("close a terminus", HAMLYN_COMMAND_CLOSE_TERMINUS, terminus, &[])
    }

    fn set_send_buffer(&self, _buffer: HamlynSendBuffer, _memory: &Memory) -> Result<()> {
        Err(Error::Unsupported("send buffers in one process"))
    }

    fn clear_send_buffer(&self, _terminus: u32, _tag: u32) -> Result<()> {
        Err(Error::Unsupported("send buffers in one process"))
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let memory = self.allocate((entries * HAMLYN_NOTIFICATION_SIZE) as usize)?;
        let area = self.area(memory.card_address(), memory.len() as u64)?;
        let body = HamlynOpenQueue { area, entries, vector: 1 };
        self.lock().command("open a queue", HAMLYN_COMMAND_OPEN_QUEUE, 0, body.as_bytes())?;
        let entries = window::QueueEntries::new(memory.mapping().clone(), entries);
        Ok(QueueParts { queue: 0, entries: entries.map_err(|_| Error::Unsupported("a queue so small"))? })
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        self.lock().command("close a queue", HAMLYN_COMMAND_CLOSE_QUEUE, queue, &[])
    }

    fn wait_queue(&self, _wait: QueueWait, _timeout: Option<Duration>) -> Result<()> {
        Err(Error::Unsupported("sleeping in one process"))
    }

    fn arm_queue(&self, _wait: QueueWait) -> Result<bool> {
        Err(Error::Unsupported("sleeping in one process"))
    }

    fn queue_file(&self, _queue: u32) -> Result<QueueFile<'_>> {
        Err(Error::Unsupported("sleeping in one process"))
    }

    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        _area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()> {
        let length = u64::from(slot.metadata_entries * HAMLYN_METADATA_SIZE);
        let metadata = metadata.map(|_| self.area(slot.metadata_address, length)).transpose()?;
        let body = HamlynOpenSlot {
            area: self.area(slot.area_address, slot.area_length)?,
            metadata: metadata.unwrap_or_default(),
            metadata_pointer: slot.metadata_address,
            metadata_entries: slot.metadata_entries,
            key: random_key()?,
            mode: slot.mode,
            queue: slot.queue,
            flags: slot.flags,
            ..Default::default()
        };
        let mut inner = self.lock();
        let index = inner.slots;
        inner.command("open a slot", HAMLYN_COMMAND_OPEN_SLOT, index, body.as_bytes())?;
        inner.slots += 1;
        (slot.slot, slot.key) = (index, body.key);
        Ok(())
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        self.lock().command("close a slot", HAMLYN_COMMAND_CLOSE_SLOT, slot, &[])
    }

    fn statistics(&self) -> Result<HamlynStatistics> {
        Err(Error::Unsupported("counters in one process"))
    }

    fn self_test(&self) -> Result<HamlynSelfTest> {
        Err(Error::Unsupported("self-tests in one process"))
    }
}

/// The terminus' doorbell.
#[derive(Debug)]
struct Ring(Local);

impl Doorbell for Ring {
    fn ring(&self) -> Result<()> {
        self.0.lock().with_card(|card, ports, _| card.register_write(ports, 4, 0, 4, 1));
        Ok(())
    }
}

/// Memory that the card was lent, by the card's addresses.
struct Lent {
    regions: Vec<(u64, Arc<Mapping>)>,
    next: u64,
}

impl Lent {
    fn add(&mut self, mapping: &Arc<Mapping>) -> u64 {
        let address = self.next;
        self.next += mapping.length() as u64;
        self.regions.push((address, mapping.clone()));
        address
    }

    fn find(&self, address: u64, length: usize) -> std::result::Result<(&Mapping, usize), DmaFault> {
        let fault = DmaFault { address, length: length as u64 };
        let behind = self.regions.partition_point(|region| region.0 <= address);
        let (start, mapping) =
            behind.checked_sub(1).and_then(|index| self.regions.get(index)).ok_or(fault)?;
        let offset = (address - start) as usize;
        if offset.checked_add(length).is_none_or(|end| end > mapping.length()) {
            return Err(fault);
        }
        Ok((mapping, offset))
    }
}

impl Dma for Lent {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> std::result::Result<(), DmaFault> {
        let (mapping, offset) = self.find(address, into.len())?;
        let mut bytes = vec![0; into.len()];
        mapping.read(offset, &mut bytes);
        into.copy_from(&bytes);
        Ok(())
    }

    fn lend(&self, address: u64, length: usize) -> std::result::Result<VolatileSlice<'_>, DmaFault> {
        // There are no send buffers here.
        Err(DmaFault { address, length: length as u64 })
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> std::result::Result<(), DmaFault> {
        let (mapping, offset) = self.find(address, from.len())?;
        let mut bytes = [0; 64];
        if let Some(bytes) = bytes.get_mut(..from.len()) {
            from.copy_to(bytes);
            mapping.write(offset, bytes);
            return Ok(());
        }
        let mut bytes = vec![0; from.len()];
        from.copy_to(&mut bytes);
        mapping.write(offset, &bytes);
        Ok(())
    }

    fn publish(&self, address: u64, value: u32) -> std::result::Result<(), DmaFault> {
        let (mapping, offset) = self.find(address, 4)?;
        mapping.store_u32_release(offset, value);
        Ok(())
    }

    fn fetch(&self, address: u64, _operation: Operation) -> std::result::Result<u64, DmaFault> {
        // Nobody asks for it here.
        Err(DmaFault { address, length: 8 })
    }
}

/// The card's window.
struct Pages(Arc<Mapping>);

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        self.0.load_u32_acquire(offset as usize)
    }

    fn store(&self, offset: u64, value: u32) {
        self.0.store_u32_release(offset as usize, value);
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.0.read(offset as usize, into);
    }

    fn clear(&self, offset: u64, length: u64) {
        self.0.write(offset as usize, &vec![0; length as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_walked() {
        walk_paths(100).unwrap();
    }

    #[test]
    fn messages_go_there_and_back_in_one_thread() {
        assert_eq!(round_trips(500).unwrap().len(), 500);
    }
}
