//! End points for receiver classes of the application's own.

use std::sync::{Arc, Weak};

use super::{Manager, Place, ReceiverClass};
use crate::error::{Error, Result};
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::slot::Slot;
use crate::hamlyn::ticket::Ticket;

/// What a receiver class of the application's own is made on (section 3.3): a slot in
/// [`crate::Mode::ParanoidOneShot`] with memory, whose metadata entries each open a part of it and
/// take one message until [`EndPoint::reopen`]. The library's own protocols are made on the same.
///
/// ```no_run
/// # use std::sync::Mutex;
/// use hamlyn::{Arrived, EndPoint, Manager, Ready, ReceiverClass};
///
/// /// Adds up what comes, a number in each message's metadata.
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
/// manager.receive("a sum of 100", None, || {
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
    /// Makes an end point of so many metadata entries, each with `length` bytes of message area; 0
    /// for metadata alone.
    ///
    /// # Errors
    /// Those of [`crate::Card::create_area`], [`crate::SlotBuilder::create`] and, if the manager
    /// takes another notification queue for it, [`crate::Card::create_queue`].
    pub fn create(manager: &Manager, entries: u32, length: usize) -> Result<Self> {
        check(entries)?;
        Ok(Self { place: Place::create(manager, entries, length)? })
    }

    /// The same in an area of the caller's ([`crate::Card::lend`], or a
    /// [`crate::Card::create_area`]'s).
    ///
    /// # Errors
    /// Those of [`EndPoint::create`]; [`Error::PastEnd`] for an area that is too short.
    pub fn create_in(manager: &Manager, area: &MessageArea, entries: u32, length: usize) -> Result<Self> {
        check(entries)?;
        let needed = u64::from(entries).saturating_mul(length as u64);
        crate::error::inside("message area", 0, needed, area.len() as u64)?;
        Ok(Self { place: Place::create_in(manager, area, entries, length)? })
    }

    /// Makes the receiver that has this end point. From now on all its metadata entries name it,
    /// and it is told of what arrives.
    pub fn open<R: ReceiverClass + 'static>(mut self, make: impl FnOnce(Self) -> R) -> Arc<R> {
        Arc::new_cyclic(|receiver: &Weak<R>| {
            self.place.open_for(receiver.clone());
            make(self)
        })
    }

    /// The ticket for an entry and its part. Hand none out before [`EndPoint::open`]: nobody is
    /// told of what comes before it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self, entry: u32) -> Result<Ticket> {
        self.place.ticket(entry)
    }

    /// Lets an entry take its next message: nothing happens if there is no such entry.
    pub fn reopen(&self, entry: u32) {
        self.place.reopen(entry);
    }

    /// Whether an entry has had its message.
    #[must_use]
    pub fn is_locked(&self, entry: u32) -> bool {
        self.place.is_locked(entry)
    }

    /// Where an entry's part starts in the area, in bytes.
    #[must_use]
    pub fn start(&self, entry: u32) -> usize {
        self.place.start(entry)
    }

    /// Bytes of each entry's part.
    #[must_use]
    pub fn part_length(&self) -> usize {
        self.place.length()
    }

    /// Its memory.
    #[must_use]
    pub fn area(&self) -> &MessageArea {
        self.place.area()
    }

    /// Its slot, with the metadata entries: one may name another receiver
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
