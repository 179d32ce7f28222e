//! Questions about another host's registers and memory.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::dart::programs::{Caller, Piece};

use crate::call::{Failure, call, free, given, store, timeout, unused};
use crate::dart::connection::dart_connection;
use crate::dart::operation::{dart_operation, step_of};
use crate::dart::queue::{DART_WORDS, dart_queue};
use crate::memory::{bytes_mut, items};

/// Bytes of a connection's endpoint that a caller's questions are sent from.
pub const DART_CALLER_SCRATCH: u64 = 1024;

/// Who asks the card at a connection's other end, whose software has nothing to do with it, and
/// waits for its answers. One thread at a time may use it.
pub struct dart_caller(pub(crate) Caller);

/// Bytes that are read: from byte `from` of the other end's endpoint to byte `to` of this end's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_piece {
    /// Where they are there, a multiple of 4 from that endpoint's base.
    pub from: u64,
    /// Where they are to be here, a multiple of 4.
    pub to: u64,
    /// How many, up to DART_LONGEST.
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

/// Makes a caller by this connection, whose events go to `answers`, with questions in
/// DART_CALLER_SCRATCH bytes of its endpoint from `scratch` on. Who waits longer than timeout_ms
/// for an answer gets -ETIMEDOUT; negative: nobody does. The queue is the caller's from now on,
/// even if this fails, and goes with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_caller_create(
    connection: Option<&dart_connection>,
    answers: Option<Box<dart_queue>>,
    scratch: u64,
    timeout_ms: c_int,
    caller: Option<&mut MaybeUninit<Box<dart_caller>>>,
) -> c_int {
    call(|| {
        let answers = given(answers, "answers")?.0;
        let (connection, to) = (given(connection, "connection")?.0.clone(), given(caller, "caller")?);
        let caller = Caller::new(connection, answers, scratch).timeout(timeout(timeout_ms));
        store(to, Box::new(dart_caller(caller)))
    })
}

/// Lets a caller go, with its queue. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_caller_destroy(caller: Option<Box<dart_caller>>) {
    free(caller);
}

/// Asks, and waits for the answer: its first block. -EPERM if the other end does not execute it;
/// dart_connection_status says why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_caller_ask(
    caller: Option<&mut dart_caller>,
    question: Option<&dart_operation>,
    answer: Option<&mut MaybeUninit<[u64; DART_WORDS]>>,
) -> c_int {
    call(|| {
        let (caller, to) = (&mut given(caller, "caller")?.0, given(answer, "answer")?);
        store(to, caller.ask(&given(question, "question")?.read()?)?)
    })
}

/// Does one register operation, DART_STEP_ADD or another, on a register of the other end's window
/// with this operand: fetch and increment, for example. `before` is what it was, and `after` what
/// it is, of which either may be NULL. It fails as dart_caller_ask does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_fetch(
    caller: Option<&mut dart_caller>,
    number: u32,
    step: u32,
    operand: u64,
    before: Option<&mut MaybeUninit<u64>>,
    after: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let caller = &mut given(caller, "caller")?.0;
        let found = caller.fetch(register(number)?, step_of(step)?, operand)?;
        for (to, value) in [(before, found.0), (after, found.1)] {
            if let Some(to) = to {
                to.write(value);
            }
        }
        Ok(0)
    })
}

/// Has a register of the other end's window become `value` if it is `expected`; `found` is what it
/// was. Register `own` of that window is for this caller alone. It fails as dart_caller_ask does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_compare_and_swap(
    caller: Option<&mut dart_caller>,
    number: u32,
    own: u32,
    expected: u64,
    value: u64,
    found: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (caller, to) = (&mut given(caller, "caller")?.0, given(found, "found")?);
        store(to, caller.compare_and_swap(register(number)?, register(own)?, expected, value)?)
    })
}

/// Reads up to 32 bytes from byte `from` of the other end's endpoint on, a multiple of 4. It fails
/// as dart_caller_ask does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_read(
    caller: Option<&mut dart_caller>,
    from: u64,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        let caller = &mut given(caller, "caller")?.0;
        Ok(caller.read(from, bytes_mut(to, length, "to")?).map(|()| 0)?)
    })
}

/// Reads scattered bytes into this end's endpoint, from as many places as there are; the questions
/// do not wait for each other. It fails as dart_caller_ask does, and then some may have been read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_gather(
    caller: Option<&mut dart_caller>,
    pieces: *const dart_piece,
    count: usize,
) -> c_int {
    call(|| {
        let (caller, pieces) = (&mut given(caller, "caller")?.0, items(pieces, count, "pieces")?);
        let pieces = pieces.iter().map(dart_piece::read).collect::<Result<Vec<_>, _>>()?;
        Ok(caller.gather(&pieces).map(|()| 0)?)
    })
}

/// A register of a window, of which there are no more.
pub(crate) fn register(number: u32) -> Result<u8, Failure> {
    let limit = u8::MAX;
    u8::try_from(number)
        .map_err(|_| Failure::argument(format!("register {number} is out of range (limit {limit})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_scratch_as_the_library_takes() {
        assert_eq!(DART_CALLER_SCRATCH, Caller::SCRATCH);
    }
}
