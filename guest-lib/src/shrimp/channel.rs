//! Channels over SHRIMP cards: messages by deliberate update, and the word that announces them by
//! automatic update (sections 4.1, 4.3).
//!
//! Each half exports its area. Of the peer's area the words are mapped for single-write. A short
//! ring is mapped for blocked-write, by which short messages go, and for single-write, by which the
//! first header goes last: it announces the messages ([`Announced`]). In front of a longer ring the
//! word of written bytes does that. The buffer for deliberate updates covers the whole area, and
//! has the mirror as its memory. Before sleeping, a half asks its card to report the next arrival
//! in the page of words, and in the page of the next header.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::announced::Announced;
use super::card::Card;
use super::handle::Handle;
use super::model::Shrimp;
use super::receive_buffer::ReceiveBuffer;
use super::send_buffer::{Mode, SendBuffer};
use crate::core::carrier::{AnyCard, Carrier};
use crate::core::express::memory::{RingMemory, place};
use crate::core::express::ring::{HEADER, Shared, Word};
use crate::core::model::Model;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::error::{Error, Result};

/// Maximum length of a message by automatic update, where each 8 bytes are a store.
const AUTOMATIC: u64 = 256;
/// Maximum length of a ring that is mapped for automatic update.
const MAPPED: u64 = 252 << 10;
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
        let [sender, receiver] = [sender, receiver].map(Handle::from_bytes);
        let [sender, receiver] = [sender?, receiver?];
        if [sender, receiver].iter().any(|handle| handle.node != host) {
            return Err(Error::Malformed("a handle of memory that is not at its host"));
        }
        let sending = Half::sending(&self.card, self.sender, &receiver, capacity)?;
        let receiving = Half::receiving(&self.card, self.receiver, &sender, capacity)?;
        Ok([Box::new(sending), Box::new(receiving)])
    }
}

#[derive(Debug)]
struct Half {
    // The drop order matters: nothing is sent after the peer can no longer answer.
    /// The peer's words, and its ring if headers announce.
    single: SendBuffer,
    /// The peer's ring, for short messages.
    blocked: Option<SendBuffer>,
    deliberate: SendBuffer,
    own: ReceiveBuffer,
    area: RingMemory,
    mirror: RingMemory,
    /// The messages in this half's ring, if headers announce.
    announced: Option<Announced>,
    /// The driver's count of reports when it was armed.
    reports: Cell<u32>,
}

/// Returns whether headers announce the messages in a ring.
fn announces(capacity: u64) -> bool {
    capacity <= MAPPED
}

impl Half {
    fn sending(card: &Card, own: ReceiveBuffer, peer: &Handle, capacity: u64) -> Result<Self> {
        let (page, length) = (PAGE as u64, capacity as usize);
        if !announces(capacity) {
            let single = card.map(peer, 0, PAGE, Mode::Single)?;
            return Self::new(card, (single, None), own, peer, PAGE + length);
        }
        let single = card.map(peer, 0, PAGE + length, Mode::Single)?;
        let blocked = card.map(peer, page, length, Mode::Blocked)?;
        Self::new(card, (single, Some(blocked)), own, peer, PAGE + length)
    }

    fn receiving(card: &Card, own: ReceiveBuffer, peer: &Handle, capacity: u64) -> Result<Self> {
        let single = card.map(peer, 0, PAGE, Mode::Single)?;
        let announced = announces(capacity).then(|| Announced::new(capacity));
        Ok(Self { announced, ..Self::new(card, (single, None), own, peer, 2 * PAGE)? })
    }

    fn new(
        card: &Card,
        (single, blocked): (SendBuffer, Option<SendBuffer>),
        own: ReceiveBuffer,
        peer: &Handle,
        length: usize,
    ) -> Result<Self> {
        let deliberate = card.map(peer, 0, length, Mode::Deliberate)?;
        let over = |memory| RingMemory::over(memory).ok_or(Error::Invalid("a channel's area has two pages"));
        let area = over(own.span().memory().mapping().clone())?;
        let mirror = over(deliberate.outlet().span().memory().mapping().clone())?;
        let (announced, reports) = (None, Cell::new(0));
        Ok(Self { single, blocked, deliberate, own, area, mirror, announced, reports })
    }

    /// Sends bytes of the mirror's ring. Stores that follow arrive after them.
    fn send(&self, pieces: [Range<u64>; 2]) -> Result<()> {
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
                // A store would overtake bytes that the card has not read.
                self.deliberate.wait_until_read(Some(PATIENCE))?;
            }
        }
        Ok(())
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
        let [first, second] = pieces.clone();
        if self.blocked.is_some() && !first.is_empty() {
            let header = first.start;
            self.send([header + HEADER..first.end, second])?;
            return self.single.store_u64(PAGE + header as usize, self.mirror.header(header));
        }
        if let (Some(announced), Word::Released) = (&self.announced, word) {
            announced.release(&self.area, value);
        }
        self.send([first, second])?;
        self.single.store_u64(place(word), value)
    }

    fn load(&self, word: Word) -> u64 {
        match (&self.announced, word) {
            (Some(announced), Word::Written) => announced.written(&self.area),
            _ => self.area.load(word),
        }
    }

    fn arm(&self) -> Result<()> {
        let header = self.announced.as_ref().and_then(Announced::next_header);
        self.reports.set(self.own.arm(0, header.map(|at| PAGE + at as usize)));
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
