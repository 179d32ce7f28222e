//! A process of a host: what the library knows of its terminus, its queue and its slots.

use std::collections::VecDeque;
use std::rc::Rc;

use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::request::HAMLYN_SEND_BUFFERS;
use hamlyn_abi::hamlyn::window::HAMLYN_ARMED_NO;

use crate::area::Area;
use crate::host::{ENTRY_HIGH, ENTRY_KEY, Host, OpenQueue, OpenSlot};
use crate::ledger::Place;
use crate::memory::PAGE;
use crate::rng::Rng;
use crate::violation::Violation;

/// A piece of a process' send buffers: which buffer, and which piece of it.
pub(crate) type Chunk = (usize, u32);
/// Bytes of a chunk, which one message takes or leaves.
pub(crate) const CHUNK: u32 = 512;
const SEND_BUFFER: u64 = 4096;
/// Pages that a process takes at most.
const MOST_PAGES: usize = 52;

/// A request that the card has not finished with.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// The honest message; none for what a forger posts.
    pub(crate) part: Option<usize>,
    /// Pieces of send buffers that it occupies.
    pub(crate) chunks: Vec<Chunk>,
    /// What the status words must say of it.
    pub(crate) reason: u32,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u64,
    /// It forges requests, gives its keys away and scribbles on its metadata.
    pub(crate) hostile: bool,
    pub(crate) alive: bool,
    pub(crate) terminus: u32,
    pub(crate) status: u64,
    pub(crate) posted: u32,
    pub(crate) completed: u32,
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Send buffers with their tags.
    pub(crate) send: Vec<(u32, Area)>,
    pub(crate) free_chunks: Vec<Chunk>,
    /// Parts that wait for room in the work queue.
    pub(crate) outbox: VecDeque<usize>,
    pub(crate) queue: u32,
    pub(crate) entries: u32,
    pub(crate) cursor: u32,
    pub(crate) wrap: u32,
    pub(crate) slots: Vec<u32>,
    areas: Vec<Rc<Area>>,
    /// Every message to it asks for an interrupt, so it may sleep.
    pub(crate) interrupting: bool,
    pub(crate) asleep: bool,
    /// It does not look at its queue before this step.
    pub(crate) slow_until: u64,
}

/// A number from a table that is free.
fn vacancy(taken: impl Iterator<Item = bool>, rng: &mut Rng) -> Option<u32> {
    let free: Vec<u32> = taken.zip(0..).filter(|(taken, _)| !taken).map(|(_, index)| index).collect();
    rng.pick(&free)
}

impl Host {
    /// Starts a process with all that it needs of the card. `None` if the host has no room. The places are where
    /// honest messages to it may go.
    pub(crate) fn spawn(
        &mut self,
        rng: &mut Rng,
        pid: u64,
        hostile: bool,
    ) -> Result<Option<(Process, Vec<Place>)>, Violation> {
        let terminus = vacancy(self.termini.iter().copied(), rng);
        let queue = vacancy(self.queues.iter().map(Option::is_some), rng);
        let (Some(terminus), Some(queue)) = (terminus, queue) else { return Ok(None) };
        if self.frames.left() < MOST_PAGES {
            return Ok(None);
        }
        let status = self.frames.take(rng);
        self.open_terminus(terminus, status)?;
        let mut process = Process {
            pid,
            hostile,
            alive: true,
            terminus,
            status,
            posted: 0,
            completed: 0,
            in_flight: VecDeque::new(),
            send: Vec::new(),
            free_chunks: Vec::new(),
            outbox: VecDeque::new(),
            queue,
            entries: 0,
            cursor: 0,
            wrap: 1,
            slots: Vec::new(),
            areas: Vec::new(),
            interrupting: rng.percent(40),
            asleep: false,
            slow_until: 0,
        };
        self.give_send_buffers(&mut process, rng)?;
        self.give_queue(&mut process, rng)?;
        let mut places = Vec::new();
        for _ in 0..rng.range(1, 2) {
            self.give_slots(&mut process, rng, &mut places)?;
        }
        Ok(Some((process, places)))
    }

    fn give_send_buffers(&mut self, process: &mut Process, rng: &mut Rng) -> Result<(), Violation> {
        let start = rng.range(0, HAMLYN_SEND_BUFFERS - 1);
        for index in 0..rng.range(1, 2) {
            let tag = (start + index * 3) % HAMLYN_SEND_BUFFERS;
            let first = rng.below(PAGE);
            let area = Area::new(&self.memory, &mut self.frames, rng, SEND_BUFFER, first);
            self.set_send_buffer(process.terminus, tag, &area)?;
            let chunks = SEND_BUFFER as u32 / CHUNK;
            process.free_chunks.extend((0..chunks).map(|chunk| (process.send.len(), chunk)));
            process.send.push((tag, area));
        }
        Ok(())
    }

