//! A process that accesses objects owned by another file of the same device. Every attempt must be
//! refused.
//!
//! One open file is one protection domain, so it opens the device twice: as the victim, which owns
//! objects, and as the intruder. With `--all`, the intruder also tries every other number, and
//! thereby the objects of other processes.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::{Outcome, print};
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_NO_QUEUE};
use hamlyn_abi::hamlyn::window::{HAMLYN_DOORBELL_SIZE, HAMLYN_WINDOW_SIZE};
use hamlyn_abi::uapi::*;
use hamlyn_examples as common;
use hamlyn_sys::{Access, Device, Mapping};
use serde_json::json;

/// Offset in a window of the marks of victim and intruder, in a work-queue entry that is not in
/// use.
const MARKED: usize = 0xf000;
/// The victim's mark.
const VICTIM: u8 = 0x5a;

/// Attempts to access objects of others
#[derive(Debug, Parser)]
struct Options {
    /// The device
    #[arg(long, default_value = "/dev/hamlyn0")]
    card: PathBuf,
    /// Also tries every number that the card has
    #[arg(long)]
    all: bool,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let victim = Victim::create(&options.card)?;
        let mut intruder = Intruder {
            device: Device::open(&options.card)?,
            memory: Mapping::anonymous(4096)?,
            attempts: 0,
            broken: Vec::new(),
        };
        intruder.attack(&victim)?;
        if options.all {
            intruder.sweep(&victim)?;
        }
        victim.verify()?;
        print(
            &json!({ "attempts": intruder.attempts, "refused": intruder.attempts - intruder.broken.len() }),
        )?;
        match intruder.broken.first() {
            Some(attempt) => Err(format!("not refused: {attempt}").into()),
            None => Ok(()),
        }
    })
}

/// The owner of one object of each kind.
struct Victim {
    device: Device,
    terminus: HamlynTerminusCreate,
    queue: HamlynQueueCreate,
    slot: HamlynSlotCreate,
    window: Mapping,
    buffer: Mapping,
    area: Mapping,
    query: UlnQuery,
}

impl Victim {
    fn create(path: &std::path::Path) -> Outcome<Self> {
        let device = Device::open(path)?;
        let mut query = UlnQuery::default();
        device.query(&mut query)?;
        let mut terminus = HamlynTerminusCreate::default();
        device.terminus_create(&mut terminus)?;
        let window = device.map(terminus.window_offset, HAMLYN_WINDOW_SIZE as usize, Access::ReadWrite)?;
        window.write(MARKED, &[VICTIM; 64]);
        let buffer = Mapping::anonymous(4096)?;
        device.send_buffer_set(&mut send_buffer(terminus.terminus, 0, &buffer), &buffer)?;
        let mut queue = HamlynQueueCreate { entries: 16, ..Default::default() };
        device.queue_create(&mut queue)?;
        let area = Mapping::anonymous(4096)?;
        let mut slot = slot(queue.queue, &area);
        device.slot_create(&mut slot, &area, None)?;
        Ok(Self { device, terminus, queue, slot, window, buffer, area, query })
    }

    /// Checks that the victim still owns everything: tag 0 is taken, the slot uses the queue, and
    /// all objects can be destroyed.
    fn verify(&self) -> Outcome {
        let (mut marked, mut deposited) = ([0; 64], [0; 4096]);
        self.window.read(MARKED, &mut marked);
        self.area.read(0, &mut deposited);
        if marked != [VICTIM; 64] || deposited != [0; 4096] {
            return Err("the victim's window or message area has changed".into());
        }
        let taken = &mut send_buffer(self.terminus.terminus, 0, &self.buffer);
        if self.device.send_buffer_set(taken, &self.buffer).is_ok() {
            return Err("the victim's send buffer was taken away".into());
        }
        if self.device.queue_destroy(&mut object(self.queue.queue)).is_ok() {
            return Err("the victim's slot was taken away".into());
        }
        self.device.slot_destroy(&mut object(self.slot.slot))?;
        self.device.queue_destroy(&mut object(self.queue.queue))?;
        self.device.terminus_destroy(&mut object(self.terminus.terminus))?;
        Ok(())
    }
}

struct Intruder {
    device: Device,
    memory: Mapping,
    attempts: usize,
    broken: Vec<String>,
}

impl Intruder {
    fn attack(&mut self, victim: &Victim) -> Outcome {
        let Victim { terminus, queue, slot, .. } = victim;
        let window = HAMLYN_WINDOW_SIZE as usize;
        let mapped = self.device.map(terminus.window_offset, window, Access::ReadWrite);
        self.note("map the window", terminus.terminus, mapped)?;
        let mapped = self.device.map(terminus.window_offset, 4096, Access::Read);
        self.note("map a page of the window", terminus.terminus, mapped)?;
        let mapped = self.device.map(terminus.doorbell_offset, HAMLYN_DOORBELL_SIZE as usize, Access::Write);
        self.note("map the doorbell", terminus.terminus, mapped)?;
        let mapped = self.device.map(terminus.status_offset, 4096, Access::Read);
        self.note("map the status words", terminus.terminus, mapped)?;
        let mapped = self.device.map(queue.offset, queue.size as usize, Access::Read);
        self.note("map the queue", queue.queue, mapped)?;
        self.touch_terminus(terminus.terminus)?;
        self.touch_queue(queue.queue)?;
        self.touch_slot(slot.slot)?;
        self.attack_from_own(window)
    }

