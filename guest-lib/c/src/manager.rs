//! Managers.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn::{Error, Handle, Manager, SendBuffer, Sent};

use crate::call::{at_once, call, count, free, given, store, timeout};
use crate::card::hamlyn_card;

/// A send terminus with a notification queue and memory to send from. Receivers are registered with it. Any number of
/// threads may use it at once.
pub struct hamlyn_manager {
    pub(crate) manager: Manager,
    sending: Mutex<Sending>,
}

/// What was sent from a manager by calls that do not say what became of it.
#[derive(Default)]
pub(crate) struct Sending {
    /// In the order in which the card takes them.
    under_way: VecDeque<Way>,
    /// Why the card refused one, until somebody asks.
    refused: Option<Error>,
    /// Memory for a tagged remote write that is too long for a request.
    pub(crate) long: Option<SendBuffer>,
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
pub extern "C" fn hamlyn_manager_create(
    card: Option<&hamlyn_card>,
    manager: Option<&mut MaybeUninit<Box<hamlyn_manager>>>,
) -> c_int {
    call(|| {
        let to = given(manager, "manager")?;
        let manager = Manager::create(&given(card, "card")?.0)?;
        store(to, Box::new(hamlyn_manager { manager, sending: Mutex::default() }))
    })
}

/// Lets a manager go; it lives on for the senders and receivers that were made from it. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_manager_destroy(manager: Option<Box<hamlyn_manager>>) {
    free(manager);
}

/// Waits until the card has taken all that hamlyn_tag_send and hamlyn_datagram_send have sent: what it has not is lost when
/// the manager goes. If the card has refused any of it, this says so, once.
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_manager_flush(manager: Option<&hamlyn_manager>, timeout_ms: c_int) -> c_int {
    call(|| {
        let manager = given(manager, "manager")?;
        at_once(timeout_ms, manager.manager.terminus().finish(timeout(timeout_ms)))?;
        Ok(manager.sending().take_refusal().map_or(Ok(0), Err)?)
    })
}

/// Waits until something has arrived for one of the manager's receivers: looks at memory for a while, then sleeps. Returns
/// at once if something has since the last call, perhaps noticed by a call for another receiver: ask all once more.
/// One loop for each manager, by this or by hamlyn_manager_arm.
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_manager_wait(manager: Option<&hamlyn_manager>, timeout_ms: c_int) -> c_int {
    call(|| at_once(timeout_ms, given(manager, "manager")?.manager.wait(timeout(timeout_ms)).map(|()| 0)))
}

/// Takes notice of all that has arrived, without waiting. Returns how many messages that were.
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_manager_poll(manager: Option<&hamlyn_manager>) -> c_int {
    call(|| Ok(count(given(manager, "manager")?.manager.poll_all()?)))
}

/// A file descriptor for poll(2) and the like, which stays the library's. It may stand for more than this manager: call
/// hamlyn_manager_arm before each wait, and hamlyn_manager_poll or a receiver's call with a time-out of 0 behind it.
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_manager_fd(manager: Option<&hamlyn_manager>) -> c_int {
    call(|| Ok(given(manager, "manager")?.manager.file()?.as_fd().as_raw_fd()))
}

/// Makes hamlyn_manager_fd readable once the next message is there. Returns 1 if one is there already (then the descriptor
/// may not become readable for it), else 0.
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_manager_arm(manager: Option<&hamlyn_manager>) -> c_int {
    call(|| Ok(given(manager, "manager")?.manager.arm()?.into()))
}
