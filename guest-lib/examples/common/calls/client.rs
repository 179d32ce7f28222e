//! The calling side.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hamlyn::channel::{Card, Channel, Options};

use super::frame::Kind;
use super::line::{Line, Lost};
use crate::{Outcome, left, sleep};

/// How long a server may take to accept.
const PATIENCE: Duration = Duration::from_secs(60);

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
    line: Line,
    last: u32,
    /// Calls in flight, with the results that have arrived.
    calls: HashMap<u32, Option<Result<Vec<u8>, String>>>,
}

impl Client {
    /// Opens a channel to the server.
    pub fn connect(card: &Card, host: u32, name: &str) -> Outcome<Self> {
        let channel = Channel::connect_timeout(card, host, name, Options::default(), PATIENCE)
            .map_err(|error| format!("host {host}, {name:?}: {error}"))?;
        Ok(Self { line: Line::over(channel), last: 0, calls: HashMap::new() })
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
            let left = left(begun, timeout);
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
        match self.line.arm(true)? {
            Some(files) => sleep(&files, left).map_err(|error| CallError::Wait(error.to_string())),
            None => Ok(()),
        }
    }
}
