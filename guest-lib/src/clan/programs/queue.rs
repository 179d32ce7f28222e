//! A distributed queue (section 4.2, Example 2): elements of a fixed size in a ring in the
//! receiver's memory.
//!
//! The sender has `write_i`, and a copy of the receiver's `read_i` that may be out of date,
//! `lazy_read_i`; the receiver has `read_i` and `lazy_write_i`. Each stores its own counter into
//! the other's copy. An old copy does no harm: then the queue looks fuller to the sender, or
//! emptier to the receiver, than it is.
//!
//! An element begins with 16 bytes: how long it is (4 bytes), whether more of the same message
//! follows (4 bytes), and 8 bytes of metadata. So a message may have several parts, each an element
//! or several.

use std::sync::Arc;

use super::super::aperture::{Aperture, Rights};
use super::super::card::Card;
use super::super::dma::{Dma, Requested, Transfer};
use super::super::tripwire::Tripwire;
use super::end::End;
use super::ring::Ring;
use super::{DATA, LAZY_READ_I, LAZY_WRITE_I};
use crate::error::{Error, Result, at_most, inside};

/// Bytes before an element's own.
const HEAD: usize = 16;
/// In an element's second word: more of the message follows.
const MORE: u64 = 1 << 32;

/// Bytes that the consumer's aperture needs for a queue of `count` elements of at most `element`
/// bytes: the control words, and 16 bytes more than the element for each, of which there is one
/// more than the queue holds. `usize::MAX` if no aperture is large enough.
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

/// Bytes of a place.
fn stride(element: usize) -> usize {
    element.saturating_add(HEAD + 7) / 8 * 8
}

/// The places of a queue in so many bytes of the aperture that `what` names. It has two at least.
fn places(what: &'static str, element: usize, room: usize) -> Result<(Ring, usize)> {
    let most = (room / 2 / 8 * 8).saturating_sub(HEAD);
    at_most(what, element as u64, most as u64)?;
    Ok((Ring::new(room / stride(element))?, stride(element)))
}

/// Whose aperture has no room for an element.
const OF_PEER: &str = "element size in the aperture of the peer's end";
const OF_THIS: &str = "element size in the aperture of this end";

/// Who puts.
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
    /// On this end, for elements of at most so many bytes; the other end has a [`Consumer`] for as
    /// many. The places are in the aperture of the other end, which has [`aperture_size`] bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] or [`Error::Invalid`] if there is no room for two; those of
    /// [`super::super::Endpoint::tripwire`].
    pub fn new(end: &Arc<End>, element: usize) -> Result<Self> {
        let (ring, stride) = places(OF_PEER, element, end.out_room())?;
        let tripwire = end.tripwire(LAZY_READ_I)?;
        Ok(Self { tripwire, end: end.clone(), ring, stride, element, write_i: 0 })
    }

    /// How many elements it has room for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.ring.most()
    }

    /// Waits for room, and puts a message of one element.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is too long, or the consumer has stored an index that there is
    /// not; [`Error::TimedOut`]; if the consumer is gone, [`Error::PeerLost`] or [`Error::Ended`];
    /// [`Error::Fault`].
    pub fn put(&mut self, bytes: &[u8], metadata: u64) -> Result<()> {
        at_most("element length", bytes.len() as u64, self.element as u64)?;
        self.put_element(bytes, metadata, false)
    }

    /// The same, if there is room: it does not wait. Whether it was put.
    ///
    /// # Errors
    /// Those of [`Producer::put`] but for [`Error::TimedOut`].
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

    /// Whether there is room for one element. No system call.
    fn has_room(&self) -> Result<bool> {
        let read_i = self.ring.check("lazy_read_i", self.end.own().load_u64(LAZY_READ_I)?)?;
        Ok(self.ring.free(read_i, self.write_i) != 0)
    }

    /// Puts a message of several parts, each of any length: an element or several, all with this
    /// metadata.
    ///
    /// # Errors
    /// Those of [`Producer::put`]; [`Error::Invalid`] for no parts, or elements of no bytes. What
    /// fails on the way leaves the message unfinished: the consumer waits for the rest.
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

/// Who puts by DMA, so that messages follow each other without waiting for one to arrive (section
/// 5.3.2, curve b): each is three requests of one chain, its bytes, its head, and the counter.
#[derive(Debug)]
pub struct DmaProducer {
    producer: Producer,
    dma: Dma,
    /// For each place, its head and the counter behind it.
    staged: Aperture,
}

/// Bytes of a place's head and counter.
const STAGED: usize = 24;

