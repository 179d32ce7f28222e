//! Channels over SHRIMP cards: messages by deliberate update, and the word that announces them by
//! automatic update (sections 4.1, 4.3).
//!
//! Each half exports its area. Of the peer's area the words are mapped for single-write, and a
//! short ring for blocked-write, by which short messages go. The buffer for deliberate updates
//! covers the whole area, and has the mirror as its memory. Before sleeping, a half asks its card
//! to report the next arrival in the page of words.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::card::Card;
use super::handle::Handle;
use super::model::Shrimp;
use super::receive_buffer::ReceiveBuffer;
use super::send_buffer::{Mode, SendBuffer};
use crate::core::carrier::{AnyCard, Carrier};
use crate::core::express::memory::{RingMemory, place};
use crate::core::express::ring::Word;
use crate::core::model::Model;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::error::{Error, Result};

/// Maximum length of a message by automatic update, where each 8 bytes are a store.
const AUTOMATIC: u64 = 256;
/// Maximum length of a peer's area whose ring is mapped for automatic update.
const MAPPED: usize = 256 << 10;
/// Maximum time for the card to read a message.
const PATIENCE: Duration = Duration::from_secs(30);

impl Carrier for Card {
    fn model(&self) -> (&'static str, u32) {
        (Shrimp::NAME, Shrimp::NUMBER)
    }

    fn card(&self) -> &dyn AnyCard {
        self
    }

    fn ends(&self, host: u32, capacity: u64) -> Result<Box<dyn Ends>> {
        Ok(Box::new(ShrimpEnds::create(self, host, capacity)?))
    }
}

/// Both halves, before the peer's halves are known.
#[derive(Debug)]
struct ShrimpEnds {
    card: Card,
    sender: ReceiveBuffer,
    receiver: ReceiveBuffer,
}

impl ShrimpEnds {
    /// Exports both areas to the peer's host only.
    fn create(card: &Card, host: u32, capacity: u64) -> Result<Self> {
        let sender = card.export(2 * PAGE, [host])?;
        let receiver = card.export(PAGE + capacity as usize, [host])?;
        Ok(Self { card: card.clone(), sender, receiver })
    }
}

impl Ends for ShrimpEnds {
    fn address(&self) -> Result<Vec<u8>> {
        Ok([self.sender.handle()?.to_bytes(), self.receiver.handle()?.to_bytes()].concat())
    }

    fn join(self: Box<Self>, peer: &[u8], host: u32, capacity: u64) -> Result<[Box<dyn Remote>; 2]> {
        let (sender, receiver) = peer
            .split_at_checked(Handle::SIZE)
            .ok_or(Error::Malformed("an offer of a channel that is too short"))?;
        let join = |own: ReceiveBuffer, peer: &[u8], length: usize| -> Result<Box<dyn Remote>> {
            let peer = Handle::from_bytes(peer)?;
            if peer.node != host {
                return Err(Error::Malformed("a handle of memory that is not at its host"));
            }
            Ok(Box::new(Half::new(&self.card, own, &peer, length)?))
        };
        let (sending, receiving) = (PAGE + capacity as usize, 2 * PAGE);
        Ok([join(self.sender, receiver, sending)?, join(self.receiver, sender, receiving)?])
    }
}

#[derive(Debug)]
struct Half {
    // The drop order matters: nothing is sent after the peer can no longer answer.
    words: SendBuffer,
    /// The start of the peer's ring, for short messages.
    blocked: Option<SendBuffer>,
    deliberate: SendBuffer,
    own: ReceiveBuffer,
    area: RingMemory,
    mirror: RingMemory,
    /// The driver's count of reports when it was armed.
    reports: Cell<u32>,
}

impl Half {
    fn new(card: &Card, own: ReceiveBuffer, peer: &Handle, length: usize) -> Result<Self> {
        let words = card.map(peer, 0, PAGE, Mode::Single)?;
        let ring = (length <= MAPPED).then(|| card.map(peer, PAGE as u64, length - PAGE, Mode::Blocked));
        let blocked = ring.transpose()?;
        let deliberate = card.map(peer, 0, length, Mode::Deliberate)?;
        let over = |memory| RingMemory::over(memory).ok_or(Error::Invalid("a channel's area has two pages"));
        let area = over(own.span().memory().mapping().clone())?;
        let mirror = over(deliberate.outlet().span().memory().mapping().clone())?;
        Ok(Self { words, blocked, deliberate, own, area, mirror, reports: Cell::new(0) })
    }
}

impl Remote for Half {
    fn area(&self) -> &RingMemory {
        &self.area
    }

    fn mirror(&self) -> &RingMemory {
        &self.mirror
    }

    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()> {
        let length: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let blocked = self.blocked.as_ref().filter(|_| length <= AUTOMATIC);
        let mut bytes = [0; AUTOMATIC as usize];
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let (start, length) = (piece.start as usize, (piece.end - piece.start) as usize);
            if let Some(ring) = blocked {
                self.mirror.mapping().read(PAGE + start, &mut bytes[..length]);
                ring.write(start, &bytes[..length])?;
            } else {
                self.deliberate.send(PAGE + start, length)?;
                // The word is stored, and would overtake bytes that the card has not read.
                self.deliberate.wait_until_read(Some(PATIENCE))?;
            }
        }
        self.words.store_u64(place(word), value)
    }

    fn arm(&self) -> Result<()> {
        self.reports.set(self.own.arm(0));
        Ok(())
    }

    fn arm_file(&self) -> Result<bool> {
        self.own.arm_file(0, self.reports.get())
    }

    fn file(&self) -> Result<OwnedFd> {
        self.own.file(0)
    }

    /// Does nothing: the end of a mapping is also the end of the connection.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}
