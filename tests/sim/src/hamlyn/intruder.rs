//! A hostile process: raw bytes in its window, keys given away, and metadata with any contents.

use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::request::HAMLYN_SEND_BUFFERS;

use crate::engine::area::Area;
use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::tables::{ENTRY_HIGH, ENTRY_KEY, OpenSlot};

const SEND_BUFFER: u64 = 4096;

/// The objects of a hostile process on the card.
#[derive(Debug)]
pub(super) struct Intruder {
    pub(super) terminus: u32,
    /// The tag of its send buffer.
    pub(super) tag: u32,
    posted: u32,
    /// The pages of its memory.
    pages: Vec<u64>,
}

impl Intruder {
    /// Starts a process on a machine that has room for it.
    pub(super) fn start(machine: &Machine, rng: &mut Rng, pid: u64) -> Result<Option<Self>, Violation> {
        let Some(terminus) = machine.open_terminus(pid, rng.range(1, 3), None)? else { return Ok(None) };
        let tag = rng.range(0, HAMLYN_SEND_BUFFERS - 1);
        let mut intruder = Self { terminus, tag, posted: 0, pages: Vec::new() };
        let (pages, first) = intruder.take_pages(machine, rng, SEND_BUFFER, 1);
        machine.set_send_buffer(terminus, tag, over(machine, &pages, first, SEND_BUFFER))?;
        // It lets its queue overrun.
        let entries = rng.range(2, 4);
        let size = u64::from(HAMLYN_NOTIFICATION_SIZE);
        let first = rng.below(PAGE / size) * size;
        let area = Area::new(&machine.memory, &mut machine.tables().frames, first, u64::from(entries) * size);
        let Some(queue) = machine.open_queue(pid, area, entries)? else { return Ok(None) };
        for _ in 0..rng.range(1, 2) {
            let length = rng.range(600, 9000).into();
            let (pages, first) = intruder.take_pages(machine, rng, length, 1);
            for _ in 0..rng.range(1, 2) {
                if machine.free_slot()?.is_none() {
                    break;
                }
                let area = over(machine, &pages, first, length);
                intruder.open_slot(machine, rng, pid, queue, area)?;
            }
        }
        Ok(Some(intruder))
    }

    /// Allocates pages for `length` bytes that start at a multiple of `unit` in the first page.
    fn take_pages(&mut self, machine: &Machine, rng: &mut Rng, length: u64, unit: u64) -> (Vec<u64>, u64) {
        let first = rng.below(PAGE / unit) * unit;
        let frames = &mut machine.tables().frames;
        let pages: Vec<u64> =
            (0..(first + length).div_ceil(PAGE)).map(|_| frames.take(&machine.memory)).collect();
        self.pages.extend(&pages);
        (pages, first)
    }

    /// Opens a slot whose key is public.
    fn open_slot(
        &mut self,
        machine: &Machine,
        rng: &mut Rng,
        pid: u64,
        queue: u32,
        area: Area,
    ) -> Result<(), Violation> {
        let (entries, size) = (rng.range(1, 3), u64::from(HAMLYN_METADATA_SIZE));
        let (pages, first) = self.take_pages(machine, rng, u64::from(entries) * size, size);
        let metadata = over(machine, &pages, first, u64::from(entries) * size);
        let (key, length) = (rng.next(), area.length);
        for entry in 0..u64::from(entries) {
            let mut bytes = vec![0; size as usize];
            let high = length - rng.below(length / 2);
            bytes[ENTRY_KEY as usize..][..8].copy_from_slice(&key.to_le_bytes());
            bytes[ENTRY_HIGH as usize..][..8].copy_from_slice(&high.to_le_bytes());
            metadata.poke(&machine.memory, entry * size, &bytes);
        }
        let modes =
            [HAMLYN_MODE_NORMAL, HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT];
        let slot = OpenSlot {
            pid,
            area,
            metadata: Some(metadata),
            entries,
            pointer: rng.next(),
            key,
            mode: rng.pick(&modes).unwrap_or(HAMLYN_MODE_NORMAL),
            queue,
            notification_index: rng.next() as u32,
            interrupt: rng.percent(20),
            fetch: rng.percent(50),
            prey: true,
            privileged: rng.percent(15).then(|| rng.range(0, 2) as u16),
            streams: false,
        };
        machine.open_slot(slot).map(drop)
    }

    /// Posts any bytes, after claiming `jump` requests more than it made, and rings if the card
    /// sleeps.
    pub(super) fn post(&mut self, machine: &Machine, entry: &[u8], jump: u32) -> Result<(), Violation> {
        self.posted = self.posted.wrapping_add(jump).wrapping_add(1);
        machine.post(self.terminus, self.posted, entry)
    }

    /// Frees its memory, after the driver has closed all its objects.
    pub(super) fn free(self, machine: &Machine) {
        self.pages.into_iter().for_each(|page| machine.tables().frames.give(page));
    }
}

fn over(machine: &Machine, pages: &[u64], first: u64, length: u64) -> Area {
    Area::over(&machine.memory, &mut machine.tables().frames, pages.to_vec(), first, length)
}
