//! Simple message transfer (section 4.1, Example 1): one buffer, in the receiver's memory, and two
//! flags.
//!
//! The sender waits until `tx_ready` is true, writes the message into the receiver's memory, and
//! sets the receiver's `rx_ready`. The receiver waits for that, and uses the message in place or
//! copies it. Then it clears `rx_ready`, and sets the sender's `tx_ready`. Here `rx_ready` also
//! contains the length of the message.

use std::sync::Arc;
use std::time::Duration;

use super::super::aperture::Aperture;
use super::super::transfer::Transfer;
use super::super::tripwire::{Tripwire, Watch};
use super::end::End;
use super::{DATA, RX_READY, TX_READY};
use crate::core::polling::poll_until;
use crate::error::{Error, Result, at_most, inside};

/// Time that a receiver polls for the rest of a message after an early wake-up, before it sleeps
/// again.
const OVERLAP: Duration = Duration::from_millis(1);

/// The sending side.
#[derive(Debug)]
pub struct Sender {
    tripwire: Tripwire,
    end: Arc<End>,
}

impl Sender {
    /// Creates a sender on this end. The other end has a [`Receiver`].
    ///
    /// # Errors
    /// Same as [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        let tripwire = end.tripwire(TX_READY)?;
        // Nothing was sent yet, so the buffer is free.
        end.own().store_u64(TX_READY, 1)?;
        Ok(Self { tripwire, end: end.clone() })
    }

    /// Returns the maximum length of a message in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.out_room()
    }

    /// Returns whether the buffer is free, without a system call.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.end.own().load_u64(TX_READY).is_ok_and(|ready| ready != 0)
    }

    /// Blocks until the buffer is free, for a message that is built in place.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; if the receiver is gone, [`Error::PeerLost`] or [`Error::Ended`];
    /// [`crate::clan::Fault`].
    pub fn wait(&mut self) -> Result<Free<'_>> {
        let own = self.end.own();
        self.end.wait_until(self.tripwire.bit(), "tx_ready", || {
            Ok((own.load_u64(TX_READY)? != 0).then_some(()))
        })?;
        Ok(Free { sender: self })
    }

    /// Blocks until the buffer is free, and sends a message.
    ///
    /// # Errors
    /// Same as [`Sender::wait`]; [`Error::OutOfRange`] if the message is too long.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        at_most("message length", message.len() as u64, self.capacity() as u64)?;
        let free = self.wait()?;
        free.write(0, message)?;
        free.send(message.len())
    }

    /// Sends a message by DMA, from `offset` of this process' memory. Returns when the memory can
    /// be reused.
    ///
    /// # Errors
    /// Same as [`Sender::send`]; [`Error::PastEnd`]; [`crate::clan::DmaError`].
    pub fn send_from(&mut self, from: &Aperture, offset: usize, length: usize) -> Result<()> {
        at_most("message length", length as u64, self.capacity() as u64)?;
        let free = self.wait()?;
        if length != 0 {
            let end = &free.sender.end;
            let transfer = Transfer::write(from, offset, end.out().descriptor(), DATA as u64, length)?;
            let dma = end.connection().endpoint().dma();
            let requested = dma.put_chain(&[transfer])?;
            // A store would overtake bytes that are still queued.
            dma.wait(requested)?;
        }
        free.send(length)
    }
}

/// A free buffer: write the next message into it, then send it. The buffer stays free if it is not
/// sent.
#[derive(Debug)]
pub struct Free<'a> {
    sender: &'a mut Sender,
}

impl Free<'_> {
    /// Writes bytes of the message into the receiver's memory.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("message buffer", offset as u64, from.len() as u64, self.sender.capacity() as u64)?;
        self.sender.end.out().write(DATA + offset, from)
    }

    /// Notifies the receiver of a message of `length` bytes, which were written before.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn send(self, length: usize) -> Result<()> {
        at_most("message length", length as u64, self.sender.capacity() as u64)?;
        let end = &self.sender.end;
        end.own().store_u64(TX_READY, 0)?;
        end.out().store_u64(RX_READY, length as u64 + 1)
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Receiver {
    tripwire: Tripwire,
    early: Option<Tripwire>,
    end: Arc<End>,
}

