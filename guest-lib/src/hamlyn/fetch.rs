//! Remote fetch-and-op: an extension. Section 5.1 credits one to the first proposal of Hamlyn; this
//! one passes the checks that any message of 8 bytes passes (sections 2.2 and 2.7), and needs the
//! slot's leave besides, because it reads.

use std::time::Duration;

use hamlyn_abi::hamlyn::request::*;

use crate::error::{Error, Result};
use crate::hamlyn::request::{Message, RequestBlock};
use crate::hamlyn::terminus::{Handle, Terminus};
use crate::hamlyn::ticket::Ticket;

/// Size of the word, in bytes; its offset is a multiple of it.
const WORD: u32 = size_of::<u64>() as u32;

/// What becomes of the 64-bit word, in one piece as far as other fetch-and-ops and the owner's own
/// loads can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOp {
    /// The word plus this, modulo 2^64. `Add(0)` only reads.
    Add(u64),
    /// The word and this, bit by bit.
    And(u64),
    /// The word or this, bit by bit.
    Or(u64),
    /// The word exclusive-or this, bit by bit.
    Xor(u64),
    /// This.
    Swap(u64),
    /// `swap` if the word is `compare`, else the word as it is.
    CompareSwap {
        /// What the word must be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
}

impl FetchOp {
    /// The operation's number and body, as the card takes them.
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
    /// Changes the 64-bit word that lies `offset` bytes behind the start of the ticket's buffer,
    /// and fetches what it was. The slot must have been created with
    /// [`crate::SlotBuilder::allow_fetch`]. Nobody is notified.
    ///
    /// The request stands in the work queue as a message does, and what is posted behind it waits
    /// until the answer is there: a round trip. For several at a time, take several termini. While
    /// all work-queue entries are in use it waits.
    ///
    /// # Errors
    /// [`Error::Misaligned`] if the word's place in the message area is not a multiple of 8,
    /// [`Error::PastEnd`] if it does not lie in the ticket's buffer, [`Error::OutOfRange`].
    pub fn fetch(&self, ticket: &Ticket, offset: u32, operation: FetchOp) -> Result<Fetch> {
        let (number, body) = operation.encode();
        let block = RequestBlock::fetch(&Message::to(ticket).offset(offset), number, &body)?;
        Ok(Fetch { handle: self.post(&block)? })
    }
}

impl RequestBlock {
    fn fetch(message: &Message<'_>, operation: u32, body: &HamlynFetch) -> Result<Self> {
        let word = message.head(WORD as usize, WORD)?;
        if word.offset % WORD != 0 {
            let (value, multiple) = (word.offset.into(), WORD.into());
            return Err(Error::Misaligned { object: "offset of a fetch-and-op", value, multiple });
        }
        let head = HamlynRequest {
            flags: HAMLYN_REQUEST_FETCH,
            operation,
            length: size_of::<HamlynFetch>() as u32,
            ..word
        };
        Self::raw(&head, zerocopy::IntoBytes::as_bytes(body))
    }
}

/// A fetch-and-op on its way. It may be dropped: the word is changed all the same.
#[derive(Debug)]
pub struct Fetch {
    handle: Handle,
}

impl Fetch {
    /// The word as it was before, if the answer is there. It stays the same however late one asks.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`crate::Statistic::RefusedByDestination`] if the destination's
    /// card refused (a wrong key, bounds, a slot that does not allow it: that card counts which),
    /// [`crate::Statistic::RefusedUnanswered`] if it did not answer within 10 s (then nobody knows
    /// whether the word was changed), or another reason of this card's.
    pub fn value(&self) -> Result<Option<u64>> {
        self.handle.fetched().transpose()
    }

    /// Makes [`Terminus::file`] readable once the answer is there, as [`Handle::arm`]. True if it
    /// is already.
    ///
    /// # Errors
    /// Those of [`Terminus::arm_room`].
    pub fn arm(&self) -> Result<bool> {
        self.handle.arm()
    }

    /// Waits for the word as it was before, for ever if there is no time-out.
    ///
    /// # Errors
    /// Those of [`Fetch::value`], and [`Error::TimedOut`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<u64> {
        self.handle.wait_for("answer to a fetch-and-op", timeout, Handle::fetched)
    }
}
