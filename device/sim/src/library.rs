//! What the library does for a process: post, collect what is finished, read the queue, sleep.

use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID_ONE_SHOT};
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_FAST, HAMLYN_NOTIFICATION_SIZE, HamlynNotification,
};
use hamlyn_abi::hamlyn::request::{
    HAMLYN_BODY_SIZE, HAMLYN_FAST_MODE, HAMLYN_REQUEST_DMA, HAMLYN_REQUEST_INLINE_METADATA,
    HAMLYN_REQUEST_INTERRUPT, HAMLYN_REQUEST_SILENT, HamlynGather, HamlynRequest,
};
use hamlyn_abi::hamlyn::window::*;
use hamlyn_models::ports::Window;
use zerocopy::{FromBytes, IntoBytes};

use crate::host::{ENTRY_ACCUMULATOR, ENTRY_ONE_SHOT, Host};
use crate::ledger::{Delivery, Part, Place};
use crate::process::{CHUNK, Chunk, InFlight};
use crate::rng::Rng;
use crate::violation::{Violation, ensure};
use crate::world::World;

/// Where in the status page the reasons are.
const REASONS: u64 = 64;

impl Host {
    /// Posts a request and rings if the card sleeps.
    pub(crate) fn post(
        &mut self,
        process: usize,
        entry: &[u8],
        in_flight: InFlight,
    ) -> Result<(), Violation> {
        let process = &mut self.processes[process];
        let terminus = process.terminus;
        let window = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let index = u64::from(process.posted % HAMLYN_WORK_QUEUE_ENTRIES);
        let at = window + u64::from(HAMLYN_WINDOW_WORK_QUEUE) + index * u64::from(HAMLYN_ENTRY_SIZE);
        process.posted = process.posted.wrapping_add(1);
        process.in_flight.push_back(in_flight);
        self.window.poke(at, entry);
        self.window.store(window + u64::from(HAMLYN_WINDOW_TAIL), process.posted);
        if self.window.load(window + u64::from(HAMLYN_WINDOW_AWAKE)) == 0 {
            self.ring(terminus)?;
        }
        Ok(())
    }
}

impl World {
    /// Posts the next part that waits, if there is room for it.
    pub(crate) fn post_next(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let sender = &mut self.hosts[host].processes[process];
        let room = sender.posted.wrapping_sub(sender.completed) < HAMLYN_WORK_QUEUE_USABLE;
        let Some(&number) = sender.outbox.front().filter(|_| room) else { return Ok(false) };
        let part = &self.ledger.parts[number];
        let delivery = &self.ledger.deliveries[part.delivery];
        let place = &self.ledger.places[delivery.place];
        let Some((entry, chunks)) =
            request(&mut self.hosts[host], process, &mut self.rng, part, delivery, place)
        else {
            return Ok(false);
        };
        let host_id = place.host;
        self.hosts[host].processes[process].outbox.pop_front();
        self.note(|| format!("host {host} process {process} posts part {number} to host {host_id}"));
        self.hosts[host].post(
            process,
            &entry,
            InFlight { part: Some(number), chunks, reason: HAMLYN_REASON_SENT },
        )?;
        Ok(true)
    }

    /// Takes note of the requests that the card has finished with. Their buffers are filled with something else at once.
    pub(crate) fn collect(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let at = &mut self.hosts[host];
        let sender = &mut at.processes[process];
        let completed = at.memory.peek_u32(sender.status);
        let finished = completed.wrapping_sub(sender.completed);
        if sender.hostile {
            sender.completed = completed;
            return Ok(finished != 0);
        }
        ensure(finished as usize <= sender.in_flight.len(), || {
            format!("host {host}: {finished} requests are finished, {} were posted", sender.in_flight.len())
        })?;
        for _ in 0..finished {
            let Some(InFlight { part, chunks, reason: due }) = sender.in_flight.pop_front() else { break };
            let entry = u64::from(sender.completed % HAMLYN_WORK_QUEUE_ENTRIES);
            let reason = at.memory.peek_u32(sender.status + REASONS + 4 * entry);
            ensure(reason == due, || {
                format!(
                    "host {host}: request {} ended with reason {reason} (must be {due})",
                    sender.completed
                )
            })?;
            sender.completed = sender.completed.wrapping_add(1);
            for (buffer, chunk) in chunks {
                let junk = self.rng.bytes(CHUNK as usize);
                sender.send[buffer].1.poke(&at.memory, u64::from(chunk) * u64::from(CHUNK), &junk);
                sender.free_chunks.push((buffer, chunk));
            }
            if let Some(part) = part {
                self.ledger.parts[part].sent = true;
            }
        }
        Ok(finished != 0)
    }

