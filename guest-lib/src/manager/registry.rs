//! Who is registered with a manager, and how many notifications that can make.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hamlyn_abi::hamlyn::notification::HAMLYN_QUEUE_MAX_ENTRIES;

use super::queues::{self, Queues};
use crate::error::{Error, Result, at_most};
use crate::notification::Notification;

/// An end point that messages arrive at: the paper's receiver class.
///
/// The manager holds a lock while it calls: a receiver records what has come and returns.
pub(crate) trait Receiver: Debug + Send + Sync {
    /// Records the arrival of a message.
    fn process_arrival(&self, notification: &Notification, ready: &mut Ready);

    /// Notes that notifications were lost, perhaps this receiver's.
    fn arrivals_lost(&self, ready: &mut Ready);
}

/// The tokens of those who have news. It grows no longer than there are tokens.
#[derive(Debug, Default)]
pub(crate) struct Ready(BTreeSet<u64>);

impl Ready {
    /// Whoever has this token has news; nothing if it has none.
    #[inline]
    pub(crate) fn add(&mut self, token: Option<u64>) {
        self.0.extend(token);
    }

    pub(super) fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

/// Where a receiver has been given room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Its notification index, which nobody else has.
    pub(super) index: u32,
    /// The number of the queue that its slot is to name.
    pub(super) queue: usize,
    /// Its metadata entries.
    entries: u32,
}

/// The receivers of a manager, by the notification index of their slots.
#[derive(Debug)]
pub(super) struct Registry {
    members: Mutex<Members>,
}

#[derive(Debug)]
struct Members {
    /// For each notification queue, how many entries it has, and the metadata entries of all that name it.
    queues: Vec<(u32, u32)>,
    last: u32,
    receivers: BTreeMap<u32, Member>,
}

#[derive(Debug)]
struct Member {
    queue: usize,
    /// None while its slot is being made.
    receiver: Option<Weak<dyn Receiver>>,
}

impl Registry {
    /// For receivers of a queue of so many entries.
    pub(super) fn new(limit: u32) -> Self {
        let members = Members { queues: vec![(limit, 0)], last: 0, receivers: BTreeMap::new() };
        Self { members: Mutex::new(members) }
    }

    /// Makes room for the notifications of so many metadata entries. If no queue has it, `open` is to open the one of
    /// that number and length.
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
        // Not the same one again soon: a log then tells the receivers apart.
        members.last = index.wrapping_add(1);
        members.queues[queue].1 += entries;
        members.receivers.insert(index, Member { queue, receiver: None });
        Ok(Room { index, queue, entries })
    }

    /// From now on this receiver gets what arrives.
    pub(super) fn set(&self, room: Room, receiver: Weak<dyn Receiver>) {
        let member = Member { queue: room.queue, receiver: Some(receiver) };
        self.members().receivers.insert(room.index, member);
    }

    /// Nothing can arrive there any more, and nothing is left in the queue.
    pub(super) fn leave(&self, room: Room) {
        let mut members = self.members();
        members.receivers.remove(&room.index);
        members.queues[room.queue].1 -= room.entries;
    }

    pub(super) fn find(&self, index: u32) -> Option<Arc<dyn Receiver>> {
        self.members().receivers.get(&index)?.receiver.as_ref()?.upgrade()
    }

    /// Those whose notifications go to a queue.
    pub(super) fn all_of(&self, queue: usize) -> Vec<Arc<dyn Receiver>> {
        let members = self.members();
        let members = members.receivers.values().filter(|member| member.queue == queue);
        members.filter_map(|member| member.receiver.as_ref()?.upgrade()).collect()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    /// Has a queue opened that has room for so many. Its number.
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
    fn no_more_entries_than_its_queue_has_and_another_queue_for_the_rest() {
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
    fn there_is_an_end_to_queues() {
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
