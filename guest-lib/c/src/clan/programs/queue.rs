//! Distributed queues.

use std::ffi::c_void;

use hamlyn::clan::programs::queue::{Consumer, DmaProducer, Element, Producer, aperture_size};

use super::end::clan_end;
use crate::call::Failure;
use crate::clan::aperture::clan_aperture;
use crate::clan::card::clan_card;
use crate::clan::events::clan_events;
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut, items};

/// Puts messages into a ring in the peer's memory (section 4.2, Example 2). Messages do not wait
/// for each other. One thread at a time may use it.
pub struct clan_producer(Producer);

/// A producer that puts messages by DMA. One thread at a time may use it.
pub struct clan_dma_producer(DmaProducer);

/// Takes messages from the ring. One thread at a time may use it.
pub struct clan_consumer(Consumer);

/// A part of a message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_part {
    /// The bytes.
    pub data: *const c_void,
    /// Number of bytes.
    pub length: usize,
}

/// Properties of an element, in addition to its bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_element {
    /// The metadata that the producer gave.
    pub metadata: u64,
    /// 1 if more of its message follows, else 0.
    pub has_more: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 5],
}

/// Returns the size in bytes of the consumer's aperture for a queue of `count` elements of at most
/// `element` bytes. This is the control words, and the element size plus 16 bytes for each of
/// `count` + 1 places. Returns SIZE_MAX if no aperture is large enough.
#[unsafe(no_mangle)]
pub extern "C" fn clan_queue_aperture_size(element: usize, count: usize) -> usize {
    aperture_size(element, count)
}

exported! {
/// Creates a producer on this end, for elements of at most `element` bytes. The other end needs a
/// consumer with the same element size. The places are in the other end's aperture, which needs
/// clan_queue_aperture_size bytes. Fails with -EDOM if it has fewer than two places.
fn clan_producer_create(end: &clan_end, element: usize, producer: Out<Box<clan_producer>>) {
    producer.store(clan_producer(Producer::new(end.shared(), element)?))
}

/// Releases a producer. NULL is a no-op.
fn clan_producer_destroy(producer: Box<clan_producer>);

/// Returns the number of elements that the queue has room for.
fn clan_producer_capacity(producer: &clan_producer) {
    producer.0.capacity() as usize
}

/// Waits for room, and puts a message of one element.
fn clan_producer_put(producer: &mut clan_producer, data: *const c_void, length: usize, metadata: u64) {
    producer.0.put(bytes(data, length, "data")?, metadata)?
}

/// Like clan_producer_put, but does not wait: fails with -EAGAIN if there is no room.
fn clan_producer_try_put(producer: &mut clan_producer, data: *const c_void, length: usize, metadata: u64) {
    let is_put = producer.0.try_put(bytes(data, length, "data")?, metadata)?;
    if !is_put {
        return Err(Failure::nothing_yet("room"));
    }
}

/// Puts a message of several parts of any length. They become one or more elements, all with this
/// metadata. A failure half-way leaves the message incomplete: the consumer waits for the rest.
fn clan_producer_put_parts(
    producer: &mut clan_producer,
    parts: *const clan_part,
    count: usize,
    metadata: u64,
) {
    let parts = items(parts, count, "parts")?;
    let parts = parts.iter().map(|part| bytes(part.data, part.length, "data of a part"));
    let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
    producer.0.put_parts(&parts, metadata)?
}

/// Creates a producer that uses DMA. `card` must be the one that the end's endpoint was opened
/// with.
fn clan_dma_producer_create(
    card: &clan_card,
    end: &clan_end,
    element: usize,
    producer: Out<Box<clan_dma_producer>>,
) {
    producer.store(clan_dma_producer(DmaProducer::new(&card.0, end.shared(), element)?))
}

/// Releases a producer. NULL is a no-op.
fn clan_dma_producer_destroy(producer: Box<clan_dma_producer>);

/// Returns the number of elements that the queue has room for.
fn clan_dma_producer_capacity(producer: &clan_dma_producer) {
    producer.0.capacity() as usize
}

/// Waits for room, and puts a message of one element: `length` bytes, at least one, of this
/// process' memory. The memory may be changed when the request is complete (clan_dma_wait, at the
/// end's endpoint).
fn clan_dma_producer_put(
    producer: &mut clan_dma_producer,
    from: &clan_aperture,
    offset: usize,
    length: usize,
    metadata: u64,
    request: Out<u64>,
) {
    request.store(producer.0.put(&from.0, offset, length, metadata)?.0)
}

/// Like clan_dma_producer_put, but does not wait for room: fails with -EAGAIN if there is none.
fn clan_dma_producer_try_put(
    producer: &mut clan_dma_producer,
    from: &clan_aperture,
    offset: usize,
    length: usize,
    metadata: u64,
    request: Out<u64>,
) {
    let requested = producer.0.try_put(&from.0, offset, length, metadata)?;
    request.store(requested.ok_or_else(|| Failure::nothing_yet("room"))?.0)
}

/// Creates a consumer on this end, for elements of at most `element` bytes.
fn clan_consumer_create(end: &clan_end, element: usize, consumer: Out<Box<clan_consumer>>) {
    consumer.store(clan_consumer(Consumer::new(end.shared(), element)?))
}

/// Releases a consumer. NULL is a no-op.
fn clan_consumer_destroy(consumer: Box<clan_consumer>);

/// Registers a consumer with an event queue: arriving elements become events with this token.
fn clan_consumer_register(consumer: &mut clan_consumer, events: &mut clan_events, token: u64) {
    events.0.register_tripwire(consumer.0.tripwire(), token)?
}

/// Waits for the next element, copies it, and returns its length. Fails with -EINVAL if it does not
/// fit; the element then stays.
fn clan_consumer_get(
    consumer: &mut clan_consumer,
    data: *mut c_void,
    size: usize,
    element: Out<clan_element>,
) {
    taken(consumer.0.get()?, bytes_mut(data, size, "data")?, element)?
}

/// Like clan_consumer_get, but does not wait and makes no system call: fails with -EAGAIN if the
/// queue is empty.
fn clan_consumer_try_get(
    consumer: &mut clan_consumer,
    data: *mut c_void,
    size: usize,
    element: Out<clan_element>,
) {
    let data = bytes_mut(data, size, "data")?;
    taken(consumer.0.try_get()?.ok_or_else(|| Failure::nothing_yet("element"))?, data, element)?
}

/// Waits for a complete message, copies all its parts, and returns its length. Fails with -EINVAL
/// if the message is longer than `size` bytes; some of it is then already consumed.
fn clan_consumer_get_message(
    consumer: &mut clan_consumer,
    data: *mut c_void,
    size: usize,
    metadata: Out<u64>,
) {
    let (room, mut message) = (bytes_mut(data, size, "data")?, Vec::new());
    metadata.store(consumer.0.get_message(&mut message, size)?);
    room[..message.len()].copy_from_slice(&message);
    message.len()
}
}

fn taken(element: Element<'_>, data: &mut [u8], to: Out<clan_element>) -> Result<usize, Failure> {
    let (length, size) = (element.len(), data.len());
    let Some(data) = data.get_mut(..length) else {
        // Without the drop, the element stays in the queue.
        std::mem::forget(element);
        return Err(Failure::argument(format!("element length {length} is out of range (limit {size})")));
    };
    element.read(0, data)?;
    let (metadata, has_more) = (element.metadata(), element.has_more().into());
    to.store(clan_element { metadata, has_more, reserved: [0; 5] });
    Ok(length)
}
