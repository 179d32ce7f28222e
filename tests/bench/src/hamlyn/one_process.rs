//! Goal 8, everything in one process: the library with two cards in this same thread, without a
//! socket and without a switch.
//!
//! This is the part of a round trip that remains without wake-ups: the library, the card's logic,
//! the copies.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hamlyn::attach::{Attachment, CardAttachment, Doorbell, QueueFile, QueueParts, QueueWait, TerminusParts};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{
    Card, Error, Memory as LibraryMemory, Message, NotificationQueue, Result, Terminus, Ticket, random_key,
};
use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::hamlyn::command::{HamlynOpenSlot, HamlynOpenTerminus};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::uapi::{HamlynSendBuffer, HamlynSlotCreate, UlnQuery, UlnSelfTest, UlnStatistics};
use hamlyn_bench_guest::pattern::{check_mark, mark};
use hamlyn_card::card::Progress;
use hamlyn_card::ports::VolatileSlice;
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_sys::hamlyn::window;
use hamlyn_sys::{Access, Mapping};
use hamlyn_test_host::hamlyn::{Done, HamlynCommands, HamlynProgram};
use hamlyn_test_host::{Commands, MEMORY_BYTES, Memory, Pages, list_pages, shared_file, window_bytes};
use hdrhistogram::Histogram;

use crate::engine::effort::Effort;
use crate::engine::exchange::Outcome;
use crate::engine::track::Track;

/// Its name in the report.
pub const NAME: &str = "host, 16-byte tagged remote write, library and two cards in one thread";

const PAGE: u64 = 4096;

/// Returns an empty track for its rounds.
pub fn track() -> Track {
    Track::new(NAME)
}

/// Measures one round.
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
        let heard = far_receives.try_recv()?;
        far_receives.read(0, &mut there)?;
        far_sends.send(&to_near, &there, 0, tag)?;
        carry(&far, &near);
        let answered = near_receives.try_recv()?;
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

/// Sends `count` messages on each of the library's paths. Each path is a separate function, which
/// is never inlined: `callgrind` counts within it.
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
        ensure!(path_look(&queue)?, "a message came that was not sent");
    }
    Ok(())
}

// Each function uses its result once more, so that none ends in a jump. callgrind would treat such
// a jump as the function's end.

#[inline(never)]
fn path_write(sender: &TagSender, ticket: &Ticket) -> Result<()> {
    black_box(sender.send(ticket, &[0xa5; 16], 0, 7).map(drop))
}

#[inline(never)]
fn path_get_tag(receiver: &mut TagReceiver) -> Result<Option<u32>> {
    black_box(receiver.try_recv())
}

#[inline(never)]
fn path_send(terminus: &Terminus, ticket: &Ticket) -> Result<()> {
    black_box(terminus.send(&Message::to(ticket), &[0xa5; 64]).map(drop))
}

#[inline(never)]
fn path_receive(queue: &NotificationQueue) -> Result<bool> {
    Ok(black_box(queue.try_recv()?).is_some())
}

#[inline(never)]
fn path_look(queue: &NotificationQueue) -> Result<bool> {
    Ok(black_box(queue.try_recv()?).is_none())
}

/// Delivers every packet of one card to the other.
fn carry(from: &Local, to: &Local) {
    while from.lock().host.transmit() == Progress::Worked {
        // A card sends one packet at a time. Two cards are never locked at once.
        let sent = from.lock().host.wire.sent.pop();
        let Some((_, mut bytes)) = sent else { continue };
        to.lock().host.deliver(from.number as u16, &[VolatileSlice::from(&mut bytes[..])]);
        from.lock().host.wire.give_back(bytes);
    }
}

type InMemory = hamlyn_test_host::Host<HamlynCard>;

/// A card in this process, with the driver's part.
#[derive(Clone)]
struct Local {
    number: u32,
    packet_size: u32,
    inner: Arc<Mutex<Inner>>,
}