    /// Reads the next notification, if there is one, and uses the message.
    pub(crate) fn read_queue(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let step = self.step;
        let at = &mut self.hosts[host];
        let receiver = &mut at.processes[process];
        if receiver.asleep || (receiver.slow_until > step) {
            return Ok(false);
        }
        let Some(queue) = at.queues[receiver.queue as usize].as_ref() else { return Ok(false) };
        let offset = u64::from(receiver.cursor) * u64::from(HAMLYN_NOTIFICATION_SIZE);
        let bytes = queue.area.peek(&at.memory, offset, HAMLYN_NOTIFICATION_SIZE.into());
        let Ok(notification) = HamlynNotification::read_from_bytes(&bytes) else { return Ok(false) };
        if notification.wrap & 1 != receiver.wrap {
            return Ok(false);
        }
        receiver.cursor += 1;
        if receiver.cursor == receiver.entries {
            receiver.cursor = 0;
            receiver.wrap ^= 1;
        }
        // A hostile process lets its queue overrun: what it reads means nothing.
        if !receiver.hostile {
            self.use_message(host, &notification)?;
        }
        Ok(true)
    }

    fn use_message(&mut self, host: usize, notification: &HamlynNotification) -> Result<(), Violation> {
        let wrong =
            |what: &str| Violation::new(format!("host {host}: a notification has {what}: {notification:?}"));
        let slot = self.hosts[host].slots.get(notification.slot as usize).and_then(Option::as_ref);
        let slot = slot.ok_or_else(|| wrong("a slot that is not open"))?;
        if notification.notification_index != slot.notification_index {
            return Err(wrong("another slot's index"));
        }
        let entry = if notification.wrap & HAMLYN_NOTIFICATION_FAST != 0 {
            Err(notification.metadata as u32)
        } else {
            Ok((notification.metadata.wrapping_sub(slot.pointer) / 128) as u32)
        };
        let delivery = self.ledger.notified(host, notification.slot, entry)?;
        self.note(|| format!("host {host} has delivery {delivery}"));
        self.check_message(delivery)?;
        self.ledger.release(delivery);
        Ok(())
    }

    /// The message is there whole, its accumulator is 0 again, and in one-shot mode its entry is locked.
    pub(crate) fn check_message(&self, number: usize) -> Result<(), Violation> {
        let delivery = &self.ledger.deliveries[number];
        let place = &self.ledger.places[delivery.place];
        let host = &self.hosts[place.host];
        let wrong = |what: &str| Violation::new(format!("{what}: {}", self.ledger.describe(number)));
        let slot = host.slots[place.slot as usize].as_ref().ok_or_else(|| wrong("its slot is closed"))?;
        for part in &delivery.parts {
            let Part { offset, data, metadata, .. } = &self.ledger.parts[*part];
            if slot.area.peek(&host.memory, (*offset).into(), data.len() as u64) != *data {
                return Err(wrong("its data is not there"));
            }
            let entry = place.entry.and_then(|entry| slot.entry_address(entry));
            if entry.is_some_and(|entry| host.memory.peek(entry, metadata.len()) != *metadata) {
                return Err(wrong("its metadata is not there"));
            }
        }
        let Some(entry) = place.entry.and_then(|entry| slot.entry_address(entry)) else { return Ok(()) };
        if host.memory.peek_u32(entry + ENTRY_ACCUMULATOR) != 0 {
            return Err(wrong("its accumulator is not 0"));
        }
        let locked = host.memory.peek_u32(entry + ENTRY_ONE_SHOT) == 1;
        if slot.mode != HAMLYN_MODE_NORMAL && locked != (slot.mode == HAMLYN_MODE_PARANOID_ONE_SHOT) {
            return Err(wrong("its entry's lock is wrong"));
        }
        Ok(())
    }

