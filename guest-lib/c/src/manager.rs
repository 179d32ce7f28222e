//! Managers.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn::{Error, Handle, Manager, SendBuffer, Sent, Terminus, Ticket};

use crate::call::{Failure, unused, waited};
use crate::card::hamlyn_card;
use crate::exported::{Out, exported};
use crate::memory::items_mut;
use crate::polling::polling;
use crate::ticket::{HAMLYN_TICKET_SIZE, hamlyn_ticket};

/// Default number of entries of a manager's first notification queue.
const ENTRIES: u32 = 1024;

/// A send terminus with a notification queue and memory to send from. Receivers are registered with
/// it. Any number of threads may use it at once.
pub struct hamlyn_manager {
    pub(crate) manager: Manager,
    sending: Mutex<Sending>,
    /// Tokens that hamlyn_manager_ready had no room for.
    ready: Mutex<VecDeque<u64>>,
}

/// Messages sent from a manager by calls that do not report the outcome.
#[derive(Default)]
pub(crate) struct Sending {
    /// In the order in which the card takes them.
    in_flight: VecDeque<Posted>,
    /// Why the card refused one. Kept until it is taken.
    refused: Option<Error>,
    /// Memory for a tagged remote write that is too long for a request.
    long: Option<SendBuffer>,
    /// The last ticket used, so that its checksum is not checked for each message.
    last: Option<([u8; HAMLYN_TICKET_SIZE], Ticket)>,
}

/// A message that the card may not have taken yet.
pub(crate) enum Posted {
    Bytes(Handle),
    Buffer(Sent),
}

impl Posted {
    fn is_complete(&self) -> hamlyn::Result<bool> {
        match self {
            Posted::Bytes(handle) => handle.is_complete(),
            Posted::Buffer(sent) => sent.is_complete(),
        }
    }
}

impl Sending {
    /// Reads a ticket, unless it is the one that was read last.
    pub(crate) fn read(&mut self, ticket: &hamlyn_ticket) -> Result<Ticket, Failure> {
        match &self.last {
            Some((bytes, read)) if *bytes == ticket.bytes => Ok(*read),
            _ => {
                let read = ticket.read()?;
                self.last = Some((ticket.bytes, read));
                Ok(read)
            }
        }
    }

    pub(crate) fn long_buffer(&mut self, terminus: &Terminus) -> hamlyn::Result<&mut SendBuffer> {
        if self.long.is_none() {
            self.long = Some(terminus.create_send_buffer(terminus.packet_size() as usize)?);
        }
        self.long.as_mut().ok_or(Error::Unsupported("no send buffer"))
    }

    pub(crate) fn add(&mut self, posted: Posted) {
        while let Some(first) = self.in_flight.front() {
            match first.is_complete() {
                Ok(false) => break,
                Ok(true) => {}
                Err(error) => self.refused = Some(error),
            }
            self.in_flight.pop_front();
        }
        self.in_flight.push_back(posted);
    }

    /// Returns why the card refused one of the finished messages, if it did.
    fn take_refusal(&mut self) -> Option<Error> {
        let refused = self.in_flight.iter().find_map(|way| way.is_complete().err());
        self.in_flight.retain(|way| way.is_complete().is_ok_and(|complete| !complete));
        self.refused.take().or(refused)
    }
}

impl hamlyn_manager {
    fn new(manager: Manager) -> Self {
        Self { manager, sending: Mutex::default(), ready: Mutex::default() }
    }

    pub(crate) fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

exported! {
/// Creates a manager.
fn hamlyn_manager_create(card: &hamlyn_card, manager: Out<Box<hamlyn_manager>>) {
    manager.store(hamlyn_manager::new(Manager::create(&card.0)?))
}
}

/// Options for a manager; 0 in a field selects the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_manager_options {
    /// Entries of the first notification queue, 2 to 65536; 1024 by default. The manager adds
    /// another queue when this one is too short for all its receivers.
    pub entries: u32,
    /// Microseconds for which a waiting call polls memory before it sleeps, at most; 1000 by
    /// default. ULN_NO_POLLING disables polling.
    pub polling_us: u32,
    /// Must be 0.
    pub reserved: [u32; 6],
}

