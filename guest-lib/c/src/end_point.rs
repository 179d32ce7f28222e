//! Application-defined receiver classes (section 3.3 of the paper).

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn::{Arrived, EndPoint, Ready, ReceiverClass};

use crate::call::{Failure, given, unused};
use crate::exported::{Out, exported};
use crate::manager::hamlyn_manager;
use crate::memory::{Context, address};
use crate::slot::HAMLYN_METADATA_SIZE;
use crate::ticket::hamlyn_ticket;

/// A slot in one-shot mode with a part of its memory for each metadata entry, and an
/// application-defined receiver that is called for arriving messages. Any number of threads may use
/// it.
pub struct hamlyn_end_point(Arc<Class>);

/// A complete message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_arrived {
    /// The slot's number on this host.
    pub slot: u32,
    /// The end point's metadata entry that the message came to.
    pub entry: u32,
    /// The message's metadata: the bytes that the sender gave, then zeros. The sender chose them:
    /// validate them.
    pub metadata: [u8; HAMLYN_METADATA_SIZE],
    /// Reserved for future use: zeros.
    pub reserved: [u32; 5],
}

/// The callbacks of a receiver. The thread that takes the manager's notifications calls them, one
/// call at a time. A lock is held meanwhile: record what has arrived and return. Do not call
/// anything that waits or takes notifications.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_receiver_class {
    /// Records the arrival of a message. If it returns 1, hamlyn_manager_ready reports the end
    /// point's token.
    pub process_arrival: Option<unsafe extern "C" fn(*mut c_void, *const hamlyn_arrived) -> c_int>,
    /// Called when notifications were lost, perhaps of this receiver: it must check which entries
    /// are locked. The return value has the same meaning.
    pub arrivals_lost: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// First argument of both callbacks. It must stay valid until hamlyn_end_point_destroy has
    /// returned.
    pub context: *mut c_void,
    /// Must be 0.
    pub reserved: [u32; 4],
}

/// The receiver behind an end point.
#[derive(Debug)]
struct Class {
    end_point: EndPoint,
    /// Locked while a C callback runs. `None` once the end point is destroyed.
    receiver: Mutex<Option<Receiver>>,
    token: Mutex<Option<u64>>,
}

#[derive(Debug)]
struct Receiver {
    process_arrival: unsafe extern "C" fn(*mut c_void, *const hamlyn_arrived) -> c_int,
    arrivals_lost: unsafe extern "C" fn(*mut c_void) -> c_int,
    context: Context,
}

impl Receiver {
    fn read(class: &hamlyn_receiver_class) -> Result<Self, Failure> {
        unused(&class.reserved)?;
        Ok(Self {
            process_arrival: given(class.process_arrival, "process_arrival")?,
            arrivals_lost: given(class.arrivals_lost, "arrivals_lost")?,
            context: Context(class.context),
        })
    }
}

impl Class {
    fn receiver(&self) -> MutexGuard<'_, Option<Receiver>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) -> MutexGuard<'_, Option<u64>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_news(&self, said: c_int, ready: &mut Ready) {
        if said == 1 {
            ready.add(*self.token());
        }
    }
}

impl ReceiverClass for Class {
    fn process_arrival(&self, arrival: &Arrived<'_>, ready: &mut Ready) {
        let (slot, entry, metadata) = (arrival.slot, arrival.entry, arrival.metadata.user());
        let arrived = hamlyn_arrived { slot, entry, metadata, reserved: [0; 5] };
        if let Some(Receiver { process_arrival, context, .. }) = &*self.receiver() {
            self.has_news(context.call_with(*process_arrival, &arrived), ready);
        }
    }

    fn arrivals_lost(&self, ready: &mut Ready) {
        if let Some(Receiver { arrivals_lost, context, .. }) = &*self.receiver() {
            self.has_news(context.call(*arrivals_lost), ready);
        }
    }
}

impl Drop for hamlyn_end_point {
    fn drop(&mut self) {
        // The class may outlive the end point elsewhere, but does not call C from here on.
        *self.0.receiver() = None;
    }
}

exported! {
/// Creates an end point with `entries` metadata entries, each with `length` bytes of memory. 0
/// means metadata only.
fn hamlyn_end_point_create(
    manager: &hamlyn_manager,
    receiver_class: &hamlyn_receiver_class,
    entries: u32,
    length: usize,
    end_point: Out<Box<hamlyn_end_point>>,
) {
    let receiver = Receiver::read(receiver_class)?;
    let made = EndPoint::create(&manager.manager, entries, length)?;
    let receiver = Mutex::new(Some(receiver));
    let class = made.open(|end_point| Class { end_point, receiver, token: Mutex::default() });
    end_point.store(hamlyn_end_point(class))
}

/// Closes an end point. The library does not call the receiver after this returns, so the receiver
/// must not call this function. NULL is a no-op.
fn hamlyn_end_point_destroy(end_point: Box<hamlyn_end_point>);

/// Stores the ticket for a metadata entry and its part of the memory.
fn hamlyn_end_point_ticket(end_point: &hamlyn_end_point, entry: u32, ticket: Out<hamlyn_ticket>) {
    ticket.store(hamlyn_ticket::new(&end_point.0.end_point.ticket(entry)?))
}

/// Lets a metadata entry accept its next message. A no-op if it has not had one.
fn hamlyn_end_point_reopen(end_point: &hamlyn_end_point, entry: u32) {
    end_point.0.end_point.slot().metadata(entry)?.reopen();
}

/// Returns 1 if a metadata entry has had its message, else 0.
fn hamlyn_end_point_is_locked(end_point: &hamlyn_end_point, entry: u32) {
    end_point.0.end_point.slot().metadata(entry)?.is_locked()
}

/// Returns 1 if some but not all packets of a message have arrived at a metadata entry, else 0. If
/// this persists, call hamlyn_end_point_revoke.
fn hamlyn_end_point_is_partial(end_point: &hamlyn_end_point, entry: u32) {
    end_point.0.end_point.slot().metadata(entry)?.is_partial()
}

/// Gives a metadata entry a new key. This invalidates the entry's existing tickets and discards an
/// incomplete message.
fn hamlyn_end_point_revoke(end_point: &hamlyn_end_point, entry: u32) {
    end_point.0.end_point.slot().metadata(entry)?.revoke()?
}
}

/// Returns the address of a metadata entry's part of the memory. Returns NULL if the end point is
/// NULL or the entry does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_data(
    end_point: Option<&hamlyn_end_point>,
    entry: u32,
) -> *const c_void {
    let part = end_point.and_then(|end_point| {
        let end_point = &end_point.0.end_point;
        end_point.slot().metadata(entry).ok()?;
        Some(address(end_point.area(), end_point.start(entry)))
    });
    part.unwrap_or(std::ptr::null())
}

exported! {
/// Sets the token that hamlyn_manager_ready reports for an end point.
fn hamlyn_end_point_set_token(end_point: &hamlyn_end_point, token: u64) {
    *end_point.0.token() = Some(token);
}
}
