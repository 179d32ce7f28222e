//! Channels from offers that two processes have exchanged, and a connection between the two.

use std::sync::{Arc, OnceLock};

use super::Channel;
use super::bell::{Bell, Ear};
use super::ground::Ground;
use super::offer::Offer;
use super::receiver::ChannelReceiver;
use super::sender::ChannelSender;
use crate::core::connection::Connection;
use crate::core::express::memory::RingMemory;
use crate::core::express::pages::{ExpressArea, ExpressView};
use crate::core::watch::Watch;
use crate::error::{Error, Result};
use crate::hamlyn::attach::Attachment;
use crate::hamlyn::manager::Manager;
use crate::hamlyn::ticket::Ticket;

/// One end of an express memory channel that is not connected to the other yet. For applications
/// that connect and exchange offers in their own way.
///
/// Each of two processes creates one for the other's host and passes on its offer. Then it joins
/// the offer that it received to a connection between the two.
#[derive(Debug)]
pub struct ChannelEnd {
    manager: Manager,
    area: ExpressArea<dyn Attachment>,
    ring: RingMemory,
    ear: Arc<Ear>,
}

impl ChannelEnd {
    /// Allocates an area to receive in from a host. The ring has `capacity` bytes, rounded up to
    /// whole pages.
    ///
    /// # Errors
    /// The errors of [`crate::Card::create_express_area`]; the errors of opening a slot.
    pub fn create(manager: &Manager, host: u32, capacity: u64) -> Result<Self> {
        let length = usize::try_from(RingMemory::area_for(capacity.max(1))).unwrap_or(usize::MAX);
        let area = manager.card().create_express_area(host, length)?;
        let ring = RingMemory::of(&area).ok_or(Error::Invalid("a channel's area has two pages at least"))?;
        ring.make();
        Ok(Self { manager: manager.clone(), area, ring, ear: Ear::open(manager)? })
    }

    /// Returns what the other end needs from this one, to be passed on by any means. Any process
    /// that knows it can take this end's place there.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn offer(&self) -> Result<Vec<u8>> {
        let (area, key, ticket) = (self.area.number(), self.area.key(), self.ear.ticket()?);
        Ok(Offer { capacity: self.ring.capacity(), area, key, ticket }.to_bytes().to_vec())
    }

    /// Creates the complete channel from the other end's offer and a connection with its process.
    /// The connection notifies either end when the other ends.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the offer is not valid, or is from another host than the connection;
    /// the errors of [`crate::Card::map_express_area`].
    pub fn join(self, offer: &[u8], connection: Connection) -> Result<Channel> {
        let host = connection.host();
        let peer = Offer::from_bytes(offer, host)?;
        let view = View::map(&self.manager, host, &peer)?;
        Ok(self.assemble(view, peer.ticket, connection))
    }

    fn assemble(self, view: View, ticket: Ticket, connection: Connection) -> Channel {
        let Self { manager, area, ring, ear } = self;
        let bells = [Bell::new(&manager, ticket), Bell::new(&manager, ticket)];
        let watch = Watch::over(connection);
        let (there, broken) = (view.ring.clone(), OnceLock::new());
        let ground = Arc::new(Ground { watch, _area: area, _view: view.view, there, broken, ear });
        let [to, from] = bells;
        Channel {
            sender: ChannelSender::new(&ground, view.ring, to),
            receiver: ChannelReceiver::new(&ground, ring, from),
        }
    }
}

/// The peer's area.
struct View {
    view: ExpressView<dyn Attachment>,
    ring: RingMemory,
}

impl View {
    fn map(manager: &Manager, host: u32, peer: &Offer) -> Result<Self> {
        let view = manager.card().map_express_area(host, peer.area, peer.key)?;
        let ring = RingMemory::of(&view).filter(|ring| ring.capacity() == peer.capacity && ring.is_made());
        let ring = ring.ok_or(Error::Malformed("an area that is none of a channel, or of another length"))?;
        Ok(Self { view, ring })
    }
}
