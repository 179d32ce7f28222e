//! Who is registered with a manager, and how many notifications that can make.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{Error, Result};
use crate::notification::Notification;

/// An end point that messages arrive at: the paper's receiver class.
///
/// The manager holds a lock while it calls: a receiver records what has come and returns.
pub(crate) trait Receiver: Debug + Send + Sync {
    /// Records the arrival of a message.
    fn process_arrival(&self, notification: &Notification);

    /// Notes that notifications were lost, perhaps this receiver's.
    fn arrivals_lost(&self);
}

/// The receivers of a manager, by the notification index of their slots.
#[derive(Debug)]
pub(super) struct Registry {
    /// Entries of the notification queue.
    limit: u32,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    /// Metadata entries of all of them.
    entries: u32,
    last: u32,
    /// None while its slot is being made.
    receivers: BTreeMap<u32, Option<Weak<dyn Receiver>>>,
}

impl Registry {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, members: Mutex::default() }
    }

    /// Makes room for the notifications of so many metadata entries. Gives a notification index that nobody else has.
    pub(super) fn enter(&self, entries: u32) -> Result<u32> {
        let mut members = self.members();
        let sum = members.entries.saturating_add(entries);
        if sum > self.limit {
            return Err(Error::WouldBlock { object: "entries of the notification queue", limit: self.limit });
        }
        while members.receivers.contains_key(&members.last) {
            members.last = members.last.wrapping_add(1);
        }
        let index = members.last;
        // Not the same one again soon: a log then tells the receivers apart.
        members.last = index.wrapping_add(1);
        members.entries = sum;
        members.receivers.insert(index, None);
        Ok(index)
    }

    /// From now on this receiver gets what arrives.
    pub(super) fn set(&self, index: u32, receiver: Weak<dyn Receiver>) {
        self.members().receivers.insert(index, Some(receiver));
    }

    /// Nothing can arrive there any more, and nothing is left in the queue.
    pub(super) fn leave(&self, index: u32, entries: u32) {
        let mut members = self.members();
        members.receivers.remove(&index);
        members.entries = members.entries.saturating_sub(entries);
    }

    pub(super) fn find(&self, index: u32) -> Option<Arc<dyn Receiver>> {
        self.members().receivers.get(&index)?.as_ref()?.upgrade()
    }

    pub(super) fn all(&self) -> Vec<Arc<dyn Receiver>> {
        self.members().receivers.values().flatten().filter_map(Weak::upgrade).collect()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_entries_than_the_queue_has() {
        let registry = Registry::new(10);
        let (first, second) = (registry.enter(4).unwrap(), registry.enter(6).unwrap());
        assert_ne!(first, second);
        let error = registry.enter(1).unwrap_err();
        assert_eq!(error.to_string(), "all 10 entries of the notification queue are in use");
        registry.leave(first, 4);
        assert!(registry.enter(4).is_ok());
        assert!(registry.enter(u32::MAX).is_err());
    }
}
