//! Remote procedure calls: arguments are deposited where the server needs them, and results where
//! the client needs them.

use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Awaited, is_decided, receive};
use crate::core::waiting::Deadline;
use crate::dart::{Connection, Endpoint, Operation, Queue, Record, What};
use crate::error::{Error, Result, at_most};

/// The calling side. Arguments go to this client's area in the server's endpoint, and results come
/// to the first bytes of this end's endpoint.
///
/// A client needs exclusive use of the queue for its connection's events. Nothing else may send
/// over the connection while it waits.
#[derive(Debug)]
pub struct Client {
    connection: Arc<Connection>,
    endpoint: Arc<Endpoint>,
    results: Queue,
    place: u64,
    size: u64,
    /// An earlier call timed out, and its result can still arrive.
    is_owed: bool,
}

impl Client {
    /// Creates a client with an area of `size` bytes at byte `place` of the server's endpoint. The
    /// first `size` bytes of this end's endpoint are for results, and the next `size` bytes for
    /// arguments.
    #[must_use]
    pub fn new(
        connection: Arc<Connection>,
        endpoint: Arc<Endpoint>,
        results: Queue,
        place: u64,
        size: u64,
    ) -> Self {
        Self { connection, endpoint, results, place, size, is_owed: false }
    }

    /// Calls, and blocks until the result arrives.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the arguments are longer than the area; the errors of
    /// [`Connection::try_send`]; [`crate::dart::Trap`]; [`Error::Invalid`] if the client is
    /// unusable.
    pub fn call(&mut self, arguments: &[u8]) -> Result<Vec<u8>> {
        self.call_within(arguments, None)
    }

    /// As [`Client::call`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the client is then unusable, as the result may still arrive. Those of
    /// [`Client::call`].
    pub fn call_timeout(&mut self, arguments: &[u8], timeout: Duration) -> Result<Vec<u8>> {
        self.call_within(arguments, Some(timeout))
    }

    fn call_within(&mut self, arguments: &[u8], timeout: Option<Duration>) -> Result<Vec<u8>> {
        if self.is_owed {
            return Err(Error::Invalid("an earlier call ended without its result, which may still come"));
        }
        at_most("length of the arguments", arguments.len() as u64, self.size)?;
        self.endpoint.write(self.size as usize, arguments)?;
        let data = self.size..self.size + arguments.len() as u64;
        let call = Operation::write_multiple(self.place).tell();
        let awaited = Awaited::new(&self.connection, &call);
        self.connection.try_send(&call, data)?;
        let told = receive(&mut self.results, &self.connection, &awaited, timeout, |_| true);
        self.is_owed = !is_decided(&told);
        let told = told?;
        let mut result = vec![0; (u64::from(told.length)).min(self.size) as usize];
        self.endpoint.read(0, &mut result)?;
        Ok(result)
    }
}

/// The called side, for any number of clients, with one call of each at a time.
#[derive(Debug)]
pub struct Server {
    endpoint: Arc<Endpoint>,
    clients: Vec<Arc<Connection>>,
    calls: Queue,
    size: u64,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    client: usize,
    /// Its arguments.
    pub arguments: Vec<u8>,
}

impl Server {
    /// Creates a server. The first bytes of the endpoint, which all these connections share, hold
    /// an area of `size` bytes for each client, in order. The same number of areas for results
    /// follows. The connections' events go to `calls`.
    #[must_use]
    pub fn new(endpoint: Arc<Endpoint>, clients: Vec<Arc<Connection>>, calls: Queue, size: u64) -> Self {
        Self { endpoint, clients, calls, size }
    }

    /// Returns the next call; blocks until there is one.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn recv(&mut self) -> Result<Call> {
        self.recv_within(None)
    }

    /// As [`Server::recv`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Server::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Call> {
        self.recv_within(Some(timeout))
    }

    fn recv_within(&mut self, timeout: Option<Duration>) -> Result<Call> {
        let deadline = Deadline::new(timeout);
        let mut left = deadline.left();
        loop {
            let record = self.calls.recv_within(left)?;
            if let Some(call) = self.call_of(&record)? {
                return Ok(call);
            }
            // Records that are not calls do not extend the timeout.
            left = deadline.check("call")?;
        }
    }

    /// Returns the call in a record, if it is inside the client's area. Exceptions are ignored:
    /// their messages were not executed.
    fn call_of(&self, record: &Record) -> Result<Option<Call>> {
        if record.what != What::Compared {
            return Ok(None);
        }
        let client = self.clients.iter().position(|client| client.number() == record.connection);
        let Some(client) = client.filter(|client| {
            record.operand() == *client as u64 * self.size && u64::from(record.length) <= self.size
        }) else {
            return Ok(None);
        };
        let mut arguments = vec![0; record.length as usize];
        self.endpoint.read(record.operand() as usize, &mut arguments)?;
        Ok(Some(Call { client, arguments }))
    }

    /// Answers a call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the result is longer than an area; the errors of
    /// [`Connection::try_send`].
    pub fn answer(&self, call: &Call, result: &[u8]) -> Result<()> {
        at_most("length of the result", result.len() as u64, self.size)?;
        let client = self.clients.get(call.client).ok_or(Error::Invalid("the call is another server's"))?;
        let place = (self.clients.len() + call.client) as u64 * self.size;
        // This area can be reused: the client has received the result that was sent from it before.
        self.endpoint.write(place as usize, result)?;
        client.try_send(&Operation::write_multiple(0).tell(), place..place + result.len() as u64)
    }
}
