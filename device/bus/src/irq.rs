//! MSI-X interrupts: eventfds that the client handed over, signalled by the card.
//!
//! The client can fill an eventfd and make it a blocking one at any time, so its porter writes to
//! it ([`Line`]).
//!
//! There is no INTx and no MSI: QEMU switches all mapped BARs off while INTx is asserted. A vector
//! that cannot be delivered (masked, without an eventfd, bus mastering off) stays pending and is
//! delivered when that ends, as the pending bits of MSI-X have it.

use hamlyn_door::{Kept, Line};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, readlink};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use thiserror::Error;

/// Interrupt types, by index: INTx, MSI, MSI-X. VFIO has two more (error, request); a client that
/// asks for them is told that they do not exist, which QEMU takes better than a count of zero.
pub(crate) const IRQ_TYPES: u32 = 3;
/// The index of MSI-X.
pub(crate) const MSIX_TYPE: u32 = 2;

const DATA_NONE: u32 = 1 << 0;
const DATA_BOOL: u32 = 1 << 1;
const DATA_EVENTFD: u32 = 1 << 2;
const ACTION_MASK: u32 = 1 << 3;
const ACTION_UNMASK: u32 = 1 << 4;
const ACTION_TRIGGER: u32 = 1 << 5;

/// An interrupt that the function does not have.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("vector {vector} is out of range (limit {limit})")]
pub struct VectorError {
    /// Asked for.
    pub vector: u16,
    /// Vectors that exist.
    pub limit: u16,
}

/// Why interrupts are not set up as asked. Nothing has changed.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum SetIrqsError {
    /// Not exactly one kind of data and one action.
    #[error("flags {0:#x} do not name one kind of data and one action")]
    Flags(u32),
    /// No such interrupt.
    #[error("interrupts {start}+{count} of type {index} do not exist (limit {limit})")]
    Range {
        /// Type.
        index: u32,
        /// First.
        start: u32,
        /// How many.
        count: u32,
        /// How many there are.
        limit: u32,
    },
    /// The booleans are not one for each interrupt.
    #[error("{got} booleans for {count} interrupts")]
    Booleans {
        /// Bytes that came.
        got: usize,
        /// Interrupts.
        count: u32,
    },
    /// Neither one for each interrupt nor none.
    #[error("{got} eventfds for {count} interrupts")]
    Eventfds {
        /// Descriptors that came.
        got: usize,
        /// Interrupts.
        count: u32,
    },
    /// Something else than an eventfd: who knows what a write to it does.
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

/// What to do to a range of interrupts.
enum Change {
    /// To those whose boolean is true.
    Act(Vec<bool>),
    /// Hand over one eventfd each, or (none) take them back.
    Assign(Vec<Option<Line>>),
}

impl Interrupts {
    pub(crate) fn new(vectors: u16) -> Self {
        let vectors = (0..vectors).map(|_| Vector::default()).collect();
        Interrupts { vectors, function_mask: false, bus_master: false, delivered: Cell::new(0) }
    }

    /// Interrupt the guest. What cannot be delivered now stays pending, once however often it is
    /// asked for.
    pub fn interrupt(&self, vector: u16) -> Result<(), VectorError> {
        let limit = self.count() as u16;
        let vector = self.vectors.get(usize::from(vector)).ok_or(VectorError { vector, limit })?;
        vector.pending.set(true);
        self.deliver(vector);
        Ok(())
    }

    /// Interrupts of the function.
    pub fn count(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// Interrupts delivered since the server began.
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

    /// One bit for each vector, 64 to a word: the pending-bit array.
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

    /// The function is reset: nothing pending, nothing masked. The eventfds belong to the client
    /// and stay.
    pub(crate) fn reset(&mut self) {
        for vector in &mut self.vectors {
            vector.masked = false;
            vector.pending.set(false);
        }
    }

    /// The client is gone, and its eventfds with it.
    pub(crate) fn disconnect(&mut self) {
        self.vectors.iter_mut().for_each(|vector| *vector = Vector::default());
    }

    /// `DEVICE_SET_IRQS`: `data` are the message's booleans, `fds` its eventfds.
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

    /// A count of 0 with no data switches the whole type off.
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
            // The client tests its own eventfd: no business of masks and bus mastering.
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

/// The only one of these bits that is set.
fn one_of(flags: u32, bits: [u32; 3]) -> Result<u32, SetIrqsError> {
    let set = flags & (bits[0] | bits[1] | bits[2]);
    if bits.contains(&set) { Ok(set) } else { Err(SetIrqsError::Flags(flags)) }
}

/// Makes sure that it is an eventfd. The link in `/proc/self/fd` tells that, and reading it asks no
/// filesystem. Then makes it non-blocking, so that a write to a full one does not wait; a client
/// can undo that, but not by accident.
fn prepare(fd: &OwnedFd) -> Result<(), Errno> {
    let target = readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
    if !target.to_bytes().starts_with(b"anon_inode:[eventfd") {
        return Err(Errno::INVAL);
    }
    fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)
}

#[cfg(test)]
mod tests;
