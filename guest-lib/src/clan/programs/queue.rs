//! A distributed queue (section 4.2, Example 2): elements of a fixed size in a ring in the
//! receiver's memory.
//!
//! The sender has `write_i`, and `lazy_read_i`, a possibly outdated copy of the receiver's
//! `read_i`. The receiver has `read_i` and `lazy_write_i`. Each side stores its own counter into
//! the copy at the other side. An outdated copy is harmless: the queue then looks fuller to the
//! sender, or emptier to the receiver, than it is.
//!
//! An element begins with 16 bytes: its length (4 bytes), whether more of the same message follows
//! (4 bytes), and 8 bytes of metadata. So a message may have several parts, each of one or more
//! elements.

use std::sync::Arc;

use super::super::aperture::Aperture;
use super::super::card::Card;
use super::super::dma::Dma;
use super::super::dma_queue::Requested;
use super::super::rights::Rights;
use super::super::transfer::Transfer;
use super::super::tripwire::Tripwire;
use super::end::End;
use super::ring::Ring;
use super::{DATA, LAZY_READ_I, LAZY_WRITE_I};
use crate::error::{Error, Result, at_most, inside};

/// Size of an element's header in bytes.
const HEAD: usize = 16;
/// Flag in the second 4 bytes of an element: more of the message follows.
const MORE: u64 = 1 << 32;

/// Returns the size of the consumer's aperture for a queue of `count` elements of at most `element`
/// bytes, in bytes.
///
/// It holds the control words and one slot more than the queue has elements. Each slot is 16 bytes
/// larger than an element. Returns `usize::MAX` if no aperture is large enough.
///
/// ```
/// # use hamlyn::clan::programs::queue::aperture_size;
/// assert_eq!(aperture_size(4096, 1), 64 + 2 * 4112);
/// assert_eq!(aperture_size(usize::MAX, 1), usize::MAX);
/// ```
#[must_use]
pub fn aperture_size(element: usize, count: usize) -> usize {
    stride(element).saturating_mul(count.saturating_add(1)).saturating_add(DATA)
}

/// Returns the size of a slot in bytes.
fn stride(element: usize) -> usize {
    element.saturating_add(HEAD + 7) / 8 * 8
}

/// Returns the ring and the slot size of a queue in `room` bytes of the aperture that `what` names.
/// The ring has at least two slots.
fn places(what: &'static str, element: usize, room: usize) -> Result<(Ring, usize)> {
    let most = (room / 2 / 8 * 8).saturating_sub(HEAD);
    at_most(what, element as u64, most as u64)?;
    Ok((Ring::new(room / stride(element))?, stride(element)))
}

/// Names of the aperture that has no room for an element.
const OF_PEER: &str = "element size in the aperture of the peer's end";
const OF_THIS: &str = "element size in the aperture of this end";

/// The sending side.
#[derive(Debug)]
pub struct Producer {
    tripwire: Tripwire,
    end: Arc<End>,
    ring: Ring,
    stride: usize,
    element: usize,
    write_i: u64,
}

