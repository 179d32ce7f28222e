//! A ring of records in shared memory with one producer and one consumer.
//!
//! A record is contiguous and never wraps. If the rest of the ring is too short for it, a pad fills
//! that rest. Records begin at multiples of 16 bytes:
//!
//! | byte | field |
//! |---|---|
//! | 0 | bytes of payload, little-endian u32; all ones: a pad up to the end of the ring |
//! | 4 | zero |
//! | 8 | the [common packet header](crate::header) |
//! | 16 | the payload |
//!
//! A ring's memory is 4 cache lines of indices (module `index`), 3 of stops (module
//! [`stop`]), then the data. Everything read from it is copied out once and then
//! checked, because the other side can change it at any time.

use std::sync::Arc;

use vm_memory::VolatileSlice;

use crate::bell::Bell;
use crate::error::RingError;
use crate::geometry::{Geometry, RECORD_BYTES};
use crate::groups;
use crate::header::{HEADER_BYTES, Header, HeaderError, HostId};
use crate::index::{ConsumerIndex, ProducerIndex};
use crate::place::Place;
use crate::stop::{self, Stops};

/// Alignment of records.
const RECORD_ALIGN: usize = 16;
/// Length value that marks a pad: there is nothing from here to the end of the ring.
const PAD: u32 = u32::MAX;
/// Returns the bytes that a payload of `length` takes in a ring.
pub fn record_bytes(length: usize) -> u64 {
    (RECORD_BYTES + length).next_multiple_of(RECORD_ALIGN) as u64
}

/// The sending side of a ring.
#[derive(Debug)]
pub struct Producer {
    index: ProducerIndex<Place>,
    /// Wakes the consumer. None on a quiet link, whose ends are checked without a wake-up.
    bell: Option<Arc<Bell>>,
    /// Bytes that the next commit publishes, including the pad.
    reserved: u64,
}

impl Producer {
    /// Returns a new ring's producer, which wakes its consumer with `bell`.
    pub(crate) fn new(place: Place, bell: Option<Arc<Bell>>) -> Producer {
        let capacity = place.geometry.capacity as u64;
        Producer { index: ProducerIndex::new(place, capacity), bell, reserved: 0 }
    }

    /// Returns the ring's sizes.
    pub fn geometry(&self) -> Geometry {
        self.index.words.geometry
    }

