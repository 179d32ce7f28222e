//! Remote fetch-and-op: an extension. Section 5.1 credits one to the first proposal of Hamlyn. This
//! one passes the same checks as any message of 8 bytes (sections 2.2 and 2.7). It also needs the
//! slot's permission, because it reads.

use std::time::Duration;

use hamlyn_abi::hamlyn::request::*;
use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::hamlyn::request::{Body, Message, Request};
use crate::hamlyn::terminus::{Handle, Terminus};
use crate::hamlyn::ticket::Ticket;

/// Size of the word, in bytes. Its offset is a multiple of this.
const WORD: u32 = size_of::<u64>() as u32;

/// The operation on the 64-bit word. It is atomic with respect to other fetch-and-ops and the
/// owner's own loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOp {
    /// Adds this to the word, modulo 2^64. `Add(0)` only reads.
    Add(u64),
    /// Bitwise AND.
    And(u64),
    /// Bitwise OR.
    Or(u64),
    /// Bitwise exclusive OR.
    Xor(u64),
    /// Replaces the word.
    Swap(u64),
    /// Replaces the word with `swap` if it equals `compare`; otherwise leaves it unchanged.
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
}

impl FetchOp {
    /// Returns the operation's number and body in the card's format.
    fn encode(self) -> (u32, HamlynFetch) {
        let with = |operand| HamlynFetch { operand, compare: 0 };
        match self {
            FetchOp::Add(operand) => (HAMLYN_FETCH_ADD, with(operand)),
            FetchOp::And(operand) => (HAMLYN_FETCH_AND, with(operand)),
            FetchOp::Or(operand) => (HAMLYN_FETCH_OR, with(operand)),
            FetchOp::Xor(operand) => (HAMLYN_FETCH_XOR, with(operand)),
            FetchOp::Swap(operand) => (HAMLYN_FETCH_SWAP, with(operand)),
            FetchOp::CompareSwap { compare, swap } => {
                (HAMLYN_FETCH_COMPARE_SWAP, HamlynFetch { operand: swap, compare })
            }
        }
    }
}

impl Terminus {
    /// Changes the 64-bit word at `offset` bytes after the start of the ticket's buffer, and
    /// fetches its old value. The slot must have been created with
    /// [`crate::SlotBuilder::allow_fetch`]. No notification is sent.
    ///
    /// The request occupies the work queue like a message. Requests posted after it wait until the
    /// answer has arrived: one round trip. To have several in flight, use several termini. If all
    /// work-queue entries are in use, this call waits.
    ///
    /// # Errors
    /// [`Error::Misaligned`] if the word's offset in the message area is not a multiple of 8,
    /// [`Error::PastEnd`] if the word is not inside the ticket's buffer, [`Error::OutOfRange`].
    pub fn fetch(&self, ticket: &Ticket, offset: u32, operation: FetchOp) -> Result<Fetch> {
        let (number, body) = operation.encode();
        let head = head(&Message::to(ticket).offset(offset), number)?;
        Ok(Fetch { handle: self.post_raw(&Request::raw(head, Body::Bytes(body.as_bytes())))? })
    }
}

/// Checks where the word is, and builds the head.
fn head(message: &Message<'_>, operation: u32) -> Result<HamlynRequest> {
    let word = message.head(WORD as usize, WORD)?;
    if word.offset % WORD != 0 {
        let (value, multiple) = (word.offset.into(), WORD.into());
        return Err(Error::Misaligned { object: "offset of a fetch-and-op", value, multiple });
    }
    let (flags, length) = (HAMLYN_REQUEST_FETCH, size_of::<HamlynFetch>() as u32);
    Ok(HamlynRequest { flags, operation, length, ..word })
}

/// A fetch-and-op in flight. If it is dropped, the word is still changed.
#[derive(Debug)]
pub struct Fetch {
    handle: Handle,
}

impl Fetch {
    /// Returns the old value of the word, or `None` if the answer has not arrived. The result stays
    /// the same however late it is queried.
    ///
    /// # Errors
    /// [`crate::RefusedError`] with one of these reasons:
    ///
    /// - [`crate::Statistic::RefusedByDestination`] if the destination's card refused: a wrong key,
    ///   bounds, or a slot that does not allow it. That card counts which.
    /// - [`crate::Statistic::RefusedUnanswered`] if that card did not answer within 10 s. Then it
    ///   is unknown whether the word was changed.
    /// - Another reason of this host's card.
    pub fn value(&self) -> Result<Option<u64>> {
        self.handle.fetched().transpose()
    }

    /// Makes [`Terminus::file`] readable once the answer has arrived, like [`Handle::arm`]. Returns
    /// true if it already has.
    ///
    /// # Errors
    /// The errors of [`Terminus::arm_room`].
    pub fn arm(&self) -> Result<bool> {
        self.handle.arm()
    }

    /// Waits for the old value of the word.
    ///
    /// # Errors
    /// The errors of [`Fetch::value`].
    pub fn wait(&self) -> Result<u64> {
        self.handle.wait_for("answer to a fetch-and-op", None, Handle::fetched)
    }

    /// As [`Fetch::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Fetch::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<u64> {
        self.handle.wait_for("answer to a fetch-and-op", Some(timeout), Handle::fetched)
    }
}
