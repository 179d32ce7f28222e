//! The simulated operating system of a host: it sets up connections and watches over them.
//!
//! `hamlyn_driver_host` has its messages and its state: the driver's own code, guest-driver/kernel.
//! This file binds that code to a simulated card by well-known slots (section 6.3): the driver's
//! own terminus, notification queue and slots, as `wellknown.c` does.
//!
//! The slots are privileged and in paranoid one-shot mode, so that an arrived message cannot change
//! while it is read. The queue has more entries than there can be messages, so it is never overrun.
//! There are slots only for the hosts of the fabric. A driver, which does not know them, opens all
//! 64.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn::attach::QueueWait;
use hamlyn_abi::family::link::{ULN_REG_LINK, ULN_REG_LINK_CHANGES};
use hamlyn_abi::family::sleep::{ULN_ARMED_NO, ULN_ARMED_YES};
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_TERMINUS_PRIVILEGED};
use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HAMLYN_ONE_SHOT_OPEN};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_SIZE, HamlynNotification};
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;
use hamlyn_abi::kernel::well_known::ULN_WELL_KNOWN_KEY;
use hamlyn_abi::kernel::wire::UlnWire;
use hamlyn_driver_host::slots::{self, ENTRIES, METADATA_LENGTH, METADATA_OFFSET};
use hamlyn_driver_host::{Ports, Sizes, System};
use rustix::io::Errno;
use zerocopy::FromBytes;

use crate::engine::area::Area;
use crate::engine::violation::Violation;
use crate::hamlyn::driver::Objects;
use crate::hamlyn::express::Express;
use crate::hamlyn::tables::{ENTRY_ACCUMULATOR, ENTRY_ONE_SHOT, OpenSlot};

/// The process number of the operating system's own objects.
pub(super) const SYSTEM: u64 = 0;

/// The system's objects on its card.
#[derive(Debug)]
pub(super) struct Own {
    /// Hosts of the fabric.
    hosts: u32,
    terminus: u32,
    /// Requests posted.
    tail: u32,
    queue: u32,
    entries: u32,
    /// Notifications taken.
    taken: u32,
    slots: Vec<Arc<OpenSlot>>,
    /// The pages of the slots.
    pages: Vec<u64>,
}

/// The system, and its objects on its card.
#[derive(Debug)]
pub(super) struct WellKnown {
    system: System,
    own: Own,
    /// Pieces of memory that the system has when nothing is arranged.
    pieces: u32,
    /// The handshake timer had expired.
    lapsed: bool,
    /// A violation found during a process's call.
    fault: Option<Violation>,
}

/// The system's access to the card.
struct CardPorts<'a> {
    kernel: &'a Kernel,
    own: &'a mut Own,
    fault: Option<Violation>,
}

impl WellKnown {
    pub(super) fn new(system: System, hosts: u32) -> Self {
        let own = Own {
            hosts,
            terminus: 0,
            tail: 0,
            queue: 0,
            entries: (2 * hosts * ENTRIES).next_power_of_two(),
            taken: 0,
            slots: Vec::new(),
            pages: Vec::new(),
        };
        Self { system, own, pieces: 0, lapsed: false, fault: None }
    }

    pub(super) fn system(&self) -> &System {
        &self.system
    }

    /// Returns whether nothing is arranged with any host.
    pub(super) fn is_at_rest(&self) -> bool {
        self.system.sizes() == Sizes { pieces: self.pieces, ..Sizes::default() }
    }

    /// Calls the system. A violation by its card, or an action that no kernel allows, is an error.
    fn call<T>(
        &mut self,
        kernel: &Kernel,
        verb: impl FnOnce(&mut System, &mut dyn Ports) -> T,
    ) -> Result<T, Violation> {
        let mut ports = CardPorts { kernel, own: &mut self.own, fault: self.fault.take() };
        let result = verb(&mut self.system, &mut ports);
        if let Some(fault) = ports.fault {
            return Err(fault);
        }
        match self.system.complaint() {
            Some(complaint) => Err(Violation::new(format!("host {}: {complaint}", kernel.id))),
            None => Ok(result),
        }
    }
}

impl Own {
    /// Returns the position of the next notification.
    fn next(&self) -> QueueWait {
        QueueWait { queue: self.queue, cursor: self.taken % self.entries, pass: self.taken / self.entries }
    }

    /// Returns the address of an entry of a host's slot here.
    fn entry(&self, host: u32, entry: u32) -> Option<u64> {
        self.slots.get(host as usize)?.entry_address(entry)
    }
}