    /// Reserves room for a payload of `length` bytes, or returns `None` if there is not enough.
    /// Discards an earlier reservation.
    pub fn reserve(&mut self, header: Header, length: usize) -> Result<Option<VolatileSlice<'_>>, RingError> {
        self.reserve_as_is(header.to_bytes(), length)
    }

    /// Does the same with a header from another component, or one that is wrong on purpose.
    pub fn reserve_as_is(
        &mut self,
        header: [u8; HEADER_BYTES],
        length: usize,
    ) -> Result<Option<VolatileSlice<'_>>, RingError> {
        self.reserved = 0;
        let limit = self.geometry().max_packet;
        if length > limit {
            return Err(RingError::TooLong { length, limit });
        }
        let (bytes, position) = (record_bytes(length), self.index.position());
        let rest = self.index.words.rest(position);
        let pad = if rest < bytes { rest } else { 0 };
        if !self.index.has_room(pad + bytes)? {
            return Ok(None);
        }
        self.reserved = pad + bytes;
        let place = &self.index.words;
        if pad > 0 {
            write_word(place, place.offset(position), PAD);
        }
        let start = place.offset(position + pad);
        write_word(place, start, length as u32);
        if let Some(slice) = place.data(start + 8, HEADER_BYTES) {
            slice.copy_from(&header);
        }
        Ok(place.data(start + RECORD_BYTES as u64, length))
    }

    /// Sends what was reserved. Does nothing if there is no reservation.
    pub fn commit(&mut self) {
        match (std::mem::take(&mut self.reserved), &self.bell) {
            (0, _) => {}
            (bytes, None) => self.index.publish_quietly(bytes),
            (bytes, Some(bell)) => {
                if self.index.publish(bytes) {
                    bell.ring();
                }
            }
        }
    }

    /// Sends a packet whose payload is the concatenation of all pieces. Returns `false` if there is
    /// not enough room yet.
    pub fn send(&mut self, header: Header, payload: &[VolatileSlice<'_>]) -> Result<bool, RingError> {
        self.send_as_is(header.to_bytes(), payload)
    }

    /// Does the same with a header from another component.
    pub(crate) fn send_as_is(
        &mut self,
        header: [u8; HEADER_BYTES],
        payload: &[VolatileSlice<'_>],
    ) -> Result<bool, RingError> {
        let length = payload.iter().map(VolatileSlice::len).sum();
        let Some(mut room) = self.reserve_as_is(header, length)? else { return Ok(false) };
        for piece in payload {
            piece.copy_to_volatile_slice(room);
            let Ok(rest) = room.offset(piece.len()) else { break };
            room = rest;
        }
        self.commit();
        Ok(true)
    }

    /// Returns whether the consumer has taken all packets.
    pub fn is_drained(&mut self) -> Result<bool, RingError> {
        Ok(self.index.refresh()? == self.index.position())
    }

    /// Sets the producer's sleep flag. `true`: wait for our bell, which rings when the ring is half
    /// empty and so has room for any packet. `false`: the ring is already half empty.
    pub fn sleep_for_room(&mut self) -> Result<bool, RingError> {
        self.index.sleep()
    }

    /// Returns whether the consumer has stopped packets to a destination for now. It still takes
    /// those that arrive, as far as it has room.
    pub fn is_stopped(&self, destination: HostId) -> bool {
        stop::is_stopped(&self.index.words, destination)
    }

    /// Returns how often a destination was resumed. While the count is unchanged, all stopped
    /// destinations are still stopped. Our bell rings when it changes.
    pub fn resumptions(&self) -> u64 {
        stop::resumptions(&self.index.words)
    }

    /// Joins the [groups] whose bits are set and leaves all others. Call this before
    /// announcing membership, so that no packet is missed.
    pub fn set_groups(&mut self, groups: u64) {
        groups::set(&self.index.words, groups);
    }

    /// Returns the total bytes of the ring that the consumer has given back.
    pub fn taken(&mut self) -> Result<u64, RingError> {
        self.index.refresh()
    }

    /// Returns the number of packets that the consumer has not taken. For a consumer that is gone:
    /// its process may still write to the memory, so this looks only at what we produced.
    pub fn unread(&mut self) -> Result<u64, RingError> {
        let consumed = self.index.refresh()?;
        let produced = self.index.position();
        let mut consumer = Consumer::new(self.index.words.clone(), None);
        consumer.index =
            ConsumerIndex::new(self.index.words.clone(), self.geometry().capacity as u64, consumed);
        let mut count = 0;
        // Uses `skip` instead of `consume`, which would write to shared memory.
        while consumer.index.position() < produced {
            let Some(extent) = consumer.next_record()? else { break };
            consumer.index.skip(extent.pad + extent.bytes);
            count += 1;
        }
        Ok(count)
    }
}

/// Writes the first 8 bytes of a record.
fn write_word(place: &Place, offset: u64, length: u32) {
    if let Some(slice) = place.data(offset, 8) {
        slice.copy_from(&u64::from(length).to_le_bytes());
    }
}

/// A packet in a ring.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The common header's bytes, copied out of shared memory.
    pub header: [u8; HEADER_BYTES],
    /// The card's own header and what follows it. The other side may still change it.
    pub payload: VolatileSlice<'a>,
}

impl Record<'_> {
    /// Parses and checks the common header.
    pub fn header(&self) -> Result<Header, HeaderError> {
        Header::parse(self.header)
    }
}

/// A record's extent, relative to the consumer's position.
#[derive(Debug, Clone, Copy)]
struct Extent {
    pad: u64,
    bytes: u64,
    length: usize,
}

/// The receiving side of a ring.
#[derive(Debug)]
pub struct Consumer {
    index: ConsumerIndex<Place>,
    /// Wakes the producer. None on a quiet link, whose ends are checked without a wake-up.
    bell: Option<Arc<Bell>>,
    /// Bytes that the next consume releases, including the pad.
    seen: u64,
    stops: Stops,
}

impl Consumer {
    /// Returns a new ring's consumer, which wakes its producer with `bell`.
    pub(crate) fn new(place: Place, bell: Option<Arc<Bell>>) -> Consumer {
        let capacity = place.geometry.capacity as u64;
        let index = ConsumerIndex::new(place, capacity, 0);
        Consumer { index, bell, seen: 0, stops: Stops::default() }
    }

    /// Returns the ring's sizes.
    pub fn geometry(&self) -> Geometry {
        self.index.words.geometry
    }