impl Producer {
    /// Creates a producer on this end, for elements of at most `element` bytes. The other end has a
    /// [`Consumer`] for the same size. The slots are in the aperture of the other end, which has
    /// [`aperture_size`] bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] or [`Error::Invalid`] if there is no room for two slots; the errors of
    /// [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>, element: usize) -> Result<Self> {
        let (ring, stride) = places(OF_PEER, element, end.out_room())?;
        let tripwire = end.tripwire(LAZY_READ_I)?;
        Ok(Self { tripwire, end: end.clone(), ring, stride, element, write_i: 0 })
    }

    /// Returns the queue's capacity in elements.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.ring.most()
    }

    /// Blocks until there is room, and sends a message of one element.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the message is too long, or the consumer has stored an invalid
    /// index; [`Error::TimedOut`]; if the consumer is gone, [`Error::PeerLost`] or
    /// [`Error::Ended`]; [`crate::clan::Fault`].
    pub fn put(&mut self, bytes: &[u8], metadata: u64) -> Result<()> {
        at_most("element length", bytes.len() as u64, self.element as u64)?;
        self.put_element(bytes, metadata, false)
    }

    /// Sends a message of one element if there is room, without blocking. Returns whether it was
    /// sent.
    ///
    /// # Errors
    /// Same as [`Producer::put`], except [`Error::TimedOut`].
    pub fn try_put(&mut self, bytes: &[u8], metadata: u64) -> Result<bool> {
        at_most("element length", bytes.len() as u64, self.element as u64)?;
        let has_room = self.has_room()?;
        if has_room {
            self.store_element(bytes, metadata, false)?;
        } else {
            self.end.connection().check()?;
        }
        Ok(has_room)
    }

    /// Returns whether there is room for one element, without a system call.
    fn has_room(&self) -> Result<bool> {
        let read_i = self.ring.check("lazy_read_i", self.end.own().load_u64(LAZY_READ_I)?)?;
        Ok(self.ring.free(read_i, self.write_i) != 0)
    }

    /// Sends a message of several parts. Each part may have any length, and takes one or more
    /// elements, all with this metadata.
    ///
    /// # Errors
    /// Same as [`Producer::put`]; [`Error::Invalid`] if there are no parts, or elements have no
    /// bytes. A failure midway leaves the message unfinished: the consumer waits for the rest.
    pub fn put_parts(&mut self, parts: &[&[u8]], metadata: u64) -> Result<()> {
        if self.element == 0 || parts.is_empty() {
            return Err(Error::Invalid("a message has a part, and its elements have bytes"));
        }
        for (left, part) in (0..parts.len()).rev().zip(parts) {
            let mut rest = *part;
            loop {
                let (now, later) = rest.split_at(rest.len().min(self.element));
                self.put_element(now, metadata, left != 0 || !later.is_empty())?;
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn put_element(&mut self, bytes: &[u8], metadata: u64, more: bool) -> Result<()> {
        self.wait_for_room()?;
        self.store_element(bytes, metadata, more)
    }

    fn store_element(&mut self, bytes: &[u8], metadata: u64, more: bool) -> Result<()> {
        let (out, place) = (self.end.out(), self.place());
        out.store_u64(place, head(bytes.len(), more))?;
        out.store_u64(place + 8, metadata)?;
        out.write(place + HEAD, bytes)?;
        self.write_i = self.ring.on(self.write_i, 1);
        out.store_u64(LAZY_WRITE_I, self.write_i)
    }

    fn wait_for_room(&mut self) -> Result<()> {
        self.end.wait_until(self.tripwire.bit(), "lazy_read_i", || Ok(self.has_room()?.then_some(())))
    }

    fn place(&self) -> usize {
        DATA + self.write_i as usize * self.stride
    }
}

fn head(length: usize, more: bool) -> u64 {
    length as u64 | if more { MORE } else { 0 }
}

/// The sending side, using DMA, so that messages are pipelined (section 5.3.2, curve b). Each
/// message is a chain of three requests: its bytes, its header, and the counter.
#[derive(Debug)]
pub struct DmaProducer {
    producer: Producer,
    dma: Dma,
    /// For each slot, its header and the counter after it.
    staged: Aperture,
}

/// Size of a slot's header and counter in bytes.
const STAGED: usize = 24;

impl DmaProducer {
    /// Creates a producer on this end. `card` is the card with which its endpoint was opened.
    ///
    /// # Errors
    /// Same as [`Producer::new`] and [`Card::aperture`].
    pub fn new(card: &Card, end: &Arc<End>, element: usize) -> Result<Self> {
        let producer = Producer::new(end, element)?;
        let length = (producer.ring.most() as usize + 1) * STAGED;
        let staged = card.aperture(length, Rights::None)?;
        Ok(Self { producer, dma: end.connection().endpoint().dma(), staged })
    }

    /// Returns the queue's capacity in elements.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.producer.capacity()
    }

    /// Blocks until there is room, and sends a message of one element: `length` bytes, at least
    /// one, of this process' memory. The memory may be changed when the request is complete.
    ///
    /// # Errors
    /// Same as [`Producer::put`]; [`Error::PastEnd`]; [`Error::Invalid`] if `length` is zero;
    /// [`Error::System`].
    pub fn put(&mut self, from: &Aperture, offset: usize, length: usize, metadata: u64) -> Result<Requested> {
        at_most("element length", length as u64, self.producer.element as u64)?;
        self.producer.wait_for_room()?;
        self.request(from, offset, length, metadata)
    }

    /// Sends a message of one element if there is room for it, without blocking for that. Returns
    /// `None` if there is no room.
    ///
    /// # Errors
    /// Same as [`DmaProducer::put`], except [`Error::TimedOut`].
    pub fn try_put(
        &mut self,
        from: &Aperture,
        offset: usize,
        length: usize,
        metadata: u64,
    ) -> Result<Option<Requested>> {
        at_most("element length", length as u64, self.producer.element as u64)?;
        if !self.producer.has_room()? {
            self.producer.end.connection().check()?;
            return Ok(None);
        }
        self.request(from, offset, length, metadata).map(Some)
    }

    fn request(&mut self, from: &Aperture, offset: usize, length: usize, metadata: u64) -> Result<Requested> {
        let Self { producer, dma, staged } = self;
        let (place, next) = (producer.place(), producer.ring.on(producer.write_i, 1));
        // The consumer freed this slot, so it has received what was staged for it before.
        let at = producer.write_i as usize * STAGED;
        for (word, value) in [head(length, false), metadata, next].into_iter().enumerate() {
            staged.store_u64(at + word * 8, value)?;
        }
        let to = producer.end.out().descriptor();
        let bytes = Transfer::write(from, offset, to, (place + HEAD) as u64, length)?;
        let head = Transfer::write(staged, at, to, place as u64, HEAD)?;
        let counter = Transfer::write(staged, at + HEAD, to, LAZY_WRITE_I as u64, 8)?;
        let requested = dma.put_chain(&[bytes.quiet(), head.quiet(), counter])?;
        producer.write_i = next;
        Ok(requested)
    }

    /// Returns the endpoint's DMA queue, to wait for a request.
    #[must_use]
    pub fn dma(&self) -> &Dma {
        &self.dma
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Consumer {
    tripwire: Tripwire,
    end: Arc<End>,
    ring: Ring,
    stride: usize,
    element: usize,
    read_i: u64,
}

impl Consumer {
    /// Creates a consumer on this end, for elements of at most `element` bytes. The slots are in
    /// the aperture of this end, which has [`aperture_size`] bytes.
    ///
    /// # Errors
    /// Same as [`Producer::new`].
    pub fn new(end: &Arc<End>, element: usize) -> Result<Self> {
        let (ring, stride) = places(OF_THIS, element, end.own_room())?;
        let tripwire = end.tripwire(LAZY_WRITE_I)?;
        Ok(Self { tripwire, end: end.clone(), ring, stride, element, read_i: 0 })
    }

    /// Returns the Tripwire over `lazy_write_i`, for registration with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// Returns the next element if there is one, without a system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the producer has stored an invalid index or length.
    pub fn try_get(&mut self) -> Result<Option<Element<'_>>> {
        self.tripwire.clear();
        match self.is_there()? {
            Some(()) => self.element().map(Some),
            None => Ok(None),
        }
    }

    /// Blocks until there is an element and returns it.
    ///
    /// # Errors
    /// Same as [`Consumer::try_get`]; [`Error::TimedOut`]; if the producer is gone,
    /// [`Error::PeerLost`] or [`Error::Ended`]; [`crate::clan::Fault`].
    pub fn get(&mut self) -> Result<Element<'_>> {
        self.end.wait_until(self.tripwire.bit(), "lazy_write_i", || self.is_there())?;
        self.element()
    }

    /// Blocks until a whole message has arrived, appends all its parts to `to`, and returns its
    /// metadata. The end's timeout applies to each part.
    ///
    /// # Errors
    /// Same as [`Consumer::get`]; [`Error::OutOfRange`] if the message has more than `limit` bytes;
    /// a part of it is then consumed.
    pub fn get_message(&mut self, to: &mut Vec<u8>, limit: usize) -> Result<u64> {
        let begin = to.len();
        loop {
            let element = self.get()?;
            let at = to.len();
            at_most("message length", (at - begin + element.len()) as u64, limit as u64)?;
            to.resize(at + element.len(), 0);
            element.read(0, &mut to[at..])?;
            if !element.has_more() {
                return Ok(element.metadata());
            }
        }
    }

    fn is_there(&self) -> Result<Option<()>> {
        let write_i = self.ring.check("lazy_write_i", self.end.own().load_u64(LAZY_WRITE_I)?)?;
        Ok((write_i != self.read_i).then_some(()))
    }

    fn element(&mut self) -> Result<Element<'_>> {
        let place = DATA + self.read_i as usize * self.stride;
        let own = self.end.own();
        let (head, metadata) = (own.load_u64(place)?, own.load_u64(place + 8)?);
        let length = head & (MORE - 1);
        at_most("element length", length, self.element as u64)?;
        let more = head & MORE != 0;
        Ok(Element { consumer: self, place: place + HEAD, length: length as usize, metadata, more })
    }
}

/// An element that has arrived, in place. Dropping it returns its slot to the producer.
#[derive(Debug)]
pub struct Element<'a> {
    consumer: &'a mut Consumer,
    place: usize,
    length: usize,
    metadata: u64,
    more: bool,
}

impl Element<'_> {
    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the element is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the element's metadata.
    #[must_use]
    pub fn metadata(&self) -> u64 {
        self.metadata
    }

    /// Returns whether more of its message follows.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Copies bytes out of the element.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("element", offset as u64, to.len() as u64, self.length as u64)?;
        self.consumer.end.own().read(self.place + offset, to)
    }
}

impl Drop for Element<'_> {
    fn drop(&mut self) {
        let consumer = &mut *self.consumer;
        consumer.read_i = consumer.ring.on(consumer.read_i, 1);
        // This cannot fail: `End::new` has checked that the word is inside.
        let _ = consumer.end.out().store_u64(LAZY_READ_I, consumer.read_i);
    }
}
