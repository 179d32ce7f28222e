//! Bytes of send buffers in use.

use std::collections::VecDeque;

use hamlyn_abi::hamlyn::request::HamlynGather;

use crate::error::Result;
use crate::hamlyn::errors::InFlightError;

/// The ranges of a terminus' send buffers that requests in flight gather from, in the order of the
/// requests.
#[derive(Debug, Default)]
pub(crate) struct Uses(VecDeque<Use>);

#[derive(Debug)]
struct Use {
    tag: u32,
    offset: u64,
    end: u64,
    request: u64,
}

impl Uses {
    /// Records that a request gathers from a piece.
    pub(super) fn add(&mut self, piece: &HamlynGather, request: u64) {
        let offset = u64::from(piece.offset);
        self.0.push_back(Use { tag: piece.tag, offset, end: offset + u64::from(piece.length), request });
    }

    /// Removes the ranges of requests up to `completed`.
    pub(super) fn release(&mut self, completed: u64) {
        while self.0.front().is_some_and(|used| used.request <= completed) {
            self.0.pop_front();
        }
    }

    /// Returns whether any bytes of the buffer with this tag are in use.
    pub(super) fn has(&self, tag: u32) -> bool {
        self.0.iter().any(|used| used.tag == tag)
    }

    /// Fails if any of these bytes are in use.
    pub(crate) fn check(&self, tag: u32, offset: u64, length: u64) -> Result<()> {
        let end = offset + length;
        match self.0.iter().find(|used| used.tag == tag && used.offset < end && offset < used.end) {
            Some(Use { request, offset, end, .. }) => {
                Err(InFlightError { tag, request: *request, offset: *offset, end: *end }.into())
            }
            None => Ok(()),
        }
    }
}
