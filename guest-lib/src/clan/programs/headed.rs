//! Header and body apart (section 4.3): a flag and a Tripwire for each, so that the receiver works
//! on the header while the body is on its way.
//!
//! The header has as many bytes as both ends say. What follows it is as in [`super::transfer`].

use std::sync::Arc;

use super::super::tripwire::Tripwire;
use super::end::End;
use super::{DATA, HEADER_READY, RX_READY, TX_READY};
use crate::error::{Error, Result, at_most, inside};

/// Where the body begins, and its longest.
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

/// Who sends.
#[derive(Debug)]
pub struct Sender {
    tripwire: Tripwire,
    end: Arc<End>,
    header: usize,
    body: (usize, usize),
    /// A header was sent, and its body is to follow.
    owed: bool,
}

impl Sender {
    /// On this end, for headers of so many bytes; the other end has a [`Receiver`] for as many.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if there is no room; those of [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>, header: usize) -> Result<Self> {
        let body = body(header, end.out_room())?;
        let tripwire = end.tripwire(TX_READY)?;
        end.own().store_u64(TX_READY, 1)?;
        Ok(Self { tripwire, end: end.clone(), header, body, owed: false })
    }

    /// Waits until the buffer is free, and sends a header. The body is to follow.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a header of another length, or if the body before is still to follow;
    /// [`Error::TimedOut`]; if the receiver is gone, [`Error::PeerLost`] or [`Error::Ended`];
    /// [`Error::Fault`].
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

    /// Sends the body of the header that was sent last, if that was dropped without: for who makes
    /// the body elsewhere.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is too long; [`Error::Invalid`] if there is no header that it
    /// follows.
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

    /// Sends both.
    ///
    /// # Errors
    /// Those of [`Sender::send_header`]; [`Error::OutOfRange`] for a body that is too long.
    pub fn send(&mut self, header: &[u8], body: &[u8]) -> Result<()> {
        at_most("body length", body.len() as u64, self.body.1 as u64)?;
        self.send_header(header)?.send(body)
    }
}

/// A body that is still to be sent: its receiver waits for it. Dropped, it waits for
/// [`Sender::send_body`].
#[derive(Debug)]
#[must_use]
pub struct Body<'a> {
    sender: &'a mut Sender,
}

impl Body<'_> {
    /// Sends it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is too long.
    pub fn send(self, body: &[u8]) -> Result<()> {
        self.sender.send_body(body)
    }
}

/// Who receives.
#[derive(Debug)]
pub struct Receiver {
    header_ready: Tripwire,
    rx_ready: Tripwire,
    end: Arc<End>,
    header: usize,
    body: (usize, usize),
}

impl Receiver {
    /// On this end, for headers of so many bytes.
    ///
    /// # Errors
    /// Those of [`Sender::new`].
    pub fn new(end: &Arc<End>, header: usize) -> Result<Self> {
        let body = body(header, end.own_room())?;
        let (header_ready, rx_ready) = (end.tripwire(HEADER_READY)?, end.tripwire(RX_READY)?);
        Ok(Self { header_ready, rx_ready, end: end.clone(), header, body })
    }

    /// Waits for a header, and copies it. The body may be on its way.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if `to` is shorter; [`Error::TimedOut`]; if the sender is gone,
    /// [`Error::PeerLost`] or [`Error::Ended`]; [`Error::Fault`].
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

/// A message whose header is there. Dropped, it is there the next time, too.
#[derive(Debug)]
pub struct Coming<'a> {
    receiver: &'a mut Receiver,
}

impl Coming<'_> {
    /// Whether the body is there, too. No system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the sender says that it is longer than there is memory.
    pub fn is_complete(&self) -> Result<bool> {
        let receiver = &self.receiver;
        Ok(receiver.end.rx_ready(receiver.body.1)?.is_some())
    }

    /// Waits for the body, copies it, and gives the buffer back; how many bytes it has.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if it does not fit; then the message stays. [`Error::OutOfRange`] if the
    /// sender says that it is longer than there is memory; otherwise as for the header.
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