    /// Returns the oldest packet, or `None` if the ring is empty. Returns the same packet until
    /// [`Consumer::consume`].
    pub fn peek(&mut self) -> Result<Option<Record<'_>>, RingError> {
        self.seen = 0;
        let Some(extent) = self.next_record()? else { return Ok(None) };
        self.seen = extent.pad + extent.bytes;
        let place = &self.index.words;
        let start = place.offset(self.index.position() + extent.pad);
        let mut header = [0; HEADER_BYTES];
        let payload = place.data(start + 8, HEADER_BYTES).and_then(|slice| {
            slice.copy_to(&mut header);
            place.data(start + RECORD_BYTES as u64, extent.length)
        });
        Ok(payload.map(|payload| Record { header, payload }))
    }

    /// Returns whether there is no packet.
    pub fn is_empty(&mut self) -> Result<bool, RingError> {
        Ok(self.index.available()? == 0)
    }

    /// Finds the next record, after a pad if there is one.
    fn next_record(&mut self) -> Result<Option<Extent>, RingError> {
        let available = self.index.available()?;
        if available == 0 {
            return Ok(None);
        }
        let position = self.index.position();
        let place = &self.index.words;
        let first = read_length(place, position, available)?;
        if first != PAD {
            return Ok(Some(check_record(place, position, first, available, 0)?));
        }
        // A pad is published together with the record after it, and is never at the start of the
        // ring.
        let pad = place.rest(position);
        if pad >= available || place.offset(position) == 0 {
            return Err(RingError::Record { position, length: pad, limit: available });
        }
        let length = read_length(place, position + pad, available - pad)?;
        Ok(Some(check_record(place, position + pad, length, available - pad, pad)?))
    }

    /// Frees the packet that [`Consumer::peek`] returned. Does nothing if it returned none.
    pub fn consume(&mut self) {
        let bytes = std::mem::take(&mut self.seen);
        if bytes > 0 && self.index.release(bytes) {
            ring(self.bell.as_deref());
        }
    }

    /// Returns the total bytes of the ring that were given back to the producer.
    pub fn released(&self) -> u64 {
        self.index.position()
    }

    /// Asks the producer to stop sending packets to a destination. Call this before
    /// [`Consumer::consume`]: then at most a ring's worth of them still arrives. Returns `false` if
    /// the destination is already stopped.
    pub fn stop(&mut self, destination: HostId) -> bool {
        self.stops.stop(&self.index.words, destination)
    }

    /// Accepts packets to a destination again, and wakes the producer if the destination was
    /// stopped.
    pub fn resume(&mut self, destination: HostId) {
        if self.stops.resume(&self.index.words, destination) {
            ring(self.bell.as_deref());
        }
    }

    /// Returns the [groups] that the producer is a member of now, one bit for each.
    /// Read this after the packet to a group has arrived.
    pub fn groups(&self) -> u64 {
        groups::get(&self.index.words)
    }

    /// Sets the consumer's sleep flag. `true`: wait for our bell. `false`: there is a packet.
    pub fn sleep_for_records(&mut self) -> Result<bool, RingError> {
        self.index.sleep()
    }
}

fn ring(bell: Option<&Bell>) {
    if let Some(bell) = bell {
        bell.ring();
    }
}

/// Copies a record's length out of shared memory.
fn read_length(place: &Place, position: u64, available: u64) -> Result<u32, RingError> {
    let mut length = [0; 4];
    match place.data(place.offset(position), 4) {
        Some(slice) if available >= RECORD_BYTES as u64 => slice.copy_to(&mut length),
        _ => return Err(RingError::Record { position, length: 0, limit: available }),
    };
    Ok(u32::from_le_bytes(length))
}

/// Checks that a record ends before the ring does, and before the produced data does.
fn check_record(
    place: &Place,
    position: u64,
    length: u32,
    available: u64,
    pad: u64,
) -> Result<Extent, RingError> {
    let payload = length as usize;
    let bytes = record_bytes(payload);
    let limit = available.min(place.rest(position));
    if payload > place.geometry.max_packet || bytes > limit {
        let limit = (place.geometry.max_packet as u64).min(limit.saturating_sub(RECORD_BYTES as u64));
        return Err(RingError::Record { position, length: u64::from(length), limit });
    }
    Ok(Extent { pad, bytes, length: payload })
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
