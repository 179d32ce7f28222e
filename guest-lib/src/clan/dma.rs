//! DMA requests (section 3.4).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::uapi::ClanKick;

use super::aperture::{self, Aperture};
use super::descriptor::Descriptor;
use super::endpoint::{Core, DMA, State};
use crate::error::{Error, ErrorKind, Result, at_most, inside};

/// A transfer between an aperture of this process and an aperture of any host.
#[derive(Debug, Clone)]
#[must_use]
pub struct Transfer {
    request: ClanRequest,
    local: Arc<aperture::Parts>,
}

impl Transfer {
    /// Writes from `offset` of this process' memory to `to_offset` of the remote memory. The local
    /// aperture may have any access rights.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::OutOfRange`] if `length` is over 1 GiB; [`Error::Invalid`] if
    /// it is 0.
    pub fn write(
        from: &Aperture,
        offset: usize,
        to: &Descriptor,
        to_offset: u64,
        length: usize,
    ) -> Result<Self> {
        Self::new(CLAN_DMA_WRITE, (from, offset), (to, to_offset), length)
    }

    /// Reads from `from_offset` of the remote memory to `offset` of this process' memory. The local
    /// aperture may have any access rights.
    ///
    /// # Errors
    /// Same as [`Transfer::write`]; [`Error::Unsupported`] if `from` is a group.
    pub fn read(
        to: &Aperture,
        offset: usize,
        from: &Descriptor,
        from_offset: u64,
        length: usize,
    ) -> Result<Self> {
        if from.is_group() {
            return Err(Error::Unsupported("a group is written to, and never read"));
        }
        Self::new(CLAN_DMA_READ, (to, offset), (from, from_offset), length)
    }

    fn new(
        opcode: u32,
        (local, local_offset): (&Aperture, usize),
        (remote, offset): (&Descriptor, u64),
        length: usize,
    ) -> Result<Self> {
        if length == 0 {
            return Err(Error::Invalid("a transfer has at least one byte"));
        }
        let bytes = length as u64;
        at_most("transfer length", bytes, CLAN_MAX_TRANSFER)?;
        inside("aperture", local_offset as u64, bytes, local.len() as u64)?;
        inside("aperture of the other host", offset, bytes, remote.length)?;
        let request = ClanRequest {
            opcode,
            flags: CLAN_DMA_NOTIFY,
            local_aperture: local.number(),
            local_offset: local_offset as u64,
            host: remote.host,
            aperture: remote.aperture,
            key: remote.key,
            offset,
            length: bytes,
            ..ClanRequest::default()
        };
        Ok(Self { request, local: local.parts().clone() })
    }

    /// Suppresses the notification of its completion, including the event. For all but the last
    /// transfer of a batch, where only the last one is waited for.
    pub fn quiet(mut self) -> Self {
        self.request.flags &= !CLAN_DMA_NOTIFY;
        self
    }
}

/// The sequence number of a request within its endpoint, used to query its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requested(pub u64);

/// An endpoint's queue of DMA requests, in memory shared with the card. Queueing a request makes no
/// system call.
///
/// Requests of one endpoint are carried out in order. A write is complete when all of it has left
/// this host; a refusal by the other host is a fault of the endpoint. A read is complete when its
/// bytes have arrived. By then, everything that the endpoint wrote to that host before has arrived
/// too. Stores through a window may overtake incomplete requests.
#[derive(Debug, Clone)]
pub struct Dma {
    core: Arc<Core>,
}

impl Dma {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Queues a request if there is room.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if the queue is full; [`Error::System`].
    pub fn put(&self, transfer: &Transfer) -> Result<Requested> {
        self.put_chain(std::slice::from_ref(transfer))
    }

    /// Queues a chain of requests: if one fails, the rest are skipped ([`DmaError::Skipped`]).
    /// Returns the number of the last request.
    ///
    /// # Errors
    /// Same as [`Dma::put`]; [`Error::OutOfRange`] if the chain is longer than the queue;
    /// [`Error::Invalid`] if it is empty.
    pub fn put_chain(&self, transfers: &[Transfer]) -> Result<Requested> {
        let (core, mut queue) = (&self.core, self.core.dma());
        queue.harvest(core.state());
        queue.check_room(transfers.len())?;
        let last = queue.put(core.state(), transfers);
        if core.state().publish(queue.put as u32) {
            if queue.drivers {
                core.card().kick(&mut ClanKick { endpoint: core.number(), reserved: 0 })?;
            } else {
                core.state().go();
            }
        }
        Ok(last)
    }

    /// Queues a chain of requests like [`Dma::put_chain`], and blocks until there is room.
    ///
    /// # Errors
    /// Same as [`Dma::put_chain`], except [`Error::WouldBlock`]; [`Error::TimedOut`].
    pub fn put_wait(&self, transfers: &[Transfer], timeout: Option<Duration>) -> Result<Requested> {
        self.core.wait_until(DMA, timeout, "room for a DMA request", || match self.put_chain(transfers) {
            Err(Error::WouldBlock { .. }) => Ok(None),
            other => other.map(Some),
        })
    }

    /// Returns whether a request is complete, without a system call.
    ///
    /// # Errors
    /// [`Error::Dma`] if the request failed. Only the latest failures are remembered: as many as
    /// the queue has room for requests.
    pub fn is_done(&self, request: Requested) -> Result<bool> {
        let mut queue = self.core.dma();
        queue.harvest(self.core.state());
        queue.is_done(request)
    }

