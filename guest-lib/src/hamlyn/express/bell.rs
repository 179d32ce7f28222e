//! How the two ends of a channel wake each other: with a message without data, to a slot that wakes
//! its receiver.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::Result;
use crate::hamlyn::manager::{Arrived, Manager, Place, Ready, ReceiverClass};
use crate::hamlyn::ticket::Ticket;

/// The channel end that a token belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Half {
    Sender,
    Receiver,
}

/// The place where the peer's rings arrive. What they are about is found in memory.
#[derive(Debug)]
pub(super) struct Ear {
    place: Place,
    tokens: Mutex<[Option<u64>; 2]>,
}

impl Ear {
    pub(super) fn open(manager: &Manager) -> Result<Arc<Self>> {
        let mut place = Place::create(manager, 1, 0)?;
        Ok(Arc::new_cyclic(|ear: &Weak<Self>| {
            place.open_for(ear.clone());
            Self { place, tokens: Mutex::default() }
        }))
    }

    /// Returns the ticket that the peer rings with.
    pub(super) fn ticket(&self) -> Result<Ticket> {
        self.place.ticket(0)
    }

    pub(super) fn set_token(&self, half: Half, token: u64) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)[half as usize] = Some(token);
    }

    fn tell(&self, ready: &mut Ready) {
        // A ring that is refused before the reopen is for data that the woken caller finds: a
        // barrier precedes its look.
        self.place.reopen(0);
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.iter().for_each(|token| ready.add(*token));
    }
}

impl ReceiverClass for Ear {
    fn process_arrival(&self, arrival: &Arrived<'_>, ready: &mut Ready) {
        if self.place.arrived(arrival).is_some() {
            self.tell(ready);
        }
    }

    fn arrivals_lost(&self, ready: &mut Ready) {
        self.tell(ready);
    }
}

/// The bell that wakes the peer.
#[derive(Debug)]
pub(super) struct Bell {
    manager: Manager,
    ticket: Ticket,
}

impl Bell {
    pub(super) fn new(manager: &Manager, ticket: Ticket) -> Self {
        Self { manager: manager.clone(), ticket }
    }

    /// Rings. If the card has no room, the manager sends it later.
    #[cold]
    pub(super) fn ring(&self) {
        self.manager.ring(&self.ticket);
    }
}