impl Ports for CardPorts<'_> {
    fn now(&self) -> u64 {
        self.kernel.clock.milliseconds()
    }

    fn post(&mut self, host: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> bool {
        let (kernel, own) = (self.kernel, &mut *self.own);
        if own.tail.wrapping_sub(kernel.completed(own.terminus)) >= HAMLYN_WORK_QUEUE_USABLE {
            return false;
        }
        own.tail = own.tail.wrapping_add(1);
        let request = slots::request(kernel.id.into(), host, entry, wire, data);
        let posted = kernel.post(own.terminus, own.tail, &request);
        self.fault = self.fault.take().or(posted.err());
        true
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        let notification = self.kernel.next_notification(self.own)?;
        self.own.taken += 1;
        Some((notification.slot, notification.metadata as u32 / HAMLYN_METADATA_SIZE))
    }

    fn more(&mut self) -> bool {
        self.kernel.arm(self.own)
    }

    fn read(&mut self, host: u32, entry: u32, place: &mut [u8]) -> UlnWire {
        let memory = &self.kernel.memory;
        let Some(address) = self.own.entry(host, entry) else { return UlnWire::default() };
        let (offset, length) = (slots::place_offset(entry), slots::place_length(entry));
        let bytes = self.own.slots[host as usize].area.peek(memory, offset.into(), length.into());
        place[..bytes.len()].copy_from_slice(&bytes);
        UlnWire::read_from_bytes(&memory.peek(address, size_of::<UlnWire>())).unwrap_or_default()
    }

    fn withdraw(&mut self, number: u32) {
        self.kernel.express.iter().for_each(|express| express.withdraw(number));
    }

    fn reopen(&mut self, host: u32, entry: u32) {
        let Some(address) = self.own.entry(host, entry) else { return };
        let memory = &self.kernel.memory;
        memory.poke(address + ENTRY_ACCUMULATOR, &0_u32.to_le_bytes());
        memory.poke(address + ENTRY_ONE_SHOT, &HAMLYN_ONE_SHOT_OPEN.to_le_bytes());
    }
}

/// Does all work that is due. Returns whether there was any.
fn work(system: &mut System, ports: &mut dyn Ports) -> bool {
    let worked = system.work(ports);
    while system.work(ports) {}
    worked
}

/// A machine's operating system, over the objects of its card.
#[derive(Debug)]
pub(super) struct Kernel {
    objects: Objects,
    /// Its driver has express memory.
    express: Option<Express>,
    well_known: Mutex<Option<WellKnown>>,
}

impl Deref for Kernel {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl Kernel {
    pub(super) fn new(objects: Objects, well_known: Option<WellKnown>, express: Option<Express>) -> Self {
        Self { objects, express, well_known: Mutex::new(well_known) }
    }

    pub(super) fn express(&self) -> Option<&Express> {
        self.express.as_ref()
    }

    /// Notes that the handshake timer had expired.
    pub(super) fn note_lapse(&self) {
        self.well_known().iter_mut().for_each(|known| known.lapsed = true);
    }

    /// Returns the operating system, if it handles connections.
    pub(super) fn well_known(&self) -> MutexGuard<'_, Option<WellKnown>> {
        self.well_known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the system after the card was started.
    pub(super) fn start_system(&self) -> Result<(), Violation> {
        let mut well_known = self.well_known();
        let Some(known) = &mut *well_known else { return Ok(()) };
        let own = &mut known.own;
        let hosts = own.hosts;
        let full = || Violation::new(format!("host {}: no room for well-known slots", self.id));
        let terminus = self.open_terminus_as(SYSTEM, 1, None, HAMLYN_TERMINUS_PRIVILEGED)?;
        own.terminus = terminus.ok_or_else(full)?;
        let bytes = u64::from(own.entries * HAMLYN_NOTIFICATION_SIZE);
        let area = Area::new(&self.memory, &mut self.tables().frames, 0, bytes);
        own.queue = self.open_queue(SYSTEM, area, own.entries)?.ok_or_else(full)?;
        (own.tail, own.taken, known.lapsed) = (0, 0, false);
        for host in 0..own.hosts {
            let slot = self.well_known_slot(own, host);
            self.open_slot_as(host, slot)?;
            own.slots.extend(self.slot(host));
        }
        let begin = known.call(self, |system, ports| {
            let begun = self.express.as_ref().map_or(Ok(()), |express| express.begin(system, ports, hosts));
            begun.map(|()| system.sizes().pieces)
        })?;
        known.pieces = begin.map_err(Violation::new)?;
        known.call(self, |system, ports| {
            system.open(ports);
            work(system, ports);
        })
    }

