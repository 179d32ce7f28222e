//! Random calls from several threads, to be killed while they run.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hamlyn_abi::hamlyn::command::{HAMLYN_NO_QUEUE, HAMLYN_SLOT_FLAGS};
use hamlyn_abi::hamlyn::request::{
    HAMLYN_FAST_MODE, HAMLYN_FETCH_ADD, HAMLYN_REQUEST_FETCH, HAMLYN_SEND_BUFFERS, HamlynFetch, HamlynRequest,
};
use hamlyn_abi::uapi::*;
use hamlyn_sys::{Access, Device, Mapping};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::json;
use zerocopy::{FromZeros, IntoBytes};

use crate::bench::{PAGE, Terminus, WINDOW, object, poll_for, slot};
use crate::common::{Outcome, print};

/// Runs until it is killed or the time is over. The results of the calls are ignored; only the
/// driver's behaviour matters.
pub(crate) fn stress(path: &Path, time: Duration) -> Outcome {
    let (device, area) = (&Device::open(path)?, &Mapping::anonymous(64 * PAGE)?);
    let mut query = UlnQuery::default();
    device.query(&mut query)?;
    let end = Instant::now() + time;
    print(&json!({ "started": true }))?;
    thread::scope(|scope| {
        for thread in 1..=4 {
            scope.spawn(move || {
                let seed = (thread << 32) | u64::from(std::process::id());
                let (random, host) = (SplitMix64::seed_from_u64(seed), query.host);
                let mut worker =
                    Stress { device, area, host, random, termini: Vec::new(), queues: Vec::new() };
                while Instant::now() < end {
                    let _ = worker.step();
                }
            });
        }
    });
    Ok(())
}

struct Stress<'a> {
    device: &'a Device,
    area: &'a Mapping,
    host: u32,
    random: SplitMix64,
    termini: Vec<Terminus>,
    queues: Vec<Mapping>,
}

impl Stress<'_> {
    /// Returns a number below `limit`.
    fn below(&mut self, limit: u32) -> u32 {
        self.random.next_u32() % limit
    }

    /// Returns no registration, or the number of one that may be this process' own.
    fn registration(&mut self) -> u32 {
        self.below(8)
    }

    /// Makes a call with numbers that may be this process' objects, another's, or unused.
    fn step(&mut self) -> io::Result<()> {
        let (device, area) = (self.device, self.area);
        let index = self.below(64);
        let (terminus, tag) = (index, self.below(HAMLYN_SEND_BUFFERS));
        let mut wait = HamlynQueueWait { queue: index, ..Default::default() };
        match self.below(14) {
            0 => self.keep_terminus(Terminus::create(device)?),
            1 => device.terminus_destroy(&mut object(index))?,
            2 => {
                let mut create = HamlynQueueCreate { entries: 2 + self.below(500), ..Default::default() };
                device.queue_create(&mut create)?;
                self.queues.truncate(7);
                self.queues.insert(0, device.map(create.offset, create.size as usize, Access::Read)?);
            }
            3 => device.queue_destroy(&mut object(index))?,
            4 => return self.send_to_new_slot(index),
            5 => device.slot_destroy(&mut object(index))?,
            6 => {
                let length = 1 + u64::from(self.below(60 * PAGE as u32));
                let address = area.address() + u64::from(self.below(PAGE as u32));
                let registration = self.registration();
                device.send_buffer_set(
                    &mut HamlynSendBuffer { terminus, tag, address, length, registration, reserved: 0 },
                    area,
                )?;
            }
            7 => device.send_buffer_clear(&mut HamlynSendBuffer { terminus, tag, ..Default::default() })?,
            8 => {
                wait.timeout_ns = self.below(20_000_000).into();
                device.queue_wait(&mut wait)?;
            }
            9 => {
                device.queue_arm(&mut wait)?;
                poll_for(device, Duration::from_millis(5))?;
            }
            10 => self.spoil_window(),
            11 => {
                let (address, length) = (area.address(), area.length() as u64);
                let mut create = HamlynRegistrationCreate { address, length, ..Default::default() };
                device.registration_create(&mut create, area)?;
            }
            12 => device.registration_destroy(&mut object(self.registration()))?,
            _ => device.statistics(&mut UlnStatistics::new_zeroed())?,
        }
        Ok(())
    }

    fn keep_terminus(&mut self, terminus: Terminus) {
        self.termini.truncate(7);
        self.termini.insert(0, terminus);
    }

    fn send_to_new_slot(&mut self, queue: u32) -> io::Result<()> {
        let queue = if self.below(2) == 0 { queue } else { HAMLYN_NO_QUEUE };
        let flags = self.below(HAMLYN_SLOT_FLAGS + 1);
        let registration = self.registration();
        let mut slot = HamlynSlotCreate { queue, flags, registration, ..slot(self.area) };
        self.device.slot_create(&mut slot, self.area, None)?;
        let HamlynSlotCreate { slot, key, .. } = slot;
        let (destination, metadata_index) = (self.host, HAMLYN_FAST_MODE);
        let mut request = HamlynRequest { destination, slot, key, metadata_index, ..Default::default() };
        let fetch = HamlynFetch::default();
        if self.below(2) == 0 {
            request.flags = HAMLYN_REQUEST_FETCH;
            request.operation = HAMLYN_FETCH_ADD;
            request.length = size_of_val(&fetch) as u32;
        }
        self.termini.iter_mut().for_each(|terminus| terminus.post(&request, fetch.as_bytes()));
        Ok(())
    }

    /// Writes to every page of a window, possibly of a destroyed terminus, and rings the doorbell.
    fn spoil_window(&mut self) {
        let value = self.below(u32::MAX);
        if let Some(terminus) = self.termini.get(value as usize % 8) {
            (0..WINDOW).step_by(PAGE).for_each(|page| terminus.window.store_u32(page, value));
            terminus.doorbell.store_u32(0, value);
        }
    }
}
