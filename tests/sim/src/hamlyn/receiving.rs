//! Receiving by programs: they read their queues, check the messages, and sleep.

use hamlyn::{Arrival, Notification, OverrunError, Slot};
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID_ONE_SHOT};

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::ledger::Part;
use crate::hamlyn::tables::{ENTRY_ACCUMULATOR, ENTRY_ONE_SHOT};
use crate::hamlyn::world::Host;

/// Reads the queues of programs.
pub(super) struct Reader<'a> {
    pub(super) around: Around<'a>,
    pub(super) ledger: &'a mut Ledger,
}

impl Reader<'_> {
    /// Reads the next notification, if there is one, and uses the message.
    pub(super) fn read_queue(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let at = &mut self.around.hosts[host];
        let receiver = &mut at.processes[process];
        if receiver.asleep || receiver.slow_until > self.around.step {
            return Ok(false);
        }
        let Some(program) = receiver.program_mut() else { return Ok(false) };
        let tables = at.machine.tables();
        let queue = tables.queues[program.queue.number() as usize].as_ref();
        let queue = queue.ok_or_else(|| Violation::new("a program has no queue"))?;
        let unread = queue.written - program.read;
        let lost = unread.saturating_sub(queue.entries.into());
        let seen = program.queue.try_recv();
        let right = match &seen {
            Ok(None) => unread == 0,
            Ok(Some(_)) => unread > 0 && lost == 0,
            Err(error) => lost > 0 && error.of::<OverrunError>().is_some_and(|said| said.lost == lost),
        };
        ensure(right, || {
            format!(
                "host {host} process {process} has {unread} unread notifications, {lost} overwritten, and sees {seen:?}"
            )
        })?;
        // Either the next one, or all that were overwritten.
        let from = program.read as usize;
        let to = from + if lost > 0 { lost } else { unread.min(1) } as usize;
        let deliveries = queue.deliveries[from..to].to_vec();
        drop(tables);
        program.read = to as u64;
        match seen {
            Ok(Some(notification)) => self.use_message(host, process, &notification, deliveries[0])?,
            _ => deliveries.iter().for_each(|delivery| self.ledger.overwritten(*delivery)),
        }
        Ok(to > from)
    }

    fn use_message(
        &mut self,
        host: usize,
        process: usize,
        notification: &Notification,
        due: usize,
    ) -> Result<(), Violation> {
        let wrong =
            |what: &str| Violation::new(format!("host {host}: a notification has {what}: {notification:?}"));
        let program = self.around.hosts[host].program(process).ok_or_else(|| wrong("no owner"))?;
        let slot = program.slot(notification.slot).ok_or_else(|| wrong("a slot of another process"))?;
        let opened = self.around.hosts[host].machine.slot(notification.slot);
        let opened = opened.ok_or_else(|| wrong("a slot that is not open"))?;
        if opened.notification_index != notification.notification_index {
            return Err(wrong("another slot's index"));
        }
        let entry = match notification.arrival {
            Arrival::Fast(word) => Err(word),
            Arrival::Metadata(_) => Ok(slot.entry_of(notification).ok_or_else(|| wrong("no entry"))?),
        };
        let delivery = self.ledger.notified(host, notification.slot, entry)?;
        ensure(delivery == due, || wrong("another delivery's place in the queue"))?;
        let one_shot = opened.mode == HAMLYN_MODE_PARANOID_ONE_SHOT;
        let mut parts = self.ledger.deliveries[delivery].parts.iter().map(|part| &self.ledger.parts[*part]);
        parts
            .try_for_each(|part| see(slot, entry.ok(), part, one_shot))
            .map_err(|what| Violation::new(format!("{what}: {}", self.ledger.describe(delivery))))?;
        self.around.note(|| format!("host {host} has delivery {delivery}"));
        self.ledger.release(delivery);
        Ok(())
    }

    /// Puts a process to sleep, if its queue is empty and all messages to it will wake it.
    pub(super) fn sleep(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let sleeper = &mut self.around.hosts[host].processes[process];
        let ready = sleeper.asleep || sleeper.slow_until > self.around.step;
        let Some(program) = sleeper.program_mut().filter(|program| program.interrupting && !ready) else {
            return Ok(false);
        };
        if program.queue.arm().map_err(Violation::new)? {
            let read = self.read_queue(host, process)?;
            ensure(read, || {
                format!("host {host} process {process} armed a queue that is not empty, and read none")
            })?;
            return Ok(true);
        }
        sleeper.asleep = true;
        self.around.note(|| format!("host {host} process {process} sleeps"));
        Ok(true)
    }
}

/// Checks that the whole message is in memory, that its accumulator is 0 again, and that its
/// entry is locked in one-shot mode.
pub(super) fn check_message(hosts: &[Host], ledger: &Ledger, number: usize) -> Result<(), Violation> {
    let delivery = &ledger.deliveries[number];
    let place = &ledger.places[delivery.place];
    let machine = &hosts[place.host].machine;
    let wrong = |what: &str| Violation::new(format!("{what}: {}", ledger.describe(number)));
    let slot = machine.slot(place.slot).ok_or_else(|| wrong("its slot is closed"))?;
    for part in &delivery.parts {
        let Part { offset, data, metadata, .. } = &ledger.parts[*part];
        if slot.area.peek(&machine.memory, (*offset).into(), data.len() as u64) != *data {
            return Err(wrong("its data is not there"));
        }
        let entry = place.entry.and_then(|entry| slot.entry_address(entry));
        if entry.is_some_and(|entry| machine.memory.peek(entry, metadata.len()) != *metadata) {
            return Err(wrong("its metadata is not there"));
        }
    }
    let Some(entry) = place.entry.and_then(|entry| slot.entry_address(entry)) else { return Ok(()) };
    if machine.memory.peek_u32(entry + ENTRY_ACCUMULATOR) != 0 {
        return Err(wrong("its accumulator is not 0"));
    }
    let locked = machine.memory.peek_u32(entry + ENTRY_ONE_SHOT) == 1;
    if slot.mode != HAMLYN_MODE_NORMAL && locked != (slot.mode == HAMLYN_MODE_PARANOID_ONE_SHOT) {
        return Err(wrong("its entry's lock is wrong"));
    }
    Ok(())
}

/// Checks a message as its receiver: its data and metadata are present, and its entry is in the
/// expected state.
fn see(slot: &Slot, entry: Option<u32>, part: &Part, one_shot: bool) -> Result<(), Violation> {
    let mut data = vec![0; part.data.len()];
    slot.read(part.offset as usize, &mut data).map_err(Violation::new)?;
    ensure(data == part.data, || "the library reads other data")?;
    let Some(entry) = entry else { return Ok(()) };
    let entry = slot.metadata(entry).map_err(Violation::new)?;
    ensure(entry.user().starts_with(&part.metadata), || "the library reads other metadata")?;
    ensure(entry.accumulator() == 0, || "the library reads an accumulator that is not 0")?;
    ensure(entry.is_locked() == one_shot, || "the library reads the wrong lock")
}