    /// Creates a slot for the operating system of a host, over a page of its own.
    fn well_known_slot(&self, own: &mut Own, host: u32) -> OpenSlot {
        let frames = &mut self.tables().frames;
        let page = frames.take(&self.memory);
        own.pages.push(page);
        let (offset, length) = (u64::from(METADATA_OFFSET), u64::from(METADATA_LENGTH));
        self.memory.poke(page + offset, &slots::metadata());
        OpenSlot {
            pid: SYSTEM,
            area: Area::over(&self.memory, frames, vec![page], 0, offset),
            metadata: Some(Area::over(&self.memory, frames, vec![page], offset, length)),
            entries: ENTRIES,
            pointer: 0,
            key: ULN_WELL_KNOWN_KEY,
            mode: HAMLYN_MODE_PARANOID_ONE_SHOT,
            queue: own.queue,
            notification_index: 0,
            interrupt: true,
            fetch: false,
            prey: false,
            privileged: Some(host as u16),
            streams: false,
        }
    }

    /// Closes and frees all objects after the card was reset.
    pub(super) fn stop_system(&self) -> Result<(), Violation> {
        let mut well_known = self.well_known();
        let Some(known) = &mut *well_known else { return Ok(()) };
        // The express memory may go with it, and come back.
        let all = self.express.is_some() && self.tables().rng.percent(50);
        known.call(self, |system, ports| {
            if all {
                system.express_stop(ports);
            }
            system.stop(ports);
        })?;
        known.own.slots.clear();
        self.release(SYSTEM)?;
        known.own.pages.drain(..).for_each(|page| self.tables().frames.give(page));
        Ok(())
    }

    /// Calls the operating system for a process.
    pub(super) fn system_call<T>(
        &self,
        verb: impl FnOnce(&mut System, &mut dyn Ports) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut well_known = self.well_known();
        let known = well_known.as_mut().ok_or(Errno::OPNOTSUPP)?;
        known.call(self, verb).unwrap_or_else(|fault| {
            // This is not an error of the process: the system's own next turn reports it.
            known.fault = Some(fault);
            Err(Errno::IO)
        })
    }

    /// Returns whether the next notification is there. If not, the card will interrupt for it.
    fn arm(&self, own: &Own) -> bool {
        self.set_armed(own.queue, ULN_ARMED_YES);
        let ready = self.next_notification(own).is_some();
        if ready {
            self.set_armed(own.queue, ULN_ARMED_NO);
        }
        ready
    }

    fn next_notification(&self, own: &Own) -> Option<HamlynNotification> {
        let next = own.next();
        let at = u64::from(next.cursor * HAMLYN_NOTIFICATION_SIZE);
        let tables = self.tables();
        let entry = tables.queues.get(own.queue as usize)?.as_ref()?.area.address(at);
        let bytes = self.memory.peek(entry, HAMLYN_NOTIFICATION_SIZE as usize);
        let notification = HamlynNotification::read_from_bytes(&bytes).ok()?;
        next.is_over(notification.wrap).then_some(notification)
    }

    /// Takes arrived messages, and notifies their senders. Returns whether there was anything to
    /// do.
    pub(super) fn look(&self, fired: &[u32]) -> Result<bool, Violation> {
        let mut well_known = self.well_known();
        let Some(known) = &mut *well_known else { return Ok(false) };
        if !self.tables().running {
            return Ok(false);
        }
        let (arrived, lapsed) = (fired.contains(&known.own.queue), std::mem::take(&mut known.lapsed));
        known.call(self, |system, ports| {
            if lapsed {
                system.lapsed(ports);
            }
            if arrived {
                system.arrived(ports);
            }
            work(system, ports)
        })
    }

    /// Runs the timers of the operating system. Returns whether one was due.
    pub(super) fn tick_system(&self) -> Result<bool, Violation> {
        let mut well_known = self.well_known();
        let Some(known) = &mut *well_known else { return Ok(false) };
        let due = known.system.due().is_some_and(|due| due <= self.clock.milliseconds());
        if due {
            known.call(self, |system, ports| work(system, ports))?;
        }
        Ok(due)
    }

    /// Returns when the operating system has something to do next, if ever.
    pub(super) fn next_tick(&self) -> Option<u64> {
        self.well_known().as_ref().and_then(|known| known.system.due())
    }

    /// Checks whether the card has a link, and whether it has had it all the time.
    pub(super) fn report_link(&self) {
        let changes = self.load(ULN_REG_LINK_CHANGES).unwrap_or_default();
        let up = self.load(ULN_REG_LINK).is_ok_and(|link| link == 1);
        let _ = self.system_call(|system, ports| {
            system.link_is(ports, up.then_some(self.id.into()), changes);
            Ok(())
        });
    }
}
