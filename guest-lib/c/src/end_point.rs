//! Receiver classes of the program's own (section 3.3 of the paper).

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn::{Arrived, EndPoint, Ready, ReceiverClass};

use crate::call::{Failure, call, free, given, store, unused};
use crate::manager::hamlyn_manager;
use crate::memory::{Context, address};
use crate::slot::HAMLYN_METADATA_SIZE;
use crate::ticket::hamlyn_ticket;

/// A slot in one-shot mode with a part of its memory for each of its metadata entries, and a
/// receiver of the program's own that is called for what arrives there. Any number of threads may
/// use it.
pub struct hamlyn_end_point(Arc<Class>);

/// A message that is whole.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_arrived {
    /// The slot's number on this host.
    pub slot: u32,
    /// Which of the end point's metadata entries it came to.
    pub entry: u32,
    /// The metadata that it brought: as many bytes as its sender gave, then zeros. Its sender has
    /// written that: check it.
    pub metadata: [u8; HAMLYN_METADATA_SIZE],
    /// For what may come: zeros.
    pub reserved: [u32; 5],
}

/// What a receiver does. The functions are called by whatever thread takes notifications of the
/// manager, one call at a time. A lock is held meanwhile: they record what has come and return, and
/// call nothing that waits or takes notifications.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_receiver_class {
    /// Records the arrival of a message. If it returns 1 the end point's token is among those of
    /// hamlyn_manager_ready.
    pub process_arrival: Option<unsafe extern "C" fn(*mut c_void, *const hamlyn_arrived) -> c_int>,
    /// Notes that notifications were lost, perhaps of this receiver: it looks which entries are
    /// locked. The same of what it returns.
    pub arrivals_lost: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// What both are handed first. It stays until hamlyn_end_point_destroy has returned.
    pub context: *mut c_void,
    /// Must be 0.
    pub reserved: [u32; 4],
}

/// The receiver behind an end point.
#[derive(Debug)]
struct Class {
    end_point: EndPoint,
    /// Held while C is called. None once the end point is destroyed.
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
        // The class may live on elsewhere, but calls C no more from here on.
        *self.0.receiver() = None;
    }
}

/// Creates an end point of `entries` metadata entries, each with `length` bytes of memory; 0 for
/// metadata alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_create(
    manager: Option<&hamlyn_manager>,
    receiver_class: Option<&hamlyn_receiver_class>,
    entries: u32,
    length: usize,
    end_point: Option<&mut MaybeUninit<Box<hamlyn_end_point>>>,
) -> c_int {
    call(|| {
        let to = given(end_point, "end_point")?;
        let receiver = Receiver::read(given(receiver_class, "receiver_class")?)?;
        let made = EndPoint::create(&given(manager, "manager")?.manager, entries, length)?;
        let receiver = Mutex::new(Some(receiver));
        let class = made.open(|end_point| Class { end_point, receiver, token: Mutex::default() });
        store(to, Box::new(hamlyn_end_point(class)))
    })
}

/// Closes an end point. After this returns, the library does not call the receiver; so the receiver
/// must not call this. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_destroy(end_point: Option<Box<hamlyn_end_point>>) {
    free(end_point);
}

/// The ticket for a metadata entry and its part of the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_ticket(
    end_point: Option<&hamlyn_end_point>,
    entry: u32,
    ticket: Option<&mut MaybeUninit<hamlyn_ticket>>,
) -> c_int {
    call(|| {
        let to = given(ticket, "ticket")?;
        store(to, hamlyn_ticket::new(&given(end_point, "end_point")?.0.end_point.ticket(entry)?))
    })
}

/// Lets a metadata entry take its next message. Nothing happens if it has had none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_reopen(end_point: Option<&hamlyn_end_point>, entry: u32) -> c_int {
    call(|| {
        let end_point = &given(end_point, "end_point")?.0.end_point;
        end_point.slot().metadata(entry)?.reopen();
        Ok(0)
    })
}

/// Returns 1 if a metadata entry has had its message, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_is_locked(
    end_point: Option<&hamlyn_end_point>,
    entry: u32,
) -> c_int {
    call(|| Ok(given(end_point, "end_point")?.0.end_point.slot().metadata(entry)?.is_locked().into()))
}

/// Returns 1 if packets of a message have arrived at a metadata entry and not all of them, else 0.
/// If it stays so, hamlyn_end_point_revoke.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_is_partial(
    end_point: Option<&hamlyn_end_point>,
    entry: u32,
) -> c_int {
    call(|| Ok(given(end_point, "end_point")?.0.end_point.slot().metadata(entry)?.is_partial().into()))
}

/// Gives a metadata entry a new key: the tickets for it that were handed out are void, and a
/// message that is not whole is forgotten.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_revoke(end_point: Option<&hamlyn_end_point>, entry: u32) -> c_int {
    call(|| Ok(given(end_point, "end_point")?.0.end_point.slot().metadata(entry)?.revoke().map(|()| 0)?))
}

/// Where a metadata entry's part of the memory is; NULL for NULL, and for an entry that there is
/// not.
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

/// Gives an end point a token for hamlyn_manager_ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_end_point_set_token(
    end_point: Option<&hamlyn_end_point>,
    token: u64,
) -> c_int {
    call(|| {
        *given(end_point, "end_point")?.0.token() = Some(token);
        Ok(0)
    })
}