impl DmaProducer {
    /// On this end; `card` is what its endpoint was opened with.
    ///
    /// # Errors
    /// Those of [`Producer::new`] and [`Card::aperture`].
    pub fn new(card: &Card, end: &Arc<End>, element: usize) -> Result<Self> {
        let producer = Producer::new(end, element)?;
        let length = (producer.ring.most() as usize + 1) * STAGED;
        let staged = card.aperture(length, Rights::None)?;
        Ok(Self { producer, dma: end.connection().endpoint().dma(), staged })
    }

    /// How many elements the queue has room for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.producer.capacity()
    }

    /// Waits for room, and puts a message of one element: `length` bytes, at least one, of memory
    /// of this process. That may be changed when the request is done.
    ///
    /// # Errors
    /// Those of [`Producer::put`]; [`Error::PastEnd`]; [`Error::Invalid`] for no bytes;
    /// [`Error::System`].
    pub fn put(&mut self, from: &Aperture, offset: usize, length: usize, metadata: u64) -> Result<Requested> {
        at_most("element length", length as u64, self.producer.element as u64)?;
        self.producer.wait_for_room()?;
        self.request(from, offset, length, metadata)
    }

    /// The same, if there is room for the element: it does not wait for that. `None`: there is
    /// none.
    ///
    /// # Errors
    /// Those of [`DmaProducer::put`] but for [`Error::TimedOut`].
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
        // Whoever made this place free has seen what was staged for it.
        let at = producer.write_i as usize * STAGED;
        for (word, value) in [head(length, false), metadata, next].into_iter().enumerate() {
            staged.store_u64(at + word * 8, value)?;
        }
        let to = producer.end.out().descriptor();
        let bytes = Transfer::write(from, offset, to, (place + HEAD) as u64, length)?;
        let head = Transfer::write(staged, at, to, place as u64, HEAD)?;
        let counter = Transfer::write(staged, at + HEAD, to, LAZY_WRITE_I as u64, 8)?;
        let requested = dma.put_wait(&[bytes.quiet(), head.quiet(), counter], None)?;
        producer.write_i = next;
        Ok(requested)
    }

    /// The endpoint's DMA requests, to wait for one that was put.
    #[must_use]
    pub fn dma(&self) -> &Dma {
        &self.dma
    }
}

/// Who takes.
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
    /// On this end, for elements of at most so many bytes. The places are in the aperture of this
    /// end, which has [`aperture_size`] bytes.
    ///
    /// # Errors
    /// Those of [`Producer::new`].
    pub fn new(end: &Arc<End>, element: usize) -> Result<Self> {
        let (ring, stride) = places(OF_THIS, element, end.own_room())?;
        let tripwire = end.tripwire(LAZY_WRITE_I)?;
        Ok(Self { tripwire, end: end.clone(), ring, stride, element, read_i: 0 })
    }

    /// The Tripwire over `lazy_write_i`, to register it with an event queue.
    pub fn tripwire(&mut self) -> &mut Tripwire {
        &mut self.tripwire
    }

    /// The next element, if there is one. No system call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the producer has stored an index or a length that there cannot be.
    pub fn try_get(&mut self) -> Result<Option<Element<'_>>> {
        self.tripwire.clear();
        match self.is_there()? {
            Some(()) => self.element().map(Some),
            None => Ok(None),
        }
    }

    /// Waits for the next element.
    ///
    /// # Errors
    /// Those of [`Consumer::try_get`]; [`Error::TimedOut`]; if the producer is gone,
    /// [`Error::PeerLost`] or [`Error::Ended`]; [`Error::Fault`].
    pub fn get(&mut self) -> Result<Element<'_>> {
        self.end.wait_until(self.tripwire.bit(), "lazy_write_i", || self.is_there())?;
        self.element()
    }

    /// Waits for a whole message, copies all its parts behind what `to` has, and gives its
    /// metadata. Each part may take as long as the end's time-out says.
    ///
    /// # Errors
    /// Those of [`Consumer::get`]; [`Error::OutOfRange`] for a message of more than `limit` bytes,
    /// of which some is taken then.
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

/// An element that has arrived, in place. When it is dropped its place is the producer's again.
#[derive(Debug)]
pub struct Element<'a> {
    consumer: &'a mut Consumer,
    place: usize,
    length: usize,
    metadata: u64,
    more: bool,
}

impl Element<'_> {
    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its metadata.
    #[must_use]
    pub fn metadata(&self) -> u64 {
        self.metadata
    }

    /// Whether more of its message follows.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Copies bytes out.
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
        // The word is where `End::new` has looked.
        let _ = consumer.end.out().store_u64(LAZY_READ_I, consumer.read_i);
    }
}