    /// Attempts forbidden mappings of its own objects and of the offsets around them, where no
    /// other owner's objects may be reachable.
    fn attack_from_own(&mut self, window: usize) -> Outcome {
        let mut queue = HamlynQueueCreate { entries: 16, ..Default::default() };
        self.device.queue_create(&mut queue)?;
        let mapped = self.device.map(queue.offset, queue.size as usize, Access::ReadWrite);
        self.note("map the own queue writable", queue.queue, mapped)?;
        let mut terminus = HamlynTerminusCreate::default();
        self.device.terminus_create(&mut terminus)?;
        let mapped = self.device.map(terminus.status_offset, 4096, Access::ReadWrite);
        self.note("map the own status words writable", terminus.terminus, mapped)?;
        let own = self.device.map(terminus.window_offset, window, Access::ReadWrite)?;
        own.write(MARKED, &[!VICTIM; 64]);
        for distance in 1..=64 {
            let offset = terminus.window_offset + distance * u64::from(HAMLYN_WINDOW_SIZE);
            let mapped = self.device.map(offset, window, Access::ReadWrite);
            self.note("map a window behind the own one", distance as u32, mapped)?;
        }
        self.device.terminus_destroy(&mut object(terminus.terminus))?;
        own.write(MARKED, &[!VICTIM; 64]);
        Ok(self.device.queue_destroy(&mut object(queue.queue))?)
    }

    /// Tries every number of the card: none of them is this file's.
    fn sweep(&mut self, victim: &Victim) -> Outcome {
        let query = victim.query;
        (0..query.termini + 2).try_for_each(|terminus| self.touch_terminus(terminus))?;
        (0..query.queues + 2).try_for_each(|queue| self.touch_queue(queue))?;
        (0..query.slots + 2).try_for_each(|slot| self.touch_slot(slot))
    }

    fn touch_terminus(&mut self, terminus: u32) -> Outcome {
        for tag in [0, 1, 8] {
            let set =
                self.device.send_buffer_set(&mut send_buffer(terminus, tag, &self.memory), &self.memory);
            self.note("set a send buffer", terminus, set)?;
            let mut clear = HamlynSendBuffer { terminus, tag, ..Default::default() };
            let cleared = self.device.send_buffer_clear(&mut clear);
            self.note("clear a send buffer", terminus, cleared)?;
        }
        let destroyed = self.device.terminus_destroy(&mut object(terminus));
        self.note("destroy the terminus", terminus, destroyed)
    }

    fn touch_queue(&mut self, queue: u32) -> Outcome {
        let wait = HamlynQueueWait { queue, ..Default::default() };
        let waited = match self.device.queue_wait(&mut wait.clone()) {
            // A time-out would mean that the wait was permitted.
            Err(error) if error.raw_os_error() == Some(timed_out()) => Ok(()),
            waited => waited,
        };
        self.note("wait for the queue", queue, waited)?;
        let armed = self.device.queue_arm(&mut wait.clone());
        self.note("arm the queue", queue, armed)?;
        let created = self.device.slot_create(&mut slot(queue, &self.memory), &self.memory, None);
        self.note("create a slot that names the queue", queue, created)?;
        let destroyed = self.device.queue_destroy(&mut object(queue));
        self.note("destroy the queue", queue, destroyed)
    }

    fn touch_slot(&mut self, slot: u32) -> Outcome {
        let destroyed = self.device.slot_destroy(&mut object(slot));
        self.note("destroy the slot", slot, destroyed)
    }

    /// Counts an attempt, and prints it if there are not too many.
    fn note<T>(&mut self, what: &str, number: u32, outcome: io::Result<T>) -> Outcome {
        self.attempts += 1;
        let error = outcome.err().map(|error| error.to_string());
        if error.is_none() {
            self.broken.push(format!("{what} {number}"));
        }
        if self.attempts <= 24 || error.is_none() {
            print(&json!({ "attempt": what, "number": number, "refused": error.is_some(), "error": error }))?;
        }
        Ok(())
    }
}

fn object(index: u32) -> UlnObject {
    UlnObject { index, ..Default::default() }
}

fn send_buffer(terminus: u32, tag: u32, memory: &Mapping) -> HamlynSendBuffer {
    let (address, length) = (memory.address(), memory.length() as u64);
    HamlynSendBuffer { terminus, tag, address, length, ..Default::default() }
}

fn slot(queue: u32, memory: &Mapping) -> HamlynSlotCreate {
    assert_ne!(queue, HAMLYN_NO_QUEUE);
    HamlynSlotCreate {
        area_address: memory.address(),
        area_length: memory.length() as u64,
        mode: HAMLYN_MODE_NORMAL,
        queue,
        ..Default::default()
    }
}

/// Returns `ETIMEDOUT` of Linux.
fn timed_out() -> i32 {
    rustix::io::Errno::TIMEDOUT.raw_os_error()
}