impl Receiver {
    /// Creates a receiver on this end. The other end has a [`Sender`].
    ///
    /// # Errors
    /// Same as [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        Ok(Self { tripwire: end.tripwire(RX_READY)?, early: None, end: end.clone() })
    }

    /// Wakes the receiver when the first bytes of a message arrive, instead of when all of it has.
    /// So the wake-up overlaps with the arrival of the rest (section 4.3).
    ///
    /// # Errors
    /// Same as [`super::super::Endpoint::tripwire`].
    pub fn set_early(&mut self) -> Result<()> {
        let watch = Watch::local(self.end.own(), DATA..DATA + 8.min(self.capacity()))?;
        self.early = Some(self.end.connection().endpoint().tripwire(&watch)?);
        Ok(())
    }

    /// Returns the maximum length of a message in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.own_room()
    }

    /// Returns the Tripwire over `rx_ready`, for registration with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// Returns the Tripwire of [`Receiver::set_early`].
    pub fn early(&mut self) -> Option<&mut Tripwire> {
        self.early.as_mut()
    }

    /// Returns a message if one has arrived, without a system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if its length, as stored by the sender, exceeds the buffer.
    pub fn try_recv(&mut self) -> Result<Option<Message<'_>>> {
        self.tripwire.clear();
        let length = self.end.rx_ready(self.capacity())?;
        Ok(length.map(|length| Message { receiver: self, length }))
    }

    /// Blocks until a message arrives.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::OutOfRange`] if its length, as stored by the sender, exceeds
    /// the buffer; if the sender is gone, [`Error::PeerLost`] or [`Error::Ended`];
    /// [`crate::clan::Fault`].
    pub fn recv(&mut self) -> Result<Message<'_>> {
        let (end, capacity) = (&self.end, self.capacity());
        let early = self.early.as_mut();
        let bits = self.tripwire.bit() | early.as_ref().map_or(0, |early| early.bit());
        let length = wait_for(end, bits, capacity, early)?;
        self.tripwire.clear();
        Ok(Message { receiver: self, length })
    }

    /// Blocks until a message arrives, copies it, and frees the buffer. Returns its length. A
    /// message that does not fit is kept.
    ///
    /// # Errors
    /// Same as [`Receiver::recv`]; [`Error::PastEnd`] if the message does not fit.
    pub fn recv_into(&mut self, to: &mut [u8]) -> Result<usize> {
        let message = self.recv()?;
        let length = message.len();
        let limit = to.len() as u64;
        let Some(to) = to.get_mut(..length) else {
            message.keep();
            let object = "buffer for a message";
            return Err(Error::PastEnd { object, offset: 0, length: length as u64, limit });
        };
        message.read(0, to)?;
        Ok(length)
    }
}

fn wait_for(end: &End, bits: u64, capacity: usize, mut early: Option<&mut Tripwire>) -> Result<usize> {
    end.wait_until(bits, "rx_ready", || {
        let found = end.rx_ready(capacity)?;
        let woken = early.as_mut().is_some_and(|early| early.clear() != 0);
        if found.is_some() || !woken {
            return Ok(found);
        }
        poll_until(Some(OVERLAP), || end.rx_ready(capacity).transpose()).transpose()
    })
}

/// A message that has arrived, in place. Dropping it returns the buffer to the sender.
#[derive(Debug)]
pub struct Message<'a> {
    receiver: &'a mut Receiver,
    length: usize,
}

impl Message<'_> {
    /// Returns the length in bytes, which is at most that of the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the message is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes out of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("message", offset as u64, to.len() as u64, self.length as u64)?;
        self.receiver.end.own().read(DATA + offset, to)
    }

    /// Keeps the message: it is returned again the next time.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        // This cannot fail: `End::new` has checked that both words are inside.
        let end = &self.receiver.end;
        let _ = end.own().store_u64(RX_READY, 0);
        let _ = end.out().store_u64(TX_READY, 1);
    }
}
