//! MSI-X interrupts: eventfds that the client has passed, and that the card signals.
//!
//! The client can fill an eventfd and make it blocking at any time, so the client's porter writes
//! to it ([`Line`]).
//!
//! INTx and MSI are not supported: QEMU disables all mapped BARs while INTx is asserted. A vector
//! that cannot be delivered (masked, without an eventfd, bus mastering off) stays pending. It is
//! delivered when that changes, as MSI-X's pending bits require.

use hamlyn_door::{Kept, Line};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, readlink};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use thiserror::Error;

/// Number of interrupt types: INTx, MSI, MSI-X. VFIO has two more (error, request). A client that
/// asks for them is told that they do not exist, because QEMU handles that better than a count of
/// zero.
pub(crate) const IRQ_TYPES: u32 = 3;
/// Index of MSI-X.
pub(crate) const MSIX_TYPE: u32 = 2;

const DATA_NONE: u32 = 1 << 0;
const DATA_BOOL: u32 = 1 << 1;
const DATA_EVENTFD: u32 = 1 << 2;
const ACTION_MASK: u32 = 1 << 3;
const ACTION_UNMASK: u32 = 1 << 4;
const ACTION_TRIGGER: u32 = 1 << 5;

/// A vector that the function does not have.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("vector {vector} is out of range (limit {limit})")]
pub struct VectorError {
    /// The requested vector.
    pub vector: u16,
    /// Number of vectors.
    pub limit: u16,
}

/// Why a setup of interrupts is refused. Nothing has changed.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum SetIrqsError {
    /// The flags do not have exactly one kind of data and one action.
    #[error("flags {0:#x} do not name one kind of data and one action")]
    Flags(u32),
    /// The interrupts do not exist.
    #[error("interrupts {start}+{count} of type {index} do not exist (limit {limit})")]
    Range {
        /// Interrupt type.
        index: u32,
        /// First interrupt.
        start: u32,
        /// Number of interrupts.
        count: u32,
        /// Number of interrupts that exist.
        limit: u32,
    },
    /// The number of booleans differs from the number of interrupts.
    #[error("{got} booleans for {count} interrupts")]
    Booleans {
        /// Bytes received.
        got: usize,
        /// Number of interrupts.
        count: u32,
    },
    /// There is neither one eventfd for each interrupt nor none.
    #[error("{got} eventfds for {count} interrupts")]
    Eventfds {
        /// Descriptors received.
        got: usize,
        /// Number of interrupts.
        count: u32,
    },
    /// A descriptor is not an eventfd. The effect of a write to it is unknown.
    #[error("descriptor {0} of the message is not an eventfd")]
    NotEventfd(usize),
}

#[derive(Debug, Default)]
struct Vector {
    trigger: Option<Line>,
    on_mask: Option<Line>,
    on_unmask: Option<Line>,
    masked: bool,
    pending: Cell<bool>,
}

/// The function's interrupts.
#[derive(Debug)]
pub struct Interrupts {
    vectors: Vec<Vector>,
    function_mask: bool,
    bus_master: bool,
    delivered: Cell<u64>,
}

/// A change to a range of interrupts.
enum Change {
    /// Applies the action to those whose boolean is true.
    Act(Vec<bool>),
    /// Assigns one eventfd to each, or removes it if `None`.
    Assign(Vec<Option<Line>>),
}

impl Interrupts {
    pub(crate) fn new(vectors: u16) -> Self {
        let vectors = (0..vectors).map(|_| Vector::default()).collect();
        Interrupts { vectors, function_mask: false, bus_master: false, delivered: Cell::new(0) }
    }

    /// Interrupts the guest. A vector that cannot be delivered now stays pending. It is then
    /// delivered once, however often it was raised.
    pub fn interrupt(&self, vector: u16) -> Result<(), VectorError> {
        let limit = self.count() as u16;
        let vector = self.vectors.get(usize::from(vector)).ok_or(VectorError { vector, limit })?;
        vector.pending.set(true);
        self.deliver(vector);
        Ok(())
    }

