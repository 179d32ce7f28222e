//! A card in memory, reached as the driver would: it works whenever its doorbell rings, and is never awake.
//!
//! It knows direct I/O and DMA to slots of its own, fast mode, packet counting, fetch-and-op, and the refusals that the
//! tests need. Packets are not its concern: a message arrives whole.

use std::collections::BTreeMap;
use std::io::Write;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use hamlyn::attach::{
    Attachment, ConnectionParts, Doorbell, QueueFile, QueueParts, QueueWait, TerminusParts,
};
use hamlyn::{Error, GivenBack, Memory, Result, Statistic};
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
use hamlyn_sys::window::{QueueEntries, StatusWords, Window};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use zerocopy::{FromBytes, FromZeros};

mod sleeper;

use sleeper::Sleeper;

/// The fake card's host id.
pub(crate) const HOST: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Fake(Arc<Mutex<Card>>);

#[derive(Debug, Default)]
struct Card {
    /// While it is held it does nothing when rung.
    held: bool,
    next: u32,
    /// How many requests it takes before it is held.
    budget: Option<u32>,
    /// How often somebody went to sleep until requests are finished.
    sleeps: u32,
    /// An older driver: it wakes nobody for that.
    is_old: bool,
    /// What was lent, for as long as its lender keeps it.
    memory: Vec<Weak<Mapping>>,
    termini: BTreeMap<u32, Terminus>,
    queues: BTreeMap<u32, Queue>,
    slots: BTreeMap<u32, HamlynSlotCreate>,
    weights: Vec<u32>,
    rings: u32,
    link_down: bool,
    refuses_to_lend: bool,
    /// Requests for connections, by host.
    asked: BTreeMap<u32, Vec<Weak<Mutex<Asked>>>>,
    /// Messages that were sent and have not arrived, if the fabric takes its time.
    flying: Option<Vec<Flying>>,
}

/// A request for a connection.
#[derive(Debug)]
struct Asked {
    state: u32,
    reason: u32,
    theirs: UnixStream,
}

#[derive(Debug)]
struct FakeConnection {
    host: u32,
    asked: Arc<Mutex<Asked>>,
    file: UnixStream,
}

impl ConnectionParts for FakeConnection {
    fn state(&self) -> Result<HamlynConnectionState> {
        let asked = self.asked.lock().unwrap();
        let (state, reason, host) = (asked.state, asked.reason, self.host);
        Ok(HamlynConnectionState { state, reason, host, ..FromZeros::new_zeroed() })
    }

    fn accept(&self, _: &[u8]) -> Result<()> {
        Err(Error::NotConnected)
    }

    fn reject(&self, _: &[u8]) -> Result<()> {
        Err(Error::NotConnected)
    }

