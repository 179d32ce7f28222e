//! Questions about another host's registers and memory.

use std::ffi::{c_int, c_void};

use hamlyn::dart::programs::{Caller, Piece};

use crate::call::{Failure, timeout, unused};
use crate::dart::connection::dart_connection;
use crate::dart::operation::{dart_operation, step_of};
use crate::dart::queue::{DART_WORDS, dart_queue};
use crate::exported::{Out, exported};
use crate::memory::{bytes_mut, items};

/// Number of bytes of a connection's endpoint that a caller sends its questions from.
pub const DART_CALLER_SCRATCH: u64 = 1024;

/// Sends questions to the card at a connection's other end, and waits for its answers. The software
/// there is not involved. One thread at a time may use it.
pub struct dart_caller(pub(crate) Caller);

/// A range of bytes to read: from byte `from` of the other end's endpoint to byte `to` of this
/// end's endpoint.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_piece {
    /// Offset from the base of the other end's endpoint, a multiple of 4.
    pub from: u64,
    /// Offset in this end's endpoint, a multiple of 4.
    pub to: u64,
    /// Number of bytes, up to DART_LONGEST.
    pub length: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl dart_piece {
    fn read(&self) -> Result<Piece, Failure> {
        unused(&[self.reserved])?;
        Ok(Piece { from: self.from, to: self.to, length: self.length })
    }
}

exported! {
/// Creates a caller for this connection, whose events must go to `answers`. Its questions use
/// DART_CALLER_SCRATCH bytes of the endpoint, starting at `scratch`. A wait for an answer that
/// exceeds timeout_ms fails with -ETIMEDOUT; a negative value waits forever. The caller takes
/// ownership of the queue, and releases it when the caller is destroyed or this fails.
fn dart_caller_create(
    connection: &dart_connection,
    answers: Box<dart_queue>,
    scratch: u64,
    timeout_ms: c_int,
    caller: Out<Box<dart_caller>>,
) {
    let connection = connection.0.clone();
    let made = Caller::new(connection, answers.0, scratch);
    caller.store(dart_caller(match timeout(timeout_ms) {
        None => made,
        Some(limit) => made.with_timeout(limit),
    }))
}

/// Releases a caller and its queue. NULL is a no-op.
fn dart_caller_destroy(caller: Box<dart_caller>);

/// Sends a question, waits for the answer, and stores its first block. Fails with -EPERM if the
/// other end does not execute the question; dart_connection_status gives the reason.
fn dart_caller_ask(caller: &mut dart_caller, question: &dart_operation, answer: Out<[u64; DART_WORDS]>) {
    answer.store(caller.0.ask(&question.read()?)?)
}

/// Executes one register operation, DART_STEP_ADD or another, with this operand on a register of
/// the other end's window: for example fetch and increment. Stores the register's value before and
/// after; either pointer may be NULL. Fails like dart_caller_ask.
fn dart_fetch(
    caller: &mut dart_caller,
    number: u32,
    step: u32,
    operand: u64,
    before: Option<Out<u64>>,
    after: Option<Out<u64>>,
) {
    let found = caller.0.fetch(register(number)?, step_of(step)?, operand)?;
    for (to, value) in [(before, found.0), (after, found.1)] {
        if let Some(to) = to {
            to.store(value);
        }
    }
}

/// Sets a register of the other end's window to `value` if it equals `expected`. Stores its
/// previous value in `found`. Register `own` of that window must be used only by this caller. Fails
/// like dart_caller_ask.
fn dart_compare_and_swap(
    caller: &mut dart_caller,
    number: u32,
    own: u32,
    expected: u64,
    value: u64,
    found: Out<u64>,
) {
    found.store(caller.0.compare_and_swap(register(number)?, register(own)?, expected, value)?)
}

/// Reads up to 32 bytes of the other end's endpoint, starting at `from`, a multiple of 4. Fails
/// like dart_caller_ask.
fn dart_read(caller: &mut dart_caller, from: u64, to: *mut c_void, length: usize) {
    caller.0.read(from, bytes_mut(to, length, "to")?)?
}

/// Reads scattered ranges of bytes into this end's endpoint. The questions do not wait for each
/// other. Fails like dart_caller_ask; some ranges may then have been read.
fn dart_gather(caller: &mut dart_caller, pieces: *const dart_piece, count: usize) {
    let pieces = items(pieces, count, "pieces")?;
    let pieces = pieces.iter().map(dart_piece::read).collect::<Result<Vec<_>, _>>()?;
    caller.0.gather(&pieces)?
}
}

/// Converts a register number. A window does not have more registers.
pub(crate) fn register(number: u32) -> Result<u8, Failure> {
    let limit = u8::MAX;
    u8::try_from(number)
        .map_err(|_| Failure::argument(format!("register {number} is out of range (limit {limit})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_size_matches_the_library() {
        assert_eq!(DART_CALLER_SCRATCH, Caller::SCRATCH);
    }
}
