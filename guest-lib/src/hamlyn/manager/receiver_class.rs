//! Receiver classes (section 3.3): what a metadata entry's receive class pointer refers to (Table
//! 2).

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::hamlyn::metadata::MetadataEntry;

/// An end point that messages arrive at, of the library's protocols or the application's own: the
/// paper's receiver class.
///
/// The manager takes a notification off its queue and follows it to the metadata entry. The entry's
/// receive class pointer identifies the receiver, which the manager calls while it holds a lock. So
/// a receiver only records the arrival and returns. It must not call functions of its manager that
/// take notifications, or it deadlocks.
pub trait ReceiverClass: Debug + Send + Sync {
    /// Records the arrival of a message.
    fn process_arrival(&self, arrival: &Arrived<'_>, ready: &mut Ready);

    /// Records that notifications were lost, perhaps this receiver's. The receiver checks its
    /// metadata entries, or gives up.
    fn arrivals_lost(&self, ready: &mut Ready);
}

/// The tokens of receivers and senders that have news ([`crate::Manager::ready`]). It never grows
/// beyond the number of tokens.
#[derive(Debug, Default)]
pub struct Ready(BTreeSet<u64>);

impl Ready {
    /// Marks the receiver or sender with this token as having news. Does nothing for `None`.
    #[inline]
    pub fn add(&mut self, token: Option<u64>) {
        self.0.extend(token);
    }

    pub(super) fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

/// A complete message.
#[derive(Debug)]
#[non_exhaustive]
pub struct Arrived<'a> {
    /// The slot's number on this host.
    pub slot: u32,
    /// Index of the slot's metadata entry.
    pub entry: u32,
    /// The entry itself, with the message's metadata ([`MetadataEntry::user`]). The sender has
    /// written it, so validate it.
    pub metadata: &'a MetadataEntry,
}

/// A receiver's registration with its manager ([`crate::Manager::register`]). It lasts as long as
/// this value lives.
#[derive(Debug)]
pub struct ReceiveClass {
    classes: Arc<Classes>,
    pointer: u64,
}

impl ReceiveClass {
    /// Returns the value that refers to the receiver in a metadata entry
    /// ([`MetadataEntry::set_receive_class`]). It is not an address, but a number that the manager
    /// looks up. A wrong number, or that of a receiver that has left, finds no receiver.
    #[must_use]
    pub fn pointer(&self) -> u64 {
        self.pointer
    }
}

impl Drop for ReceiveClass {
    fn drop(&mut self) {
        self.classes.leave(self.pointer);
    }
}

/// The receivers of a manager by their pointers. A pointer is an index into the table, and above it
/// a count of how often that index was used, from 1.
#[derive(Debug, Default)]
pub(super) struct Classes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    places: Vec<(u32, Option<Weak<dyn ReceiverClass>>)>,
    free: Vec<u32>,
}

impl Classes {
    pub(super) fn enter(self: &Arc<Self>, receiver: Weak<dyn ReceiverClass>) -> ReceiveClass {
        let mut table = self.table();
        let index = table.free.pop().unwrap_or_else(|| {
            table.places.push((0, None));
            table.places.len() as u32 - 1
        });
        let place = &mut table.places[index as usize];
        // Never 0, so that a zeroed entry refers to no receiver.
        *place = (place.0.wrapping_add(1).max(1), Some(receiver));
        let pointer = u64::from(place.0) << 32 | u64::from(index);
        drop(table);
        ReceiveClass { classes: self.clone(), pointer }
    }

    pub(super) fn find(&self, pointer: u64) -> Option<Arc<dyn ReceiverClass>> {
        let table = self.table();
        let (taken, receiver) = table.places.get(pointer as u32 as usize)?;
        if u64::from(*taken) != pointer >> 32 {
            return None;
        }
        receiver.as_ref()?.upgrade()
    }

    fn leave(&self, pointer: u64) {
        let mut table = self.table();
        if let Some(place) = table.places.get_mut(pointer as u32 as usize) {
            place.1 = None;
            table.free.push(pointer as u32);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl ReceiverClass for Nobody {
        fn process_arrival(&self, _: &Arrived<'_>, _: &mut Ready) {}
        fn arrivals_lost(&self, _: &mut Ready) {}
    }

    fn weak(receiver: &Arc<Nobody>) -> Weak<dyn ReceiverClass> {
        let weak: Weak<Nobody> = Arc::downgrade(receiver);
        weak
    }

    #[test]
    fn pointer_finds_only_its_own_receiver() {
        let classes = Arc::new(Classes::default());
        let receiver = Arc::new(Nobody);
        let first = classes.enter(weak(&receiver));
        let second = classes.enter(weak(&receiver));
        let old = first.pointer();
        assert!(old != second.pointer() && classes.find(old).is_some());
        for wrong in [0, 1, u64::MAX, old + (1 << 32), old + 2, &raw const receiver as u64] {
            assert!(classes.find(wrong).is_none(), "{wrong:#x}");
        }
        drop(first);
        assert!(classes.find(old).is_none());
        let third = classes.enter(weak(&receiver));
        assert!(classes.find(old).is_none(), "another has its place now");
        drop(receiver);
        assert!(classes.find(third.pointer()).is_none(), "a dropped receiver is not found");
    }
}
