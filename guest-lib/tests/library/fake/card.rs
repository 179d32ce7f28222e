//! The fake card's execution of requests: all of them as soon as the doorbell is rung.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, Weak};

use hamlyn::Statistic;
use hamlyn::attach::QueueWait;
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_SLOT_FETCH};
use hamlyn_abi::hamlyn::metadata::*;
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_FAST, HAMLYN_NOTIFICATION_PASS_SHIFT, HAMLYN_NOTIFICATION_SIZE,
    HAMLYN_NOTIFICATION_WRAP,
};
use hamlyn_abi::hamlyn::request::*;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_abi::uapi::*;
use hamlyn_sys::Mapping;
use hamlyn_sys::hamlyn::window::QueueEntries;
use rustix::io::write;
use zerocopy::FromBytes;

use super::HOST;
use super::connection::Asked;
use super::express::{Area, OTHER, Side};
use super::sleeper::Sleeper;

#[derive(Debug, Default)]
pub(super) struct Card {
    /// A held card ignores its doorbell.
    pub(super) held: bool,
    pub(super) next: u32,
    /// Number of requests that it takes before it is held.
    pub(super) budget: Option<u32>,
    /// Number of sleeps until requests are completed.
    pub(super) sleeps: u32,
    /// Emulates an older driver, which wakes no waiter for completions.
    pub(super) is_old: bool,
    /// Lent memory, for as long as its lender keeps it.
    pub(super) memory: Vec<Weak<Mapping>>,
    pub(super) termini: BTreeMap<u32, Terminus>,
    pub(super) queues: BTreeMap<u32, Queue>,
    pub(super) slots: BTreeMap<u32, HamlynSlotCreate>,
    pub(super) weights: Vec<u32>,
    pub(super) rings: u32,
    /// Number of waits for checks in progress.
    pub(super) settled: u32,
    pub(super) link_down: bool,
    pub(super) refuses_to_lend: bool,
    pub(super) refuses_to_register: bool,
    /// Numbers of all registrations, and the last number given.
    pub(super) registered: BTreeSet<u32>,
    pub(super) last_registration: u32,
    /// Requests for connections, by host.
    pub(super) asked: BTreeMap<u32, Vec<Weak<Mutex<Asked>>>>,
    /// Immediate answers of hosts to a question; other hosts never answer. `None`: the driver
    /// cannot ask.
    pub(super) answers: Option<BTreeMap<u32, u32>>,
    /// Hosts answer at once that they have no listener of a name.
    pub(super) refuses: bool,
    pub(super) ports: u32,
    /// Whether there is express memory, and whether the other host has another switch's.
    pub(super) has_express: bool,
    pub(super) other_memory: bool,
    pub(super) areas: BTreeMap<u32, Area>,
    /// Registered names: the pending requests, and the other end of the listener's file.
    pub(super) names: BTreeMap<String, (VecDeque<Side>, UnixStream)>,
    /// Messages in flight, if the fabric delays them.
    pub(super) flying: Option<Vec<Flying>>,
}

/// A message: head, metadata and data.
pub(super) type Flying = (HamlynRequest, Vec<u8>, Vec<u8>);

#[derive(Debug)]
pub(super) struct Terminus {
    pub(super) window: Arc<Mapping>,
    pub(super) status: Arc<Mapping>,
    pub(super) done: u32,
    pub(super) sleeper: Sleeper,
    pub(super) buffers: BTreeMap<u32, HamlynSendBuffer>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) memory: Arc<Mapping>,
    pub(super) entries: u32,
    pub(super) written: u32,
    /// Readable once an entry was written for which the queue was armed.
    pub(super) file: Arc<OwnedFd>,
    pub(super) armed: bool,
}

impl Queue {
    pub(super) fn is_over(&self, wait: QueueWait) -> bool {
        wait.is_over(QueueEntries::new(self.memory.clone(), self.entries).unwrap().word(wait.cursor))
    }
}

impl Card {
    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn find(&self, address: u64, length: u64) -> Arc<Mapping> {
        let mut lent = self.memory.iter().filter_map(Weak::upgrade);
        lent.find(|mapping| mapping.contains(address, length)).unwrap()
    }

    /// Copies from any lent memory.
    fn load(&self, address: u64, bytes: &mut [u8]) {
        let length = bytes.len() as u64;
        let mapping = self.find(address, length);
        mapping.read((address - mapping.address()) as usize, bytes);
    }