exported! {
/// Creates a manager with options.
fn hamlyn_manager_create_with(
    card: &hamlyn_card,
    options: &hamlyn_manager_options,
    manager: Out<Box<hamlyn_manager>>,
) {
    unused(&options.reserved)?;
    let entries = if options.entries == 0 { ENTRIES } else { options.entries };
    let polling = polling(options.polling_us);
    manager.store(hamlyn_manager::new(Manager::create_with(&card.0, entries, polling)?))
}

/// Releases a manager. It stays alive for the senders and receivers created from it. NULL is a
/// no-op.
fn hamlyn_manager_destroy(manager: Box<hamlyn_manager>);

/// Waits until the card has taken everything that hamlyn_tag_send and hamlyn_datagram_send have
/// sent. What it has not taken is lost when the manager is destroyed. If the card refused any of
/// it, this call fails, once.
fn hamlyn_manager_flush(manager: &hamlyn_manager, timeout_ms: c_int) {
    waited!(timeout_ms, manager.manager.terminus() => finish / finish_timeout())?;
    manager.sending().take_refusal().map_or(Ok(()), Err)?
}

/// Waits until something has arrived for one of the manager's receivers: polls memory for a while,
/// then sleeps. Returns immediately if something has arrived since the last call, even if a call
/// for another receiver has already seen it: check all receivers again. Use one loop for each
/// manager, based on this call or on hamlyn_manager_arm.
fn hamlyn_manager_wait(manager: &hamlyn_manager, timeout_ms: c_int) {
    waited!(timeout_ms, manager.manager => wait / wait_timeout())?
}

/// Processes all pending arrivals without waiting. Returns the number of messages.
fn hamlyn_manager_poll(manager: &hamlyn_manager) {
    manager.manager.poll_all()?
}

/// Stores the tokens of objects with news since the last call (see hamlyn_datagram_set_token and
/// similar calls). Stores at most `count`, in ascending order, and returns the number stored. If
/// that is `count`, call it again before the loop waits. Poll each object until it has nothing
/// left; an object may turn out to have nothing. A sender is included if it was out of room
/// (-EAGAIN) and may have room now.
fn hamlyn_manager_ready(manager: &hamlyn_manager, tokens: *mut u64, count: usize) {
    let to = items_mut(tokens, count, "tokens")?;
    let mut ready = manager.ready.lock().unwrap_or_else(PoisonError::into_inner);
    if ready.is_empty() {
        ready.extend(manager.manager.ready());
    }
    let stored = to.len().min(ready.len());
    for (to, token) in to.iter_mut().zip(ready.drain(..stored)) {
        to.write(token);
    }
    stored
}

/// Returns a file descriptor for poll(2) and similar calls. The library owns it, and it stays the
/// same for the manager's lifetime. Several managers may share it. Call hamlyn_manager_arm before
/// each wait, and hamlyn_manager_poll or a receiver's call with a timeout of 0 after it.
fn hamlyn_manager_fd(manager: &hamlyn_manager) {
    manager.manager.as_fd().as_raw_fd()
}

/// Makes hamlyn_manager_fd readable once the next message has arrived. If a send call was out of
/// room (-EAGAIN), it also becomes readable once there is room. Returns 1 if this is already the
/// case (then the descriptor may not become readable for it) or if hamlyn_manager_wake was called,
/// else 0. Polls memory for a while first.
fn hamlyn_manager_arm(manager: &hamlyn_manager) {
    manager.manager.arm()?
}

/// Ends a call that waits on a manager, or the next one that would wait, from any thread.
/// hamlyn_manager_wait then returns 0; other calls return -ECANCELED. hamlyn_manager_fd is readable
/// until hamlyn_manager_arm has returned 1 for it. If several threads wait, the one that was woken
/// must wake the next. A sleep that began before the first call for this manager ends within a
/// second.
fn hamlyn_manager_wake(manager: &hamlyn_manager) {
    manager.manager.waker().wake();
}
}
