//! Simple message transfer (section 4.1, Example 1): one buffer, in the receiver's memory, and two
//! flags.
//!
//! The sender waits until `tx_ready` is true, writes the message into the other's memory, and sets
//! its `rx_ready`. The receiver waits for that, uses the message in place or copies it, clears
//! `rx_ready`, and sets the sender's `tx_ready`. Here `rx_ready` says how long the message is, too.

use std::sync::Arc;
use std::time::Duration;

use super::super::aperture::Aperture;
use super::super::dma::Transfer;
use super::super::tripwire::{Tripwire, Watch};
use super::end::End;
use super::{DATA, RX_READY, TX_READY};
use crate::core::waiting::poll_for;
use crate::error::{Error, Result, at_most, inside};

/// How long who was woken early looks for the rest of the message before he sleeps again.
const OVERLAP: Duration = Duration::from_millis(1);

/// Who sends.
#[derive(Debug)]
pub struct Sender {
    tripwire: Tripwire,
    end: Arc<End>,
}

impl Sender {
    /// On this end; the other end has a [`Receiver`].
    ///
    /// # Errors
    /// Those of [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        let tripwire = end.tripwire(TX_READY)?;
        // Nothing has been sent yet, so the buffer is free.
        end.own().store_u64(TX_READY, 1)?;
        Ok(Self { tripwire, end: end.clone() })
    }

    /// The longest message, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.out_room()
    }

    /// Whether the buffer is free. No system call.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.end.own().load_u64(TX_READY).is_ok_and(|ready| ready != 0)
    }

    /// Waits until the buffer is free, for a message that is to be made in place.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; if the receiver is gone, [`Error::PeerLost`] or [`Error::Ended`];
    /// [`Error::Fault`].
    pub fn wait(&mut self) -> Result<Free<'_>> {
        let own = self.end.own();
        self.end.wait_until(self.tripwire.bit(), "tx_ready", || {
            Ok((own.load_u64(TX_READY)? != 0).then_some(()))
        })?;
        Ok(Free { sender: self })
    }

    /// Waits until the buffer is free, and sends a message.
    ///
    /// # Errors
    /// Those of [`Sender::wait`]; [`Error::OutOfRange`] for one that is too long.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        at_most("message length", message.len() as u64, self.capacity() as u64)?;
        let free = self.wait()?;
        free.write(0, message)?;
        free.send(message.len())
    }

    /// The same by DMA, from `offset` of memory of this process; it returns when that may be used
    /// again.
    ///
    /// # Errors
    /// Those of [`Sender::send`]; [`Error::PastEnd`]; [`Error::Dma`].
    pub fn send_from(&mut self, from: &Aperture, offset: usize, length: usize) -> Result<()> {
        at_most("message length", length as u64, self.capacity() as u64)?;
        let free = self.wait()?;
        if length != 0 {
            let end = &free.sender.end;
            let transfer = Transfer::write(from, offset, end.out().descriptor(), DATA as u64, length)?;
            let dma = end.connection().endpoint().dma();
            let requested = dma.put_wait(&[transfer], None)?;
            // A store would overtake what has not left.
            dma.wait(requested, None)?;
        }
        free.send(length)
    }
}

/// A buffer that is free: the next message is written there, and then sent. If it is not sent the
/// buffer stays free.
#[derive(Debug)]
pub struct Free<'a> {
    sender: &'a mut Sender,
}

impl Free<'_> {
    /// Writes bytes of the message into the other's memory.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("message buffer", offset as u64, from.len() as u64, self.sender.capacity() as u64)?;
        self.sender.end.out().write(DATA + offset, from)
    }

    /// Tells the receiver that a message of so many bytes is there: all that was written before.
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

/// Who receives.
#[derive(Debug)]
pub struct Receiver {
    tripwire: Tripwire,
    early: Option<Tripwire>,
    end: Arc<End>,
}

impl Receiver {
    /// On this end; the other end has a [`Sender`].
    ///
    /// # Errors
    /// Those of [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        Ok(Self { tripwire: end.tripwire(RX_READY)?, early: None, end: end.clone() })
    }

    /// Is woken when the first bytes of a message arrive, and not only when all of it has: to wake
    /// up takes its time, which passes while the rest is on its way (section 4.3).
    ///
    /// # Errors
    /// Those of [`super::super::Endpoint::tripwire`].
    pub fn set_early(&mut self) -> Result<()> {
        let watch = Watch::local(self.end.own(), DATA..DATA + 8.min(self.capacity()))?;
        self.early = Some(self.end.connection().endpoint().tripwire(&watch)?);
        Ok(())
    }

    /// The longest message, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.own_room()
    }

    /// The Tripwire over `rx_ready`, to register it with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// The Tripwire of [`Receiver::set_early`].
    pub fn early(&mut self) -> Option<&mut Tripwire> {
        self.early.as_mut()
    }

    /// A message, if one is there. No system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the sender says that it is longer than the buffer.
    pub fn try_wait(&mut self) -> Result<Option<Message<'_>>> {
        self.tripwire.clear();
        let length = self.end.rx_ready(self.capacity())?;
        Ok(length.map(|length| Message { receiver: self, length }))
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::OutOfRange`] if the sender says that it is longer than the
    /// buffer; if it is gone, [`Error::PeerLost`] or [`Error::Ended`]; [`Error::Fault`].
    pub fn wait(&mut self) -> Result<Message<'_>> {
        let (end, capacity) = (&self.end, self.capacity());
        let early = self.early.as_mut();
        let bits = self.tripwire.bit() | early.as_ref().map_or(0, |early| early.bit());
        let length = wait_for(end, bits, capacity, early)?;
        self.tripwire.clear();
        Ok(Message { receiver: self, length })
    }

    /// Waits for a message, copies it, and gives the buffer back; how many bytes it has. One that
    /// does not fit stays there.
    ///
    /// # Errors
    /// Those of [`Receiver::wait`]; [`Error::PastEnd`] if the message does not fit.
    pub fn receive(&mut self, to: &mut [u8]) -> Result<usize> {
        let message = self.wait()?;
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
        poll_for(OVERLAP, || end.rx_ready(capacity))
    })
}

/// A message that has arrived, in place. When it is dropped the buffer is the sender's again.
#[derive(Debug)]
pub struct Message<'a> {
    receiver: &'a mut Receiver,
    length: usize,
}

impl Message<'_> {
    /// How many bytes it has: at most as many as the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes of the message out.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("message", offset as u64, to.len() as u64, self.length as u64)?;
        self.receiver.end.own().read(DATA + offset, to)
    }

    /// Leaves it: it is there the next time, too.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        // Both words are where `End::new` has looked.
        let end = &self.receiver.end;
        let _ = end.own().store_u64(RX_READY, 0);
        let _ = end.out().store_u64(TX_READY, 1);
    }
}
