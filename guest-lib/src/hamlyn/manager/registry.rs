//! The receivers registered with a manager, and the number of notifications that they can cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hamlyn_abi::hamlyn::notification::HAMLYN_QUEUE_MAX_ENTRIES;

use super::queues::{self, Queues};
use super::receiver_class::{Classes, ReceiveClass, ReceiverClass};
use crate::error::{Error, Result, at_most};
use crate::hamlyn::metadata::MetadataEntry;
use crate::hamlyn::notification::Notification;
use crate::hamlyn::slot::Entries;

/// Room that a receiver has been given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// The unique notification index.
    pub(super) index: u32,
    /// The number of the queue that the receiver's slot must use.
    pub(super) queue: usize,
    /// Number of metadata entries.
    entries: u32,
}

/// The receivers of a manager, by the notification index of their slots.
#[derive(Debug)]
pub(super) struct Registry {
    members: Mutex<Members>,
    classes: Arc<Classes>,
}

#[derive(Debug)]
struct Members {
    /// For each notification queue: its number of entries, and the number of metadata entries of
    /// all receivers that use it.
    queues: Vec<(u32, u32)>,
    last: u32,
    receivers: BTreeMap<u32, Member>,
}

#[derive(Debug)]
struct Member {
    queue: usize,
    /// Where the notifications lead to. `None` while the slot is being created.
    entries: Option<Entries>,
}

impl Registry {
    /// Creates a registry whose first queue has this number of entries.
    pub(super) fn new(limit: u32) -> Self {
        let members = Members { queues: vec![(limit, 0)], last: 0, receivers: BTreeMap::new() };
        Self { members: Mutex::new(members), classes: Arc::default() }
    }

    /// Reserves room for the notifications of this number of metadata entries. If no queue has
    /// room, calls `open` to open the queue with the given number and length.
    pub(super) fn enter(&self, entries: u32, open: impl FnOnce(usize, u32) -> Result<()>) -> Result<Room> {
        at_most("metadata entries of a receiver", entries.into(), HAMLYN_QUEUE_MAX_ENTRIES.into())?;
        let mut members = self.members();
        let queue = match members.queues.iter().position(|(limit, taken)| limit - taken >= entries) {
            Some(queue) => queue,
            None => members.grow(entries, open)?,
        };
        while members.receivers.contains_key(&members.last) {
            members.last = members.last.wrapping_add(1);
        }
        let index = members.last;
        // Do not reuse an index soon, so that a log can tell the receivers apart.
        members.last = index.wrapping_add(1);
        members.queues[queue].1 += entries;
        members.receivers.insert(index, Member { queue, entries: None });
        Ok(Room { index, queue, entries })
    }

    /// From now on, arrivals go to the receivers that these entries refer to.
    pub(super) fn set(&self, room: Room, entries: Option<Entries>) {
        let member = Member { queue: room.queue, entries };
        self.members().receivers.insert(room.index, member);
    }

    /// Gives a receiver a pointer.
    pub(super) fn register(&self, receiver: Weak<dyn ReceiverClass>) -> ReceiveClass {
        self.classes.enter(receiver)
    }

    /// Removes the room. Nothing can arrive there anymore, and no notification is left in the
    /// queue.
    pub(super) fn leave(&self, room: Room) {
        let mut members = self.members();
        members.receivers.remove(&room.index);
        members.queues[room.queue].1 -= room.entries;
    }

    /// Follows a queue entry to the metadata entry, and that to the receiver it refers to (section
    /// 3.3).
    pub(super) fn find(
        &self,
        notification: &Notification,
    ) -> Option<(Arc<dyn ReceiverClass>, u32, MetadataEntry)> {
        let members = self.members();
        let entries = members.receivers.get(&notification.notification_index)?.entries.as_ref()?;
        let (index, metadata) = entries.find(notification)?;
        Some((self.classes.find(metadata.receive_class())?, index, metadata))
    }

    /// Returns the receivers that are referred to by entries whose notifications go to a queue.
    pub(super) fn all_of(&self, queue: usize) -> Vec<Arc<dyn ReceiverClass>> {
        let members = self.members();
        let members = members.receivers.values().filter(|member| member.queue == queue);
        let entries = members.filter_map(|member| member.entries.as_ref()).flat_map(Entries::iter);
        let pointers: BTreeSet<u64> = entries.map(|entry| entry.receive_class()).collect();
        pointers.into_iter().filter_map(|pointer| self.classes.find(pointer)).collect()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    /// Opens a queue with room for this number of entries. Returns its number.
    fn grow(&mut self, entries: u32, open: impl FnOnce(usize, u32) -> Result<()>) -> Result<usize> {
        let number = self.queues.len();
        if number == queues::MOST {
            let limit = self.queues.iter().map(|(limit, _)| limit).sum();
            let remedy = "make another manager";
            return Err(Error::Exhausted { object: "entries of the notification queues", limit, remedy });
        }
        let length = Queues::next_length(self.queues[number - 1].0, entries);
        open(number, length)?;
        self.queues.push((length, 0));
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_opens_another_of_twice_the_length() {
        let registry = Registry::new(10);
        let none = |_, _| -> Result<()> { panic!("there is room") };
        let (first, second) = (registry.enter(4, none).unwrap(), registry.enter(6, none).unwrap());
        assert_ne!(first.index, second.index);
        let third = registry.enter(1, |number, length| {
            assert_eq!((number, length), (1, 20));
            Ok(())
        });
        assert_eq!(third.unwrap().queue, 1);
        registry.leave(first);
        assert_eq!(registry.enter(4, none).unwrap().queue, 0);
        let failed = registry.enter(30, |_, length| {
            assert_eq!(length, 40);
            Err(Error::LinkDown)
        });
        assert!(matches!(failed, Err(Error::LinkDown)));
        assert_eq!(registry.enter(19, none).unwrap().queue, 1, "a queue that was not opened has no room");
        assert!(registry.enter(u32::MAX, none).is_err());
    }

    #[test]
    fn number_of_queues_is_limited() {
        let registry = Registry::new(65536);
        for _ in 0..queues::MOST {
            registry.enter(65536, |_, _| Ok(())).unwrap();
        }
        let error = registry.enter(1, |_, _| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "all 4194304 entries of the notification queues are in use: make another manager"
        );
        assert!(error.is_exhausted());
    }
}
