//! A slot whose arrivals go to a receiver of a manager.

use std::sync::Weak;

use super::registry::Room;
use super::{Arrived, Manager, ReceiveClass, ReceiverClass};
use crate::error::{Error, Result};
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::slot::{Entries, Mode, Slot};
use crate::hamlyn::ticket::Ticket;

/// A slot in paranoid one-shot mode, with its own memory. Each metadata entry opens a part of the
/// same length.
#[derive(Debug)]
pub(crate) struct Place {
    // Declared first: the slot is closed before its notifications are drained.
    slot: Slot,
    registration: Registration,
    /// The receiver that the entries refer to.
    class: Option<ReceiveClass>,
    length: usize,
}

/// A place's registration with its manager. It is removed once no notification of the slot is left
/// in the queue.
#[derive(Debug)]
struct Registration {
    manager: Manager,
    room: Room,
    /// Tickets may have been given out.
    used: bool,
}

impl Place {
    /// Creates a place with this number of entries, each with `length` bytes of zeroed message
    /// area. If `length` is 0, the entries have no bytes.
    pub(crate) fn create(manager: &Manager, entries: u32, length: usize) -> Result<Self> {
        let area = manager.card().create_area((entries as usize).saturating_mul(length).max(1))?;
        Self::create_in(manager, &area, entries, length)
    }

    /// Like [`Place::create`], in an existing area with at least that many bytes.
    pub(crate) fn create_in(
        manager: &Manager,
        area: &MessageArea,
        entries: u32,
        length: usize,
    ) -> Result<Self> {
        let room = manager.enter(entries)?;
        let registration = Registration { manager: manager.clone(), room, used: false };
        let queue = manager.queue(room.queue).ok_or(Error::Invalid("the notification queue is not open"))?;
        let slot = manager
            .card()
            .slot(area)
            .metadata_entries(entries)
            .mode(Mode::ParanoidOneShot)
            .queue(queue)
            .notification_index(room.index)
            .create()?;
        for entry in 0..entries {
            let metadata = slot.metadata(entry)?;
            let start = u64::from(entry) * length as u64;
            metadata.open(metadata.key(), start..start + length as u64);
        }
        Ok(Self { slot, registration, class: None, length })
    }

    /// From now on all entries refer to this receiver, and it gets the arrivals. No ticket may be
    /// given out before this.
    pub(crate) fn open_for(&mut self, receiver: Weak<dyn ReceiverClass>) {
        self.registration.used = true;
        let registry = self.registration.manager.registry();
        let class = registry.register(receiver);
        let entries = self.slot.entries();
        entries.iter().flat_map(Entries::iter).for_each(|entry| entry.set_receive_class(class.pointer()));
        registry.set(self.registration.room, entries);
        self.class = Some(class);
    }

    /// Returns the number of entries.
    pub(crate) fn entries(&self) -> u32 {
        self.slot.metadata_entries()
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Returns the size of each entry's part, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns the start of an entry's part in the area.
    pub(crate) fn start(&self, entry: u32) -> usize {
        entry as usize * self.length
    }

    pub(crate) fn area(&self) -> &MessageArea {
        self.slot.area()
    }

    /// Returns the ticket for an entry and its part.
    pub(crate) fn ticket(&self, entry: u32) -> Result<Ticket> {
        self.slot.ticket(entry)
    }

    /// Returns the entry at which a message has arrived, and its metadata. Returns `None` if the
    /// message is of another slot.
    pub(crate) fn arrived(&self, arrival: &Arrived<'_>) -> Option<(u32, [u8; 60])> {
        (arrival.slot == self.slot.number()).then(|| (arrival.entry, arrival.metadata.user()))
    }

    /// Returns true if the entry has received its message.
    pub(crate) fn is_locked(&self, entry: u32) -> bool {
        self.slot.metadata(entry).is_ok_and(|metadata| metadata.is_locked())
    }

    /// Gives an entry a key for its part ([`crate::MetadataEntry::protect`]).
    pub(crate) fn protect(&self, entry: u32, key: u64) -> Result<()> {
        let start = self.start(entry) as u64;
        self.slot.metadata(entry)?.protect(key, start..start + self.length as u64)
    }

    /// Returns the packet count of an incomplete message, or 0 if there is none.
    pub(crate) fn partial(&self, entry: u32) -> u32 {
        self.slot
            .metadata(entry)
            .map_or(0, |metadata| if metadata.is_partial() { metadata.accumulator() } else { 0 })
    }

    /// Zeroes an entry's part. No sender may write to it meanwhile.
    pub(crate) fn clear(&self, entry: u32) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let end = self.start(entry) + self.length;
        for at in (self.start(entry)..end).step_by(ZEROS.len()) {
            self.area().memory().mapping().write(at, &ZEROS[..ZEROS.len().min(end - at)]);
        }
    }

    /// Lets an entry accept its next message.
    pub(crate) fn reopen(&self, entry: u32) {
        if let Ok(metadata) = self.slot.metadata(entry) {
            metadata.reopen();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.used {
            // Notifications of the slot that has just been closed still count against the queue. A
            // receiver that loses some is notified.
            let _ = self.manager.poll_all();
        }
        self.manager.registry().leave(self.room);
    }
}
