//! Channels over Hamlyn cards: messages are deposited into a slot that covers the receiver's ring
//! (section 2.2), straight out of the sender's mirror.
//!
//! The sender states which bytes of the ring a message fills: in the fast word if it fits into a
//! packet (section 2.7), otherwise in its metadata, whose notification comes once all packets are
//! counted (section 2.5). Messages may overtake each other, so the receiver counts what has arrived
//! without a gap. Each half has a notification queue, which it polls and sleeps on.
//!
//! A sender uses a metadata entry and a place in the receiver's queue for each message until the
//! receiver reports that it and all before it have arrived. So neither can overrun, and no entry is
//! used for two messages at once.

mod filled;
mod half;
mod note;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use self::half::{Half, Own, ReceivingHalf, SendingHalf};
use crate::core::carrier::{AnyCard, Carrier};
use crate::core::express::memory::RingMemory;
use crate::core::model::Model;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::error::{Error, Result};
use crate::hamlyn::card::Card;
use crate::hamlyn::device::Hamlyn;
use crate::hamlyn::send_buffer::SendBuffer;
use crate::hamlyn::terminus::Terminus;
use crate::hamlyn::ticket::{Ticket, TicketFlags};

const TOO_SMALL: Error = Error::Invalid("a channel's area has two pages at least");

/// The termini of a card's channels, by the peer's host: a host that takes nothing holds up all
/// requests of a terminus. Each serves as many channels as it has send buffers.
#[derive(Debug, Default)]
struct Termini(Mutex<BTreeMap<u32, Vec<Terminus>>>);

impl Termini {
    /// Returns a send buffer of `length` bytes and its terminus, for messages to `host`.
    fn buffer(&self, card: &Card, host: u32, length: usize) -> Result<(Terminus, SendBuffer)> {
        let mut termini = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let termini = termini.entry(host).or_default();
        for terminus in termini.iter() {
            match terminus.create_send_buffer(length) {
                Err(Error::Exhausted { .. }) => {}
                buffer => return Ok((terminus.clone(), buffer?)),
            }
        }
        let terminus = card.create_terminus()?;
        let buffer = terminus.create_send_buffer(length)?;
        termini.push(terminus.clone());
        Ok((terminus, buffer))
    }
}

/// A card, and what its channels share.
#[derive(Debug)]
pub(crate) struct HamlynCarrier {
    card: Card,
    termini: Termini,
}

impl HamlynCarrier {
    pub(crate) fn new(card: Card) -> Self {
        Self { card, termini: Termini::default() }
    }
}

impl Carrier for HamlynCarrier {
    fn model(&self) -> (&'static str, u32) {
        (Hamlyn::NAME, Hamlyn::NUMBER)
    }

    fn card(&self) -> &dyn AnyCard {
        &self.card
    }

    fn ends(&self, host: u32, capacity: u64) -> Result<Box<dyn Ends>> {
        Ok(Box::new(HamlynEnds::create(&self.card, &self.termini, host, capacity)?))
    }
}

/// Both halves, before the peer's halves are known.
#[derive(Debug)]
struct HamlynEnds {
    terminus: Terminus,
    buffer: SendBuffer,
    sender: Own,
    receiver: Own,
}

impl HamlynEnds {
    fn create(card: &Card, termini: &Termini, host: u32, capacity: u64) -> Result<Self> {
        let (terminus, buffer) = termini.buffer(card, host, PAGE + capacity as usize)?;
        let (sender, receiver) = (Own::for_reports(card)?, Own::for_messages(card, capacity)?);
        Ok(Self { terminus, buffer, sender, receiver })
    }
}

impl Ends for HamlynEnds {
    fn address(&self) -> Result<Vec<u8>> {
        let [sender, receiver] = [&self.sender, &self.receiver].map(Own::ticket);
        Ok([sender?.to_bytes(), receiver?.to_bytes()].concat())
    }

    fn join(self: Box<Self>, peer: &[u8], host: u32, capacity: u64) -> Result<[Box<dyn Remote>; 2]> {
        let (sender, receiver) = peer
            .split_at_checked(Ticket::SIZE)
            .ok_or(Error::Malformed("an offer of a channel that is too short"))?;
        let (to_sender, to_receiver) = (ticket(sender, host, 0)?, ticket(receiver, host, capacity)?);
        let Self { terminus, buffer, sender, receiver } = *self;
        let mirror = RingMemory::over(buffer.mapping().clone()).ok_or(TOO_SMALL)?;
        let (sender, receiver) =
            (Half::new(terminus.clone(), to_receiver, sender)?, Half::new(terminus, to_sender, receiver)?);
        Ok([
            Box::new(SendingHalf::new(sender, buffer, mirror)),
            Box::new(ReceivingHalf::new(receiver, capacity)),
        ])
    }
}

/// Decodes a ticket for at least `length` bytes of memory at `host`.
fn ticket(bytes: &[u8], host: u32, length: u64) -> Result<Ticket> {
    let ticket = Ticket::from_bytes(bytes)?;
    if ticket.destination != host {
        return Err(Error::Malformed("a ticket for memory that is not at its host"));
    }
    let is_whole = ticket.is_fast() && ticket.base == 0 && ticket.flags == TicketFlags::default();
    if !is_whole || u64::from(ticket.length) < length {
        return Err(Error::Malformed("a ticket for less than a channel's ring"));
    }
    Ok(ticket)
}
