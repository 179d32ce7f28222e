//! Reads that the card answers later.

use crate::codec::{Header, RegionAccess, Reply};
use crate::function::ReadToken;
use crate::looks::Looks;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum number of deferred reads. QEMU never has more than one for each processor of its
/// machine.
pub(crate) const MAX_LATE_READS: usize = 256;

/// Why an answer to a deferred read was not sent.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum LateReadError {
    /// The read was answered with all ones in the meantime (deadline or reset), or the client is
    /// gone.
    #[error("the read is not waiting any more")]
    Gone,
    /// The answer must have as many bytes as the read.
    #[error("an answer of {got} bytes to a read of {wanted}")]
    Length {
        /// Bytes of the answer.
        got: usize,
        /// Bytes of the read.
        wanted: usize,
    },
}

#[derive(Debug)]
struct LateRead {
    token: ReadToken,
    header: Header,
    access: RegionAccess,
    time: Looks,
}

/// The deferred reads, oldest first.
#[derive(Debug, Default)]
pub(crate) struct LateReads {
    reads: VecDeque<LateRead>,
}

impl LateReads {
    pub(crate) fn is_full(&self) -> bool {
        self.reads.len() >= MAX_LATE_READS
    }

    pub(crate) fn add(&mut self, token: ReadToken, header: Header, access: RegionAccess, deadline: Duration) {
        self.reads.push_back(LateRead { token, header, access, time: Looks::new(Instant::now(), deadline) });
    }

    /// Returns the reply to a deferred read.
    pub(crate) fn complete(&mut self, token: ReadToken, data: &[u8]) -> Result<Vec<u8>, LateReadError> {
        let at = self.reads.iter().position(|read| read.token == token).ok_or(LateReadError::Gone)?;
        let wanted = self.reads[at].access.count as usize;
        if data.len() != wanted {
            return Err(LateReadError::Length { got: data.len(), wanted });
        }
        let read = self.reads.remove(at).ok_or(LateReadError::Gone)?;
        Ok(Reply::RegionRead(read.access, data.to_vec()).encode(&read.header))
    }

    /// Returns replies with all ones to the reads whose deadline has passed at `now`.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        self.reads.retain_mut(|read| {
            let is_over = read.time.is_over(now);
            if is_over {
                replies.push(all_ones(&read.header, read.access));
            }
            !is_over
        });
        replies
    }

    /// Returns replies with all ones to all deferred reads.
    pub(crate) fn give_up(&mut self) -> Vec<Vec<u8>> {
        self.reads.drain(..).map(|read| all_ones(&read.header, read.access)).collect()
    }

    /// Returns the time of the next check. The oldest read expires first.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.reads.front().map(|read| read.time.next())
    }
}

/// Returns what a read from a PCI function that does not answer gets.
pub(crate) fn all_ones(header: &Header, access: RegionAccess) -> Vec<u8> {
    Reply::RegionRead(access, vec![0xff; access.count as usize]).encode(header)
}
