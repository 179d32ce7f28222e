//! Well-known slots (section 6.3): the driver's own terminus, notification queue and slots on a simulated card.
//!
//! The slots are privileged and in paranoid one-shot mode, so what has arrived cannot change while it is looked at, and
//! the queue has more entries than messages can be there: it is never overrun. There are slots for the hosts of the
//! fabric alone; a driver, which does not know them, opens all 64.

use std::sync::{Arc, MutexGuard, PoisonError};

use hamlyn::attach::QueueWait;
use hamlyn_abi::family::link::{HAMLYN_REG_LINK, HAMLYN_REG_LINK_CHANGES};
use hamlyn_abi::family::sleep::{HAMLYN_ARMED_NO, HAMLYN_ARMED_YES};
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_TERMINUS_PRIVILEGED};
use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HAMLYN_ONE_SHOT_OPEN};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_SIZE, HamlynNotification};
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;
use hamlyn_abi::kernel::well_known::HAMLYN_WELL_KNOWN_KEY;
use hamlyn_abi::kernel::wire::HamlynWire;
use hamlyn_abi::uapi::HAMLYN_END_LAPSED;
use hamlyn_system::slots::{self, ENTRIES, METADATA_LENGTH, METADATA_OFFSET};
use hamlyn_system::{Action, System};
use rustix::io::Errno;
use zerocopy::FromBytes;

use crate::area::Area;
use crate::driver::{ENTRY_ACCUMULATOR, ENTRY_ONE_SHOT, OpenSlot};
use crate::machine::Machine;
use crate::violation::Violation;

/// The process number of what is the operating system's own.
pub(crate) const SYSTEM: u64 = 0;

/// The system, and what it has of its card.
#[derive(Debug)]
pub(crate) struct WellKnown {
    system: System,
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
    /// The handshake timer had run out.
    pub(crate) lapsed: bool,
}

impl WellKnown {
    pub(crate) fn new(system: System, hosts: u32) -> Self {
        Self {
            system,
            hosts,
            terminus: 0,
            tail: 0,
            queue: 0,
            entries: (2 * hosts * ENTRIES).next_power_of_two(),
            taken: 0,
            slots: Vec::new(),
            pages: Vec::new(),
            lapsed: false,
        }
    }

    pub(crate) fn system(&self) -> &System {
        &self.system
    }

    /// Which notification comes next.
    fn next(&self) -> QueueWait {
        QueueWait { queue: self.queue, cursor: self.taken % self.entries, pass: self.taken / self.entries }
    }
}

impl Machine {
    /// The operating system, if it has to do with connections.
    pub(crate) fn well_known(&self) -> MutexGuard<'_, Option<WellKnown>> {
        self.well_known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The card has been started.
    pub(crate) fn start_system(&self) -> Result<(), Violation> {
        let mut well_known = self.well_known();
        let Some(own) = &mut *well_known else { return Ok(()) };
        let full = || Violation::new(format!("host {}: no room for well-known slots", self.id));
        let terminus = self.open_terminus_as(SYSTEM, 1, None, HAMLYN_TERMINUS_PRIVILEGED)?;
        own.terminus = terminus.ok_or_else(full)?;
        let bytes = u64::from(own.entries * HAMLYN_NOTIFICATION_SIZE);
        let area = Area::new(&self.memory, &mut self.tables().frames, 0, bytes);
        own.queue = self.open_queue(SYSTEM, area, own.entries)?.ok_or_else(full)?;
        (own.tail, own.taken, own.lapsed) = (0, 0, false);
        for host in 0..own.hosts {
            let slot = self.well_known_slot(own, host);
            self.open_slot_as(host, slot)?;
            own.slots.extend(self.slot(host));
        }
        self.arm(own);
        own.system.time_is(self.clock.milliseconds());
        own.system.start();
        Ok(())
    }