    fn give_queue(&mut self, process: &mut Process, rng: &mut Rng) -> Result<(), Violation> {
        // An honest receiver has 16 places at most, and so no more messages on their way.
        let entries = if process.hostile { rng.range(2, 4) } else { rng.range(17, 20) };
        let size = u64::from(HAMLYN_NOTIFICATION_SIZE);
        let (length, first) = (u64::from(entries) * size, rng.below(PAGE / size) * size);
        let area = Area::new(&self.memory, &mut self.frames, rng, length, first);
        area.poke(&self.memory, 0, &vec![0; length as usize]);
        let area = Rc::new(area);
        let vector = rng.range(1, self.options.vectors - 1);
        self.open_queue(
            process.queue,
            OpenQueue { area: area.clone(), entries, cursor: 0, wrap: 1, vector },
        )?;
        process.entries = entries;
        process.areas.push(area);
        Ok(())
    }

    /// One message area, and one or two slots over it.
    fn give_slots(
        &mut self,
        process: &mut Process,
        rng: &mut Rng,
        places: &mut Vec<Place>,
    ) -> Result<(), Violation> {
        let slots: Vec<(u32, u32)> =
            (0..rng.range(1, 2)).map(|_| (rng.range(1, 3), rng.range(0, 1))).collect();
        let region = rng.range(300, 2600);
        let regions: u32 = slots.iter().map(|(entries, fast)| entries + fast).sum();
        let length = regions * region + rng.range(0, 200);
        let first = rng.below(PAGE);
        let area = Rc::new(Area::new(&self.memory, &mut self.frames, rng, length.into(), first));
        process.areas.push(area.clone());
        let mut start = 0;
        for (entries, fast) in slots {
            let Some(index) = vacancy(self.slots.iter().map(Option::is_some), rng) else { return Ok(()) };
            let slot = self.new_slot(process, rng, &area, entries);
            let normal = slot.mode == HAMLYN_MODE_NORMAL;
            let entry_places = (0..entries).map(Some);
            // Fast mode needs a slot in normal mode.
            let fast_places = (0..fast).filter(|_| normal).map(|_| None);
            for entry in entry_places.chain(fast_places).filter(|_| !process.hostile) {
                places.push(Place {
                    host: self.id.into(),
                    pid: process.pid,
                    slot: index,
                    entry,
                    start,
                    length: region,
                    key: slot.key,
                    busy: None,
                    gone: false,
                });
                start += region;
            }
            process.slots.push(index);
            self.open_slot(index, slot)?;
        }
        Ok(())
    }

    fn new_slot(&mut self, process: &mut Process, rng: &mut Rng, area: &Rc<Area>, entries: u32) -> OpenSlot {
        let size = u64::from(HAMLYN_METADATA_SIZE);
        let first = rng.below(PAGE / size) * size;
        let metadata = Area::new(&self.memory, &mut self.frames, rng, u64::from(entries) * size, first);
        let modes =
            [HAMLYN_MODE_NORMAL, HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT];
        let slot_key = rng.next();
        for entry in 0..u64::from(entries) {
            let mut bytes = vec![0; size as usize];
            // Until somebody is expected an entry of an honest process opens nothing.
            let prey = (slot_key, area.length - rng.below(area.length / 2));
            let (key, high) = if process.hostile { prey } else { (rng.next(), 0) };
            bytes[ENTRY_KEY as usize..][..8].copy_from_slice(&key.to_le_bytes());
            bytes[ENTRY_HIGH as usize..][..8].copy_from_slice(&high.to_le_bytes());
            metadata.poke(&self.memory, entry * size, &bytes);
        }
        let metadata = Rc::new(metadata);
        process.areas.push(metadata.clone());
        OpenSlot {
            area: area.clone(),
            metadata: Some(metadata),
            entries,
            pointer: rng.next(),
            key: slot_key,
            mode: rng.pick(&modes).unwrap_or(HAMLYN_MODE_NORMAL),
            queue: process.queue,
            notification_index: rng.next() as u32,
            interrupt: process.interrupting && rng.percent(50),
            prey: process.hostile,
        }
    }

    /// Ends a process as the driver does: slots, terminus, queue; then its memory is free. `tell` as in
    /// [`Host::close_terminus`].
    pub(crate) fn kill(&mut self, index: usize, tell: bool) -> Result<(), Violation> {
        let process = &mut self.processes[index];
        process.alive = false;
        process.asleep = false;
        process.outbox.clear();
        process.in_flight.clear();
        let (terminus, status, queue) = (process.terminus, process.status, process.queue);
        let slots = std::mem::take(&mut process.slots);
        let areas = std::mem::take(&mut process.areas);
        let send = std::mem::take(&mut process.send);
        for slot in slots {
            self.close_slot(slot, tell)?;
        }
        self.close_terminus(terminus, status, tell)?;
        for (_, area) in &send {
            self.forget_send_buffer(area);
        }
        self.close_queue(queue, tell)?;
        self.set_armed(queue, HAMLYN_ARMED_NO);
        self.frames.give(status);
        for area in send.into_iter().map(|(_, area)| area).chain(areas.into_iter().filter_map(Rc::into_inner))
        {
            area.give_back(&mut self.frames);
        }
        Ok(())
    }
}