    fn close(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A message: head, metadata and data.
type Flying = (HamlynRequest, Vec<u8>, Vec<u8>);

#[derive(Debug)]
struct Terminus {
    window: Arc<Mapping>,
    status: Arc<Mapping>,
    done: u32,
    sleeper: Sleeper,
    buffers: BTreeMap<u32, HamlynSendBuffer>,
}

#[derive(Debug)]
struct Queue {
    memory: Arc<Mapping>,
    entries: u32,
    written: u32,
    /// Readable once something was written for which the queue was armed.
    file: Arc<OwnedFd>,
    armed: bool,
}

impl Fake {
    /// Whether the card leaves requests where they are.
    pub(crate) fn hold(&self, held: bool) {
        let mut card = self.0.lock().unwrap();
        card.held = held;
        if !held {
            card.work();
        }
    }

    /// Takes so many requests, and then is held.
    pub(crate) fn take(&self, requests: u32) {
        let mut card = self.0.lock().unwrap();
        (card.held, card.budget) = (false, Some(requests));
        card.work();
    }

    /// How often somebody went to sleep until requests are finished.
    pub(crate) fn sleeps(&self) -> u32 {
        self.0.lock().unwrap().sleeps
    }

    /// From now on its driver wakes nobody who sleeps until requests are finished.
    pub(crate) fn grow_old(&self) {
        self.0.lock().unwrap().is_old = true;
    }

    pub(crate) fn rings(&self) -> u32 {
        self.0.lock().unwrap().rings
    }

    /// The weights of all termini ever created.
    pub(crate) fn weights(&self) -> Vec<u32> {
        self.0.lock().unwrap().weights.clone()
    }

    /// Writes notifications of no slot into every queue, as no card should.
    pub(crate) fn babble(&self, count: u32) {
        let mut card = self.0.lock().unwrap();
        let nobody =
            HamlynSlotCreate { slot: u32::MAX, notification_index: u32::MAX, ..FromZeros::new_zeroed() };
        for queue in card.queues.keys().copied().collect::<Vec<_>>() {
            (0..count).for_each(|_| card.notify(&HamlynSlotCreate { queue, ..nobody }, 0, 0));
        }
    }

    /// From now on messages arrive when [`Fake::land`] says so.
    pub(crate) fn delay(&self) {
        self.0.lock().unwrap().flying = Some(Vec::new());
    }

    /// Lets one of the messages that are under way arrive, chosen by any number. Whether there was one.
    pub(crate) fn land(&self, choice: usize) -> bool {
        let mut card = self.0.lock().unwrap();
        let flying = card.flying.as_mut().unwrap();
        if flying.is_empty() {
            return false;
        }
        let (head, metadata, data) = flying.swap_remove(choice % flying.len());
        card.deposit(&head, &metadata, &data);
        true
    }

    /// What a host says to all who have asked it: 0 accepts, else why not (`HAMLYN_END_*`).
    pub(crate) fn answer(&self, host: u32, reason: u32) {
        for asked in self.0.lock().unwrap().asked.get(&host).into_iter().flatten().filter_map(Weak::upgrade) {
            let mut asked = asked.lock().unwrap();
            asked.state = if reason == 0 { HAMLYN_CONNECTION_ESTABLISHED } else { HAMLYN_CONNECTION_ENDED };
            asked.reason = reason;
            asked.theirs.write_all(b"news").unwrap();
        }
    }

    /// How many requests for a connection to a host are open, and how many there were.
    pub(crate) fn asked(&self, host: u32) -> (usize, usize) {
        let card = self.0.lock().unwrap();
        let asked = card.asked.get(&host).map_or(&[][..], Vec::as_slice);
        (asked.iter().filter(|asked| asked.strong_count() > 0).count(), asked.len())
    }

    /// The next time that memory is to be lent.
    pub(crate) fn refuse_to_lend(&self) {
        self.0.lock().unwrap().refuses_to_lend = true;
    }

    pub(crate) fn cut_link(&self) {
        self.0.lock().unwrap().link_down = true;
    }

    /// Numbers of what is open: termini, queues, slots.
    pub(crate) fn open(&self) -> (usize, usize, usize) {
        let card = self.0.lock().unwrap();
        (card.termini.len(), card.queues.len(), card.slots.len())
    }

    /// Another handle to the same card.
    pub(crate) fn share(&self) -> Arc<dyn Attachment> {
        Arc::new(Fake(self.0.clone()))
    }
}

impl Queue {
    fn is_over(&self, wait: QueueWait) -> bool {
        wait.is_over(QueueEntries::new(self.memory.clone(), self.entries).unwrap().word(wait.cursor))
    }
}

impl Card {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn find(&self, address: u64, length: u64) -> Arc<Mapping> {
        let mut lent = self.memory.iter().filter_map(Weak::upgrade);
        lent.find(|mapping| mapping.contains(address, length)).unwrap()
    }

    /// Copies out of any memory that was lent.
    fn load(&self, address: u64, bytes: &mut [u8]) {
        let length = bytes.len() as u64;
        let mapping = self.find(address, length);
        mapping.read((address - mapping.address()) as usize, bytes);
    }

    fn store(&self, address: u64, bytes: &[u8]) {
        let mapping = self.find(address, bytes.len() as u64);
        mapping.write((address - mapping.address()) as usize, bytes);
    }

    fn work(&mut self) {
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

    /// Gives the word that a fetch-and-op found.
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
        assert_eq!(head.destination, HOST);
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

    /// As on arrival: a wrong packet changes nothing.
    fn deposit(&mut self, head: &HamlynRequest, metadata: &[u8], data: &[u8]) {
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

    /// The paranoid modes' tests (section 2.7).
    fn admits(&self, address: u64, head: &HamlynRequest, end: u64) -> bool {
        let mut bytes = [0; HAMLYN_METADATA_SIZE as usize];
        self.load(address, &mut bytes);
        let entry = HamlynMetadataEntry::read_from_bytes(&bytes).unwrap();
        let inside = u64::from(head.offset) >= entry.low && end <= entry.high;
        entry.key == head.key && inside && entry.one_shot == HAMLYN_ONE_SHOT_OPEN
    }

    fn notify(&mut self, slot: &HamlynSlotCreate, subject: u64, fast: u32) {
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

#[derive(Debug)]
struct Bell(Arc<Mutex<Card>>);

impl Doorbell for Bell {
    fn ring(&self) -> Result<()> {
        let mut card = self.0.lock().unwrap();
        card.rings += 1;
        if !card.held {
            card.work();
        }
        Ok(())
    }
}

impl Fake {
    fn card_that_wakes(&self) -> Result<MutexGuard<'_, Card>> {
        let card = self.0.lock().unwrap();
        if card.is_old { Err(Error::Unsupported("an old driver")) } else { Ok(card) }
    }
}

fn no_system(source: std::io::Error) -> Error {
    Error::System { action: "fake".into(), source }
}

fn map(length: usize) -> Result<Arc<Mapping>> {
    Mapping::anonymous(length).map(Arc::new).map_err(no_system)
}

impl Attachment for Fake {
    fn query(&self) -> Result<HamlynQuery> {
        let host = if self.0.lock().unwrap().link_down { hamlyn_abi::card::HAMLYN_NO_HOST } else { HOST };
        Ok(HamlynQuery { host, packet_size: 1024, ..HamlynQuery::default() })
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        let memory = Memory::local(Mapping::anonymous(length).map_err(no_system)?, length);
        self.0.lock().unwrap().memory.push(Arc::downgrade(memory.mapping()));
        Ok(memory)
    }

    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let mut card = self.0.lock().unwrap();
        if std::mem::take(&mut card.refuses_to_lend) {
            return Err(GivenBack::new(Error::Unsupported("not this"), mapping));
        }
        let length = mapping.length();
        let memory = Memory::local(mapping, length);
        card.memory.push(Arc::downgrade(memory.mapping()));
        Ok(memory)
    }

    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        let (window, status) = (map(HAMLYN_WINDOW_SIZE as usize)?, map(4096)?);
        let mut card = self.0.lock().unwrap();
        let number = card.number();
        let buffers = BTreeMap::new();
        let sleeper = Sleeper::new();
        let terminus = Terminus { window: window.clone(), status: status.clone(), done: 0, sleeper, buffers };
        card.termini.insert(number, terminus);
        card.weights.push(weight);
        Ok(TerminusParts {
            terminus: number,
            window: Window::new(window).map_err(no_system)?,
            status: StatusWords::new(status).map_err(no_system)?,
            doorbell: Box::new(Bell(self.0.clone())),
        })
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        self.0.lock().unwrap().termini.remove(&terminus);
        Ok(())
    }

    /// Sleeps for as long as it may, as [`Fake::wait_queue`].
    fn wait_terminus(&self, terminus: u32, completed: u32, timeout: Option<Duration>) -> Result<()> {
        self.card_that_wakes()?.sleeps += 1;
        let start = std::time::Instant::now();
        let is_over = || sleeper::has_reached(self.0.lock().unwrap().termini[&terminus].done, completed);
        while timeout.is_none_or(|limit| start.elapsed() < limit) && !is_over() {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn arm_terminus(&self, terminus: u32, completed: u32) -> Result<bool> {
        let mut card = self.card_that_wakes()?;
        let terminus = card.termini.get_mut(&terminus).unwrap();
        Ok(terminus.sleeper.arm(terminus.done, completed))
    }

    fn terminus_file(&self, terminus: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Shared(self.card_that_wakes()?.termini[&terminus].sleeper.file()))
    }

    fn set_send_buffer(&self, buffer: HamlynSendBuffer, _memory: &Memory) -> Result<()> {
        let mut card = self.0.lock().unwrap();
        card.termini.get_mut(&buffer.terminus).unwrap().buffers.insert(buffer.tag, buffer);
        Ok(())
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        self.0.lock().unwrap().termini.get_mut(&terminus).unwrap().buffers.remove(&tag);
        Ok(())
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let memory = map(entries as usize * HAMLYN_NOTIFICATION_SIZE as usize)?;
        let mut card = self.0.lock().unwrap();
        let number = card.number();
        let file = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let queue = Queue { memory: memory.clone(), entries, written: 0, file, armed: false };
        card.queues.insert(number, queue);
        Ok(QueueParts { queue: number, entries: QueueEntries::new(memory, entries).map_err(no_system)? })
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        let mut card = self.0.lock().unwrap();
        assert!(card.slots.values().all(|slot| slot.queue != queue), "slots go before their queues");
        card.queues.remove(&queue);
        Ok(())
    }

    /// Sleeps for as long as it may: nothing happens in this card unless it is rung.
    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()> {
        let start = std::time::Instant::now();
        let is_over = || self.0.lock().unwrap().queues[&wait.queue].is_over(wait);
        while timeout.is_none_or(|limit| start.elapsed() < limit) && !is_over() {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn arm_queue(&self, wait: QueueWait) -> Result<bool> {
        let mut card = self.0.lock().unwrap();
        let queue = card.queues.get_mut(&wait.queue).unwrap();
        let over = queue.is_over(wait);
        let _ = read(&queue.file, &mut [0_u8; 8]);
        queue.armed = !over;
        Ok(over)
    }

    fn queue_file(&self, queue: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Shared(self.0.lock().unwrap().queues[&queue].file.clone()))
    }

    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()> {
        assert!(area.mapping().contains(slot.area_address, slot.area_length));
        assert_eq!(metadata.is_some(), slot.metadata_entries != 0);
        let mut card = self.0.lock().unwrap();
        slot.slot = card.number();
        slot.key = 0x5eed_0000 + u64::from(slot.slot);
        card.slots.insert(slot.slot, *slot);
        Ok(())
    }

    /// A host answers as the tests say ([`Fake::answer`]), or never.
    fn connect(&self, host: u32, _: &str, _: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        // Full, it is neither readable nor writable.
        while (&ours).write(&[0; 4096]).is_ok() {}
        let asked = Arc::new(Mutex::new(Asked { state: HAMLYN_CONNECTION_CONNECTING, reason: 0, theirs }));
        self.0.lock().unwrap().asked.entry(host).or_default().push(Arc::downgrade(&asked));
        Ok(Box::new(FakeConnection { host, asked, file: ours }))
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        self.0.lock().unwrap().slots.remove(&slot);
        Ok(())
    }

    fn statistics(&self) -> Result<HamlynStatistics> {
        Ok(HamlynStatistics::new_zeroed())
    }

    fn self_test(&self) -> Result<HamlynSelfTest> {
        Ok(HamlynSelfTest::default())
    }
}
