//! Remote procedure calls: arguments that are deposited where the server wants them, and a result
//! in the same way.

use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Awaited, receive};
use crate::core::waiting::Deadline;
use crate::dart::{Connection, Endpoint, Operation, Queue, Record, What};
use crate::error::{Error, Result, at_most};

/// Who calls. Arguments go to a place of the server's endpoint that is this client's, and results
/// come to the first bytes of this end's.
///
/// It has the queue that its connection's events go to for itself, and nobody else sends by the
/// connection while it waits.
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
    /// A client with a place of `size` bytes from byte `place` of the server's endpoint on. Of this
    /// end's endpoint the first `size` bytes are for results, and as many behind them for
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

    /// Calls, and waits for the result.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for arguments that are longer than the place; those of
    /// [`Connection::send`]; [`Error::Trap`]; [`Error::TimedOut`]: then this client is of no more
    /// use, as the result may still come; [`Error::Invalid`] for a call of such a client.
    pub fn call(&mut self, arguments: &[u8], timeout: Option<Duration>) -> Result<Vec<u8>> {
        if self.is_owed {
            return Err(Error::Invalid("an earlier call ended without its result, which may still come"));
        }
        at_most("length of the arguments", arguments.len() as u64, self.size)?;
        self.endpoint.write(self.size as usize, arguments)?;
        let data = self.size..self.size + arguments.len() as u64;
        let call = Operation::write_multiple(self.place).tell();
        let awaited = Awaited::new(&self.connection, &call);
        self.connection.send(&call, data)?;
        let told = receive(&mut self.results, &self.connection, &awaited, timeout, |_| true);
        self.is_owed = !matches!(told, Ok(_) | Err(Error::Trap(_)));
        let told = told?;
        let mut result = vec![0; (u64::from(told.length)).min(self.size) as usize];
        self.endpoint.read(0, &mut result)?;
        Ok(result)
    }
}

/// Who is called, by any number of clients, one call of each at a time.
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
    /// A server with a place of `size` bytes for each client, in their order, in the first bytes of
    /// the endpoint that all these connections have, and as many behind all of them for results.
    /// Their events go to `calls`.
    #[must_use]
    pub fn new(endpoint: Arc<Endpoint>, clients: Vec<Arc<Connection>>, calls: Queue, size: u64) -> Self {
        Self { endpoint, clients, calls, size }
    }

    /// The next call; sleeps until there is one.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::System`].
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Call> {
        let deadline = Deadline::new(timeout);
        let mut left = deadline.left();
        loop {
            let record = self.calls.wait(left)?;
            if let Some(call) = self.call_of(&record)? {
                return Ok(call);
            }
            // Records that are not calls do not extend the time-out.
            left = deadline.check("call")?;
        }
    }

    /// What a client says that keeps to its place. An exception is no call: its message was not
    /// executed.
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
    /// [`Error::OutOfRange`] for a result that is longer than a place; those of
    /// [`Connection::send`].
    pub fn answer(&self, call: &Call, result: &[u8]) -> Result<()> {
        at_most("length of the result", result.len() as u64, self.size)?;
        let client = self.clients.get(call.client).ok_or(Error::Invalid("the call is another server's"))?;
        let place = (self.clients.len() + call.client) as u64 * self.size;
        // What was sent from there before was a call that this client has had the answer of.
        self.endpoint.write(place as usize, result)?;
        client.send(&Operation::write_multiple(0).tell(), place..place + result.len() as u64)
    }
}