    /// Puts a process to sleep, if its queue is empty and whoever writes to it will wake it.
    pub(crate) fn sleep(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let sleeper = &self.hosts[host].processes[process];
        if !sleeper.interrupting || sleeper.hostile || sleeper.asleep || sleeper.slow_until > self.step {
            return Ok(false);
        }
        let queue = sleeper.queue;
        self.hosts[host].set_armed(queue, HAMLYN_ARMED_YES);
        if self.read_queue(host, process)? {
            self.hosts[host].set_armed(queue, HAMLYN_ARMED_NO);
            return Ok(true);
        }
        self.note(|| format!("host {host} process {process} sleeps"));
        self.hosts[host].processes[process].asleep = true;
        Ok(true)
    }
}

/// A work-queue entry for a part, and the pieces of send buffers that it takes. `None` if too few are free.
fn request(
    host: &mut Host,
    process: usize,
    rng: &mut Rng,
    part: &Part,
    delivery: &Delivery,
    place: &Place,
) -> Option<(Vec<u8>, Vec<Chunk>)> {
    let mut request = HamlynRequest {
        destination: place.host as u32,
        slot: place.slot,
        metadata_index: place.entry.unwrap_or(HAMLYN_FAST_MODE),
        key: place.key,
        offset: part.offset,
        length: part.data.len() as u32,
        delta: part.y,
        metadata_length: part.metadata.len() as u32,
        ..HamlynRequest::default()
    };
    request.flags |= if delivery.silent { HAMLYN_REQUEST_SILENT } else { 0 };
    request.flags |= if delivery.interrupt { HAMLYN_REQUEST_INTERRUPT } else { 0 };
    let mut direct = padded(&part.metadata, 8);
    direct.extend(&part.data);
    let (body, chunks) = if direct.len() <= HAMLYN_BODY_SIZE as usize && rng.percent(60) {
        (direct, Vec::new())
    } else {
        request.flags |= HAMLYN_REQUEST_DMA;
        let inline = rng.percent(50);
        request.flags |= if inline { HAMLYN_REQUEST_INLINE_METADATA } else { 0 };
        let (mut body, mut bytes) = if inline {
            (padded(&part.metadata, 16), Vec::new())
        } else {
            (Vec::new(), part.metadata.clone())
        };
        bytes.extend(&part.data);
        let (tuples, chunks) = scatter(host, process, rng, &bytes)?;
        request.gather_count = tuples.len() as u32;
        body.extend(tuples.iter().flat_map(|tuple| tuple.as_bytes().to_vec()));
        (body, chunks)
    };
    let mut entry = request.as_bytes().to_vec();
    entry.extend(body);
    Some((entry, chunks))
}

/// Lays bytes out in free pieces of the send buffers, in random lengths.
fn scatter(
    host: &mut Host,
    process: usize,
    rng: &mut Rng,
    mut bytes: &[u8],
) -> Option<(Vec<HamlynGather>, Vec<Chunk>)> {
    let sender = &mut host.processes[process];
    let needed = bytes.len().div_ceil(CHUNK as usize) + 2;
    if sender.free_chunks.len() < needed {
        return None;
    }
    let (mut tuples, mut chunks) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let index = rng.index(sender.free_chunks.len());
        let (buffer, chunk) = sender.free_chunks.swap_remove(index);
        chunks.push((buffer, chunk));
        // The first pieces may be short; the others are whole, so that all fits into what was counted.
        let most = bytes.len().min(CHUNK as usize);
        let length = if chunks.len() <= 2 { 1 + rng.index(most) } else { most };
        let gap = rng.index(CHUNK as usize - length + 1);
        let offset = chunk * CHUNK + gap as u32;
        let (here, rest) = bytes.split_at(length);
        let (tag, area) = &sender.send[buffer];
        area.poke(&host.memory, offset.into(), here);
        tuples.push(HamlynGather { tag: *tag, reserved: 0, offset, length: length as u32 });
        bytes = rest;
    }
    Some((tuples, chunks))
}

fn padded(bytes: &[u8], to: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(to), 0x5a);
    padded
}