    fn store(&self, address: u64, bytes: &[u8]) {
        let mapping = self.find(address, bytes.len() as u64);
        mapping.write((address - mapping.address()) as usize, bytes);
    }

    pub(super) fn work(&mut self) {
        while let Some(number) = self
            .termini
            .iter()
            .find(|(_, terminus)| terminus.window.load_u32(HAMLYN_WINDOW_TAIL as usize) != terminus.done)
            .map(|(number, _)| *number)
        {
            let entry = self.take_entry(number);
            let outcome = self.carry_out(number, &entry);
            let terminus = self.termini.get_mut(&number).unwrap();
            let entry = terminus.done % HAMLYN_WORK_QUEUE_ENTRIES;
            let reason = outcome.as_ref().err().map_or(HAMLYN_REASON_SENT, |reason| *reason as u32);
            let reasons = offset_of!(HamlynTerminusStatus, reasons);
            terminus.status.store_u32(reasons + 4 * entry as usize, reason);
            let fetched = offset_of!(HamlynTerminusStatus, fetched);
            terminus.status.store_u64(fetched + 8 * entry as usize, outcome.unwrap_or_default());
            terminus.done = terminus.done.wrapping_add(1);
            terminus.status.store_u32_release(0, terminus.done);
            terminus.sleeper.look(terminus.done);
            self.budget = self.budget.map(|left| left - 1);
            if self.budget == Some(0) {
                (self.held, self.budget) = (true, None);
                return;
            }
        }
    }

    fn take_entry(&self, terminus: u32) -> [u8; HAMLYN_ENTRY_SIZE as usize] {
        let terminus = &self.termini[&terminus];
        let entry = terminus.done % HAMLYN_WORK_QUEUE_ENTRIES * HAMLYN_ENTRY_SIZE;
        let mut bytes = [0; HAMLYN_ENTRY_SIZE as usize];
        terminus.window.read((HAMLYN_WINDOW_WORK_QUEUE + entry) as usize, &mut bytes);
        bytes
    }

    /// Executes a request. Returns the old word of a fetch-and-op.
    fn carry_out(&mut self, terminus: u32, entry: &[u8]) -> std::result::Result<u64, Statistic> {
        let (head, body) = HamlynRequest::read_from_prefix(entry).unwrap();
        if head.flags & HAMLYN_REQUEST_FETCH != 0 {
            return self.fetch(&head, &HamlynFetch::read_from_prefix(body).unwrap().0);
        }
        let how = head.flags & (HAMLYN_REQUEST_DMA | HAMLYN_REQUEST_INLINE_METADATA);
        if how == HAMLYN_REQUEST_DMA {
            assert_eq!(head.metadata_length, 0, "the library never gathers metadata");
        }
        let metadata = &body[..head.metadata_length as usize];
        let data = if head.flags & HAMLYN_REQUEST_DMA == 0 {
            let start = metadata.len().next_multiple_of(8);
            body.get(start..start + head.length as usize).ok_or(Statistic::RefusedLength)?.to_vec()
        } else {
            let start = metadata.len().next_multiple_of(16);
            self.gather(terminus, &body[start..], head.gather_count)?
        };
        assert!([HOST, OTHER].contains(&head.destination));
        match &mut self.flying {
            Some(flying) => flying.push((head, metadata.to_vec(), data)),
            None => self.deposit(&head, metadata, &data),
        }
        Ok(0)
    }

    fn fetch(&mut self, head: &HamlynRequest, body: &HamlynFetch) -> std::result::Result<u64, Statistic> {
        if (head.flags, head.length, head.offset % 8) != (HAMLYN_REQUEST_FETCH, 16, 0) {
            return Err(Statistic::RefusedOperation);
        }
        let slot = self.slots.get(&head.slot).copied().ok_or(Statistic::RefusedByDestination)?;
        let inside = u64::from(head.offset) + 8 <= slot.area_length;
        if slot.key != head.key || !inside || slot.flags & HAMLYN_SLOT_FETCH == 0 {
            return Err(Statistic::RefusedByDestination);
        }
        let mut word = [0; 8];
        self.load(slot.area_address + u64::from(head.offset), &mut word);
        let (found, with) = (u64::from_le_bytes(word), body.operand);
        let new = match head.operation {
            HAMLYN_FETCH_ADD => found.wrapping_add(with),
            HAMLYN_FETCH_AND => found & with,
            HAMLYN_FETCH_OR => found | with,
            HAMLYN_FETCH_XOR => found ^ with,
            HAMLYN_FETCH_SWAP => with,
            HAMLYN_FETCH_COMPARE_SWAP if found == body.compare => with,
            HAMLYN_FETCH_COMPARE_SWAP => found,
            _ => return Err(Statistic::RefusedOperation),
        };
        self.store(slot.area_address + u64::from(head.offset), &new.to_le_bytes());
        Ok(found)
    }

