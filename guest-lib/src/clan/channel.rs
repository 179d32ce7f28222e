//! Channels over CLAN cards: a distributed queue (section 4.2) with a Tripwire on its words.
//!
//! Each half has an endpoint and one aperture, which holds both its area and its mirror. A message
//! goes by DMA, in a chain that ends with the word: one doorbell, where each 8 bytes that are
//! stored through a window would be a trap. A Tripwire over the words that the peer stores wakes a
//! sleeping half.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::aperture::Aperture;
use super::card::Card;
use super::descriptor::Descriptor;
use super::dma::Dma;
use super::dma_queue::Requested;
use super::endpoint::Endpoint;
use super::endpoint::core::{DMA, FAULT};
use super::model::Clan;
use super::rights::Rights;
use super::transfer::Transfer;
use super::tripwire::{Tripwire, Watch};
use crate::core::carrier::{AnyCard, Carrier};
use crate::core::express::memory::{RingMemory, place};
use crate::core::express::ring::Word;
use crate::core::model::Model;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::error::{Error, Result, inside};

/// Offset of the words that end a chain, one for each chain that may be in flight: the queue has
/// room for 64 requests.
const SLOTS: usize = 1024;
const SLOT_COUNT: usize = 128;
/// Requests of the longest chain: two pieces and the word. The rest of the queue may be in flight
/// before it.
const CHAIN: usize = 3;
const REQUESTS: usize = 64;
/// Maximum time for the card to make room for a chain.
const PATIENCE: Duration = Duration::from_secs(30);

impl Carrier for Card {
    fn model(&self) -> (&'static str, u32) {
        (Clan::NAME, Clan::NUMBER)
    }

    fn card(&self) -> &dyn AnyCard {
        self
    }

    fn ends(&self, _host: u32, capacity: u64) -> Result<Box<dyn Ends>> {
        Ok(Box::new(ClanEnds::create(self, capacity)?))
    }
}

/// Both halves, before the peer's halves are known.
#[derive(Debug)]
struct ClanEnds {
    sender: Own,
    receiver: Own,
}

#[derive(Debug)]
struct Own {
    endpoint: Endpoint,
    aperture: Aperture,
    tripwire: Tripwire,
    memory: RingMemory,
}

impl Own {
    /// Creates a half. `watched` is the range of words that the peer stores.
    fn create(card: &Card, capacity: u64, watched: Range<usize>) -> Result<Self> {
        let endpoint = card.endpoint()?;
        let aperture = card.aperture(PAGE + capacity as usize, Rights::Write)?;
        let tripwire = endpoint.tripwire(&Watch::local(&aperture, watched)?)?;
        let memory = RingMemory::over(aperture.memory().mapping().clone());
        let memory = memory.ok_or(Error::Invalid("a channel's area has two pages at least"))?;
        Ok(Self { endpoint, aperture, tripwire, memory })
    }

    fn join(self, peer: &[u8], host: u32) -> Result<Box<dyn Remote>> {
        let peer = Descriptor::from_bytes(peer)?;
        if peer.host() != Some(host) {
            return Err(Error::Malformed("a descriptor of memory that is not at its host"));
        }
        inside("peer's aperture", 0, self.aperture.len() as u64, peer.len())?;
        let dma = self.endpoint.dma();
        Ok(Box::new(Half { dma, peer, own: self, last: Cell::default(), chains: Cell::default() }))
    }
}

impl ClanEnds {
    fn create(card: &Card, capacity: u64) -> Result<Self> {
        let words = |first, last| place(first)..place(last) + 8;
        let sender = Own::create(card, capacity, words(Word::Released, Word::Left))?;
        let receiver = Own::create(card, capacity, words(Word::Written, Word::Ended))?;
        Ok(Self { sender, receiver })
    }
}

impl Ends for ClanEnds {
    fn address(&self) -> Result<Vec<u8>> {
        let [sender, receiver] = [&self.sender, &self.receiver].map(|own| own.aperture.descriptor());
        Ok([sender?.to_bytes(), receiver?.to_bytes()].concat())
    }

    fn join(self: Box<Self>, peer: &[u8], host: u32, _capacity: u64) -> Result<[Box<dyn Remote>; 2]> {
        let (sender, receiver) = peer
            .split_at_checked(Descriptor::SIZE)
            .ok_or(Error::Malformed("an offer of a channel that is too short"))?;
        Ok([self.sender.join(receiver, host)?, self.receiver.join(sender, host)?])
    }
}

#[derive(Debug)]
struct Half {
    dma: Dma,
    peer: Descriptor,
    /// The last chain, and the number of chains so far.
    last: Cell<Option<Requested>>,
    chains: Cell<usize>,
    own: Own,
}

impl Half {
    fn bits(&self) -> u64 {
        self.own.tripwire.bit() | FAULT
    }
}

impl Remote for Half {
    fn area(&self) -> &RingMemory {
        &self.own.memory
    }

    fn mirror(&self) -> &RingMemory {
        &self.own.memory
    }

    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()> {
        let (aperture, chain) = (&self.own.aperture, self.chains.get());
        let slot = SLOTS + chain % SLOT_COUNT * 8;
        aperture.store_u64(slot, value)?;
        let mut transfers = Vec::with_capacity(CHAIN);
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let (at, length) = (PAGE as u64 + piece.start, (piece.end - piece.start) as usize);
            transfers.push(Transfer::write(aperture, at as usize, &self.peer, at, length)?.quiet());
        }
        transfers.push(Transfer::write(aperture, slot, &self.peer, place(word) as u64, 8)?);
        self.last.set(Some(self.dma.put_chain_timeout(&transfers, PATIENCE)?));
        self.chains.set(chain + 1);
        Ok(())
    }

    fn wait_for_room(&self, limit: Option<Duration>) -> Result<bool> {
        let look = || Ok((self.dma.in_flight() + CHAIN <= REQUESTS).then_some(()));
        if look()?.is_some() {
            return Ok(true);
        }
        match self.own.endpoint.core().wait_until(DMA, limit, "room for a DMA request", look) {
            Err(error) if error.is_timed_out() => Ok(false),
            waited => waited.map(|()| true),
        }
    }

    fn arm(&self) -> Result<()> {
        self.own.endpoint.core().state().clear(self.bits());
        Ok(())
    }

    /// The bits stay set until the next call arms.
    fn arm_file(&self) -> Result<bool> {
        Ok(false)
    }

    fn file(&self) -> Result<OwnedFd> {
        self.own.endpoint.core().file(self.bits())
    }

    fn check(&self) -> Result<()> {
        if let Some(last) = self.last.get() {
            self.dma.is_done(last)?;
        }
        self.own.endpoint.try_recv_fault().map_or(Ok(()), |fault| Err(fault.into()))
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        self.last.get().map_or(Ok(()), |last| self.dma.wait_within(last, limit))
    }
}
