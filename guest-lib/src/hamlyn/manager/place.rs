//! A slot whose arrivals go to a receiver of a manager.

use std::sync::Weak;

use super::registry::Room;
use super::{Arrived, Manager, ReceiveClass, ReceiverClass};
use crate::error::{Error, Result};
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::slot::{Entries, Mode, Slot};
use crate::hamlyn::ticket::Ticket;

/// A slot in paranoid one-shot mode, with memory of its own. Each metadata entry opens a part of
/// the same length.
#[derive(Debug)]
pub(crate) struct Place {
    // The slot is closed before its notifications are done with.
    slot: Slot,
    registration: Registration,
    /// Whom its entries name.
    class: Option<ReceiveClass>,
    length: usize,
}

/// Where a place stands in its manager's registry. Left once no notification of the slot is in the
/// queue any more.
#[derive(Debug)]
struct Registration {
    manager: Manager,
    room: Room,
    /// Somebody may have a ticket.
    used: bool,
}

impl Place {
    /// Creates a place of so many entries, each with `length` bytes of message area, zeroed. No
    /// entry has bytes if that is 0.
    pub(crate) fn create(manager: &Manager, entries: u32, length: usize) -> Result<Self> {
        let area = manager.card().create_area((entries as usize).saturating_mul(length).max(1))?;
        Self::create_in(manager, &area, entries, length)
    }

    /// The same in an area that there is, of as many bytes at least.
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

    /// From now on all entries name this receiver, and it gets what arrives. Before it, nobody may
    /// have a ticket.
    pub(crate) fn open_for(&mut self, receiver: Weak<dyn ReceiverClass>) {
        self.registration.used = true;
        let registry = self.registration.manager.registry();
        let class = registry.register(receiver);
        let entries = self.slot.entries();
        entries.iter().flat_map(Entries::iter).for_each(|entry| entry.set_receive_class(class.pointer()));
        registry.set(self.registration.room, entries);
        self.class = Some(class);
    }

    /// How many entries it has.
    pub(crate) fn entries(&self) -> u32 {
        self.slot.metadata_entries()
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Bytes of each entry's part.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Where an entry's part starts in the area.
    pub(crate) fn start(&self, entry: u32) -> usize {
        entry as usize * self.length
    }

    pub(crate) fn area(&self) -> &MessageArea {
        self.slot.area()
    }

    /// The ticket for an entry and its part.
    pub(crate) fn ticket(&self, entry: u32) -> Result<Ticket> {
        self.slot.ticket(entry)
    }

    /// The entry that a message has come to, and its metadata; none if it is another slot's.
    pub(crate) fn arrived(&self, arrival: &Arrived<'_>) -> Option<(u32, [u8; 60])> {
        (arrival.slot == self.slot.number()).then(|| (arrival.entry, arrival.metadata.user()))
    }

    /// Whether an entry has had its message.
    pub(crate) fn is_locked(&self, entry: u32) -> bool {
        self.slot.metadata(entry).is_ok_and(|metadata| metadata.is_locked())
    }

    /// Gives an entry a key for its part ([`crate::MetadataEntry::protect`]).
    pub(crate) fn protect(&self, entry: u32, key: u64) -> Result<()> {
        let start = self.start(entry) as u64;
        self.slot.metadata(entry)?.protect(key, start..start + self.length as u64)
    }

    /// The packet count of a message that is not whole; 0 if there is none.
    pub(crate) fn partial(&self, entry: u32) -> u32 {
        self.slot
            .metadata(entry)
            .map_or(0, |metadata| if metadata.is_partial() { metadata.accumulator() } else { 0 })
    }

    /// Zeroes an entry's part, which nobody may write to meanwhile.
    pub(crate) fn clear(&self, entry: u32) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let end = self.start(entry) + self.length;
        for at in (self.start(entry)..end).step_by(ZEROS.len()) {
            self.area().memory().mapping().write(at, &ZEROS[..ZEROS.len().min(end - at)]);
        }
    }

    /// Lets an entry take its next message.
    pub(crate) fn reopen(&self, entry: u32) {
        if let Ok(metadata) = self.slot.metadata(entry) {
            metadata.reopen();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.used {
            // Notifications of the slot that has just been closed still count against the queue.
            // Who loses some is told.
            let _ = self.manager.poll_all();
        }
        self.manager.registry().leave(self.room);
    }
}