/// The host, and those of its objects that the library's programs map.
struct Inner {
    host: InMemory,
    memory: File,
    window: Arc<Mapping>,
    slots: u32,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Local {
    fn create(number: u32, options: HamlynOptions) -> anyhow::Result<Self> {
        let card = HamlynCard::new(options).context("no card")?;
        let bytes = window_bytes(&card);
        let (memory, window) = (shared_file(MEMORY_BYTES)?, shared_file(bytes)?);
        let mapped = Arc::new(Mapping::of_file(&window, 0, bytes, Access::ReadWrite)?);
        let host = InMemory::made_of(number as u16, card, Memory::of(&memory)?, Pages::of(&window, bytes)?);
        let inner = Inner { host, memory, window: mapped, slots: 0 };
        Ok(Self { number, packet_size: options.packet_size, inner: Arc::new(Mutex::new(inner)) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Describes memory with consecutive pages for the card. The page lists exist as long as the
    /// card.
    fn area(&self, address: u64, length: u64) -> UlnArea {
        let first = address % PAGE;
        let (list, put) = (|| self.host.pages(1), |at, bytes: &[u8]| self.host.put(at, bytes));
        list_pages(length, first as u32, list, |index| address - first + index * PAGE, put)
    }
}

/// Converts the card's answer to a command.
fn done(action: &'static str, done: Done<InMemory>) -> Result<()> {
    let Ok(done) = done;
    done.map_err(|_| Error::Unsupported(action))
}

impl CardAttachment for Local {
    fn query(&self) -> Result<UlnQuery> {
        Ok(UlnQuery { host: self.number, packet_size: self.packet_size, ..Default::default() })
    }

    fn allocate(&self, length: usize) -> Result<LibraryMemory> {
        let inner = self.lock();
        let address = inner.host.pages((length as u64).div_ceil(PAGE));
        if address as usize + length > MEMORY_BYTES {
            return Err(Error::Unsupported("more memory than the host has"));
        }
        let mapping = Mapping::of_file(&inner.memory, address, length, Access::ReadWrite);
        let mapping = mapping.map_err(|_| Error::Unsupported("no memory left"))?;
        Ok(LibraryMemory::lent(mapping, length, Some(address), None))
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        Err(Error::Unsupported("counters in one process"))
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        Err(Error::Unsupported("self-tests in one process"))
    }
}

impl Attachment for Local {
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        let failed = |_| Error::Unsupported("the card's window is too small");
        let status = self.allocate(PAGE as usize)?;
        let body = HamlynOpenTerminus { status: status.card_address(), weight, ..Default::default() };
        let mut inner = self.lock();
        done("open a terminus", inner.host.open_terminus(0, &body))?;
        Ok(TerminusParts {
            terminus: 0,
            // The window of the only terminus starts where all windows do.
            window: window::Window::new(inner.window.clone()).map_err(failed)?,
            status: window::StatusWords::new(status.mapping().clone()).map_err(failed)?,
            doorbell: Box::new(Ring(self.clone())),
        })
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        done("close a terminus", self.lock().host.close_terminus(terminus))
    }

    fn set_send_buffer(&self, _buffer: HamlynSendBuffer, _memory: &LibraryMemory) -> Result<()> {
        Err(Error::Unsupported("send buffers in one process"))
    }

    fn clear_send_buffer(&self, _terminus: u32, _tag: u32) -> Result<()> {
        Err(Error::Unsupported("send buffers in one process"))
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let memory = self.allocate((entries * HAMLYN_NOTIFICATION_SIZE) as usize)?;
        let mut inner = self.lock();
        let area = inner.area(memory.card_address(), memory.len() as u64);
        done("open a queue", inner.host.open_queue(0, area, entries, 1))?;
        let entries = window::QueueEntries::new(memory.mapping().clone(), entries);
        let entries = entries.map_err(|_| Error::Unsupported("a queue so small"))?;
        Ok(QueueParts { queue: 0, entries, offset: None })
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        done("close a queue", self.lock().host.close_queue(queue))
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
        _area: &LibraryMemory,
        metadata: Option<&LibraryMemory>,
    ) -> Result<()> {
        let length = u64::from(slot.metadata_entries * HAMLYN_METADATA_SIZE);
        let mut inner = self.lock();
        let metadata = metadata.map(|_| inner.area(slot.metadata_address, length));
        let body = HamlynOpenSlot {
            area: inner.area(slot.area_address, slot.area_length),
            metadata: metadata.unwrap_or_default(),
            metadata_pointer: slot.metadata_address,
            metadata_entries: slot.metadata_entries,
            key: random_key()?,
            mode: slot.mode,
            queue: slot.queue,
            flags: slot.flags,
            ..Default::default()
        };
        let index = inner.slots;
        done("open a slot", inner.host.open_slot(index, &body))?;
        inner.slots += 1;
        (slot.slot, slot.key) = (index, body.key);
        Ok(())
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        done("close a slot", self.lock().host.close_slot(slot))
    }
}

/// The doorbell of the terminus.
#[derive(Debug)]
struct Ring(Local);

impl Doorbell for Ring {
    fn ring(&self) -> Result<()> {
        self.0.lock().host.ring(0);
        Ok(())
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
