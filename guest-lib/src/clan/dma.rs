//! DMA (section 3.4).

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

/// A transfer between an aperture of this process and one of any host.
#[derive(Debug, Clone)]
#[must_use]
pub struct Transfer {
    request: ClanRequest,
    local: Arc<aperture::Parts>,
}

impl Transfer {
    /// From `offset` of memory of this process, whatever that allows others, to `to_offset` of the
    /// other's.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::OutOfRange`] over 1 GiB; [`Error::Invalid`] for no bytes.
    pub fn write(
        from: &Aperture,
        offset: usize,
        to: &Descriptor,
        to_offset: u64,
        length: usize,
    ) -> Result<Self> {
        Self::new(CLAN_DMA_WRITE, (from, offset), (to, to_offset), length)
    }

    /// From `from_offset` of the other's memory to `offset` of this process', whatever that allows
    /// others.
    ///
    /// # Errors
    /// Those of [`Transfer::write`]; [`Error::Unsupported`] for a group.
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

    /// Nobody is told of its end, by an event or otherwise: for one of many, whose last one is
    /// waited for.
    pub fn quiet(mut self) -> Self {
        self.request.flags &= !CLAN_DMA_NOTIFY;
        self
    }
}

/// The position of a request among those of its endpoint: what it is asked for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requested(pub u64);

/// An endpoint's queue of DMA requests, in memory that it shares with the card. To put a request
/// makes no system call.
///
/// Requests of one endpoint are carried out in their order. A write is done when all of it has
/// left; that the other host refused it is a fault of the endpoint. A read is done when its bytes
/// have come, and then all that the endpoint had written to that host before has arrived. Stores by
/// a window may overtake what is not done yet.
#[derive(Debug, Clone)]
pub struct Dma {
    core: Arc<Core>,
}

impl Dma {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Puts a request, if there is room.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is none now; [`Error::System`].
    pub fn put(&self, transfer: &Transfer) -> Result<Requested> {
        self.put_chain(std::slice::from_ref(transfer))
    }

    /// Puts requests that belong together: if one fails, those behind it are skipped
    /// ([`DmaError::Skipped`]). The last is what it gives.
    ///
    /// # Errors
    /// Those of [`Dma::put`]; [`Error::OutOfRange`] for more than there ever is room for;
    /// [`Error::Invalid`] for none.
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

    /// The same; waits for room.
    ///
    /// # Errors
    /// Those of [`Dma::put_chain`], but for [`Error::WouldBlock`]; [`Error::TimedOut`].
    pub fn put_wait(&self, transfers: &[Transfer], timeout: Option<Duration>) -> Result<Requested> {
        self.core.wait_until(DMA, timeout, "room for a DMA request", || match self.put_chain(transfers) {
            Err(Error::WouldBlock { .. }) => Ok(None),
            other => other.map(Some),
        })
    }

    /// Whether a request is done. It makes no system call.
    ///
    /// # Errors
    /// [`Error::Dma`] if it has failed. Of those that failed the last ones are remembered, as many
    /// as the queue has room for.
    pub fn is_done(&self, request: Requested) -> Result<bool> {
        let mut queue = self.core.dma();
        queue.harvest(self.core.state());
        queue.is_done(request)
    }

    /// Waits until a request is done. One that is quiet, with no other behind it, is waited for by
    /// looking now and then.
    ///
    /// # Errors
    /// [`Error::Dma`] if it has failed; [`Error::TimedOut`]; [`Error::System`] if the card has
    /// gone.
    pub fn wait(&self, request: Requested, timeout: Option<Duration>) -> Result<()> {
        self.core
            .wait_until(DMA, timeout, "end of a DMA request", || Ok(self.is_done(request)?.then_some(())))
    }

    /// How many requests have been put and are not done.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let mut queue = self.core.dma();
        queue.harvest(self.core.state());
        queue.flying.len()
    }
}

/// What the owner of a queue knows of it.
#[derive(Debug)]
pub(super) struct Queue {
    room: u32,
    drivers: bool,
    /// How many were put, and how many of them are known to have ended.
    put: u64,
    ended: u64,
    /// The memory that requests in flight use, the oldest first.
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

    /// Behind a check.
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

    /// Notes what came of requests that have ended. A card that says more than there were is not
    /// believed.
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

/// Why a DMA request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DmaError {
    /// The request means nothing.
    BadRequest,
    /// The local aperture is not this process', or does not have all the bytes.
    BadLocal,
    /// The other host refused a read.
    Refused,
    /// The other host has not answered a read in time, or there is no link.
    Timeout,
    /// Memory could not be reached, at either end.
    Memory,
    /// An earlier request of the chain failed.
    Skipped,
    /// The card says what this library does not know.
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

    /// What a program can do about it.
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