    /// Returns the number of the function's interrupts.
    pub fn count(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// Returns the number of interrupts delivered since the server started.
    pub fn delivered(&self) -> u64 {
        self.delivered.get()
    }

    fn deliver(&self, vector: &Vector) {
        if self.function_mask || !self.bus_master || vector.masked || !vector.pending.get() {
            return;
        }
        if let Some(eventfd) = &vector.trigger {
            eventfd.signal();
            vector.pending.set(false);
            self.delivered.set(self.delivered.get() + 1);
        }
    }

    fn deliver_pending(&self) {
        self.vectors.iter().for_each(|vector| self.deliver(vector));
    }

    /// Returns a word of the pending-bit array: one bit for each vector, 64 per word.
    pub(crate) fn pending_word(&self, word: usize) -> u64 {
        let bits = self.vectors.iter().skip(word.saturating_mul(64)).take(64).enumerate();
        bits.fold(0, |bits, (at, vector)| bits | u64::from(vector.pending.get()) << at)
    }

    pub(crate) fn set_function_mask(&mut self, masked: bool) {
        if std::mem::replace(&mut self.function_mask, masked) != masked {
            self.deliver_pending();
        }
    }

    pub(crate) fn set_bus_master(&mut self, enabled: bool) {
        if std::mem::replace(&mut self.bus_master, enabled) != enabled {
            self.deliver_pending();
        }
    }

    /// Clears pending bits and masks for a reset of the function. The eventfds belong to the client
    /// and stay.
    pub(crate) fn reset(&mut self) {
        for vector in &mut self.vectors {
            vector.masked = false;
            vector.pending.set(false);
        }
    }

    /// Drops the eventfds of a client that has disconnected.
    pub(crate) fn disconnect(&mut self) {
        self.vectors.iter_mut().for_each(|vector| *vector = Vector::default());
    }

    /// Handles `DEVICE_SET_IRQS`. `data` has the message's booleans, `fds` its eventfds.
    pub(crate) fn set(
        &mut self,
        index: u32,
        flags: u32,
        (start, count): (u32, u32),
        data: &[u8],
        fds: Vec<Kept<OwnedFd>>,
    ) -> Result<(), SetIrqsError> {
        let limit = match index {
            MSIX_TYPE => self.count(),
            0..IRQ_TYPES => 0,
            _ => return Err(SetIrqsError::Range { index, start, count, limit: 0 }),
        };
        if count == 0 {
            return self.switch_off(index, flags, start);
        }
        if start.checked_add(count).is_none_or(|end| end > limit) {
            return Err(SetIrqsError::Range { index, start, count, limit });
        }
        let change = Change::decode(flags, count, data, fds)?;
        let action = one_of(flags, [ACTION_MASK, ACTION_UNMASK, ACTION_TRIGGER])?;
        for at in start..start + count {
            let place = (at - start) as usize;
            match &change {
                Change::Act(which) if which[place] => self.act(at as usize, action),
                _ => {}
            }
        }
        if let Change::Assign(eventfds) = change {
            for (at, eventfd) in (start as usize..).zip(eventfds) {
                self.assign(at, action, eventfd);
            }
        }
        Ok(())
    }

    /// Disables the whole type, which a count of 0 without data requests.
    fn switch_off(&mut self, index: u32, flags: u32, start: u32) -> Result<(), SetIrqsError> {
        if flags != DATA_NONE | ACTION_TRIGGER || start != 0 {
            return Err(SetIrqsError::Flags(flags));
        }
        if index == MSIX_TYPE {
            self.disconnect();
        }
        Ok(())
    }

    fn act(&mut self, at: usize, action: u32) {
        let vector = &mut self.vectors[at];
        match action {
            // The client tests its own eventfd, independent of masks and bus mastering.
            ACTION_TRIGGER => vector.trigger.iter().for_each(Line::signal),
            ACTION_MASK => {
                vector.masked = true;
                vector.on_mask.iter().for_each(Line::signal);
            }
            _ => {
                vector.masked = false;
                vector.on_unmask.iter().for_each(Line::signal);
                self.deliver(&self.vectors[at]);
            }
        }
    }

    fn assign(&mut self, at: usize, action: u32, eventfd: Option<Line>) {
        let vector = &mut self.vectors[at];
        match action {
            ACTION_TRIGGER => vector.trigger = eventfd,
            ACTION_MASK => vector.on_mask = eventfd,
            _ => vector.on_unmask = eventfd,
        }
        self.deliver(&self.vectors[at]);
    }
}

impl Change {
    fn decode(flags: u32, count: u32, data: &[u8], fds: Vec<Kept<OwnedFd>>) -> Result<Change, SetIrqsError> {
        if flags & !(DATA_NONE | DATA_BOOL | DATA_EVENTFD | ACTION_MASK | ACTION_UNMASK | ACTION_TRIGGER) != 0
        {
            return Err(SetIrqsError::Flags(flags));
        }
        let places = count as usize;
        match one_of(flags, [DATA_NONE, DATA_BOOL, DATA_EVENTFD])? {
            DATA_NONE => Ok(Change::Act(vec![true; places])),
            DATA_BOOL if data.len() == places => {
                Ok(Change::Act(data.iter().map(|byte| *byte != 0).collect()))
            }
            DATA_BOOL => Err(SetIrqsError::Booleans { got: data.len(), count }),
            _ if fds.is_empty() => Ok(Change::Assign((0..places).map(|_| None).collect())),
            _ if fds.len() == places => {
                for (at, fd) in fds.iter().enumerate() {
                    prepare(fd).map_err(|_| SetIrqsError::NotEventfd(at))?;
                }
                Ok(Change::Assign(fds.into_iter().map(|fd| Some(fd.line())).collect()))
            }
            _ => Err(SetIrqsError::Eventfds { got: fds.len(), count }),
        }
    }
}

/// Returns the only one of these bits that is set.
fn one_of(flags: u32, bits: [u32; 3]) -> Result<u32, SetIrqsError> {
    let set = flags & (bits[0] | bits[1] | bits[2]);
    if bits.contains(&set) { Ok(set) } else { Err(SetIrqsError::Flags(flags)) }
}

/// Checks that the descriptor is an eventfd, by its link in `/proc/self/fd`. Reading the link does
/// not access any filesystem. Then makes the eventfd non-blocking, so that a write to a full one
/// does not wait. A client can undo that, but not by accident.
fn prepare(fd: &OwnedFd) -> Result<(), Errno> {
    let target = readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
    if !target.to_bytes().starts_with(b"anon_inode:[eventfd") {
        return Err(Errno::INVAL);
    }
    fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)
}

#[cfg(test)]
mod tests;
