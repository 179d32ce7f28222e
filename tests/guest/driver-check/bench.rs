//! The test fixture of the checks: a file that has one object of each kind.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hamlyn_abi::hamlyn::command::{HAMLYN_NO_QUEUE, HAMLYN_SLOT_INTERRUPT};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HamlynRequest};
use hamlyn_abi::hamlyn::window::*;
use hamlyn_abi::uapi::*;
use hamlyn_sys::{Access, Device, Mapping, barrier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zerocopy::IntoBytes;

use crate::common::Outcome;

pub(crate) const PAGE: usize = 4096;
pub(crate) const WINDOW: usize = HAMLYN_WINDOW_SIZE as usize;
/// A number that no object has.
pub(crate) const NO_OBJECT: u32 = u32::MAX - 1;
/// Number of entries of the queues here.
pub(crate) const ENTRIES: u32 = 300;
/// Timeout of events that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Usually long enough for another thread to fall asleep; nothing depends on it.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

/// A file with one object of each kind.
pub(crate) struct Bench {
    pub(crate) device: Arc<Device>,
    pub(crate) host: u32,
    pub(crate) terminus: Terminus,
    pub(crate) queue: HamlynQueueCreate,
    pub(crate) notifications: Mapping,
    /// The pass over the queue whose entries [`Bench::wait`] waits for.
    pub(crate) pass: u32,
    pub(crate) area: Mapping,
    pub(crate) slot: HamlynSlotCreate,
}

impl Bench {
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let device = Arc::new(Device::open(path)?);
        let mut query = UlnQuery::default();
        device.query(&mut query)?;
        let terminus = Terminus::create(&device)?;
        let mut queue = HamlynQueueCreate { entries: ENTRIES, ..Default::default() };
        device.queue_create(&mut queue)?;
        let notifications = device.map(queue.offset, queue.size as usize, Access::Read)?;
        let area = Mapping::anonymous(4 * PAGE)?;
        let mut slot = HamlynSlotCreate { queue: queue.queue, flags: HAMLYN_SLOT_INTERRUPT, ..slot(&area) };
        device.slot_create(&mut slot, &area, None)?;
        Ok(Self { device, host: query.host, terminus, queue, notifications, pass: 0, area, slot })
    }

    /// Sends a word to this bench's own slot, in fast mode: a notification without metadata.
    pub(crate) fn send(&mut self, word: u32) {
        let HamlynSlotCreate { slot, key, .. } = self.slot;
        let destination = self.host;
        let metadata_index = HAMLYN_FAST_MODE;
        let request =
            HamlynRequest { destination, slot, key, metadata_index, delta: word, ..Default::default() };
        self.terminus.post(&request, &[]);
    }

    /// Returns the argument of a wait for entry `cursor` of the queue.
    pub(crate) fn wait(&self, cursor: u32, timeout_ns: i64) -> HamlynQueueWait {
        HamlynQueueWait { queue: self.queue.queue, cursor, pass: self.pass, timeout_ns, ..Default::default() }
    }
}

pub(crate) struct Terminus {
    pub(crate) create: HamlynTerminusCreate,
    pub(crate) window: Mapping,
    pub(crate) doorbell: Mapping,
    pub(crate) status: Mapping,
    pub(crate) tail: u32,
}

impl Terminus {
    pub(crate) fn create(device: &Device) -> io::Result<Self> {
        let mut create = HamlynTerminusCreate::default();
        device.terminus_create(&mut create)?;
        Ok(Self {
            create,
            window: device.map(create.window_offset, WINDOW, Access::ReadWrite)?,
            doorbell: device.map(create.doorbell_offset, HAMLYN_DOORBELL_SIZE as usize, Access::Write)?,
            status: device.map(create.status_offset, PAGE, Access::Read)?,
            tail: 0,
        })
    }

    pub(crate) fn post(&mut self, request: &HamlynRequest, body: &[u8]) {
        let entry = self.tail % HAMLYN_WORK_QUEUE_ENTRIES * HAMLYN_ENTRY_SIZE;
        let place = (HAMLYN_WINDOW_WORK_QUEUE + entry) as usize;
        self.window.write(place, request.as_bytes());
        self.window.write(place + size_of::<HamlynRequest>(), body);
        self.tail = self.tail.wrapping_add(1);
        self.window.store_u32_release(HAMLYN_WINDOW_TAIL as usize, self.tail);
        barrier::before_awake_check();
        if self.window.load_u32(HAMLYN_WINDOW_AWAKE as usize) == 0 {
            self.doorbell.store_u32(0, 1);
        }
    }

    /// Waits until the card has completed everything posted. Returns whether it has.
    pub(crate) fn settles(&self) -> bool {
        let start = Instant::now();
        while self.status.load_u32_acquire(offset_of!(HamlynTerminusStatus, completed)) != self.tail {
            if start.elapsed() > PATIENCE {
                return false;
            }
            thread::yield_now();
        }
        true
    }
}

pub(crate) fn object(index: u32) -> UlnObject {
    UlnObject { index, ..Default::default() }
}

pub(crate) fn slot(area: &Mapping) -> HamlynSlotCreate {
    HamlynSlotCreate {
        area_address: area.address(),
        area_length: area.length() as u64,
        queue: HAMLYN_NO_QUEUE,
        ..Default::default()
    }
}

/// Returns the number of bytes that the driver counts as pinned for this process.
pub(crate) fn pinned() -> Outcome<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:")).ok_or("no VmPin")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<usize>()? * 1024)
}

pub(crate) fn poll_for(file: &impl AsFd, time: Duration) -> io::Result<PollFlags> {
    let mut files = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    poll(&mut files, Some(&time))?;
    Ok(files[0].revents())
}

/// Waits for entry `cursor` in another thread while `meanwhile` runs in this one. `meanwhile` can
/// check whether the wait is over.
pub(crate) fn wait_while(
    bench: &mut Bench,
    cursor: u32,
    meanwhile: impl FnOnce(&mut Bench, &dyn Fn() -> bool) -> Outcome,
) -> Outcome<io::Result<()>> {
    wait_as(bench, bench.wait(cursor, ULN_WAIT_FOREVER), meanwhile)
}

/// Like [`wait_while`], with the time-out of `wait`.
pub(crate) fn wait_as(
    bench: &mut Bench,
    mut wait: HamlynQueueWait,
    meanwhile: impl FnOnce(&mut Bench, &dyn Fn() -> bool) -> Outcome,
) -> Outcome<io::Result<()>> {
    let device = bench.device.clone();
    let waiter = thread::spawn(move || device.queue_wait(&mut wait));
    thread::sleep(A_MOMENT);
    meanwhile(bench, &|| waiter.is_finished())?;
    waiter.join().map_err(|_| "the waiting thread panicked".into())
}
