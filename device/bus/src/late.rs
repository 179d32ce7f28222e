//! Reads that the card answers later.

use crate::codec::{Header, RegionAccess, Reply};
use crate::function::ReadToken;
use crate::looks::Looks;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Most reads that wait at one time; QEMU never has more than one for each processor of its
/// machine.
pub(crate) const MAX_LATE_READS: usize = 256;

/// Why an answer to a late read goes nowhere.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum LateReadError {
    /// It was answered with ones in the meantime (deadline or reset), or the client is gone.
    #[error("the read is not waiting any more")]
    Gone,
    /// As many bytes as were read must be answered.
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

/// The reads that wait, oldest first.
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

    /// The reply to a read that waits.
    pub(crate) fn complete(&mut self, token: ReadToken, data: &[u8]) -> Result<Vec<u8>, LateReadError> {
        let at = self.reads.iter().position(|read| read.token == token).ok_or(LateReadError::Gone)?;
        let wanted = self.reads[at].access.count as usize;
        if data.len() != wanted {
            return Err(LateReadError::Length { got: data.len(), wanted });
        }
        let read = self.reads.remove(at).ok_or(LateReadError::Gone)?;
        Ok(Reply::RegionRead(read.access, data.to_vec()).encode(&read.header))
    }

    /// The replies, all ones, to reads whose time is over at `now`.
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

    /// The replies, all ones, to all reads that wait.
    pub(crate) fn give_up(&mut self) -> Vec<Vec<u8>> {
        self.reads.drain(..).map(|read| all_ones(&read.header, read.access)).collect()
    }

    /// When to look at them again: the oldest is over first.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.reads.front().map(|read| read.time.next())
    }
}

/// What a read gets from a PCI function that does not answer.
pub(crate) fn all_ones(header: &Header, access: RegionAccess) -> Vec<u8> {
    Reply::RegionRead(access, vec![0xff; access.count as usize]).encode(header)
}