    /// A slot for the operating system of a host, over a page of its own.
    fn well_known_slot(&self, own: &mut WellKnown, host: u32) -> OpenSlot {
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
            key: HAMLYN_WELL_KNOWN_KEY,
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

    /// The card was reset: all is closed and given back.
    pub(crate) fn stop_system(&self) -> Result<(), Violation> {
        let mut well_known = self.well_known();
        let Some(own) = &mut *well_known else { return Ok(()) };
        own.system.stop();
        own.system.take_actions();
        own.slots.clear();
        self.release(SYSTEM)?;
        own.pages.drain(..).for_each(|page| self.tables().frames.give(page));
        Ok(())
    }

    /// Calls the operating system, and does what it wants done.
    pub(crate) fn system_call<T>(
        &self,
        verb: impl FnOnce(&mut System) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut well_known = self.well_known();
        let own = well_known.as_mut().ok_or(Errno::OPNOTSUPP)?;
        own.system.time_is(self.clock.milliseconds());
        let result = verb(&mut own.system);
        self.carry_out(own).map_err(|_| Errno::IO)?;
        result
    }

    fn carry_out(&self, own: &mut WellKnown) -> Result<(), Violation> {
        for action in own.system.take_actions() {
            match action {
                Action::Reopen { host, entry } => {
                    let address = own.slots.get(host as usize).and_then(|slot| slot.entry_address(entry));
                    let Some(address) = address else { continue };
                    self.memory.poke(address + ENTRY_ACCUMULATOR, &0_u32.to_le_bytes());
                    self.memory.poke(address + ENTRY_ONE_SHOT, &HAMLYN_ONE_SHOT_OPEN.to_le_bytes());
                }
                Action::Send { host, entry, wire, data } => {
                    self.post_message(own, host, entry, &wire, &data)?
                }
                // The simulation's programs look by themselves.
                Action::Decided { .. } | Action::Requests { .. } => {}
            }
        }
        Ok(())
    }

    /// Posts one packet to the operating system of a host, if there is room.
    fn post_message(
        &self,
        own: &mut WellKnown,
        host: u32,
        entry: u32,
        wire: &HamlynWire,
        data: &[u8],
    ) -> Result<(), Violation> {
        if own.tail.wrapping_sub(self.completed(own.terminus)) >= HAMLYN_WORK_QUEUE_USABLE {
            return Ok(());
        }
        own.tail = own.tail.wrapping_add(1);
        self.post(own.terminus, own.tail, &slots::request(self.id.into(), host, entry, wire, data))
    }

    /// Whether the next notification is there; if not, the card will interrupt for it.
    fn arm(&self, own: &WellKnown) -> bool {
        self.set_armed(own.queue, HAMLYN_ARMED_YES);
        let ready = self.next_notification(own).is_some();
        if ready {
            self.set_armed(own.queue, HAMLYN_ARMED_NO);
        }
        ready
    }

    fn next_notification(&self, own: &WellKnown) -> Option<HamlynNotification> {
        let next = own.next();
        let at = u64::from(next.cursor * HAMLYN_NOTIFICATION_SIZE);
        let tables = self.tables();
        let entry = tables.queues.get(own.queue as usize)?.as_ref()?.area.address(at);
        let bytes = self.memory.peek(entry, HAMLYN_NOTIFICATION_SIZE as usize);
        let notification = HamlynNotification::read_from_bytes(&bytes).ok()?;
        next.is_over(notification.wrap).then_some(notification)
    }

    /// Takes what has arrived, and tells those who sent it. Returns whether there was anything to do.
    pub(crate) fn look(&self, fired: &[u32]) -> Result<bool, Violation> {
        let mut well_known = self.well_known();
        let Some(own) = &mut *well_known else { return Ok(false) };
        let due = own.lapsed || fired.contains(&own.queue);
        if !due || !self.tables().running {
            return Ok(false);
        }
        own.system.time_is(self.clock.milliseconds());
        if std::mem::take(&mut own.lapsed) {
            own.system.connections_lost(HAMLYN_END_LAPSED);
        }
        loop {
            while let Some(notification) = self.next_notification(own) {
                own.taken += 1;
                self.take_message(own, &notification);
                // An entry that is open again may be filled before the next is looked at.
                self.carry_out(own)?;
            }
            if !self.arm(own) {
                break;
            }
        }
        own.system.answer_peers();
        self.carry_out(own)?;
        Ok(true)
    }

    fn take_message(&self, own: &mut WellKnown, notification: &HamlynNotification) {
        let (host, entry) = (notification.slot, notification.metadata as u32 / HAMLYN_METADATA_SIZE);
        let Some(slot) = own.slots.get(host as usize) else { return };
        let Some(address) = slot.entry_address(entry) else { return };
        let bytes = self.memory.peek(address, size_of::<HamlynWire>());
        let Ok(wire) = HamlynWire::read_from_bytes(&bytes) else { return };
        let (offset, length) = (slots::place_offset(entry), slots::place_length(entry));
        let place = slot.area.peek(&self.memory, offset.into(), length.into());
        own.system.arrived(host, entry, wire, place);
    }

    /// Time has passed.
    pub(crate) fn tick_system(&self) -> Result<(), Violation> {
        let mut well_known = self.well_known();
        let Some(own) = &mut *well_known else { return Ok(()) };
        own.system.time_is(self.clock.milliseconds());
        own.system.tick();
        self.carry_out(own)
    }

    /// When the operating system looks after other hosts next, if it does.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        self.well_known().as_ref().and_then(|own| own.system.due())
    }

    /// Looks whether the card has a link, and whether it has had it all the time.
    pub(crate) fn report_link(&self) {
        let changes = self.load(HAMLYN_REG_LINK_CHANGES).unwrap_or_default();
        let up = self.load(HAMLYN_REG_LINK).is_ok_and(|link| link == 1);
        let _ = self.system_call(|system| {
            system.link_is(up, changes);
            Ok(())
        });
    }
}