    fn gather(
        &self,
        terminus: u32,
        mut tuples: &[u8],
        count: u32,
    ) -> std::result::Result<Vec<u8>, Statistic> {
        let mut data = Vec::new();
        for _ in 0..count {
            let (tuple, rest) = HamlynGather::read_from_prefix(tuples).unwrap();
            tuples = rest;
            let buffer = self.termini[&terminus].buffers.get(&tuple.tag).ok_or(Statistic::RefusedTag)?;
            let mut piece = vec![0; tuple.length as usize];
            self.load(buffer.address + u64::from(tuple.offset), &mut piece);
            data.extend(piece);
        }
        Ok(data)
    }

    /// Deposits a message as on arrival. An invalid packet changes nothing.
    pub(super) fn deposit(&mut self, head: &HamlynRequest, metadata: &[u8], data: &[u8]) {
        let Some(slot) = self.slots.get(&head.slot).copied() else { return };
        let end = u64::from(head.offset) + data.len() as u64;
        let paranoid = slot.mode != HAMLYN_MODE_NORMAL;
        if (!paranoid && slot.key != head.key) || end > slot.area_length {
            return;
        }
        let fast = head.metadata_index == HAMLYN_FAST_MODE;
        let entry = slot.metadata_address + u64::from(head.metadata_index) * 128;
        if !fast {
            if head.metadata_index >= slot.metadata_entries || (paranoid && !self.admits(entry, head, end)) {
                return;
            }
            self.store(entry, metadata);
        }
        self.store(slot.area_address + u64::from(head.offset), data);
        if !fast && head.delta != 0 {
            let mut sum = [0; 4];
            self.load(entry + 60, &mut sum);
            let sum = u32::from_le_bytes(sum).wrapping_add(head.delta);
            self.store(entry + 60, &sum.to_le_bytes());
            if sum != 0 {
                return;
            }
        }
        if slot.mode == HAMLYN_MODE_PARANOID_ONE_SHOT {
            self.store(entry + 96, &HAMLYN_ONE_SHOT_LOCKED.to_le_bytes());
        }
        if head.flags & HAMLYN_REQUEST_SILENT == 0 && self.queues.contains_key(&slot.queue) {
            let word = if fast { u64::from(head.delta) } else { entry };
            self.notify(&slot, word, if fast { HAMLYN_NOTIFICATION_FAST } else { 0 });
        }
    }

    /// Applies the checks of the paranoid modes (section 2.7).
    fn admits(&self, address: u64, head: &HamlynRequest, end: u64) -> bool {
        let mut bytes = [0; HAMLYN_METADATA_SIZE as usize];
        self.load(address, &mut bytes);
        let entry = HamlynMetadataEntry::read_from_bytes(&bytes).unwrap();
        let inside = u64::from(head.offset) >= entry.low && end <= entry.high;
        entry.key == head.key && inside && entry.one_shot == HAMLYN_ONE_SHOT_OPEN
    }

    pub(super) fn notify(&mut self, slot: &HamlynSlotCreate, subject: u64, fast: u32) {
        let queue = self.queues.get_mut(&slot.queue).unwrap();
        let at = (queue.written % queue.entries * HAMLYN_NOTIFICATION_SIZE) as usize;
        let pass = queue.written / queue.entries;
        let flag = if pass % 2 == 0 { HAMLYN_NOTIFICATION_WRAP } else { 0 };
        let word = pass << HAMLYN_NOTIFICATION_PASS_SHIFT | flag;
        queue.memory.store_u32(at + 28, word ^ HAMLYN_NOTIFICATION_WRAP);
        queue.memory.store_u64(at, subject);
        queue.memory.store_u32(at + 8, slot.slot);
        queue.memory.store_u32(at + 12, slot.notification_index);
        queue.memory.store_u32_release(at + 28, word | fast);
        queue.written += 1;
        if std::mem::take(&mut queue.armed) {
            write(&queue.file, &1_u64.to_ne_bytes()).unwrap();
        }
    }
}
