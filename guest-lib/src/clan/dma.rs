//! DMA requests (section 3.4).

use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::clan::uapi::ClanKick;

use super::dma_queue::Requested;
use super::endpoint::core::{Core, DMA};
use super::transfer::Transfer;
use crate::error::{Error, Result};

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
    pub fn try_put(&self, transfer: &Transfer) -> Result<Requested> {
        self.try_put_chain(std::slice::from_ref(transfer))
    }

    /// Queues a chain of requests, if there is room for all: if one fails, the rest are skipped
    /// ([`super::DmaError::Skipped`]). Returns the number of the last request.
    ///
    /// # Errors
    /// Same as [`Dma::try_put`]; [`Error::OutOfRange`] if the chain is longer than the queue;
    /// [`Error::Invalid`] if it is empty.
    pub fn try_put_chain(&self, transfers: &[Transfer]) -> Result<Requested> {
        let (core, mut queue) = (&self.core, self.core.dma());
        queue.harvest(core.state());
        queue.check_room(transfers.len())?;
        let last = queue.put(core.state(), transfers);
        if core.state().publish(queue.queued()) {
            if queue.is_drivers() {
                core.card().kick(&mut ClanKick { endpoint: core.number(), reserved: 0 })?;
            } else {
                core.state().go();
            }
        }
        Ok(last)
    }

    /// Queues a chain of requests like [`Dma::try_put_chain`]; blocks until there is room.
    ///
    /// # Errors
    /// Same as [`Dma::try_put_chain`], except [`Error::WouldBlock`].
    pub fn put_chain(&self, transfers: &[Transfer]) -> Result<Requested> {
        self.put_chain_within(transfers, None)
    }

    /// As [`Dma::put_chain`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Dma::put_chain`].
    pub fn put_chain_timeout(&self, transfers: &[Transfer], timeout: Duration) -> Result<Requested> {
        self.put_chain_within(transfers, Some(timeout))
    }

    fn put_chain_within(&self, transfers: &[Transfer], timeout: Option<Duration>) -> Result<Requested> {
        self.core.wait_until(DMA, timeout, "room for a DMA request", || match self.try_put_chain(transfers) {
            Err(Error::WouldBlock { .. }) => Ok(None),
            other => other.map(Some),
        })
    }

    /// Returns whether a request is complete, without a system call.
    ///
    /// # Errors
    /// [`crate::clan::DmaError`] if the request failed. Only the latest failures are remembered: as
    /// many as the queue has room for requests.
    pub fn is_done(&self, request: Requested) -> Result<bool> {
        let mut queue = self.core.dma();
        queue.harvest(self.core.state());
        queue.is_done(request)
    }

    /// Blocks until a request is complete. A quiet request without a later one that notifies is
    /// polled from time to time.
    ///
    /// # Errors
    /// [`crate::clan::DmaError`] if the request failed; [`Error::System`] if the card is gone.
    pub fn wait(&self, request: Requested) -> Result<()> {
        self.wait_within(request, None)
    }

    /// As [`Dma::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Dma::wait`].
    pub fn wait_timeout(&self, request: Requested, timeout: Duration) -> Result<()> {
        self.wait_within(request, Some(timeout))
    }

    pub(super) fn wait_within(&self, request: Requested, timeout: Option<Duration>) -> Result<()> {
        self.core
            .wait_until(DMA, timeout, "end of a DMA request", || Ok(self.is_done(request)?.then_some(())))
    }

    /// Returns the number of queued requests that are not complete.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let mut queue = self.core.dma();
        queue.harvest(self.core.state());
        queue.in_flight()
    }
}
