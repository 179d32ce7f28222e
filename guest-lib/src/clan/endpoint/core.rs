//! The state of an endpoint.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_abi::clan::dma::CLAN_REQUEST_SIZE;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::uapi::{CLAN_DRIVERS_DMA, ClanEndpoint, ClanPeer, ClanSend};
use hamlyn_sys::Access;
use rustix::io::Errno;

use super::super::attachment::{Attachment, Object};
use super::super::dma_queue::Queue;
use super::address::Address;
use super::fault::Fault;
use super::message::{self, MESSAGE_SIZE, Message, MessageKind};
use super::places::Places;
use super::state::State;
use crate::core::device::is;
use crate::core::loss::PeerLoss;
use crate::core::polling::{Poller, Polling};
use crate::error::{Error, Result};

/// The bit for messages in [`Core::wait_until`].
pub(crate) const MESSAGE: u64 = 1 << CLAN_BIT_MESSAGE;
/// The bit for faults.
pub(crate) const FAULT: u64 = 1 << CLAN_BIT_FAULT;
/// The bit for DMA requests.
pub(crate) const DMA: u64 = 1 << CLAN_BIT_DMA;

/// The part of an endpoint that its windows, Tripwires and DMA requests share.
#[derive(Debug)]
pub(crate) struct Core {
    // Dropped first. After the close, the card does not write to the memory, and no request uses an
    // aperture.
    open: Open,
    port: u32,
    /// The driver's offset of the memory, which names the endpoint.
    offset: u64,
    state: State,
    poller: Poller,
    tripwires: Mutex<Places>,
    faults_seen: AtomicU32,
    /// Number of the endpoint's current use. Faults of earlier uses are not reported to this one.
    used_as: AtomicU32,
    /// Number of messages taken.
    messages: Mutex<u32>,
    dma: Mutex<Queue>,
}

#[derive(Debug)]
struct Open {
    card: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.close(Object::Endpoint, self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// Opens an endpoint. The caller has checked the argument.
    pub(super) fn open(card: &Arc<dyn Attachment>, argument: ClanEndpoint, polling: Polling) -> Result<Self> {
        let mut opened = argument;
        card.open_endpoint(&mut opened)?;
        let open = Open { card: card.clone(), number: opened.endpoint };
        let length = (CLAN_STATE_SIZE + opened.requests * CLAN_REQUEST_SIZE) as usize;
        let memory = card.map_pages("endpoint", opened.memory_offset, length, Access::ReadWrite)?;
        let size = CLAN_ENDPOINT_SIZE as usize;
        let page = card.map_pages("endpoint's page", opened.page_offset, size, Access::Write)?;
        Ok(Self {
            open,
            port: opened.port,
            offset: opened.memory_offset,
            state: State::new(memory, page, opened.requests),
            poller: Poller::new(polling),
            tripwires: Mutex::new(Places::new(opened.tripwires)),
            faults_seen: AtomicU32::new(0),
            used_as: AtomicU32::new(0),
            messages: Mutex::new(0),
            dma: Mutex::new(Queue::new(opened.requests, opened.flags & CLAN_DRIVERS_DMA != 0)),
        })
    }

    pub(super) fn port(&self) -> u32 {
        self.port
    }

    pub(super) fn poller(&self) -> &Poller {
        &self.poller
    }

    pub(crate) fn card(&self) -> &Arc<dyn Attachment> {
        &self.open.card
    }

    pub(crate) fn number(&self) -> u32 {
        self.open.number
    }

    /// Opens the endpoint's own file, which is readable while one of these bits is set.
    pub(crate) fn file(&self, bits: u64) -> Result<OwnedFd> {
        self.open.card.object_file(self.offset, bits)
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn dma(&self) -> MutexGuard<'_, Queue> {
        lock(&self.dma)
    }

    pub(crate) fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.tripwires)
    }

    /// Returns the last fault if the fault count differs from `before`, to explain why a load
    /// returned all ones. It may be the fault of another access: only the last one is known, and
    /// the load's fault may have preceded it.
    pub(crate) fn fault_since(&self, before: u32) -> Option<Fault> {
        let (count, fault) = self.last_fault();
        fault.filter(|_| count != before)
    }

    /// Returns the number of faults and the last fault.
    pub(crate) fn last_fault(&self) -> (u32, Option<Fault>) {
        self.state.fault(self.used_as.load(Ordering::Acquire))
    }

    /// Begins another use of the endpoint: later faults of earlier accesses are not reported.
    pub(crate) fn begin_use(&self) {
        let number = self.used_as.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        self.state.begin_use(number);
    }

    pub(crate) fn faults(&self) -> u32 {
        self.state.faults()
    }

    pub(crate) fn take_fault(&self) -> Option<Fault> {
        let (count, fault) = self.last_fault();
        let seen = self.faults_seen.swap(count, Ordering::AcqRel);
        fault.filter(|_| count != seen)
    }

    /// Returns whether there is a message that the owner has not taken yet.
    pub(crate) fn has_message(&self) -> bool {
        self.state.message(*lock(&self.messages)).is_some()
    }

    pub(crate) fn has_fault(&self) -> bool {
        let (count, fault) = self.last_fault();
        fault.is_some() && count != self.faults_seen.load(Ordering::Acquire)
    }

    pub(crate) fn try_message(&self) -> Option<Message> {
        let mut taken = lock(&self.messages);
        let message = Message::of(&self.state.message(*taken)?);
        *taken = taken.wrapping_add(1);
        self.state.messages_taken(*taken);
        Some(message)
    }

    pub(crate) fn send(&self, to: Address, kind: MessageKind, data: &[u8; MESSAGE_SIZE]) -> Result<()> {
        let (data, endpoint) = (message::words(data), self.number());
        let mut send = ClanSend { endpoint, host: to.host, port: to.port, kind: kind.number(), data };
        self.card().send(&mut send).map_err(|error| match error {
            Error::System { source, .. } if is(&source, Errno::HOSTUNREACH) => {
                Error::PeerLost(PeerLoss::Host)
            }
            error => error,
        })
    }

    pub(crate) fn set_peer(&self, peer: Option<Address>) -> Result<()> {
        let (host, port) = peer.map_or((0, 0), |peer| (peer.host, peer.port));
        self.card().set_peer(&mut ClanPeer { endpoint: self.number(), host, port, reserved: 0 })
    }
}