    /// Blocks until a request is complete. A quiet request without a later one that notifies is
    /// polled from time to time.
    ///
    /// # Errors
    /// [`Error::Dma`] if the request failed; [`Error::TimedOut`]; [`Error::System`] if the card is
    /// gone.
    pub fn wait(&self, request: Requested, timeout: Option<Duration>) -> Result<()> {
        self.core
            .wait_until(DMA, timeout, "end of a DMA request", || Ok(self.is_done(request)?.then_some(())))
    }

    /// Returns the number of queued requests that are not complete.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let mut queue = self.core.dma();
        queue.harvest(self.core.state());
        queue.flying.len()
    }
}

/// The owner's state of a queue.
#[derive(Debug)]
pub(super) struct Queue {
    room: u32,
    drivers: bool,
    /// Number of requests queued, and number of those known to be complete.
    put: u64,
    ended: u64,
    /// Memory in use by requests in flight, oldest first.
    flying: VecDeque<Arc<aperture::Parts>>,
    failed: VecDeque<(u64, DmaError)>,
}

impl Queue {
    pub(super) fn new(room: u32, drivers: bool) -> Self {
        Self { room, drivers, put: 0, ended: 0, flying: VecDeque::new(), failed: VecDeque::new() }
    }

    fn check_room(&self, count: usize) -> Result<()> {
        if count == 0 {
            return Err(Error::Invalid("a chain of no DMA requests"));
        }
        at_most("DMA requests of a chain", count as u64, self.room.into())?;
        if self.put - self.ended + count as u64 > self.room.into() {
            return Err(Error::WouldBlock { object: "DMA requests of the endpoint", limit: self.room });
        }
        Ok(())
    }

    /// Queues requests. The caller has checked that there is room.
    fn put(&mut self, state: &State, transfers: &[Transfer]) -> Requested {
        for (left, transfer) in (0..transfers.len()).rev().zip(transfers) {
            let mut request = transfer.request;
            if left != 0 {
                request.flags |= CLAN_DMA_CHAIN;
            }
            state.put_request(self.put as u32, &request);
            self.flying.push_back(transfer.local.clone());
            self.put += 1;
        }
        Requested(self.put - 1)
    }

    /// Collects the results of completed requests. A completion count above the number of requests
    /// in flight is ignored.
    pub(super) fn harvest(&mut self, state: &State) {
        let ended = u64::from(state.done().wrapping_sub(self.ended as u32));
        if ended > self.put - self.ended {
            return;
        }
        for _ in 0..ended {
            if let Some(error) = DmaError::of(state.result(self.ended as u32)) {
                self.failed.push_back((self.ended, error));
            }
            self.flying.pop_front();
            self.ended += 1;
        }
        let most = self.room as usize;
        self.failed.drain(..self.failed.len().saturating_sub(most));
    }

    fn is_done(&self, request: Requested) -> Result<bool> {
        if request.0 >= self.put {
            return Err(Error::Invalid("no such request was put into this queue"));
        }
        match self.failed.iter().find(|(number, _)| *number == request.0) {
            Some((_, error)) => Err((*error).into()),
            None => Ok(request.0 < self.ended),
        }
    }
}

/// Reasons why a DMA request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DmaError {
    /// The request is malformed.
    BadRequest,
    /// The local aperture does not belong to this process, or is too short.
    BadLocal,
    /// The other host refused a read.
    Refused,
    /// The other host did not answer a read in time, or there is no link.
    Timeout,
    /// Memory at either end could not be accessed.
    Memory,
    /// An earlier request of the chain failed.
    Skipped,
    /// The card returned a result that this library does not know.
    Unknown(u32),
}

impl DmaError {
    fn of(result: u32) -> Option<Self> {
        Some(match result {
            CLAN_DMA_DONE => return None,
            CLAN_DMA_BAD_REQUEST => DmaError::BadRequest,
            CLAN_DMA_BAD_LOCAL => DmaError::BadLocal,
            CLAN_DMA_REFUSED => DmaError::Refused,
            CLAN_DMA_TIMEOUT => DmaError::Timeout,
            CLAN_DMA_MEMORY => DmaError::Memory,
            CLAN_DMA_SKIPPED => DmaError::Skipped,
            other => DmaError::Unknown(other),
        })
    }

    /// Returns the kind of the error, which tells a program how to react.
    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            DmaError::BadRequest | DmaError::BadLocal => ErrorKind::Invalid,
            DmaError::Refused | DmaError::Memory | DmaError::Skipped | DmaError::Unknown(_) => {
                ErrorKind::Refused
            }
            DmaError::Timeout => ErrorKind::PeerLost,
        }
    }
}

impl std::error::Error for DmaError {}

impl fmt::Display for DmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DMA request failed: ")?;
        f.write_str(match self {
            DmaError::BadRequest => "the card finds that it means nothing",
            DmaError::BadLocal => "the local aperture is another's, or does not have all the bytes",
            DmaError::Refused => "the other host refused a read",
            DmaError::Timeout => "the other host has not answered a read in time, or there is no link",
            DmaError::Memory => "memory could not be reached, at either end",
            DmaError::Skipped => "an earlier one of its chain had failed",
            DmaError::Unknown(result) => return write!(f, "result {result}, which is not known"),
        })
    }
}
