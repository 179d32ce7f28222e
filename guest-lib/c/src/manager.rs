//! Managers.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn::{Error, Handle, Manager, Polling, SendBuffer, Sent, Terminus, Ticket};

use crate::call::{Failure, at_once, call, count, free, given, store, timeout, unused};
use crate::card::hamlyn_card;
use crate::memory::items_mut;
use crate::ticket::{HAMLYN_TICKET_SIZE, hamlyn_ticket};

/// Entries of a manager's first notification queue, by default.
const ENTRIES: u32 = 1024;

/// A send terminus with a notification queue and memory to send from. Receivers are registered with
/// it. Any number of threads may use it at once.
pub struct hamlyn_manager {
    pub(crate) manager: Manager,
    sending: Mutex<Sending>,
    /// Tokens that hamlyn_manager_ready had no room for.
    ready: Mutex<VecDeque<u64>>,
}

/// What was sent from a manager by calls that do not say what became of it.
#[derive(Default)]
pub(crate) struct Sending {
    /// In the order in which the card takes them.
    under_way: VecDeque<Way>,
    /// Why the card refused one, until somebody asks.
    refused: Option<Error>,
    /// Memory for a tagged remote write that is too long for a request.
    long: Option<SendBuffer>,
    /// The ticket that was used last: its checksum is not to be checked for each message.
    last: Option<([u8; HAMLYN_TICKET_SIZE], Ticket)>,
}

/// A message that the card may not have taken yet.
pub(crate) enum Way {
    Bytes(Handle),
    Buffer(Sent),
}

impl Way {
    fn is_complete(&self) -> hamlyn::Result<bool> {
        match self {
            Way::Bytes(handle) => handle.is_complete(),
            Way::Buffer(sent) => sent.is_complete(),
        }
    }
}

impl Sending {
    /// Reads a ticket, if it is not the one that was read last.
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

    pub(crate) fn add(&mut self, way: Way) {
        while let Some(first) = self.under_way.front() {
            match first.is_complete() {
                Ok(false) => break,
                Ok(true) => {}
                Err(error) => self.refused = Some(error),
            }
            self.under_way.pop_front();
        }
        self.under_way.push_back(way);
    }

    /// Why the card refused any that it has finished with.
    fn take_refusal(&mut self) -> Option<Error> {
        let refused = self.under_way.iter().find_map(|way| way.is_complete().err());
        self.under_way.retain(|way| way.is_complete().is_ok_and(|complete| !complete));
        self.refused.take().or(refused)
    }
}

impl hamlyn_manager {
    pub(crate) fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a manager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_create(
    card: Option<&hamlyn_card>,
    manager: Option<&mut MaybeUninit<Box<hamlyn_manager>>>,
) -> c_int {
    call(|| {
        let to = given(manager, "manager")?;
        let manager = Manager::create(&given(card, "card")?.0)?;
        store(to, Box::new(hamlyn_manager { manager, sending: Mutex::default(), ready: Mutex::default() }))
    })
}

/// How a manager is made; 0 in any place is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_manager_options {
    /// Entries of its first notification queue, 2 to 65536: 1024 by default. It takes another queue
    /// by itself when that is too short for all its receivers.
    pub entries: u32,
    /// How often a call that waits looks at memory before it sleeps: 200 by default.
    /// HAMLYN_NO_LOOKS is none.
    pub looks: u32,
    /// Must be 0.
    pub reserved: [u32; 6],
}

/// For hamlyn_manager_options.looks: calls that wait sleep at once.
pub const HAMLYN_NO_LOOKS: u32 = 0xffff_ffff;

/// Creates a manager as the options say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_create_with(
    card: Option<&hamlyn_card>,
    options: Option<&hamlyn_manager_options>,
    manager: Option<&mut MaybeUninit<Box<hamlyn_manager>>>,
) -> c_int {
    call(|| {
        let to = given(manager, "manager")?;
        let options = given(options, "options")?;
        unused(&options.reserved)?;
        let entries = if options.entries == 0 { ENTRIES } else { options.entries };
        let polling = match options.looks {
            0 => Polling::default(),
            HAMLYN_NO_LOOKS => Polling { spins: 0 },
            spins => Polling { spins },
        };
        let manager = Manager::create_with(&given(card, "card")?.0, entries, polling)?;
        store(to, Box::new(hamlyn_manager { manager, sending: Mutex::default(), ready: Mutex::default() }))
    })
}

