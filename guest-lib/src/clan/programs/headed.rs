//! Separate header and body (section 4.3): each has a flag and a Tripwire, so that the receiver can
//! process the header while the body is in flight.
//!
//! Both ends agree on the length of the header. The rest is as in [`super::transfer`].

use std::sync::Arc;

use super::super::tripwire::Tripwire;
use super::end::End;
use super::{DATA, HEADER_READY, RX_READY, TX_READY};
use crate::error::{Error, Result, at_most, inside};

/// Returns the offset of the body, and its maximum length.
fn body(header: usize, room: usize) -> Result<(usize, usize)> {
    let place = header.checked_next_multiple_of(8).filter(|place| *place <= room);
    let place = place.ok_or(Error::PastEnd {
        object: "message buffer",
        offset: 0,
        length: header as u64,
        limit: room as u64,
    })?;
    Ok((DATA + place, room - place))
}

/// The sending side.
#[derive(Debug)]
pub struct Sender {
    tripwire: Tripwire,
    end: Arc<End>,
    header: usize,
    body: (usize, usize),
    /// A header was sent, and its body must follow.
    owed: bool,
}

impl Sender {
    /// Creates a sender on this end, for headers of `header` bytes. The other end has a
    /// [`Receiver`] for the same length.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if there is no room; the errors of [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>, header: usize) -> Result<Self> {
        let body = body(header, end.out_room())?;
        let tripwire = end.tripwire(TX_READY)?;
        end.own().store_u64(TX_READY, 1)?;
        Ok(Self { tripwire, end: end.clone(), header, body, owed: false })
    }

    /// Blocks until the buffer is free, and sends a header. The body must follow.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the header has another length, or the previous body was not sent yet;
    /// [`Error::TimedOut`]; if the receiver is gone, [`Error::PeerLost`] or [`Error::Ended`];
    /// [`crate::clan::Fault`].
    pub fn send_header(&mut self, header: &[u8]) -> Result<Body<'_>> {
        if header.len() != self.header {
            return Err(Error::Invalid("all headers are as long as the program has said"));
        }
        if self.owed {
            return Err(Error::Invalid("the body of the message before is to be sent first"));
        }
        let own = self.end.own();
        self.end.wait_until(self.tripwire.bit(), "tx_ready", || {
            Ok((own.load_u64(TX_READY)? != 0).then_some(()))
        })?;
        own.store_u64(TX_READY, 0)?;
        self.end.out().write(DATA, header)?;
        self.end.out().store_u64(HEADER_READY, 1)?;
        self.owed = true;
        Ok(Body { sender: self })
    }

    /// Sends the body of the last header after its [`Body`] was dropped, for callers that produce
    /// the body elsewhere.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the body is too long; [`Error::Invalid`] if no header precedes it.
    pub fn send_body(&mut self, body: &[u8]) -> Result<()> {
        if !self.owed {
            return Err(Error::Invalid("a body follows a header"));
        }
        let (place, room) = self.body;
        at_most("body length", body.len() as u64, room as u64)?;
        self.end.out().write(place, body)?;
        self.end.out().store_u64(RX_READY, body.len() as u64 + 1)?;
        self.owed = false;
        Ok(())
    }

    /// Sends a header and a body.
    ///
    /// # Errors
    /// Same as [`Sender::send_header`]; [`Error::OutOfRange`] if the body is too long.
    pub fn send(&mut self, header: &[u8], body: &[u8]) -> Result<()> {
        at_most("body length", body.len() as u64, self.body.1 as u64)?;
        self.send_header(header)?.send(body)
    }
}

/// A body that must still be sent: its receiver waits for it. If this is dropped, send the body
/// with [`Sender::send_body`].
#[derive(Debug)]
#[must_use]
pub struct Body<'a> {
    sender: &'a mut Sender,
}

impl Body<'_> {
    /// Sends the body.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is too long.
    pub fn send(self, body: &[u8]) -> Result<()> {
        self.sender.send_body(body)
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Receiver {
    header_ready: Tripwire,
    rx_ready: Tripwire,
    end: Arc<End>,
    header: usize,
    body: (usize, usize),
}

impl Receiver {
    /// Creates a receiver on this end, for headers of `header` bytes.
    ///
    /// # Errors
    /// Same as [`Sender::new`].
    pub fn new(end: &Arc<End>, header: usize) -> Result<Self> {
        let body = body(header, end.own_room())?;
        let (header_ready, rx_ready) = (end.tripwire(HEADER_READY)?, end.tripwire(RX_READY)?);
        Ok(Self { header_ready, rx_ready, end: end.clone(), header, body })
    }

    /// Blocks until a header arrives, and copies it. The body may still be in flight.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if `to` is shorter than a header; [`Error::TimedOut`]; if the sender is
    /// gone, [`Error::PeerLost`] or [`Error::Ended`]; [`crate::clan::Fault`].
    pub fn header(&mut self, to: &mut [u8]) -> Result<Coming<'_>> {
        inside("buffer for a header", 0, self.header as u64, to.len() as u64)?;
        let own = self.end.own();
        self.end.wait_until(self.header_ready.bit(), "header", || {
            Ok((own.load_u64(HEADER_READY)? != 0).then_some(()))
        })?;
        own.read(DATA, &mut to[..self.header])?;
        Ok(Coming { receiver: self })
    }
}

/// A message whose header has arrived. If this is dropped, the same message is returned the next
/// time.
#[derive(Debug)]
pub struct Coming<'a> {
    receiver: &'a mut Receiver,
}

impl Coming<'_> {
    /// Returns whether the body has arrived too, without a system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if its length, as stored by the sender, exceeds the buffer.
    pub fn is_complete(&self) -> Result<bool> {
        let receiver = &self.receiver;
        Ok(receiver.end.rx_ready(receiver.body.1)?.is_some())
    }

    /// Blocks until the body arrives, copies it, and frees the buffer. Returns the length of the
    /// body.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if the body does not fit; the message is then kept. [`Error::OutOfRange`]
    /// if its length, as stored by the sender, exceeds the buffer; otherwise as for the header.
    pub fn body(self, to: &mut [u8]) -> Result<usize> {
        let Receiver { rx_ready, end, body: (place, room), .. } = self.receiver;
        let length = end.wait_until(rx_ready.bit(), "rx_ready", || end.rx_ready(*room))?;
        inside("buffer for a body", 0, length as u64, to.len() as u64)?;
        end.own().read(*place, &mut to[..length])?;
        end.own().store_u64(HEADER_READY, 0)?;
        end.own().store_u64(RX_READY, 0)?;
        end.out().store_u64(TX_READY, 1)?;
        Ok(length)
    }
}
