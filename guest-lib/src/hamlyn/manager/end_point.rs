//! End points for the application's own receiver classes.

use std::sync::{Arc, Weak};

use super::{Manager, Place, ReceiverClass};
use crate::error::{Error, Result};
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::slot::Slot;
use crate::hamlyn::ticket::Ticket;

/// The base of an application's own receiver class (section 3.3): a slot in
/// [`crate::Mode::ParanoidOneShot`] with memory. Each of its metadata entries opens a part of the
/// memory and accepts one message until [`EndPoint::reopen`]. The library's own protocols use the
/// same base.
///
/// ```no_run
/// # use std::sync::Mutex;
/// use hamlyn::{Arrived, EndPoint, Manager, Ready, ReceiverClass};
///
/// /// Adds up the numbers in the messages' metadata.
/// #[derive(Debug)]
/// struct Sum {
///     end_point: EndPoint,
///     sum: Mutex<u64>,
/// }
///
/// impl ReceiverClass for Sum {
///     fn process_arrival(&self, arrival: &Arrived<'_>, _: &mut Ready) {
///         let number = arrival.metadata.user()[0];
///         *self.sum.lock().unwrap() += u64::from(number);
///         self.end_point.reopen(arrival.entry);
///     }
///
///     fn arrivals_lost(&self, _: &mut Ready) {}
/// }
///
/// # fn example(manager: &Manager) -> hamlyn::Result<()> {
/// let end_point = EndPoint::create(manager, 4, 0)?;
/// let sum = end_point.open(|end_point| Sum { end_point, sum: Mutex::new(0) });
/// println!("send numbers to {}", sum.end_point.ticket(0)?);
/// manager.wait_until("a sum of 100", || {
///     let sum = *sum.sum.lock().unwrap();
///     Ok((sum >= 100).then_some(sum))
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EndPoint {
    place: Place,
}

impl EndPoint {
    /// Creates an end point with this number of metadata entries, each with `length` bytes of
    /// message area. Use 0 for metadata only.
    ///
    /// # Errors
    /// The errors of [`crate::Card::create_area`], [`crate::SlotBuilder::create`] and, if the
    /// manager needs another notification queue for it, [`crate::Card::create_queue`].
    pub fn create(manager: &Manager, entries: u32, length: usize) -> Result<Self> {
        check(entries)?;
        Ok(Self { place: Place::create(manager, entries, length)? })
    }

    /// Like [`EndPoint::create`], in an area of the caller ([`crate::Card::lend`] or
    /// [`crate::Card::create_area`]).
    ///
    /// # Errors
    /// The errors of [`EndPoint::create`]; [`Error::PastEnd`] if the area is too short.
    pub fn create_in(manager: &Manager, area: &MessageArea, entries: u32, length: usize) -> Result<Self> {
        check(entries)?;
        let needed = u64::from(entries).saturating_mul(length as u64);
        crate::error::inside("message area", 0, needed, area.len() as u64)?;
        Ok(Self { place: Place::create_in(manager, area, entries, length)? })
    }

    /// Creates the receiver that owns this end point. From now on all metadata entries refer to it,
    /// and it is called for each arrival.
    pub fn open<R: ReceiverClass + 'static>(mut self, make: impl FnOnce(Self) -> R) -> Arc<R> {
        Arc::new_cyclic(|receiver: &Weak<R>| {
            self.place.open_for(receiver.clone());
            make(self)
        })
    }

    /// Returns the ticket for an entry and its part. Do not give a ticket away before
    /// [`EndPoint::open`]: no receiver is called for messages that arrive before it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self, entry: u32) -> Result<Ticket> {
        self.place.ticket(entry)
    }

    /// Lets an entry accept its next message. Does nothing if the entry does not exist.
    pub fn reopen(&self, entry: u32) {
        self.place.reopen(entry);
    }

    /// Returns true if the entry has received its message.
    #[must_use]
    pub fn is_locked(&self, entry: u32) -> bool {
        self.place.is_locked(entry)
    }

    /// Returns the start of an entry's part in the area, in bytes.
    #[must_use]
    pub fn start(&self, entry: u32) -> usize {
        self.place.start(entry)
    }

    /// Returns the size of each entry's part, in bytes.
    #[must_use]
    pub fn part_length(&self) -> usize {
        self.place.length()
    }

    /// Returns the memory.
    #[must_use]
    pub fn area(&self) -> &MessageArea {
        self.place.area()
    }

    /// Returns the slot, with the metadata entries. An entry may refer to another receiver
    /// ([`crate::MetadataEntry::set_receive_class`]).
    #[must_use]
    pub fn slot(&self) -> &Slot {
        self.place.slot()
    }
}

fn check(entries: u32) -> Result<()> {
    match entries {
        0 => Err(Error::Invalid("an end point has at least one metadata entry")),
        _ => Ok(()),
    }
}
