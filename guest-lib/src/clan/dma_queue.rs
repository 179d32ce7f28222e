//! Queues of DMA requests in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use hamlyn_abi::clan::dma::CLAN_DMA_CHAIN;

use super::aperture;
use super::dma_error::DmaError;
use super::endpoint::state::State;
use super::transfer::Transfer;
use crate::error::{Error, Result, at_most};

/// The sequence number of a request within its endpoint, used to query its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requested(pub u64);

/// The owner's state of an endpoint's queue of DMA requests.
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

    pub(super) fn check_room(&self, count: usize) -> Result<()> {
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
    pub(super) fn put(&mut self, state: &State, transfers: &[Transfer]) -> Requested {
        for (left, transfer) in (0..transfers.len()).rev().zip(transfers) {
            let mut request = transfer.request();
            if left != 0 {
                request.flags |= CLAN_DMA_CHAIN;
            }
            state.put_request(self.put as u32, &request);
            self.flying.push_back(transfer.local().clone());
            self.put += 1;
        }
        Requested(self.put - 1)
    }

    /// Returns the number of requests queued, modulo 2^32.
    pub(super) fn queued(&self) -> u32 {
        self.put as u32
    }

    /// Returns the number of requests that are not known to be complete.
    pub(super) fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Returns whether the driver programs the DMA engine.
    pub(super) fn is_drivers(&self) -> bool {
        self.drivers
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

    pub(super) fn is_done(&self, request: Requested) -> Result<bool> {
        if request.0 >= self.put {
            return Err(Error::Invalid("no such request was put into this queue"));
        }
        match self.failed.iter().find(|(number, _)| *number == request.0) {
            Some((_, error)) => Err((*error).into()),
            None => Ok(request.0 < self.ended),
        }
    }
}