/// Lets a manager go; it lives on for the senders and receivers that were made from it. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_destroy(manager: Option<Box<hamlyn_manager>>) {
    free(manager);
}

/// Waits until the card has taken all that hamlyn_tag_send and hamlyn_datagram_send have sent: what
/// it has not is lost when the manager goes. If the card has refused any of it, this says so, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_flush(manager: Option<&hamlyn_manager>, timeout_ms: c_int) -> c_int {
    call(|| {
        let manager = given(manager, "manager")?;
        at_once(timeout_ms, manager.manager.terminus().finish(timeout(timeout_ms)))?;
        Ok(manager.sending().take_refusal().map_or(Ok(0), Err)?)
    })
}

/// Waits until something has arrived for one of the manager's receivers: looks at memory for a
/// while, then sleeps. Returns at once if something has since the last call, perhaps noticed by a
/// call for another receiver: ask all once more. One loop for each manager, by this or by
/// hamlyn_manager_arm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_wait(manager: Option<&hamlyn_manager>, timeout_ms: c_int) -> c_int {
    call(|| at_once(timeout_ms, given(manager, "manager")?.manager.wait(timeout(timeout_ms)).map(|()| 0)))
}

/// Takes notice of all that has arrived, without waiting. Returns how many messages that were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_poll(manager: Option<&hamlyn_manager>) -> c_int {
    call(|| Ok(count(given(manager, "manager")?.manager.poll_all()?)))
}

/// Stores the tokens (hamlyn_datagram_set_token and its like) of those that have something new
/// since the last call, at most `count` of them, in rising order. Returns how many; if those are
/// `count`, call it again before the loop waits. Ask each until it has no more; one may be asked in
/// vain. A sender is among them when it was out of room (-EAGAIN) and may find some.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_ready(
    manager: Option<&hamlyn_manager>,
    tokens: *mut u64,
    count: usize,
) -> c_int {
    call(|| {
        let manager = given(manager, "manager")?;
        let to = items_mut(tokens, count, "tokens")?;
        let mut ready = manager.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_empty() {
            ready.extend(manager.manager.ready());
        }
        let stored = to.len().min(ready.len());
        for (to, token) in to.iter_mut().zip(ready.drain(..stored)) {
            to.write(token);
        }
        Ok(self::count(stored))
    })
}

/// A file descriptor for poll(2) and the like, which stays the library's, and the same for as long
/// as the manager lives. It may stand for more than this manager: call hamlyn_manager_arm before
/// each wait, and hamlyn_manager_poll or a receiver's call with a time-out of 0 behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_fd(manager: Option<&hamlyn_manager>) -> c_int {
    call(|| Ok(given(manager, "manager")?.manager.as_fd().as_raw_fd()))
}

/// Makes hamlyn_manager_fd readable once the next message is there, or, if a call that sends was
/// out of room (-EAGAIN), once there is some. Returns 1 if it is so already (then the descriptor
/// may not become readable for it) or hamlyn_manager_wake was called, else 0. It looks at memory
/// for a while first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_arm(manager: Option<&hamlyn_manager>) -> c_int {
    call(|| Ok(given(manager, "manager")?.manager.arm()?.into()))
}

/// Ends a call that waits at a manager, or the next one that would, from any thread:
/// hamlyn_manager_wait returns 0, others -ECANCELED. hamlyn_manager_fd is readable until
/// hamlyn_manager_arm has returned 1 for it. Who has several threads that wait has the one that was
/// woken wake the next. A sleep that had begun before the first call for this manager notices
/// within a second.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_manager_wake(manager: Option<&hamlyn_manager>) -> c_int {
    call(|| {
        given(manager, "manager")?.manager.waker().wake();
        Ok(0)
    })
}
