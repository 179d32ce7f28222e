//! Remote procedure calls over message transfer (section 4.1). The client writes a request into the
//! server's memory, and the server writes the reply into the client's. The order of messages
//! implies which buffer is free, so two flags and two Tripwires are enough.

use std::sync::Arc;

use super::super::tripwire::Tripwire;
use super::end::End;
use super::{DATA, RX_READY};
use crate::error::{Error, Result, at_most, inside};

fn write(end: &End, message: &[u8]) -> Result<()> {
    at_most("message length", message.len() as u64, end.out_room() as u64)?;
    end.out().write(DATA, message)?;
    end.out().store_u64(RX_READY, message.len() as u64 + 1)
}

/// The calling side.
#[derive(Debug)]
pub struct Client {
    tripwire: Tripwire,
    end: Arc<End>,
    /// A reply is outstanding, maybe to a call that timed out.
    owed: bool,
}

impl Client {
    /// Creates a client on this end. The other end has a [`Server`].
    ///
    /// # Errors
    /// Same as [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        Ok(Self { tripwire: end.tripwire(RX_READY)?, end: end.clone(), owed: false })
    }

    /// Returns the Tripwire over `rx_ready`, for registration with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// Returns the maximum length of a request in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.out_room()
    }

    /// Sends a request, blocks until the reply arrives, and copies it. Returns the length of the
    /// reply.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the request is too long, or the reply's length, as stored by the
    /// server, exceeds the buffer; [`Error::PastEnd`] if the reply does not fit into `reply`, and
    /// is lost; [`Error::TimedOut`]: the reply may still arrive, and the next call waits for it
    /// first. If the server is gone, [`Error::PeerLost`] or [`Error::Ended`];
    /// [`crate::clan::Fault`].
    pub fn call(&mut self, request: &[u8], reply: &mut [u8]) -> Result<usize> {
        if self.owed {
            self.reply(&mut [])?;
        }
        self.begin(request)?;
        let length = self.reply(reply)?;
        inside("buffer for a reply", 0, length as u64, reply.len() as u64)?;
        Ok(length)
    }

    /// Sends a request without waiting for the reply.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the request is too long; [`Error::Invalid`] if an earlier request
    /// is not answered yet.
    pub fn begin(&mut self, request: &[u8]) -> Result<()> {
        if self.owed {
            return Err(Error::Invalid("the request before is not answered yet"));
        }
        write(&self.end, request)?;
        self.owed = true;
        Ok(())
    }

    /// Takes the reply if it has arrived: copies as much as fits, and returns its full length.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if its length, as stored by the server, exceeds the buffer.
    pub fn try_reply(&mut self, to: &mut [u8]) -> Result<Option<usize>> {
        self.tripwire.clear();
        match self.end.rx_ready(self.end.own_room())? {
            Some(length) if self.owed => self.take(length, to).map(Some),
            _ => Ok(None),
        }
    }

    /// Blocks until the reply to a request of [`Client::begin`] arrives. Copies as much as fits,
    /// and returns its full length.
    ///
    /// # Errors
    /// Same as [`Client::call`]; [`Error::Invalid`] if no reply is outstanding.
    pub fn reply(&mut self, to: &mut [u8]) -> Result<usize> {
        if !self.owed {
            return Err(Error::Invalid("there is no request that is not answered"));
        }
        let (end, room) = (&self.end, self.end.own_room());
        let length = end.wait_until(self.tripwire.bit(), "reply", || end.rx_ready(room))?;
        self.take(length, to)
    }

    fn take(&mut self, length: usize, to: &mut [u8]) -> Result<usize> {
        self.owed = false;
        let own = self.end.own();
        own.store_u64(RX_READY, 0)?;
        let fits = length.min(to.len());
        own.read(DATA, &mut to[..fits])?;
        Ok(length)
    }
}

/// The called side.
#[derive(Debug)]
pub struct Server {
    tripwire: Tripwire,
    end: Arc<End>,
    /// A call was taken, and is not answered.
    asked: bool,
}

impl Server {
    /// Creates a server on this end. The other end has a [`Client`].
    ///
    /// # Errors
    /// Same as [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        Ok(Self { tripwire: end.tripwire(RX_READY)?, end: end.clone(), asked: false })
    }

    /// Returns the Tripwire over `rx_ready`, for registration with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// Returns the server's end.
    #[must_use]
    pub fn end(&self) -> &Arc<End> {
        &self.end
    }

    /// Returns the next call if there is one, without a system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if its length, as stored by the client, exceeds the buffer.
    pub fn try_recv(&mut self) -> Result<Option<Call<'_>>> {
        self.tripwire.clear();
        match self.end.rx_ready(self.end.own_room())? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    /// Blocks until the next call arrives.
    ///
    /// # Errors
    /// Same as [`Server::try_recv`]; [`Error::TimedOut`]; if the client is gone,
    /// [`Error::PeerLost`] or [`Error::Ended`]; [`crate::clan::Fault`].
    pub fn recv(&mut self) -> Result<Call<'_>> {
        let (end, room) = (&self.end, self.end.own_room());
        let length = end.wait_until(self.tripwire.bit(), "call", || end.rx_ready(room))?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<Call<'_>> {
        // The client does not change the request before it gets the reply.
        self.end.own().store_u64(RX_READY, 0)?;
        self.asked = true;
        Ok(Call { server: self, length })
    }

    /// Answers the last call after its [`Call`] was dropped, for callers that produce the reply
    /// elsewhere.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the reply is too long; [`Error::Invalid`] if there is no call to
    /// answer.
    pub fn reply(&mut self, reply: &[u8]) -> Result<()> {
        if !self.asked {
            return Err(Error::Invalid("no call waits for an answer"));
        }
        write(&self.end, reply)?;
        self.asked = false;
        Ok(())
    }
}

/// A call to be answered. If this is dropped, answer the call with [`Server::reply`].
#[derive(Debug)]
#[must_use]
pub struct Call<'a> {
    server: &'a mut Server,
    length: usize,
}

impl Call<'_> {
    /// Returns the length of the request in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the request is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes out of the request.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("request", offset as u64, to.len() as u64, self.length as u64)?;
        self.server.end.own().read(DATA + offset, to)
    }

    /// Sends the reply.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the reply is too long.
    pub fn reply(self, reply: &[u8]) -> Result<()> {
        self.server.reply(reply)
    }
}
