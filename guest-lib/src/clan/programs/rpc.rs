//! Remote procedure calls on message transfer (section 4.1): the client writes a request into the
//! server's memory, and the server writes the reply into the client's. The order of messages says
//! which buffer is free, so two flags and two Tripwires are enough.

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

/// Who calls.
#[derive(Debug)]
pub struct Client {
    tripwire: Tripwire,
    end: Arc<End>,
    /// A reply is still to come, to a call that was given up.
    owed: bool,
}

impl Client {
    /// On this end; the other end has a [`Server`].
    ///
    /// # Errors
    /// Those of [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        Ok(Self { tripwire: end.tripwire(RX_READY)?, end: end.clone(), owed: false })
    }

    /// The Tripwire over `rx_ready`, to register it with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// How many bytes a request may have.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.out_room()
    }

    /// Calls: sends a request, waits for the reply, and copies it. How many bytes that has.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a request that is too long, or if the server says that the reply
    /// is longer than there is memory; [`Error::PastEnd`] for one that does not fit, which is lost;
    /// [`Error::TimedOut`]: then the reply may still come, and the next call waits for it first. If
    /// the server is gone, [`Error::PeerLost`] or [`Error::Ended`]; [`Error::Fault`].
    pub fn call(&mut self, request: &[u8], reply: &mut [u8]) -> Result<usize> {
        if self.owed {
            self.reply(&mut [])?;
        }
        self.begin(request)?;
        let length = self.reply(reply)?;
        inside("buffer for a reply", 0, length as u64, reply.len() as u64)?;
        Ok(length)
    }

    /// Sends a request, and does not wait.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for one that is too long; [`Error::Invalid`] if there is one that is
    /// not answered.
    pub fn begin(&mut self, request: &[u8]) -> Result<()> {
        if self.owed {
            return Err(Error::Invalid("the request before is not answered yet"));
        }
        write(&self.end, request)?;
        self.owed = true;
        Ok(())
    }

    /// Takes the reply, if it is there: as many bytes of it as fit, and how many it has.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the server says that it is longer than there is memory.
    pub fn try_reply(&mut self, to: &mut [u8]) -> Result<Option<usize>> {
        self.tripwire.clear();
        match self.end.rx_ready(self.end.own_room())? {
            Some(length) if self.owed => self.take(length, to).map(Some),
            _ => Ok(None),
        }
    }

    /// Waits for the reply to a request that was sent by [`Client::begin`]: as many bytes of it as
    /// fit, and how many it has.
    ///
    /// # Errors
    /// Those of [`Client::call`]; [`Error::Invalid`] if no reply is to come.
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

/// Who is called.
#[derive(Debug)]
pub struct Server {
    tripwire: Tripwire,
    end: Arc<End>,
    /// A call was taken, and is not answered.
    asked: bool,
}

impl Server {
    /// On this end; the other end has a [`Client`].
    ///
    /// # Errors
    /// Those of [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>) -> Result<Self> {
        Ok(Self { tripwire: end.tripwire(RX_READY)?, end: end.clone(), asked: false })
    }

    /// The Tripwire over `rx_ready`, to register it with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// Its end.
    #[must_use]
    pub fn end(&self) -> &Arc<End> {
        &self.end
    }

    /// The next call, if there is one. No system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the client says that it is longer than there is memory.
    pub fn try_wait(&mut self) -> Result<Option<Call<'_>>> {
        self.tripwire.clear();
        match self.end.rx_ready(self.end.own_room())? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    /// Waits for the next call.
    ///
    /// # Errors
    /// Those of [`Server::try_wait`]; [`Error::TimedOut`]; if the client is gone,
    /// [`Error::PeerLost`] or [`Error::Ended`]; [`Error::Fault`].
    pub fn wait(&mut self) -> Result<Call<'_>> {
        let (end, room) = (&self.end, self.end.own_room());
        let length = end.wait_until(self.tripwire.bit(), "call", || end.rx_ready(room))?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<Call<'_>> {
        // The client changes nothing until it is answered.
        self.end.own().store_u64(RX_READY, 0)?;
        self.asked = true;
        Ok(Call { server: self, length })
    }

    /// Answers the call that was taken last, if it was dropped without an answer: for who makes the
    /// reply elsewhere.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a reply that is too long; [`Error::Invalid`] if there is no call
    /// to answer.
    pub fn reply(&mut self, reply: &[u8]) -> Result<()> {
        if !self.asked {
            return Err(Error::Invalid("there is no call to answer"));
        }
        write(&self.end, reply)?;
        self.asked = false;
        Ok(())
    }
}

/// A call that is to be answered. Dropped, it waits for [`Server::reply`].
#[derive(Debug)]
#[must_use]
pub struct Call<'a> {
    server: &'a mut Server,
    length: usize,
}

impl Call<'_> {
    /// How many bytes the request has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes of the request out.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("request", offset as u64, to.len() as u64, self.length as u64)?;
        self.server.end.own().read(DATA + offset, to)
    }

    /// Answers.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a reply that is too long.
    pub fn reply(self, reply: &[u8]) -> Result<()> {
        self.server.reply(reply)
    }
}
