//! The calling side.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hamlyn::{Card, Manager};

use super::frame::Kind;
use super::line::{Line, Lost};
use crate::Outcome;
use crate::meet::{self, MeetOption};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server has refused the call, with this reason.
    #[error("{0}")]
    Refused(String),
    /// The server is lost.
    #[error("the server is lost: {0}")]
    Lost(#[from] Lost),
    /// The call could not be sent, or its result did not arrive in time.
    #[error(transparent)]
    Failed(#[from] hamlyn::Error),
    /// The program cannot wait.
    #[error("cannot wait for the answer: {0}")]
    Wait(String),
}

/// A client of one server. Several calls may be in flight; their results arrive in any order.
pub struct Client {
    manager: Manager,
    line: Line,
    last: u32,
    /// Calls in flight, with the results that have arrived.
    calls: HashMap<u32, Option<Result<Vec<u8>, String>>>,
}

impl Client {
    /// Finds the server.
    pub fn connect(meet: &MeetOption, card: &Card, host: u32, name: &str) -> Outcome<Self> {
        let manager = Manager::create(card)?;
        let line = Line::connect(meet, card, &manager, (host, name))?;
        Ok(Self { manager, line, last: 0, calls: HashMap::new() })
    }

    /// Calls a procedure, and waits for the result.
    pub fn call(
        &mut self,
        procedure: &str,
        arguments: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let number = self.begin(procedure, arguments)?;
        self.finish(number, timeout)
    }

    /// Starts a call without waiting. The number is for [`Client::finish`].
    pub fn begin(&mut self, procedure: &str, arguments: &[u8]) -> Result<u32, CallError> {
        let number = self.last.wrapping_add(1);
        self.line.post(number, &Kind::Call(procedure.to_owned()), arguments)?;
        self.last = number;
        self.calls.insert(number, None);
        self.line.push()?;
        Ok(number)
    }

    /// Waits for a call's result. After a time-out, the call may still be executed; its result is
    /// dropped.
    pub fn finish(&mut self, number: u32, timeout: Duration) -> Result<Vec<u8>, CallError> {
        let begun = Instant::now();
        loop {
            self.look()?;
            if let Some(Some(_)) = self.calls.get(&number) {
                break;
            }
            let left = meet::left(begun, timeout);
            if left.is_zero() {
                break;
            }
            self.sleep(left)?;
        }
        match self.calls.remove(&number).flatten() {
            Some(result) => result.map_err(CallError::Refused),
            None => Err(hamlyn::Error::TimedOut { what: "result of the call", after: timeout }.into()),
        }
    }

    /// Leaves. The server learns that no more calls come.
    pub fn close(self, timeout: Duration) -> Result<(), CallError> {
        Ok(self.line.close(timeout)?)
    }

    /// Sends pending data, and handles what has arrived.
    fn look(&mut self) -> Result<(), CallError> {
        self.line.push()?;
        while let Some(frame) = self.line.next()? {
            let result = match frame.kind {
                Kind::Result => Ok(frame.body),
                Kind::Error => Err(String::from_utf8_lossy(&frame.body).into_owned()),
                Kind::Call(_) => {
                    return Err(Lost::from(hamlyn::Error::Malformed("a call to a client")).into());
                }
            };
            // Results of calls that timed out are dropped.
            if let Some(call) = self.calls.get_mut(&frame.number) {
                *call = Some(result);
            }
        }
        Ok(())
    }

    fn sleep(&mut self, left: Duration) -> Result<(), CallError> {
        meet::sleep(&self.manager, self.line.file().as_slice(), left.min(super::server::LOOK))
            .map_err(|error| CallError::Wait(error.to_string()))?;
        self.line.look_for_end()?;
        Ok(())
    }
}
